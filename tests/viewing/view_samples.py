"""Small models and motions for the tests of the view room.

`Motion` stands in for a Trajectory where a test needs a curve with known values; other tests use real ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import dalembert as da
from dalembert import Model, PointToPoint, rx, ry, rz, tx, ty, tz


@dataclass
class Motion:
    model: Model
    t: np.ndarray
    q: np.ndarray
    u: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def energy(self) -> np.ndarray:
        return 2.0 + 0.01 * np.sin(7 * self.t)

    def constraint_violation(self) -> np.ndarray:
        return 1e-12 * (1 + np.cos(3 * self.t) ** 2)

    @property
    def p(self) -> np.ndarray:
        return np.cos(self.q[:, : self.model.nd])

    @property
    def quantities(self) -> tuple[str, ...]:
        return (*self.model.variables, *self.model.inputs)

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.model.inputs:
            return self.u[:, self.model.input_index(name)]
        return self.q[:, self.model.index(name)]

    def momentum(self) -> np.ndarray:
        return np.stack([np.cos(k * self.t) for k in range(6)], axis=1)


def pendulum() -> Model:
    return Model([rx("theta", tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))], name="pendulum")


def cart_pole() -> Model:
    return Model(
        [tx("x", rz("theta", ty(-1.0, name="bob", mass=1.0)), name="cart", mass=(2.0, 0.02, 0.03, 0.03))],
        [da.Gravity((0, -9.8, 0)), da.ConfigForce("x", input="push")],
        name="cart-pole",
    )


def closed_chain() -> Model:
    """The device of paper 002, Listing 1."""
    return Model(
        [
            ry("J", tz(-0.5, name="I", mass=1), tz(-1.0, ry("H", tz(-1.0, name="G", mass=1), tz(-2.0, name="O2")))),
            tx(
                -1.5,
                ry("K", tz(-1.0, name="L", mass=1), tz(-2.0, ry("M", tz(-0.5, name="N", mass=1), tz(-1.0, name="O")))),
            ),
            tx(
                1.5,
                ry(
                    "A",
                    tz(-1.0, name="B", mass=1),
                    tz(
                        -2.0,
                        ry(
                            "C",
                            tz(-0.375, name="D", mass=1),
                            tz(-0.75, ry("E", tz(-0.5, name="F", mass=1), tz(-1.0, name="G2"))),
                        ),
                    ),
                ),
            ),
        ],
        [da.Gravity(), PointToPoint("G", "G2", "xz"), PointToPoint("O", "O2", "xz")],
        name="closed chain",
    )


def everything() -> Model:
    """One of each thing that is drawn."""
    lying = [[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    return Model(
        [
            tz(1.5, name="ceiling"),
            tx(0.6, tz(1.5, name="corner")),
            da.free_euler(
                "body",
                tz(0.15, name="top"),
                tx(0.3, name="edge"),
                name="body",
                mass=1.0,
                inertia=(0.02, 0.02, 0.03),
                visuals=[da.Visual("box", (0.4, 0.3, 0.1), color=(0.3, 0.6, 0.4))],
            ),
            tx(
                -0.8,
                ty(
                    "slide",
                    name="slider",
                    mass=0.5,
                    visuals=[
                        da.Visual("sphere", (0.08,)),
                        da.Visual("cylinder", (0.05, 0.3), pose=lying),
                        da.Visual("capsule", (0.04, 0.4)),
                    ],
                ),
            ),
            tx(0.9, da.spherical_euler("ball", tz(-0.5, name="plumb", mass=0.3))),
        ],
        [
            da.Gravity(),
            da.LinearSpring("ceiling", "top", 50.0, 1.0),
            da.LinearDamper("corner", "edge", 1.0),
            da.Distance("corner", "plumb", da.Kinematic("rope")),
            da.Distance("slider", "edge", 1.0),
            da.PointOnPlane("world", (0, 0, 1), "slider"),
            da.Wrench("body", force=("thrust", 0, 0), torque=(0, 0, 0.5), axes="body"),
        ],
        name="one of each",
    )


def swinging(model: Model, seconds: float = 4.0, steps: int = 200, phase: float = 0.0) -> Motion:
    """A smooth made-up motion of any model; not a solution of anything."""
    t = np.linspace(0, seconds, steps + 1)
    k = np.arange(model.nq)
    q = 0.6 * np.sin(2.0 * t[:, None] + 0.7 * k + phase)
    u = np.sin(3.0 * t[:-1, None] + np.arange(model.nu))
    return Motion(model, t, q, u)


def tumbling() -> da.Trajectory:
    """A floating box that turns over, with a link on a ball joint."""
    tail = da.tz(-0.4, da.ball("tail", da.tz(-0.5, name="tip", mass=0.2, inertia=(0.002, 0.002, 0.002)), name="hinge"))
    body = da.floating("base", tail, name="box", mass=1.0, inertia=(0.05, 0.06, 0.1))
    vi = da.MidpointVI(da.Model([body], [da.Gravity((0, 0, -1.0))], name="tumbling"), 0.01)
    start = vi.state(q={"base": [0.1, 0.2, 0.3], "base.z": 1.0}, v={"base": [0.5, 8.0, 0.1], "base.vx": 0.2})
    return vi.simulate(start, steps=200)
