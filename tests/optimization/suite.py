"""The eleven problems on which the default optimizer was developed, their starts and the best costs known for them.

Costs are 1/2 sum (x - xd)'Q(x - xd) + 1/2 u'Ru with diagonal weights and Qf at the end, by MidpointVI. All start with momenta of zero (at
rest under load they would be others).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import dalembert as da
from dalembert import Kinematic

DOWN, ALONG = (0, 0, -9.81), (0, -9.8, 0)


def pendulum() -> da.Model:
    return da.Model(
        [da.rx("a", da.tz(-1.0, name="bob", mass=1.0))],
        [da.Gravity(DOWN), da.ConfigForce("a", "tau"), da.Damping(0.1)],
    )


def cart_pole() -> da.Model:
    return da.Model(
        [da.ty("x", da.rx("a", da.tz(-0.5, name="m1", mass=0.3)), name="cart", mass=1.0)],
        [da.Gravity(DOWN), da.ConfigForce("x", "f")],
    )


def cart_double() -> da.Model:
    lower = da.rx("b", da.tz(-0.5, name="m2", mass=0.3))
    return da.Model(
        [da.ty("x", da.rx("a", da.tz(-0.5, lower, name="m1", mass=0.3)), name="cart", mass=1.0)],
        [da.Gravity(DOWN), da.ConfigForce("x", "f")],
    )


def acrobot() -> da.Model:
    body = (1.0, 1 / 12, 1 / 12, 1e-4)
    rod = da.tz(-0.5, name="c2", mass=body)
    return da.Model(
        [da.rx("a", da.tz(-0.5, name="c1", mass=body), da.tz(-1.0, da.rx("b", rod)))],
        [da.Gravity(DOWN), da.ConfigForce("b", "tau")],
    )


def furuta() -> da.Model:
    bob = da.tz(-0.2, name="bob", mass=(0.1, 1e-3, 1e-3, 1e-5))
    return da.Model(
        [da.rz("arm", da.tx(0.25, da.rx("pend", bob)), name="f0", mass=(0.1, 1e-4, 1e-4, 2e-3))],
        [da.Gravity(DOWN), da.ConfigForce("arm", "tau"), da.Damping(1e-3)],
    )


def four_bar() -> da.Model:
    body = (1.0, 0.01, 0.02, 0.02)
    coupler = da.tx(1.0, da.rz("b", da.tx(1.0, name="m2", mass=body), da.tx(2.0, name="end")))
    rocker = da.tx(2.0, da.rz("c", da.tx(0.75, name="m3", mass=body), da.tx(1.5, name="tip")))
    return da.Model(
        [da.rz("a", da.tx(0.5, name="m1", mass=body), coupler), rocker],
        [
            da.Gravity(ALONG),
            da.PointToPoint("end", "tip", [(1.0, 0, 0), (0, 1.0, 0)]),
            da.ConfigForce("a", "tau"),
            da.Damping(0.1),
        ],
    )


def crane() -> da.Model:
    return da.Model(
        [da.tx(Kinematic("car"), name="car"), da.tx("x", da.ty("y", name="load", mass=1.0))],
        [da.Gravity(ALONG), da.Distance("car", "load", Kinematic("rope")), da.Damping(0.02)],
    )


@dataclass(frozen=True, eq=False)
class Problem:
    """`best`: the lowest cost known. `scale` of the random inputs of the starts."""

    name: str
    system: da.System
    cost: da.TrackingCost
    x0: Any
    xd: Any
    U0: Any
    best: float
    scale: float = 1.0
    bounds: dict[str, tuple[float, float]] | None = None

    def starts(self, random: int = 8) -> Iterator[tuple[str, tuple[Any, Any]]]:
        """(name, (X, U)): the inputs at rest, a straight line of states that is no motion, motions under random inputs."""
        N = self.system.steps
        yield "zeros", (self.system.simulate(self.x0, self.U0), self.U0.copy())
        s = np.linspace(0, 1, N + 1)[:, None]
        yield "line", ((1 - s) * self.x0 + s * self.xd, self.U0.copy())
        for seed in range(random):
            noise = np.random.default_rng(seed).normal(size=(N // 5 + 1, self.system.nu))
            U = self.U0 + np.repeat(noise, 5, 0)[:N] * self.scale
            yield f"r{seed}", (self.system.simulate(self.x0, U), U)


PI = np.pi
# model, dt, steps, Q, R, Qf, xd, best cost
FLAT: dict[str, Any] = {
    "pend": (pendulum, 0.05, 60, [0.1, 0.1], 0.5, [1000, 100], [PI, 0], 237.7546951),
    "cart-pole": (cart_pole, 0.03, 100, [0.01, 0.1, 0.01, 0.01], 0.02, [200, 2000, 200, 200], [0, PI, 0, 0], 40.6380665),
    "furuta": (furuta, 0.02, 100, [0.01, 0.1, 0.01, 0.01], 10.0, [200, 2000, 2000, 2000], [0, PI, 0, 0], 20.9989237),
    "acrobot": (acrobot, 0.04, 125, [0.1, 0.1, 0.01, 0.01], 0.01, [2000, 2000, 200, 200], [PI, 0, 0, 0], 58.7964703),
    "cart-double": (
        cart_double, 0.025, 120, [0.01, 0.1, 0.1, 0.01, 0.01, 0.01], 0.01, [200, 2000, 2000, 200, 200, 200],
        [0, PI, 0, 0, 0, 0], 61.5880811,
    ),
    "pend-long": (pendulum, 0.05, 100, [0.1, 0.1], 0.1, [1000, 100], [PI, 0], np.inf),
}  # fmt: skip
# of what, bounds, best cost
BOUNDED: dict[str, Any] = {
    "pend_b": ("pend-long", {"tau": (-3.0, 3.0)}, 90.206692),
    "cart-pole_b": ("cart-pole", {"f": (-6.0, 6.0), "x": (-0.6, 0.6)}, 50.442196),
    "furuta_b": ("furuta", {"tau": (-0.15, 0.15)}, 55.08760),
    "cart-double_b": ("cart-double", {"f": (-12.0, 12.0)}, 66.44898),
    "four-bar_b": ("four-bar", {"tau": (-20.0, 20.0)}, 87.04583),
}
SCALES = {"furuta": 0.02, "crane": 0.05, "four-bar": 5.0}
FREE = ("pend", "cart-pole", "furuta", "acrobot", "cart-double", "four-bar", "crane")
NAMES = (*FREE, *BOUNDED)


def problem(name: str) -> Problem:
    """One of NAMES."""
    base, bounds, limit = BOUNDED.get(name, (name, None, None))
    scale = SCALES.get(base, 1.0)
    if base in FLAT:
        make, dt, N, Q, R, Qf, xd, best = FLAT[base]
        system = da.System(da.MidpointVI(make(), dt), steps=N)
        x0, U0, goal, rest = np.zeros(system.nx), np.zeros((N, 1)), np.asarray(xd, dtype=float), np.zeros(1)
    elif base == "four-bar":
        model, N, best = four_bar(), 80, 85.5397563
        system = da.System(da.MidpointVI(model, 0.02), steps=N)
        q0 = da.satisfy_constraints(model, {"a": 0.5, "b": 0.0, "c": 1.1})
        q1 = da.satisfy_constraints(model, {"a": 2.5, "b": -1.0, "c": 1.8}, fixed=["a"])
        x0, goal, U0, rest = np.r_[q0, 0, 0, 0], np.r_[q1, 0, 0, 0], np.zeros((N, 1)), np.zeros(1)
        Q, R, Qf = [1, 0, 0, 0.01, 0.01, 0.01], [0.01], [500, 500, 500, 10, 10, 10]
    else:
        model, N, best = crane(), 100, 48.7604739
        system = da.System(da.MidpointVI(model, 0.02), steps=N)
        q0 = da.satisfy_constraints(model, {"y": -1.0, "rope": 1.0})
        x0, goal, rest = np.r_[q0, 0, 0, 0, 0], np.r_[1.0, -1.2, 1.0, 1.2, 0, 0, 0, 0], np.array([1.0, 1.2])
        U0 = np.tile(q0[2:], (N, 1))
        Q, R, Qf = [1, 1, 0.1, 0.1, 0.1, 0.1, 1, 1], [1, 1], [500, 500, 50, 50, 50, 50, 1, 1]
    cost = da.TrackingCost(
        (np.tile(goal, (N + 1, 1)), np.tile(rest, (N, 1))),
        Q=np.asarray(Q, dtype=float),
        R=np.atleast_1d(R),
        Qf=np.asarray(Qf, dtype=float),
    )
    return Problem(name, system, cost, x0, goal, U0, best if limit is None else limit, scale, bounds)
