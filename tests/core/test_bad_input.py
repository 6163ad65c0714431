"""Hostile use: NaN, wrong types, shapes and layouts, odd models, singular points. A typed error or a finite result, never a crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dalembert as da

GRAVITY = da.Gravity((0, -9.8, 0))
PENDULUM = da.Model([da.rz("a", da.ty(-1.0, name="bob", mass=1.0))], [GRAVITY, da.ConfigForce("a", "torque")])
RING = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
VI = da.MidpointVI(PENDULUM, 0.1)
START = VI.state([0.2])
SYSTEM = da.System(VI, steps=3)
X, U = np.array([0.1, 0.2]), np.array([0.0])


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# every function of q (or v, or u) of the pendulum, as a function of that argument alone
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "poses": lambda x: da.poses(PENDULUM, x),
    "pose": lambda x: da.pose(PENDULUM, x, "bob"),
    "positions": lambda x: da.positions(PENDULUM, x),
    "twists": lambda x: da.twists(PENDULUM, x),
    "frame_jacobian": lambda x: da.frame_jacobian(PENDULUM, x, "bob"),
    "kinetic_energy by q": lambda x: da.kinetic_energy(PENDULUM, x, [1.0]),
    "kinetic_energy by v": lambda x: da.kinetic_energy(PENDULUM, [1.0], x),
    "potential_energy": lambda x: da.potential_energy(PENDULUM, x),
    "lagrangian": lambda x: da.lagrangian(PENDULUM, x, [0.0]),
    "lagrangian_first": lambda x: da.lagrangian_first(PENDULUM, [0.0], x),
    "lagrangian_second": lambda x: da.lagrangian_second(PENDULUM, x, x),
    "lagrangian_third": lambda x: da.lagrangian_third(PENDULUM, [0.0], [0.0], x, x),
    "mass_matrix": lambda x: da.mass_matrix(PENDULUM, x),
    "potential_gradient": lambda x: da.potential_gradient(PENDULUM, x),
    "spatial_momentum": lambda x: da.spatial_momentum(PENDULUM, x, x),
    "force": lambda x: da.force(PENDULUM, [0.0], [0.0], x if not isinstance(x, dict) else {"a": 1.0}),
    "acceleration": lambda x: da.acceleration(PENDULUM, x, x),
    "acceleration_second": lambda x: da.acceleration_second(PENDULUM, x, x),
    "constraint weight": lambda x: da.constraint_hessian(RING, [1.0, 0.0], x if not isinstance(x, dict) else [np.nan]),
    "equilibrium": lambda x: da.equilibrium(PENDULUM, x),
    "state q": lambda x: VI.state(x),
    "state v": lambda x: VI.state([0.0], v=x),
    "state p": lambda x: VI.state([0.0], p=x),
    "state q0": lambda x: VI.state([0.0], q0=x),
    "guess": lambda x: VI.step(START, guess=x if not isinstance(x, dict) else [np.nan]),
    "step u": lambda x: VI.step(START, x if not isinstance(x, dict) else {"a": 1.0}),
    "rollouts u": lambda x: da.rollouts(VI, [START], 2, u=x if not isinstance(x, dict) else "a"),
}
WRONG: dict[str, Any] = {
    "nan": [np.nan],
    "inf": [-np.inf],
    "too long": [1.0, 2.0, 3.0],
    "empty": [],
    "wide": [[1.0, 2.0]],
    "three axes": np.zeros((2, 2, 1)),
    "text": ["a"],
    "a quoted number": ["1.0"],
    "None inside": [None],
    "complex": np.array([1 + 1j]),
    "objects": [object()],
    "bytes": b"abc",
    "a set": {1.0},
    "ragged": [[1.0], [1.0, 2.0]],
    "unknown name": {"zz": 1.0},
    "nan by name": {"a": np.nan},
    "text by name": {"a": "x"},
    "list by name": {"a": [1.0, 2.0]},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_arrays_are_value_errors(function: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        FUNCTIONS[function](WRONG[wrong])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.float32, np.bool_])
def test_other_dtypes_and_layouts_give_the_same_numbers(dtype: Any) -> None:
    np.testing.assert_array_equal(da.pose(PENDULUM, np.array([1], dtype=dtype), "bob"), da.pose(PENDULUM, [1.0], "bob"))
    model = da.models.load("marionette")
    q = np.linspace(-0.5, 0.5, model.nq)
    for layout in (np.repeat(q, 2)[::2], np.asfortranarray(np.stack([q, q]))[1], q[::-1].copy()[::-1]):
        np.testing.assert_array_equal(da.lagrangian_first(model, layout, layout), da.lagrangian_first(model, q, q))
        np.testing.assert_array_equal(
            da.positions(model, np.asfortranarray(np.stack([layout] * 3)))[2], da.positions(model, q)
        )


CALLS: dict[str, Callable[[], Any]] = {
    "rows of q and v differ": lambda: da.kinetic_energy(PENDULUM, np.zeros((3, 1)), np.zeros((2, 1))),
    "one q, many v": lambda: da.spatial_momentum(PENDULUM, [0.0], np.zeros((2, 1))),
    "unknown frame": lambda: da.pose(PENDULUM, [0.0], "zz"),
    "frame is a number": lambda: da.pose(PENDULUM, [0.0], 3),  # type: ignore[arg-type]
    "unknown fixed variable": lambda: da.satisfy_constraints(RING, [1.0, 0.0], fixed=["zz"]),
    "everything fixed": lambda: da.satisfy_constraints(RING, [3.0, 0.0], fixed=["x", "y"]),
    "no iterations": lambda: da.satisfy_constraints(RING, [3.0, 0.0], max_iterations=0),
    "no iterations to equilibrium": lambda: da.equilibrium(PENDULUM, [1.0], max_iterations=0),
    "no equilibrium": lambda: da.equilibrium(da.Model([da.tz("z", mass=1.0)], [da.Gravity()]), [0.0]),
    "overflow of energy": lambda: da.kinetic_energy(PENDULUM, [0.0], [1e300]),
    "overflow of derivatives": lambda: da.acceleration_second(PENDULUM, [0.0], [1e300]),
    "not a model": lambda: da.MidpointVI(None, 0.1),  # type: ignore[arg-type]
    "no dynamic variable": lambda: da.MidpointVI(da.Model([da.tx(da.Kinematic("x"), mass=1.0)]), 0.1),
    "empty model": lambda: da.MidpointVI(da.Model([]), 0.1),
    **{f"dt = {dt}": lambda dt=dt: da.MidpointVI(PENDULUM, dt) for dt in (0, -1, np.nan, np.inf, "a", None, 1j)},
    **{f"dt = {dt}": lambda dt=dt: da.MidpointVI(PENDULUM, dt) for dt in ([], [[0.1]], [0.1, -0.1], [0.1, np.nan])},
    "dt overflows": lambda: (lambda vi: vi.step(vi.state([0.2])))(da.MidpointVI(PENDULUM, 1e300)),
    "dt is not normal": lambda: (lambda vi: vi.step(vi.state([0.2])))(da.MidpointVI(PENDULUM, 1e-320)),
    **{
        f"{key} = {value}": lambda key=key, value=value: da.MidpointVI(PENDULUM, 0.1, **{key: value})
        for key, values in {
            "alpha": (np.nan, 2, -0.1, "a", None),
            "forcing": ("x", None),
            "tolerance": (0, np.nan, "x", 1.0),
            "max_iterations": (0, -3, 1.5, np.nan, "a", None),
        }.items()
        for value in values
    },
    **{
        f"simulate {options}": lambda options=options: VI.simulate(START, **options)
        for options in (
            {},
            {"steps": -1},
            {"steps": 1.5},
            {"steps": np.nan},
            {"steps": np.inf},
            {"steps": "3"},
            {"time": np.nan},
            {"time": np.inf},
            {"time": -1.0},
            {"time": "a"},
            {"steps": 3, "time": 1.0},
            {"steps": 3, "every": 0},
            {"steps": 3, "every": 2},
            {"steps": 4, "every": -1},
            {"steps": 4, "every": 1.5},
            {"steps": 4, "every": True},
            {"steps": 2, "u": np.zeros((3, 1))},
            {"steps": 2, "u": np.zeros((2, 2))},
            {"steps": 2, "u": "ab"},
            {"steps": 2, "u": {"torqe": 1.0}},
            {"steps": 2, "kinematic": [[1.0], [1.0]]},
        )
    },
    "u(t) is nan": lambda: VI.simulate(START, 2, u=lambda t: [np.nan]),
    "u(t) is text": lambda: VI.simulate(START, 2, u=lambda t: "a"),
    "u(t) is None": lambda: VI.simulate(START, 2, u=lambda t: None),
    "policy gives nan": lambda: VI.simulate(START, 2, u=lambda t, s: [np.nan]),
    "policy gives text": lambda: VI.simulate(START, 2, u=lambda t, s: "a"),
    "kinematic(t) without kinematic variables": lambda: VI.simulate(START, 2, kinematic=lambda t: 1.0),
    "u(t) is too wide": lambda: VI.simulate(START, 2, u=lambda t: [1.0, 2.0]),
    "step dt = text": lambda: VI.step(START, dt="a"),  # type: ignore[arg-type]
    "step with two dt": lambda: VI.step(START, dt=[0.1, 0.2]),  # type: ignore[arg-type]
    "step dt = 0": lambda: VI.step(START, dt=0.0),
    "step dt = nan": lambda: VI.step(START, dt=np.nan),
    "kinematic without kinematic variables": lambda: VI.step(START, kinematic=[1.0]),
    "linearize dt = 0": lambda: VI.linearize(START, dt=0.0),
    "linearize nothing": lambda: VI.linearize(None),  # type: ignore[arg-type]
    "condition of nothing": lambda: VI.condition(None),  # type: ignore[arg-type]
    "state at t = nan": lambda: VI.state([0.0], t=np.nan),
    "state at t = text": lambda: VI.state([0.0], t="now"),  # type: ignore[arg-type]
    "v and p": lambda: VI.state([0.0], v=[0.0], p=[0.0]),
    "no starts": lambda: da.rollouts(VI, [], 3),
    "negative steps": lambda: da.rollouts(VI, [START], -1),
    "u for five": lambda: da.rollouts(VI, [START], 2, u=np.zeros((5, 2, 1))),
    **{
        f"System {options}": lambda options=options: da.System(VI, **options)
        for options in (
            {},
            {"steps": 0},
            {"steps": -1},
            {"steps": 1.5},
            {"steps": np.nan},
            {"steps": np.inf},
            {"steps": "a"},
        )
    },
    **{
        f"System t = {t}": lambda t=t: da.System(VI, t=t)
        for t in ([0.0], [0.0, 0.0], [1.0, 0.0], [0.0, np.nan], "ab", [[0.0, 1.0]], [0.0, 1j])
    },
    **{
        f"System of varying steps {n}": lambda n=n: da.System(da.MidpointVI(PENDULUM, [0.1, 0.2]), steps=n)
        for n in (0, -1, 3, 1.5, "2")
    },
    "trajectory of another model": lambda: SYSTEM.from_trajectory(
        (lambda vi: vi.simulate(vi.state([0.0]), 3))(da.MidpointVI(da.Model([da.tx("x", mass=1.0)]), 0.1))
    ),
    "no states": lambda: VI.simulate(START, 3)[2:2],
    "time is nan": lambda: VI.simulate(START, 3).at(np.nan),
    "time is text": lambda: VI.simulate(START, 3).at("a"),
    "no cost": lambda: da.optimize(SYSTEM, None, VI.simulate(START, 3)),  # type: ignore[arg-type]
    "System of nothing": lambda: da.System(None, steps=3),  # type: ignore[arg-type]
    **{f"step {k}": lambda k=k: SYSTEM.f(X, U, k) for k in (-1, 3, 1.5, "a", None, np.nan, True)},
    **{f"x = {x}": lambda x=x: SYSTEM.f(x, U) for x in ([np.nan, 0.0], [1.0], np.zeros((2, 2)), "ab", None)},
    **{
        f"z = {x}": lambda x=x: SYSTEM.adjoint(X, U, 0, x) for x in ([np.nan, 0.0], [1.0], np.zeros((2, 2)), "ab", None)
    },
    "guess of f": lambda: SYSTEM.f(X, U, guess=[np.nan, 0.0]),
    "inputs for two steps": lambda: SYSTEM.simulate(X, np.zeros((2, 1))),
    "gains transposed": lambda: SYSTEM.project(np.zeros((4, 2)), np.zeros((3, 1)), np.zeros((3, 2, 1))),
    "gains nan": lambda: SYSTEM.project(np.zeros((4, 2)), np.zeros((3, 1)), np.full((3, 1, 2), np.nan)),
    "gains overflow": lambda: SYSTEM.project(
        np.ones((4, 2)), np.zeros((3, 1)), np.full((3, 1, 2), 1e300), x0=[1e300, 0]
    ),
    "states too many": lambda: SYSTEM.trajectory(np.zeros((9, 2)), np.zeros((8, 1))),
    "another horizon": lambda: SYSTEM.from_trajectory(VI.simulate(START, 2)),
    "not a trajectory": lambda: SYSTEM.from_trajectory(None),  # type: ignore[arg-type]
    "adjoint overflows": lambda: SYSTEM.adjoint(X, U, 0, [1e308, 1e308]),
    "second order overflows": lambda: SYSTEM.second_order(X, U, 0, [1e308, 1e308]),
    "continuous times": lambda: da.simulate_continuous(PENDULUM, [0.0], [0.0], [0.0, np.nan]),
    "continuous input": lambda: da.simulate_continuous(PENDULUM, [0.0], [0.0], [0.0, 1.0], u=[np.nan]),
    "continuous method": lambda: da.simulate_continuous(PENDULUM, [0.0], [0.0], [0.0, 1.0], method="zz"),
    "continuous kinematic": lambda: da.simulate_continuous(
        da.Model([da.tx(da.Kinematic("x"), da.ty("y", mass=1.0))]),
        [0.0, 0.0],
        [0.0, 0.0],
        [0.0, 1.0],
        kinematic=lambda t: ([np.nan], [0.0], [0.0]),
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_wrong_calls_are_typed_errors(call: str) -> None:
    with pytest.raises((ValueError, TypeError, da.DalembertError)):
        CALLS[call]()


@pytest.mark.parametrize(
    ("call", "culprit"),
    [
        (lambda: VI.simulate(START, "3"), "steps"),
        (lambda: VI.simulate(START, time="a"), "time"),
        (lambda: VI.simulate(START, 4, every=1.5), "every"),
        (lambda: VI.simulate(START, 4, every=3), "every = 3"),
        (lambda: VI.simulate(START, 2, u=lambda t: [1.0, 2.0]), r"u\(t\) has shape \(2,\) at t = 0"),
        (lambda: VI.step(START, dt="a"), "dt"),
        (lambda: SYSTEM.second_order(X, U, 0, [np.nan, 0.0]), "^z "),
        (lambda: SYSTEM.adjoint(X, U, 0, [1.0]), r"^z has shape \(1,\), but \(2,\)"),
        (lambda: SYSTEM.f(X, U, guess=[np.nan, 0.0]), "^guess"),
        (lambda: SYSTEM.simulate([np.nan, 0.0], np.zeros((3, 1))), "^x0"),
    ],
)
def test_messages_name_the_argument(call: Callable[[], Any], culprit: str) -> None:
    with pytest.raises(ValueError, match=culprit):
        call()


def test_whole_numbers_of_any_type() -> None:
    for steps in (4, 4.0, np.int32(4), np.float64(4), np.array(4), np.uint8(4)):
        assert VI.simulate(START, steps, every=2.0).steps == 2  # type: ignore[arg-type]
        assert da.System(VI, steps=steps).steps == 4


def test_linearization_does_not_depend_on_the_clock() -> None:
    A, B = VI.linearize(START)
    for t in (1e6, 1e17):  # at 1e17 s the next time is not even representable
        later = VI.linearize(da.State(t, START.q, START.p, START.lam))
        np.testing.assert_array_equal(later[0], A)
        np.testing.assert_array_equal(later[1], B)


STATES = {
    "nothing": None,
    "a number": 1.0,
    "q is nan": da.State(0.0, np.array([np.nan]), np.zeros(1), np.zeros(0)),
    "q is long": da.State(0.0, np.zeros(2), np.zeros(1), np.zeros(0)),
    "p is inf": da.State(0.0, np.zeros(1), np.array([np.inf]), np.zeros(0)),
    "t is nan": da.State(np.nan, np.zeros(1), np.zeros(1), np.zeros(0)),
}


@pytest.mark.parametrize("state", STATES)
def test_wrong_states(state: str) -> None:
    bad: Any = STATES[state]
    for call in (lambda: VI.step(bad), lambda: VI.simulate(bad, 2), lambda: da.rollouts(VI, [bad], 2)):
        with pytest.raises((ValueError, TypeError)):
            call()


def test_multipliers_of_another_model() -> None:
    with pytest.raises(ValueError, match="lam"):
        VI.step(da.State(0.0, np.zeros(1), np.zeros(1), np.zeros(3)))


def planar(element: da.Element) -> da.Model:
    return da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [element])


@pytest.mark.parametrize(
    "element",
    [da.PointGravity("world", "p", 1.0), da.LinearSpring("world", "p", 1.0, 0.5), da.LinearDamper("world", "p", 1.0)],
    ids=lambda e: type(e).__name__,
)
def test_coinciding_frames_are_named(element: da.Element) -> None:
    """The force between coinciding frames has no direction: an error that names the element, from every door."""
    model, z = planar(element), np.zeros(2)
    calls: list[Callable[[], Any]] = [
        lambda: da.acceleration(model, z),
        lambda: da.acceleration(model, z, derivatives=True),
        lambda: da.acceleration_second(model, z),
    ]
    if isinstance(element, da.LinearDamper):
        calls += [
            lambda: da.force(model, z),
            lambda: da.force_first(model, z),
            lambda: da.force_second(model, z, z, None, z),
        ]
    else:
        calls += [
            lambda: da.potential_gradient(model, z),
            lambda: da.lagrangian_first(model, z, z),
            lambda: da.lagrangian_second(model, z, z),
            lambda: da.lagrangian_third(model, z, z, z, z),
            lambda: da.equilibrium(model, z),
        ]
    for call in calls:
        with pytest.raises(da.SingularityError, match=type(element).__name__):
            call()
    np.testing.assert_array_equal(da.mass_matrix(model, z), np.eye(2))
    vi = da.MidpointVI(model, 0.1)
    system, start = da.System(vi, steps=2), vi.state(z)
    x, u = np.zeros(4), np.zeros(0)
    for step in (
        lambda: vi.step(start),
        lambda: vi.simulate(start, 3),
        lambda: system.f(x, u),
        lambda: system.linearize(x, u),
        lambda: system.adjoint(x, u, 0, x),
        lambda: system.second_order(x, u, 0, x),
        lambda: da.simulate_continuous(model, z, z, [0.0, 1.0]),
    ):
        with pytest.raises(da.ConvergenceError):
            step()
    assert list(da.rollouts(vi, [start] * 3, 4).completed) == [0, 0, 0]


def test_singular_mass_matrix_is_named() -> None:
    """The middle hinge of z-x-z angles at zero: two axes coincide."""
    gimbal = da.Model([da.rz("a", da.rx("b", da.rz("c", name="top", mass=1.0, inertia=(1, 1, 1))))])
    with pytest.raises(da.SingularityError, match="mass matrix is singular in a, c"):
        da.acceleration(gimbal, [0.0, 0.0, 0.0])
    vi = da.MidpointVI(gimbal, 0.1)
    with pytest.raises(da.SingularityError) as caught:
        vi.simulate(vi.state(p=[1.0, 0.0, 0.0]), 3)
    assert caught.value.variables == ("a", "c")
    assert caught.value.trajectory is not None


def test_dependent_constraints_share_the_load() -> None:
    constraints = [da.Distance("world", "p", 1.0), da.PointToPoint("p", "stop", "y")]
    frames = [da.tx("x", da.ty("y", name="p", mass=1.0)), da.ty(-1.0, name="stop")]
    model = da.Model(frames, [GRAVITY, *constraints])
    ddq, lam = da.acceleration(model, [0.0, -1.0])
    np.testing.assert_allclose(ddq, 0.0, atol=1e-12)
    np.testing.assert_allclose(-da.constraint_jacobian(model, [0.0, -1.0]).T @ lam, [0.0, 9.8], atol=1e-12)


ODD = {
    "empty": da.Model([]),
    "only a kinematic variable": da.Model([da.tx(da.Kinematic("x"), name="hook")]),
    "a kinematic mass": da.Model([da.tx(da.Kinematic("x"), mass=2.0)], [GRAVITY]),
    "no mass": da.Model([da.tx(1.0, name="b")], [GRAVITY]),
    "a mass at rest": da.Model([da.tx(1.0, mass=1.0)], [GRAVITY]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_models_have_mechanics(name: str) -> None:
    model = ODD[name]
    z = np.zeros(model.nq)
    assert da.poses(model, z).shape == (len(model.frame_entries), 4, 4)
    assert da.mass_matrix(model, z).shape == (model.nq, model.nq)
    assert da.lagrangian(model, z, z) == 0.0
    assert all(np.isfinite(a).all() for a in (*da.lagrangian_second(model, z, z), *da.lagrangian_third(model, z, z)))
    assert da.constraints(model, z).shape == (0,)
    assert da.constraint_hessian(model, z).shape == (0, model.nq, model.nq)
    assert da.acceleration(model, z).ddq.shape == (model.nq,)
    assert da.equilibrium(model, z).shape == (model.nq,)
    assert da.spatial_momentum(model, z, z).shape == (6,)
    for rows in (0, 3):
        many = np.zeros((rows, model.nq))
        assert da.poses(model, many).shape == (rows, len(model.frame_entries), 4, 4)
        assert da.kinetic_energy(model, many, many).shape == da.potential_energy(model, many).shape == (rows,)
        assert da.spatial_momentum(model, many, many).shape == (rows, 6)
        assert da.constraints(model, many).shape == (rows, 0)
    with pytest.raises(ValueError, match="no dynamic variable"):
        da.MidpointVI(model, 0.1)


def test_nothing_to_do_is_not_an_error() -> None:
    assert VI.simulate(START, 0).q.shape == (1, 1)
    assert da.poses(PENDULUM, np.zeros((0, 1))).shape == (0, 3, 4, 4)
    assert da.kinetic_energy(PENDULUM, np.zeros((0, 1)), np.zeros((0, 1))).shape == (0,)
    for threads in (-5, 0, 1000):
        np.testing.assert_array_equal(da.rollouts(VI, [START], 2, threads=threads).q[0], VI.simulate(START, 2).q)


def test_huge_angles_and_speeds() -> None:
    """As long as rounding leaves an answer it is finite; beyond, the step is refused."""
    assert np.isfinite(da.pose(PENDULUM, [1e300], "bob")).all()
    for momentum in (1e3, 1e9, 1e30, 1e100, 1e200, 1e308):
        try:
            after = SYSTEM.f([0.0, momentum], [0.0])
        except da.ConvergenceError:
            assert momentum > 1e9
        else:
            assert np.isfinite(after).all()


def test_wrong_arrays_at_the_door_of_the_core() -> None:
    """The compiled module checks sizes and types itself: a wrong call of it is an error, not a wild read."""
    c = VI._core
    for bad in (np.zeros(0), np.zeros(5), np.zeros((2, 2)), [0.0], None, "a"):
        for call in (c.first, c.second):
            with pytest.raises((ValueError, TypeError)):
                call(bad, bad)
        with pytest.raises((ValueError, TypeError)):
            c.step(VI.options, 0.1, bad, bad, bad, bad, bad)
        with pytest.raises((ValueError, TypeError)):
            c.simulate(VI.options, bad, bad, np.full(3, 0.1), bad, bad, 1)
        with pytest.raises((ValueError, TypeError)):
            c.linearize_trajectory(VI.options, bad, bad, np.full(3, 0.1), bad, 1)
        with pytest.raises((ValueError, TypeError)):
            c.project(VI.options, bad, bad, bad, bad, np.full(3, 0.1))


def test_wrong_descriptions_at_the_door_of_the_core() -> None:
    from dalembert import _core
    from dalembert.model.compile import compile_model

    good = compile_model(PENDULUM)
    _core.Core(good)
    for key in good:
        broken = {k: v for k, v in good.items() if k != key}
        with pytest.raises((ValueError, TypeError, KeyError, RuntimeError)):
            _core.Core(broken)
        with pytest.raises((ValueError, TypeError, KeyError, RuntimeError)):
            _core.Core(good | {key: object()})


@pytest.mark.parametrize("key", ["nq", "nqd", "nv", "nd"])
def test_sizes_that_do_not_belong_together_at_the_door_of_the_core(key: str) -> None:
    """Nothing is read outside of a list before the sizes were looked at."""
    from dalembert import _core
    from dalembert.model.compile import compile_model

    good = compile_model(PENDULUM)
    for wrong in (good[key] + 1, good[key] + 100_000, -1):
        with pytest.raises(ValueError, match="bad model data"):
            _core.Core(good | {key: wrong})
    with pytest.raises(ValueError, match="bad model data"):
        _core.Core(good | {"dyn_joint": [100_000]})


def test_masked_arrays_are_not_taken_for_their_hidden_numbers() -> None:
    vi = da.MidpointVI(da.models.pendulum(), 0.01)
    hidden = np.ma.masked_array([0.1], mask=[True])
    for call in (
        lambda: vi.state(hidden),
        lambda: vi.step(vi.state([0.1]), u=hidden),
        lambda: vi.f([0.1, 0.0], hidden),
    ):
        with pytest.raises(ValueError, match="masked"):
            call()
    assert vi.state(np.ma.masked_array([0.1], mask=[False])).q[0] == 0.1


@pytest.mark.parametrize("length", [5e-324, 1e-200, 1e200])
def test_directions_may_have_any_length_but_none(length: float) -> None:
    ball = [da.tz("z", name="a", mass=1.0)]
    gap, unit = (da.gaps(da.Model(ball, [da.Contact("a", normal=(0.0, 0.0, n))]), [0.7]) for n in (length, 1.0))
    np.testing.assert_allclose(gap, unit, rtol=1e-15)
    with pytest.raises(da.ModelError, match="normal"):
        da.Contact("a", normal=(0.0, 0.0, 0.0))


def test_a_ring_is_reached_from_its_middle() -> None:
    """Where no first step leads to the constraint, one from beside does."""
    assert np.hypot(*da.satisfy_constraints(RING, [0.0, 0.0])) == pytest.approx(1.0, abs=1e-12)


def test_a_trajectory_of_no_model() -> None:
    vi = da.MidpointVI(da.models.pendulum(), 0.01)
    m = vi.simulate(vi.state([0.1]), 3)
    other = da.Trajectory({"theta": 1}, m.t, m.q, m.p, m.u, m.rho, m.lam)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Model"):
        da.reduce_state(vi, other)


def test_a_sensor_of_a_number_that_is_no_float() -> None:
    vi = da.MidpointVI(da.models.pendulum(), 0.01)
    sensor = da.measure_expression(vi, lambda m: m.position(m.model.frame_names[-1])[0] if hasattr(m, "model") else 0.0)
    with pytest.raises(ValueError, match="x"):
        sensor.h(10**400)
