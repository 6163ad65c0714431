"""Malformed models, one line each: every one raises ModelError, and its text names the culprit."""

import math
import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert import Kinematic, Model, ModelError, Spline, Visual, rx, rz, se3, tx, ty, tz

GRAVITY = da.Gravity((0, 0, -9.8))


def pendulum(*elements, **options):
    """Two variables, three frames, one kinematic variable, and whatever elements are to be tried."""
    frames = [
        rx("theta", tz(-1.0, ty("slide", name="bob", mass=1.0), name="rod")),
        tx(Kinematic("rho"), name="cart"),
    ]
    return Model(frames, [GRAVITY, *elements], **options)


NAN, INF = math.nan, math.inf
EYE = np.eye(4).tolist()
SKEWED = [[1, 0.1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
MIRROR = np.diag([1.0, 1.0, -1.0, 1.0])
PROJECTIVE = [*EYE[:3], [0, 0, 1, 1]]

# what is built, and what its message must contain
BAD = {
    # names
    "two frames of one name": (
        lambda: Model([tx("x", tz(1.0, name="a", mass=1), name="a")]),
        "two frames are called 'a'",
    ),
    "frame called world": (lambda: Model([tx("x", name="world", mass=1)]), "'world'"),
    "empty frame name": (lambda: tx("x", name=""), "frame name must be a non-empty string"),
    "frame name is a number": (lambda: tx("x", name=3), "not 3"),
    "empty variable name": (lambda: rx(""), "a variable needs a non-empty name"),
    "kinematic without a name": (lambda: rx(Kinematic("")), "the name of a Kinematic"),
    "kinematic of a number": (lambda: rx(Kinematic(1.0)), "the name of a Kinematic"),
    "variable used twice": (lambda: Model([tx("x", ty("x", mass=1))]), "variable 'x' already drives another frame"),
    "variable dynamic and kinematic": (lambda: Model([tx("x", mass=1), ty(Kinematic("x"))]), "variable 'x'"),
    "kinematic length is dynamic": (
        lambda: pendulum(da.Distance("bob", "cart", Kinematic("slide"))),
        "'slide' is a dynamic",
    ),
    "unknown frame": (
        lambda: pendulum(da.LinearSpring("bob", "wall", 1.0)),
        "LinearSpring(bob, wall): unknown frame 'wall'",
    ),
    "misspelled frame": (lambda: pendulum(da.LinearSpring("bobb", "rod", 1.0)), "did you mean 'bob'?"),
    "unknown variable": (
        lambda: pendulum(da.ConfigSpring("thta", 1.0)),
        "unknown variable 'thta' (did you mean 'theta'?)",
    ),
    "unknown variable as length": (lambda: pendulum(da.Distance("bob", "cart", "length")), "unknown variable 'length'"),
    "length that moves an end": (
        lambda: pendulum(da.Distance("bob", "world", "slide")),
        "'slide' also moves one of its",
    ),
    "frame given as a frame": (lambda: pendulum(da.LinearSpring(tx(1.0), "rod", 1.0)), "unknown frame"),
    "unknown frame in gravity": (lambda: pendulum(da.Gravity(masses=("bob", "hand"))), "unknown frame 'hand'"),
    "frame twice in gravity": (lambda: da.Gravity(masses=("bob", "bob")), "'bob' appears twice"),
    "gravity on a text": (lambda: da.Gravity(masses="bob"), "masses must be a list"),
    "unknown variable in damping": (lambda: pendulum(da.Damping(0.0, {"knee": 1.0})), "unknown variable 'knee'"),
    "unknown axes frame": (
        lambda: pendulum(da.PointToPoint("bob", "cart", "x", axes_of="tilt")),
        "unknown frame 'tilt'",
    ),
    "unknown frame of a wrench": (lambda: pendulum(da.Wrench("hull")), "Wrench(hull): unknown frame 'hull'"),
    # masses
    "negative mass": (lambda: Model([tx("x", name="a", mass=-1.0)]), "frame 'a': negative mass -1.0"),
    "massless variable": (
        lambda: Model([tx("x", mass=1, name="a"), rx("idle")]),
        "dynamic variable 'idle' moves no mass",
    ),
    "massless branch": (lambda: Model([tx("x", rx("idle", tz(1.0)), mass=1)]), "'idle' moves no mass"),
    "mass of three numbers": (lambda: tx("x", name="a", mass=(1, 2, 3)), "frame 'a': mass must be a number or (m, Ixx"),
    "mass and inertia twice": (lambda: tx("x", mass=(1, 2, 3, 4), inertia=(1, 1, 1)), "mass must be a number"),
    "negative inertia": (lambda: Model([rx("x", name="a", inertia=(1, -1, 1))]), "not positive semidefinite"),
    "indefinite inertia": (lambda: Model([rx("x", name="a", inertia=(1, 1, 1, 2, 0, 0))]), "frame 'a': inertia"),
    "indefinite by its determinant": (
        lambda: Model([rx("x", name="a", inertia=(1, 1, 1, -0.6, -0.6, -0.6))]),
        "frame 'a': inertia",
    ),
    "asymmetric inertia": (lambda: rx("x", name="a", inertia=[[1, 1, 0], [0, 1, 0], [0, 0, 1]]), "not symmetric"),
    "inertia of four numbers": (lambda: rx("x", name="a", inertia=(1, 1, 1, 1)), "got 4 entries"),
    "inertia is a number": (lambda: rx("x", name="a", inertia=1.0), "frame 'a': inertia must be"),
    "centre of two numbers": (lambda: rx("x", name="a", mass=1, com=(0, 0)), "centre of mass needs three"),
    "centre is a number": (lambda: rx("x", name="a", mass=1, com=0.0), "frame 'a': centre of mass"),
    # numbers
    "nan offset": (lambda: tx(NAN, name="a"), "frame 'a': value is not finite"),
    "infinite mass": (lambda: tx("x", name="a", mass=INF), "frame 'a': mass is not finite"),
    "nan inertia": (lambda: tx("x", name="a", inertia=(1, NAN, 1)), "inertia is not finite"),
    "infinite centre": (lambda: tx("x", name="a", mass=1, com=(0, INF, 0)), "centre of mass is not finite"),
    "nan gravity": (lambda: da.Gravity((0, 0, NAN)), "acceleration is not finite"),
    "infinite stiffness": (lambda: da.ConfigSpring("theta", INF), "ConfigSpring(theta): stiffness is not finite"),
    "nan rest length": (lambda: da.LinearSpring("a", "b", 1.0, NAN), "rest length is not finite"),
    "nan damping": (lambda: da.Damping(0.1, {"theta": NAN}), "coefficient of 'theta' is not finite"),
    "number as text": (lambda: tx("x", name="a", mass="1.0"), "mass must be a number, not '1.0'"),
    "truth as number": (lambda: da.ConfigSpring("theta", True), "must be a number, not True"),
    "none as value": (lambda: tx(None), "value must be a number, not None"),
    "huge integer": (lambda: tx("x", name="a", mass=10**400), "mass must be a number"),
    # frames
    "child is not a frame": (lambda: tx("x", "theta"), "children must be frames, not str"),
    "pitch of a translation": (lambda: tx("x", name="a", mass=1, pitch=0.1), "only a rotation can have a pitch"),
    "skewed transform": (
        lambda: se3(SKEWED, name="a"),
        "frame 'a': the rotation part of a transform is not orthonormal",
    ),
    "mirrored transform": (lambda: se3(MIRROR, name="a"), "is a reflection"),
    "projective transform": (lambda: se3(PROJECTIVE, name="a"), "last row of a transform must be 0 0 0 1"),
    "transform of wrong shape": (lambda: se3(np.eye(3), name="a"), "frame 'a': a fixed transform is a 4x4"),
    "transform is a number": (lambda: se3(1.0, name="a"), "frame 'a': a fixed transform is a 4x4"),
    "root is not a frame": (lambda: Model(["x"]), "frames must be Frame values, not str"),
    "frames is a text": (lambda: Model("x"), "frames must be Frame values"),
    "joint about a bad axis": (lambda: da.revolute("w", "theta"), "axis must be 'x', 'y' or 'z', not 'w'"),
    "visual of unknown kind": (lambda: Visual("torus", (1,)), "visual 'torus': kind must be one of"),
    "visual of wrong size": (lambda: Visual("box", (1, 2)), "visual 'box': size needs 3 numbers, got 2"),
    "mesh without a file": (lambda: Visual("mesh"), "visual 'mesh'"),
    "visual is a text": (lambda: tx("x", visuals=["box"]), "visuals must be Visual values, not str"),
    # elements
    "element is a frame": (lambda: Model([tx("x", mass=1)], [tx(1.0)]), "elements must be Element values, not Frame"),
    "elements is one element": (lambda: Model([tx("x", mass=1)], GRAVITY), "elements must be a list"),
    "spring from a frame to itself": (
        lambda: pendulum(da.LinearSpring("bob", "bob", 1.0)),
        "needs two different frames",
    ),
    "distance from a frame to itself": (lambda: pendulum(da.Distance("bob", "bob", 1.0)), "needs two different frames"),
    "point on its own plane": (lambda: pendulum(da.PointOnPlane("bob", (0, 0, 1), "bob")), "PointOnPlane(bob, bob)"),
    "zero distance": (lambda: da.Distance("a", "b", 0.0), "Distance(a, b): length must be positive"),
    "negative distance": (lambda: da.Distance("a", "b", -1.0), "length must be positive"),
    "gravity of two numbers": (lambda: da.Gravity((0, -9.8)), "acceleration needs three numbers"),
    "gravity of a text": (lambda: da.Gravity("down"), "acceleration needs three numbers"),
    "force on a kinematic variable": (
        lambda: pendulum(da.ConfigForce("rho", "u")),
        "'rho' is kinematic, no force acts on it",
    ),
    "damping of a kinematic variable": (lambda: pendulum(da.Damping(0.0, {"rho": 1.0})), "'rho' is kinematic"),
    "input without a name": (lambda: pendulum(da.ConfigForce("theta", "")), "ConfigForce(theta): an input needs"),
    "input is a number": (lambda: pendulum(da.ConfigForce("theta", 1.0)), "an input needs a non-empty name, not 1.0"),
    "wrench in unknown axes": (lambda: da.Wrench("bob", axes="spatial"), "axes must be 'body', 'world' or 'mixed'"),
    "wrench of two components": (lambda: da.Wrench("bob", force=(1, 2)), "Wrench(bob): force needs three components"),
    "damping is no table": (lambda: da.Damping(0.0, 3.0), "Damping: coefficients must be {variable: number}"),
    "damping of one variable twice": (lambda: da.Damping(0.0, [("x", 1), ("x", 2)]), "'x' has two coefficients"),
    "relation without terms": (lambda: da.LinearRelation({}), "LinearRelation(): needs a non-zero coefficient"),
    "relation of zeros": (lambda: da.LinearRelation({"a": 0.0}), "LinearRelation(a): needs a non-zero coefficient"),
    "relation with nan": (lambda: da.LinearRelation({"wheel": NAN}), "coefficient of 'wheel' is not finite"),
    "no direction": (lambda: da.PointToPoint("a", "b", ()), "directions must be non-zero vectors"),
    "zero direction": (lambda: da.PointToPoint("a", "b", [(0, 0, 0)]), "PointToPoint(a, b, world): directions"),
    "direction of bad letters": (lambda: da.PointToPoint("a", "b", "xw"), "letters of 'xyz' or vectors, not 'xw'"),
    "direction is one vector": (lambda: da.PointToPoint("a", "b", (1, 0, 0)), "direction needs three numbers"),
    "zero normal": (lambda: da.PointOnPlane("a", (0, 0, 0), "b"), "PointOnPlane(a, b): normal is zero"),
    "cam on itself": (lambda: pendulum(da.Cam("theta", "theta", [(0, 0), (1, 1)])), "driver and follower are the same"),
    # splines
    "spline of one point": (lambda: Spline([(0, 0)]), "a spline needs at least two points"),
    "spline that goes back": (lambda: Spline([(0, 0), (1, 1), (1, 2)]), "increasing x"),
    "spline of mixed rows": (lambda: Spline([(0, 0), (1, 1, 0)]), "spline points must all be"),
    "spline with nan": (lambda: Spline([(0, 0), (1, NAN)]), "spline points must be finite"),
    "spline of texts": (lambda: da.Cam("a", "b", "profile"), "spline points must be rows of numbers"),
    # constraints as a whole
    "constraint on kinematic variables": (
        lambda: pendulum(da.Distance("cart", "world", 1.0)),
        "Distance(cart, world): the constraint contains no dynamic variable",
    ),
    "constraint between fixed frames": (
        lambda: Model([tx("x", mass=1), tx(1.0, name="a"), tx(2.0, name="b")], [da.Distance("a", "b", 1.0)]),
        "Distance(a, b): the constraint contains no dynamic variable",
    ),
    "constraint inside one body": (
        lambda: Model([rx("q", tx(1.0, name="a"), tx(2.0, name="b", mass=1))], [da.Distance("a", "b", 1.0)]),
        "Distance(a, b): the constraint contains no dynamic variable",
    ),
    "relation of kinematic variables": (
        lambda: pendulum(da.LinearRelation({"rho": 1.0}, 0.5)),
        "LinearRelation(rho): the constraint contains no dynamic variable",
    ),
    "too many constraints": (
        lambda: pendulum(da.PointToPoint("bob", "cart")),
        "3 constraint rows but only 2 dynamic variables: PointToPoint(bob, cart, world)",
    ),
    # order of variables
    "order with a stranger": (lambda: pendulum(variables=["theta", "slide", "roh"]), "unknown variable 'roh'"),
    "order with a gap": (lambda: pendulum(variables=["theta", "rho"]), "variables: 'slide' is missing"),
    "order with a repetition": (
        lambda: pendulum(variables=["theta", "theta", "slide", "rho"]),
        "'theta' is listed twice",
    ),
    "order with kinematic first": (
        lambda: pendulum(variables=["rho", "theta", "slide"]),
        "'rho' stands where 'theta' must be",
    ),
    "order against the tree": (
        lambda: pendulum(variables=["slide", "theta", "rho"]),
        "'slide' stands where 'theta' must be",
    ),
    "order is a text": (lambda: pendulum(variables="theta"), "variables must be a list of names"),
    # user elements
    "potential is no function": (lambda: pendulum(da.Potential(3.0, name="soft")), "Potential(soft)"),
    "potential of an unknown variable": (lambda: pendulum(da.Potential(lambda m: m["knee"], name="soft")), "'knee'"),
    "force on an unknown variable": (lambda: pendulum(da.Force(lambda m: {"knee": m["theta"]}, name="f")), "'knee'"),
    "function that fails": (
        lambda: pendulum(da.Constraint(lambda m: 1 / 0, name="loop")),
        "Constraint(loop): its function",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_names_the_culprit(case):
    build, says = BAD[case]
    with pytest.raises(ModelError) as caught:
        build()
    assert says in str(caught.value)
    assert caught.value.culprit


def test_there_are_enough():
    assert len(BAD) >= 40


def test_unequal_moments_are_allowed():
    """The triangle inequality is not asked for: planar models give only the moment that matters."""
    assert Model([rz("q", inertia=(0, 0, 1))]).nq == 1


def test_moments_that_no_body_has_are_told_and_can_be_refused_or_allowed() -> None:
    """One rule for files (tests/formats/test_urdf.py) and Python."""
    heavy = da.rz("a", name="wheel", mass=1.0, inertia=(1, 1, 3))
    with pytest.warns(da.InertiaWarning, match=r"'wheel': no body has the principal moments 1, 1, 3") as caught:
        assert da.Model([heavy]).nq == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", da.InertiaWarning)
        with pytest.raises(da.InertiaWarning):
            da.Model([heavy])
        for fine in ((0, 0, 3), (1, 2, 3), (0, 1, 1), (0, 0, 0)):  # one moment will do in a plane
            da.Model([da.rz("a", mass=1.0, inertia=fine)])
