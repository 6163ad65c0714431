"""One model that uses every frame option and every element."""

import numpy as np
import pytest

import dalembert as da
from dalembert import Kinematic, Visual, rx, ry, rz, se3, tx, ty, tz


def build_everything() -> da.Model:
    turned = np.array([[0.6, -0.8, 0, 1e-17], [0.8, 0.6, 0, 2 / 3], [0, 0, 1, -0.1], [0, 0, 0, 1]])
    shapes = [
        Visual("sphere", (0.1,), color=(1, 0, 0)),
        Visual("box", (0.1, 0.2, 0.3), pose=turned, color=(0.1, 0.2, 0.3, 0.5)),
        Visual("cylinder", (0.1, 2)),
        Visual("capsule", (0.1, 2)),
        Visual("ellipsoid", (0.1, 0.2, 0.3)),
        Visual("mesh", (1, 1, 2), mesh='odd "name"\\with\ttabs.stl'),
    ]
    frames = [
        tx(
            "x",
            rz(
                "theta",
                ty(-1.0, name="bob", mass=1 / 3, inertia=(0.1, 0.2, 0.25), com=(0.1, -1e-300, 0)),
                tz("lift", rx("roll", name="ball", mass=2, inertia=[[1, 0.1, 0.2], [0.1, 1, 0.3], [0.2, 0.3, 1]])),
                name="arm",
            ),
            name="cart",
            mass=1.0,
            visuals=shapes,
        ),
        se3(turned, ry("screw", tx(0.1 + 0.2, mass=1.0), pitch=0.01, name="nut λ"), name="base"),
        tx(Kinematic("hook x"), ty(Kinematic("hook-y"), tz(2.0, name="hook")), name="line"),
        rx("a", tz(-1.0, name="a end", mass=1.0)),
        rx("b", tz(-1.0, name="b end", mass=1.0)),
        rx("c", tz(-1.0, name="c end", mass=1.0)),
        da.free_euler("body", name="body", mass=1.0, inertia=(1, 2, 2.5)),
    ]
    elements = [
        da.Gravity((0, -9.8, 0)),
        da.Gravity((0, 0, 1), masses=("bob", "cart")),
        da.Gravity(),
        da.PointGravity("bob", "ball", 1e-11),
        da.LinearSpring("bob", "world", 100.0, 0.5),
        da.LinearSpring("bob", "hook", 100.0),
        da.ConfigSpring("theta", 2.0, 0.1),
        da.NonlinearConfigSpring("theta", [(-1, 2), (0, 0), (1, -2)], 2.0, 0.1),
        da.ConfigForce("x", input="push"),
        da.Damping(0.1, {"theta": 0.5, "x": 0.0}),
        da.LinearDamper("bob", "base", 3.0),
        da.Wrench("ball", force=("thrust", 0, 1), torque=(0, "push", 0.5), axes="mixed"),
        da.Distance("bob", "hook", 2.5),
        da.Distance("a end", "hook", Kinematic("winch")),
        da.Distance("b end", "hook", "lift"),
        da.PointToPoint("ball", "body", "xz"),
        da.PointToPoint("c end", "body", ((0.6, 0.8, 0.0),), axes_of="base"),
        da.PointOnPlane("base", (0, 0, 1), "body"),
        da.LinearRelation({"a": 1.0, "b": -3.0}, 0.25),
        da.Cam("b", "c", [(0, 0, 1), (1, 0.1, 0), (2, 0.3, 0)]),
        da.Potential(lambda m: 0.5 * m["theta"] ** 2 + m.position("bob")[0] * 1e-3, name="soft"),
        da.Force(lambda m: {"x": -(m.velocity("x") ** 3) + m.input("u")}, uses=("u",), name="drag"),
        da.Constraint(lambda m: m["roll"] - m["a"] ** 2, name="parabola"),
    ]
    order = ["x", "theta", "lift", "roll", "screw", "a", "b", "c"]
    order += [f"body.{v}" for v in ("tx", "ty", "tz", "rz", "ry", "rx")] + ["winch", "hook-y", "hook x"]
    return da.Model(frames, elements, "everything", variables=order)


@pytest.fixture(scope="session")
def everything() -> da.Model:
    return build_everything()
