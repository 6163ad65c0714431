"""Calls of the public API with wrong arguments: none may crash, hang, return NaN, or raise what is not a typed error.

    python -m tests.tools.fuzz --calls 10000 --seed 0

Each call has good arguments first, of which one or two are then spoilt. Calls run in a process of their own, so that a crash is seen; a call that
computes for more than five seconds is a hang.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import dalembert as da
from dalembert import models

LIMIT = 5.0  # seconds of one call
TYPED = (ValueError, TypeError, KeyError, IndexError, da.DalembertError, OSError)
Call = tuple[Callable[..., Any], list[Any], dict[str, Any]]


class Hang(BaseException):
    """A call took too long."""


# ---- good calls


class World:
    """Things to call and to call them with."""

    def __init__(self) -> None:
        rod = da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))
        self.pendulum = da.Model([rod], [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", input="torque")])
        flat = [self.pendulum, models.cart_pole(), models.n_link(3), models.crane(), models.load("closed_chain")]
        self.models = [*flat, *self.with_balls()]
        self.touching, self.touching_starts = self.with_contacts()
        self.rolling, self.rolling_starts = self.with_wheels()

    def with_balls(self) -> list[da.Model]:
        """A body that floats with an arm on a ball joint, and a ball that is prescribed with a pendulum under it."""
        hand = da.tz(-0.5, name="hand", mass=0.5, inertia=(0.1, 0.1, 0.1))
        arm = da.ball("wrist", hand, name="arm", mass=0.2, inertia=(0.1, 0.1, 0.1))
        body = da.floating("base", da.tx(0.3, arm), da.tz(0.1, name="top"), mass=1.0, inertia=(1.0, 1.2, 1.4))
        spring = da.LinearSpring("world", "top", 5.0, 0.1)
        push = da.Wrench("hand", force=("fx", 0.0, 0.0), torque=(0.0, "ty", 0.0))
        free = da.Model([body], [da.Gravity((0, 0, -9.8)), spring, push, da.ConfigForce("base.wx", "roll")])
        bob = da.rx("swing", da.tz(-1.0, name="bob", mass=1.0))
        driven = da.ball(da.Kinematic("hand"), bob, mass=0.1, inertia=(0.1, 0.1, 0.1))
        return [free, da.Model([driven], [da.Gravity((0, 0, -9.8)), da.ConfigForce("swing", "torque")])]

    def with_contacts(self) -> tuple[list[da.Model], list[tuple[Any, Any]]]:
        """What meets its limits, a floor, another ball within a few steps; (q, v) of the starts."""
        gravity = da.Gravity((0, 0, -9.8))
        rod = da.rx("theta", da.tz(-1.0, da.rx("knee", da.tz(-1.0, name="foot", mass=1.0)), name="bob", mass=1.0))
        limits = [da.Limit("theta", -0.2, 0.2, 0.5), da.Limit("knee", low=-0.1), da.ConfigForce("theta", "torque")]
        stops = da.Model([rod], [gravity, *limits])
        ball = da.tz("z", name="ball", mass=1.0)
        drop = da.Model([ball], [gravity, da.Contact("ball", radius=0.1, restitution=0.7), da.ConfigForce("z", "lift")])
        box = da.floating("b", da.tx(0.5, name="corner"), mass=1.0, inertia=(0.1, 0.12, 0.14))
        tumble = da.Model([box], [gravity, da.Contact("corner", restitution=0.3), da.ConfigForce("b.wy", "roll")])
        pair = [da.tx("x", name="one", mass=1.0), da.tx("y", name="two", mass=2.0)]
        clash = da.Model(pair, [da.SphereContact("one", "two", 0.1, 0.1, 1.0), da.ConfigForce("x", "push")])
        starts: list[tuple[Any, Any]] = [
            ([0.1, 0.0], [2.0, -1.0]), ([0.2], [-1.0]), ({"b.z": 0.1}, {"b.vz": -1.0}), ([0.0, 0.3], [2.0, 0.0]),
        ]  # fmt: skip
        return [stops, drop, tumble, clash], starts

    def with_wheels(self) -> tuple[list[da.Model], list[np.ndarray]]:
        """A disk and a sphere that roll, a skate, and a floating body under elements of one's own."""
        gravity, pushed = da.Gravity((0, 0, -9.8)), da.Wrench("a", force=("fx", 0.0, 0.0), axes="world")
        body = [da.floating("b", name="a", mass=1.0, inertia=(0.06, 0.12, 0.06))]
        found = [
            da.Model(body, [gravity, rolls, pushed]) for rolls in (da.RollingDisk("a", 0.5), da.RollingSphere("a", 0.5))
        ]
        skate = da.tx("x", da.ty("y", da.rz("turn", name="a", mass=1.0, inertia=(0.1, 0.1, 0.1))))
        found.append(da.Model([skate], [da.Gravity((1.0, 0.5, 0)), da.KnifeEdge("a"), pushed]))
        own = [
            da.Potential(lambda m: m.position("a")[2] ** 2 + m.pose("a")[0, 1] ** 2),
            da.Force(
                lambda m: {"b.wx": m.input("t") - 0.1 * m.velocity("b.wx"), "a": [0, 0, m.input("t")]}, uses=("t",)
            ),
            da.Constraint(lambda m: m.position("a")[0] - 0.2 * m.pose("a")[0, 1]),
        ]
        found.append(da.Model(body, [*own, pushed]))
        starts = [da.satisfy_constraints(m, m.configuration.point({"b.z": 0.5})) for m in (found[0], found[1])]
        return found, [*starts, np.array([0.1, 0.2, 0.3]), da.satisfy_constraints(found[3], found[3].neutral())]

    def integrator(self, rng: random.Random, prescribed_balls: bool = True) -> da.MidpointVI:
        model = rng.choice(self.models if prescribed_balls else self.models[:-1])
        return da.MidpointVI(model, 0.01, order=rng.choice((2, 2, 4)))

    def point(self, model: da.Model, rng: random.Random) -> np.ndarray:
        q = model.integrate(model.neutral(), np.array([rng.uniform(-0.5, 0.5) for _ in range(model.nv)]))
        if model.nc:
            q = models.load_with_configurations(model.name)[1].get("start", q) if model.name == "closed_chain" else q
            q = da.satisfy_constraints(model, q if model.name != "crane" else [0.1, -1.0, 0.1, 1.0])
        return np.array(q, dtype=float)

    def start(self, vi: da.MidpointVI, rng: random.Random) -> da.State:
        return vi.state(self.point(vi.model, rng))


def numbers(rng: random.Random, *shape: int) -> np.ndarray:
    return np.array([rng.gauss(0, 1) for _ in range(int(np.prod(shape)))]).reshape(shape)


def frame_calls(w: World, rng: random.Random) -> Iterator[Call]:
    make = rng.choice((da.tx, da.ty, da.tz, da.rx, da.ry, da.rz))
    joint = rng.choice((da.ball, da.floating))
    yield (
        joint,
        ["b", da.tz(1.0, name="a", mass=1.0)],
        {"name": "body", "mass": 1.0, "inertia": (1, 1, 1), "com": (0, 0, 0.1)},
    )
    yield make, [rng.choice(("x", 1.0))], {"name": "a", "mass": 1.0, "inertia": (1, 1, 1), "com": (0, 0, 0.1)}
    yield (
        da.Model,
        [[da.rx("x", da.tz(1.0, name="a", mass=1.0))]],
        {"elements": [da.Gravity((0, 0, -9.8))], "name": "m"},
    )
    elements: list[Call] = [
        (da.Gravity, [(0, 0, -9.8)], {}),
        (da.ConfigForce, ["x", "u"], {}),
        (da.Damping, [0.1], {}),
        (da.ConfigSpring, ["x", 1.0, 0.0], {}),
        (da.LinearSpring, ["world", "a", 1.0, 0.1], {}),
        (da.LinearDamper, ["world", "a", 1.0], {}),
        (da.Distance, ["world", "a", 1.0], {}),
        (da.TorsionSpring, ["world", "a", 1.0], {"axis": (1, 0, 0)}),
        (da.LinearRelation, [{"x": 1.0}], {}),
    ]
    function, args, options = rng.choice(elements)

    def with_element(*a: Any, **o: Any) -> Any:
        return da.Model([da.rx("x", da.tz(1.0, name="a", mass=1.0))], [function(*a, **o)])

    with_element.__name__ = function.__name__
    yield with_element, args, options


def mechanics_calls(w: World, rng: random.Random) -> Iterator[Call]:
    model = rng.choice(w.models)
    q, v, u = w.point(model, rng), numbers(rng, model.nv), numbers(rng, model.nu)
    for name in (
        "kinetic_energy",
        "lagrangian",
        "lagrangian_first",
        "lagrangian_second",
        "mass_matrix",
        "spatial_momentum",
    ):
        if hasattr(da, name):
            yield getattr(da, name), [model, q, *([] if name == "mass_matrix" else [v])], {}
    for name in (
        "potential_energy",
        "poses",
        "constraints",
        "constraint_jacobian",
        "satisfy_constraints",
        "equilibrium",
    ):
        if hasattr(da, name):
            yield getattr(da, name), [model, q], {}
    yield da.acceleration, [model, q, v, u], {}
    yield da.consistent_velocity, [model, q, v], {}
    yield model.difference, [q, model.integrate(q, 0.1 * v)], {}
    yield model.integrate, [q, v], {}
    yield da.trim, [model, q], {"v": v, "a": v, "tolerance": 1e-9, "max_iterations": 30}
    frame = model.frame_names[-1]
    yield da.frame_jacobian, [model, q, frame], {}
    yield da.pose, [model, q, frame], {}
    yield da.force, [model, q, v, u], {}
    a = da.rotation.exponential(numbers(rng, 3))
    yield da.rotation.logarithm, [a], {}
    yield da.rotation.exponential, [numbers(rng, 3)], {}
    yield da.rotation.matrix, [a], {}
    yield da.rotation.of_matrix, [da.rotation.matrix(a)], {}
    yield da.rotation.multiply, [a, a], {}


def integrate_calls(w: World, rng: random.Random) -> Iterator[Call]:
    vi = w.integrator(rng)
    m = vi.model
    yield (
        da.MidpointVI,
        [m, 0.01],
        {"order": 2, "alpha": 0.5, "forcing": "split", "tolerance": 1e-12, "max_iterations": 30},
    )
    s = w.start(vi, rng)
    yield vi.state, [s.q], {"v": None, "t": 0.0}
    yield vi.step, [s], {"u": numbers(rng, m.nu), "kinematic": s.q[m.nqd :], "dt": 0.01, "guess": s.q}
    n = rng.choice((0, 1, 20))
    rho = np.tile(s.q[m.nqd :], (n, 1))
    yield vi.simulate, [s, n], {"u": numbers(rng, n, m.nu), "kinematic": rho, "every": 1}
    yield vi.simulate, [s], {"time": 0.1, "u": lambda t: np.zeros(m.nu)}
    yield vi.simulate, [s, 5], {"u": lambda t, state: np.zeros(m.nu)}
    yield da.rollouts, [vi, [s, s, s], 10], {"u": numbers(rng, 10, m.nu), "threads": 2, "lanes": True, "keep": True}
    yield vi.linearize, [s], {"u": numbers(rng, m.nu)}
    motion = vi.simulate(s, 5)
    yield motion.at, [0.02], {}
    yield motion.__getitem__, [rng.choice((0, slice(1, 3), m.variables[0], m.velocities[0], m.frame_names[-1]))], {}
    yield vi.simulate, [s, 3], {"adapt": 1e-3, "accuracy": "ignore", "u": numbers(rng, m.nu)}
    yield vi.simulate, [s, 6], {"every": 2, "accuracy": "raise", "kinematic": s.q[m.nqd :]}
    if len(vi.parts) == 1:
        yield vi.discrete_lagrangian, [s.q, vi.step(s).q], {"u": numbers(rng, m.nu), "dt": 0.01}
    yield motion.quality, [3], {}
    yield vi.condition, [s], {"u": numbers(rng, m.nu), "kinematic": s.q[m.nqd :], "dt": 0.02}
    names = dict.fromkeys(m.velocities[: m.nd], 0.1)
    yield (
        vi.state,
        [dict.fromkeys(m.variables[:1], m.configuration.neutral()[0])],
        {"v": names, "u": numbers(rng, m.nu)},
    )

    def trajectory(*args: Any, **options: Any) -> Any:
        return da.reduce_state(vi, da.Trajectory(*args, **options)).A  # it is looked at where it is used

    yield trajectory, [m, motion.t, motion.q, motion.p], {"u": motion.u, "rho": motion.rho, "lam": motion.lam}

    def continuous(*args: Any, **options: Any) -> Any:
        return da.simulate_continuous(
            *args, np.linspace(0, 1e-4, 3), **options
        )  # 1e7 rad/s are followed in seconds, too

    yield continuous, [w.models[2], [0.1, 0.2, 0.3], [0.0, 0.1, 0.0]], {"rtol": 1e-6, "atol": 1e-8}


def system_calls(w: World, rng: random.Random) -> Iterator[Call]:
    vi = w.integrator(rng, prescribed_balls=False)
    s = w.start(vi, rng)
    yield da.System, [vi], {"steps": 5}
    yield da.System, [vi], {"t": np.arange(6) * 0.01}
    system = da.System(vi, steps=5)
    rest = np.zeros(system.nx - len(s.q) - len(s.p))
    x, rho = np.concatenate([s.q, s.p, rest]), s.q[vi.model.nqd :]
    u = np.concatenate([numbers(rng, vi.model.nu), rho])
    U = np.tile(u, (5, 1))
    X = system.simulate(x, U)
    z = numbers(rng, system.ndx)
    yield system.f, [x, u, 0], {}
    yield system.linearize, [x, u, 1], {}
    yield system.adjoint, [x, u, 0, z], {}
    yield system.second_order, [x, u, 0, z], {}
    yield system.simulate, [x, U], {}

    def rollouts(*args: Any, **options: Any) -> Any:
        motions, done = system.rollouts(*args, **options)
        return [x[: n + 1] for x, n in zip(motions, done, strict=True)]  # NaN after a failed step

    yield rollouts, [X[:2], U], {"threads": 1}
    yield system.linearize_trajectory, [X, U], {"threads": 1}
    yield system.second_order_trajectory, [X, U, np.tile(z, (5, 1))], {}
    yield system.project, [X, U, np.zeros((5, system.nu, system.ndx))], {}
    yield system.trajectory, [X, U], {}
    yield system.difference, [X[0], X[1]], {}


def control_calls(w: World, rng: random.Random) -> Iterator[Call]:
    A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
    yield da.lqr_infinite, [A, B], {"Q": 1.0, "R": 1.0}
    yield da.dlqr, [A, B], {"Q": [1.0, 1.0], "R": [[1.0]]}
    yield da.solve_lq, [A, B, np.eye(2), np.eye(1), np.eye(2)], {"steps": 5, "regularization": 0.0}
    yield da.controllability, [A, B], {}
    yield da.uncontrollable_modes, [A, B], {}
    yield da.Feedback.at_point, [[0.0, 0.0], [0.5], [[2.0, 1.0]]], {}
    vi = da.MidpointVI(w.pendulum, 0.05)
    motion = vi.simulate(vi.state(q=[0.1]), 5, u=np.zeros((5, 1)))
    yield da.lqr, [vi, motion], {"Q": 1.0, "R": 1.0}
    law = da.Feedback.at_point([0.0, 0.0], [0.5], [[2.0, 1.0]])
    yield law.input, [0, [0.1, 0.2]], {}


def estimate_calls(w: World, rng: random.Random) -> Iterator[Call]:
    system = da.System(da.MidpointVI(w.pendulum, 0.05), steps=4)
    sensor = da.measure(system, "theta")
    kind = rng.choice((da.ExtendedKalmanFilter, da.UnscentedKalmanFilter, da.ParticleFilter))
    yield da.measure, [system, "theta"], {}
    yield da.measure, [system], {"C": [[1.0, 0.0]]}
    yield kind, [system, sensor], {"Q": 1e-6, "R": 0.01, "gate": 0.99}
    kalman = kind(system, sensor, Q=1e-6, R=0.01)
    start = kalman.start([0.1, 0.0], [0.1, 0.1])
    yield kalman.start, [[0.1, 0.0], 0.1], {}
    yield kalman.predict, [start, [0.0], 0], {}
    yield kalman.update, [start, [0.1]], {}
    yield kalman.run, [start, np.zeros((4, 1)), np.zeros((5, 1))], {}
    record = (np.zeros((5, 2)), np.zeros((4, 1)))
    ekf = da.ExtendedKalmanFilter(system, sensor, Q=1e-6, R=0.01)
    yield da.monte_carlo, [ekf, record], {"trials": 3, "P0": 0.1, "missing": 0.1, "outliers": (0.1, 5.0), "seed": 1}


def sensor_calls(w: World, rng: random.Random) -> Iterator[Call]:
    model = rng.choice([w.pendulum, models.cart_pole(), w.with_balls()[0]])
    vi = da.MidpointVI(model, 0.05, order=rng.choice((2, 4)))
    system = da.System(vi, steps=4)
    frame, velocity = model.frame_names[-1], model.velocities[0]
    yield da.measure_gyroscope, [system, frame], {}
    yield da.measure_accelerometer, [system, frame], {"gravity": (0, 0, -9.8)}
    yield da.measure_magnetometer, [system, frame], {"field": (1.0, 0.0, 0.2)}
    yield da.measure_frame, [system, frame], {"axes": "xz"}
    yield da.measure_velocity, [system, velocity], {}
    flat = not model.configuration.places  # sensors of frames are expressions, which know no balls
    some = [da.measure_gyroscope(system, frame), da.measure_velocity(system, velocity)] if flat else []
    sensor = rng.choice([da.measure(system, *system.x_names[:2]), *some])
    at = w.point(model, rng)
    x = system.x(at)
    yield sensor.h, [x], {}
    kind = rng.choice((da.ExtendedKalmanFilter, da.UnscentedKalmanFilter))
    kalman = kind(system, sensor, Q=1e-6, R=0.01)
    yield kind, [system, sensor], {"Q": 1e-6, "R": 0.01, "gate": 0.99, "reduced": None}
    yield kalman.start, [x, 0.1], {}
    start = kalman.start(x, 0.1)
    u, z = np.concatenate([np.zeros(model.nu), at[model.nqd :]]), np.zeros(sensor.size)
    yield kalman.predict, [start, u, 0], {"dt": 0.03}
    yield kalman.update, [start, z], {"u": u}
    yield kalman.run, [start, np.tile(u, (4, 1)), np.tile(z, (5, 1))], {"dt": np.full(4, 0.05)}
    filtered = kalman.run(start, np.tile(u, (4, 1)), np.tile(z, (5, 1)))
    yield da.smooth, [filtered], {"tolerance": 1e-12}
    yield da.Track.begin, [kalman, start], {"t": 0.0, "horizon": 1.0}
    track = da.Track.begin(kalman, start).predict(u, dt=0.05)
    yield track.predict, [u], {"dt": 0.05, "k": 1}
    yield track.update, [z], {"t": 0.0}


def director_calls(w: World, rng: random.Random) -> Iterator[Call]:
    from dalembert.direct import dmocc

    rod = [dmocc.RigidBody("rod", 1.0, (0.1, 1.0, 1.0), position=(0.5, 0, 0))]
    hinge = dmocc.MultibodySystem(rod, [dmocc.Joint(rng.choice(("R", "S")), "ground", "rod")])
    q = numbers(rng, hinge.nd)
    yield dmocc.RigidBody, ["rod", 1.0, (0.1, 1.0, 1.0)], {"position": (0.5, 0, 0)}
    yield dmocc.Joint, ["R", "ground", "rod"], {"point": (0, 0, 0), "axis": (0, 0, 1), "name": "j"}
    yield dmocc.MultibodySystem, [rod, [dmocc.Joint("R", "ground", "rod")]], {"gravity": (0, -9.8, 0)}
    yield dmocc.configuration, [hinge, q], {}
    yield dmocc.coordinates, [hinge, dmocc.configuration(hinge, q)], {"near": q}
    yield dmocc.condition_numbers, [hinge, 0.01], {"u": q}
    yield dmocc.simulate, [hinge], {"dt": 0.01, "steps": 5, "u": q, "velocity": 0 * q, "form": "reduced"}
    yield dmocc.from_model, [w.pendulum], {}
    if rng.random() < 0.2:
        yield dmocc.optimize, [hinge], {"steps": 3, "time": 0.5, "start": 0 * q, "goal": 0.1 + 0 * q, "effort": 1.0}
        yield (
            da.dmoc,
            [w.pendulum],
            {"start": {"theta": 0.0}, "goal": {"theta": 0.5}, "steps": 4, "time": 1.0, "effort": 1.0},
        )


def optimize_calls(w: World, rng: random.Random) -> Iterator[Call]:
    system = da.System(da.MidpointVI(w.pendulum, 0.05), steps=4)
    cost = da.TrackingCost({"theta": 0.5}, Q=1.0, R=0.1)
    start = (np.zeros((5, 2)), np.zeros((4, 1)))

    def bound(*args: Any, **options: Any) -> Any:
        return da.optimize(system, da.TrackingCost(*args, **options), start, max_iterations=3)

    def ending(*args: Any, **options: Any) -> Any:
        return da.optimize(system, da.TerminalCost(*args, **options) + cost, start, max_iterations=3)

    options = {"method": "auto", "tolerance": 1e-6, "max_iterations": 3, "bounds": {"torque": (-2.0, 2.0)}}
    yield bound, [{"theta": 0.5}], {"Q": {"theta": 1.0, "*": 0.1}, "R": 0.1, "Qf": [1.0, 1.0]}
    yield ending, [[0.5, 0.0], 1.0], {}
    yield da.optimize, [system, cost, start], options


def gauss_calls(w: World, rng: random.Random) -> Iterator[Call]:
    model = rng.choice(w.models[:4])
    order = rng.choice((4, 6, 8))
    yield da.GaussVI, [model, 0.01], {"order": order, "tolerance": 1e-13, "max_iterations": 40}
    yield da.GaussVI, [rng.choice(w.models[3:] + w.touching), 0.01], {"order": order}  # most are refused
    flat = w.pendulum if model.nc else model
    vi = da.GaussVI(flat, rng.choice((0.01, 0.05)), order=order)
    s = w.start(vi, rng)
    u, rho = numbers(rng, flat.nu), s.q[flat.nqd :]
    yield vi.state, [s.q], {"v": numbers(rng, flat.nv), "u": None, "t": 0.5}
    yield vi.state, [s.q], {"q0": s.q}
    yield vi.step, [s], {"u": u, "kinematic": rho, "dt": 0.02, "guess": s.q}
    yield vi.simulate, [s, 8], {"u": u, "kinematic": rho, "every": 2, "accuracy": "warn"}
    yield vi.simulate, [s, 4], {"adapt": 1e-3}
    yield vi.simulate, [s, 8], {"until": f"{flat.variables[0]} > 0.2", "events": [da.Event("t", at=0.013)]}
    motion = vi.simulate(s, 5, u=u)
    yield motion.quality, [3], {}
    yield vi.condition, [s], {"u": u, "dt": 0.02}
    yield da.rollouts, [vi, [s, s, s], 6], {"u": numbers(rng, 6, flat.nu), "threads": 2, "lanes": True, "keep": True}
    system = da.System(vi, steps=4)
    x, z, v = s.x, numbers(rng, system.ndx), np.concatenate([u, rho])
    for call in (system.linearize, system.second_order_full, system.derivatives, system.advance):
        yield call, [x, v, 0], {}
    yield system.second_order, [x, v, 0, z], {}
    yield system.linearize_trajectory, [np.tile(x, (5, 1)), np.tile(v, (4, 1))], {"threads": 1}


def touch_calls(w: World, rng: random.Random) -> Iterator[Call]:
    """Limits, contacts, events, impacts, their derivatives, and steps that adapt beside them."""
    yield da.Event, ["x < 0.1"], {"action": "stop", "name": "low"}
    yield da.Event, ["x"], {"below": 0.1, "action": "record"}
    hinge = da.rx("x", da.tz(-1.0, name="a", mass=1.0), da.tz(-2.0, name="b", mass=1.0))

    def with_gap(kind: Any) -> Callable[..., Any]:
        def make(*a: Any, **o: Any) -> Any:
            return da.Model([hinge, da.tz(-5.0, name="floor")], [kind(*a, **o)])

        make.__name__ = kind.__name__
        return make

    yield with_gap(da.Limit), ["x", -1.0, 1.0, 0.5], {}
    yield with_gap(da.Contact), ["a", "floor", (0, 0, 1), 0.1, 0.5], {}
    yield with_gap(da.SphereContact), ["a", "floor", 0.1, 0.2, 0.5], {}
    k = rng.randrange(len(w.touching))
    model = w.touching[k]
    vi = da.MidpointVI(
        model, rng.choice((0.01, 0.05)), order=rng.choice((2, 2, 4)), impacts=rng.choice(("together", "sequence"))
    )
    q, v = w.touching_starts[k]
    s = vi.state(q, v=v)
    u, n = 0.1 * numbers(rng, model.nu), rng.choice((1, 12))
    yield da.MidpointVI, [model, 0.01], {"impacts": "together", "order": 2}
    yield vi.state, [q], {"v": v, "u": u, "check": True}
    yield vi.step, [s], {"u": u, "dt": 0.1}
    yield vi.simulate, [s, n], {"u": u, "accuracy": "ignore"}
    yield vi.simulate, [s, n], {"u": np.tile(u, (n, 1)), "adapt": 1e-2, "every": 1}
    name = model.variables[0]
    events = [da.Event(name, at=0.05), da.Event("t", above=0.033), da.Event(f"v.{model.velocities[0]} < 0")]
    yield vi.simulate, [s, n], {"u": lambda t, state: u, "events": events}
    yield vi.simulate, [s], {"time": 0.2, "events": events[1], "until": f"'{name}' < -10", "adapt": 1e-2}
    yield vi.simulate, [s, n], {"until": lambda state: state.t - 0.021, "accuracy": "raise"}
    yield vi.simulate, [s, n], {"events": [da.Event(lambda state: state.q[0] - 0.01, action=lambda state: None)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        motion = vi.simulate(s, 12, u=u)
    yield lambda unused: motion.linearize(), [0], {}
    yield motion.adjoint, [numbers(rng, 2 * model.nd + model.nkv)], {}
    yield motion.quality, [4], {}
    yield motion.__add__, [vi.simulate(motion[-1], 2)], {}
    yield motion.__getitem__, [rng.choice((1, slice(2, 9), slice(3, None), name))], {}
    yield da.gaps, [model, q], {}
    yield da.gap_jacobian, [model, q], {}
    yield da.gap_hessian, [model, q, np.ones(len(model.gaps))], {}
    yield da.rollouts, [vi, [s, s], 4], {"u": numbers(rng, 4, model.nu), "threads": 1}
    yield vi.linearize, [s], {"u": u}
    yield vi.condition, [s], {"u": u}


def roll_calls(w: World, rng: random.Random) -> Iterator[Call]:
    """Constraints on velocities, and elements of one's own, on balls too."""

    def with_wheel(kind: Any) -> Callable[..., Any]:
        def make(*a: Any, **o: Any) -> Any:
            return da.Model([da.floating("b", name="a", mass=1.0, inertia=(1.0, 1.2, 1.4))], [kind(*a, **o)])

        make.__name__ = kind.__name__
        return make

    yield with_wheel(da.RollingDisk), ["a", 0.5, "y", "world", "z"], {}
    yield with_wheel(da.RollingSphere), ["a", 0.5, "world", "z"], {}
    yield with_wheel(da.KnifeEdge), ["a", "x", "world"], {}
    yield with_wheel(da.Wrench), ["a", (0.0, 0.0, "lift"), (0.0, 0.0, "lift")], {"axes": "body", "gear": 0.5}
    yield with_wheel(da.Potential), [lambda m: m.position("a")[2] ** 2], {"name": "e"}
    yield with_wheel(da.Force), [lambda m: {"b.wx": m.input("t") - m.velocity("b.wy")}], {"uses": ("t",), "name": "f"}
    yield with_wheel(da.Constraint), [lambda m: m.position("a")[2] - m.pose("a")[0, 1]], {"name": "c"}
    yield with_wheel(da.VelocityConstraint), [lambda m: m.velocity("b.wx") + m.position("a")[1]], {"name": "r"}
    k = rng.randrange(len(w.rolling))
    model, q = w.rolling[k], w.rolling_starts[k]
    v = da.consistent_velocity(model, q, 0.3 * numbers(rng, model.nv))
    vi = da.MidpointVI(model, 0.02, order=rng.choice((2, 4)))
    yield vi.state, [q], {"v": v, "u": numbers(rng, model.nu)}
    yield da.consistent_velocity, [model, q, v], {}
    yield da.velocity_offset, [model, q], {}
    yield da.constraint_hessian, [model, q], {}
    s = vi.state(q, v=v)
    u = 0.1 * numbers(rng, model.nu)
    yield vi.simulate, [s, 5], {"u": u, "adapt": rng.choice((None, 1e-2))}
    yield da.rollouts, [vi, [s, s, s], 4], {"u": np.tile(u, (4, 1)), "threads": 1, "lanes": True}
    system = da.System(vi, steps=3)
    yield system.linearize, [s.x, u, 0], {}
    yield system.second_order, [s.x, u, 0, numbers(rng, system.ndx)], {}
    yield da.reduce_state, [system, vi.simulate(s, 3, u=u)], {"tolerance": 1e-10}
    yield da.dumps, [model, rng.choice(("toml", "json", "sexp"))], {}


def kalman_calls(w: World, rng: random.Random) -> Iterator[Call]:
    """Filters in the core: constraints, balls, prescribed joints, second order, Gauss steps, sensors of all kinds."""
    pick = rng.randrange(6)
    model = [w.pendulum, w.models[4], w.models[3], w.with_balls()[0], w.rolling[0], w.with_balls()[1]][pick]
    vi = da.GaussVI(model, 0.02) if pick == 0 and rng.random() < 0.5 else da.MidpointVI(model, 0.02)
    q = w.rolling_starts[0] if pick == 4 else w.point(model, rng)
    s = vi.state(q)
    system = da.System(vi, steps=4)
    frame = model.frame_names[-1]
    sensors = [da.measure(system, *system.x_names[:2])]
    if pick != 5:
        sensors.append(da.measure_frame(system, frame))
    if pick < 3:
        sensors.append(da.measure_expression(system, lambda m: m.position(frame)[1] ** 2))
    sensor = rng.choice(sensors)
    yield da.measure_expression, [system, lambda m: m.position(frame)[0]], {"names": ("x",)}
    yield da.measure_force, [system, *model.constraints[:1]], {}
    order = rng.random() < 0.4
    options = {"Q": 1e-6, "R": 0.01, "gate": 0.99, "reduced": None, "second_order": order}
    yield da.ExtendedKalmanFilter, [system, sensor], options
    kalman = da.ExtendedKalmanFilter(system, sensor, Q=1e-6, R=0.01, second_order=order)
    start = kalman.start(s.x, 1e-3)
    u = np.zeros(system.nu)
    if pick != 5:  # a prescribed ball has velocities there
        u[model.nu :] = s.q[model.nqd :]
    z = sensor.expected(s.x, u)
    yield kalman.start, [s.x, np.full(system.ndx, 1e-3)], {}
    yield kalman.predict, [start, u, 0], {"dt": 0.02}
    yield kalman.update, [start, z], {"u": u}
    yield kalman.run, [start, np.tile(u, (4, 1)), np.tile(z, (5, 1))], {"dt": np.full(4, 0.02)}
    yield kalman.run, [start, None, [z, None, z, z, z]], {}
    run = kalman.run(start, np.tile(u, (4, 1)), np.tile(z, (5, 1)))
    yield da.smooth, [run], {}
    yield sensor.record, [vi.simulate(s, 4), 0.01], {"seed": 1}
    yield sensor.h, [s.x], {}


def parameter_calls(w: World, rng: random.Random) -> Iterator[Call]:
    c, m = da.Parameter("c", 0.2), da.Parameter("m", 1.3)
    model = da.Model(
        [da.rx("theta", da.tz(-0.7, name="rod", mass=m))], [da.Gravity(), da.Damping(c), da.ConfigForce("theta", "tau")]
    )
    yield da.Parameter, ["c", 0.2], {"bounds": (0.0, 1.0), "unit": "kg"}
    yield model.with_parameters, [{"c": 0.3}], {}
    yield da.name_parameters, [w.pendulum, "bob.mass"], {}
    vi = rng.choice((da.MidpointVI(model, 0.02), da.MidpointVI(model, 0.02, order=4), da.GaussVI(model, 0.02)))
    s = vi.state([0.4])
    U = np.sin(np.arange(30) * 0.3)[:, None]
    motion = vi.simulate(s, 30, u=U)
    yield da.step_by_parameters, [vi, s], {"u": [0.1], "parameters": ["c", "m"]}
    yield da.motion_by_parameters, [vi, motion], {"parameters": ["c"], "start": np.zeros((2, 1))}
    yield da.gradient_of_motion, [vi, motion, np.ones((31, 2))], {"parameters": ["m"]}
    yield da.energy_by_parameters, [model, [0.1], [0.2]], {"parameters": ["m"]}
    yield da.force_by_parameters, [model, [0.1], [0.2]], {"u": [0.3], "parameters": ["c", "m"]}
    yield da.ParameterMap, [vi], {"parameters": ["c"]}
    record = da.Record.of(motion, ["theta"], noise=1e-3, seed=1)
    yield da.Record, [record.t, record.y], {"u": record.u, "start": s}
    yield da.Record.of, [motion, ["theta"]], {"noise": 1e-3, "seed": 1, "known_start": True}
    yield da.identify, [vi, record], {"parameters": ["c"], "noise": 1e-3, "segment": 10, "max_iterations": 5}
    yield da.identify, [model, record, ["c", "m"]], {"prior": {"c": (0.2, 0.1)}, "tolerance": 1e-8, "physical": True}
    yield da.identifiability, [vi, record], {"parameters": ["c"], "noise": 1e-3, "segment": 10}
    if rng.random() < 0.3:
        yield (
            da.excite,
            [vi, s, 10],
            {
                "parameters": ["c"],
                "limit": 1.0,
                "waves": 2,
                "tries": 1,
                "max_iterations": 2,
                "noise": 1.0,
                "criterion": "D",
            },
        )


def predictive_calls(w: World, rng: random.Random) -> Iterator[Call]:
    vi = rng.choice((da.MidpointVI, da.GaussVI))(w.pendulum, 0.05)
    cost = da.TrackingCost({"theta": 0.5}, Q=1.0, R=0.1)
    yield da.MPC, [vi, cost, 5], {"bounds": {"torque": (-2.0, 2.0)}, "iterations": 1, "budget": 0.1, "smoothing": 1e-4}
    mpc = da.MPC(vi, cost, 5, {"torque": (-2.0, 2.0)})
    yield mpc.step, [[0.1, 0.0]], {"reference": (np.zeros((6, 2)), np.zeros((5, 1)))}
    yield mpc.reset, [np.zeros((6, 2)), np.zeros((5, 1))], {}
    yield mpc, [0.0, vi.state([0.1])], {}
    system = da.System(vi, steps=5)
    swing = vi.simulate(vi.state([0.1]), 5)
    yield da.lqr, [vi, swing], {"Q": 1.0, "R": 1.0, "wrap": True}
    yield da.lqr, [vi, (np.zeros((6, 2)), np.zeros((5, 1)))], {"Q": {"theta": 1.0, "*": 0.1}, "R": 1.0}
    yield da.reduce_state, [system, swing], {}
    yield da.weights, [system, {"theta": 2.0}], {"default": 1.0, "of": "x"}
    A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
    for call in (da.controllability_gramian, da.controllable_rank):
        yield call, [0.5 * A, B], {}
    for call in (da.observability_gramian, da.observable_rank, da.observability, da.unobservable_modes):
        yield call, [0.5 * A, B.T], {}
    limit = {"theta": (-1.0, 1.0)} if rng.random() < 0.5 else {"torque": (-1.0, 1.0)}
    X, U = np.zeros((6, 2)), np.zeros((5, 1))
    yield da.optimize, [system, cost, (X, U)], {"bounds": limit, "max_iterations": 4, "free_start": False}
    yield da.optimize, [system, cost, (X, U)], {"free_time": (0.1, 1.0), "time_weight": 1.0, "max_iterations": 3}
    body = w.with_balls()[0]
    free = da.System(da.MidpointVI(body, 0.05), steps=3)
    still = da.TrackingCost({"base.z": 0.1}, Q=1.0, R=0.1)
    x = free.x(body.neutral())
    yield da.optimize, [free, still, (np.tile(x, (4, 1)), np.zeros((3, free.nu)))], {"max_iterations": 2}
    yield system.shoot, [X, U], {"derive": True}
    motions = rng.choice((system, free)).motions
    x0 = x if motions is free.motions else np.array([0.1, 0.2])
    nu = free.nu if len(x0) == len(x) else 1
    batch, inputs = np.tile(x0, (2, 1)), np.zeros((2, 3, nu))
    yield motions.roll, [batch, inputs], {}
    rolled = motions.roll(batch, inputs)

    def tangents(*args: Any) -> Any:
        motions.push(*args)
        motions.pull(*args[:3])  # NaN goes through, as in all of a framework

    yield tangents, [rolled, inputs, np.ones_like(rolled), np.ones_like(inputs)], {}
    yield da.inverse_kinematics, [w.models[2], {w.models[2].frame_names[-1]: (0.0, 0.5, -0.5)}], {"tolerance": 1e-9}
    if rng.random() < 0.15:
        goal = {"q": {"base": [0.1, 0.2, 0.3]}, "v": np.zeros(body.nv)}
        begin = {"q": body.neutral(), "v": np.zeros(body.nv)}
        more = {"options": {"ipopt.max_iter": 5}, "solver": "ipopt", "effort": 1.0}
        yield da.dmoc, [body], {"start": begin, "goal": goal, "steps": 3, "time": 0.5, **more}


def product_calls(w: World, rng: random.Random) -> Iterator[Call]:
    """A dx + B du and A'z, B'z without matrices, of all kinds of steps; prescribed balls; sizes of one and of many."""
    pick = rng.randrange(6)
    flat = rng.choice(w.models[:5])
    if pick == 0:
        vi = da.GaussVI(w.pendulum, 0.02, order=rng.choice((4, 6)))
    elif pick == 1:
        vi = da.MidpointVI(w.rolling[0], 0.02, order=rng.choice((2, 4)))
    elif pick == 2:
        vi = da.MidpointVI(models.n_link(rng.choice((1, 60))), 0.01)
    else:
        vi = da.MidpointVI(w.models[rng.randrange(5, 7)] if pick == 3 else flat, 0.01, order=rng.choice((2, 4, 6)))
    model = vi.model
    q = w.rolling_starts[0] if pick == 1 else w.point(model, rng)
    s = vi.state(q)
    u = np.zeros(vi.nu)
    if model is not w.models[6]:  # whose ball is prescribed: its inputs are velocities
        u[model.nu :] = s.q[model.nqd :]
    u[: model.nu] = 0.1 * numbers(rng, model.nu)
    dx, du, z = numbers(rng, vi.ndx), numbers(rng, vi.nu), numbers(rng, vi.ndx)
    system = da.System(vi, steps=rng.choice((1, 3)))
    for one in (vi, system):
        yield one.push, [s.x, u, 0, dx, du], {}
        yield one.adjoint, [s.x, u, 0, z], {}
        yield one.linearize, [s.x, u, 0], {}
        yield one.f, [s.x, u, 0], {}
    yield vi.difference, [s.x, s.x], {}
    yield vi.retract, [s.x, dx], {}
    X, U = np.tile(s.x, (system.steps + 1, 1)), np.tile(u, (system.steps, 1))
    yield system.linearize_trajectory, [X, U], {"threads": rng.choice((1, 2))}
    yield system.second_order, [s.x, u, 0, z], {}
    motion = system.trajectory(system.simulate(s.x, U), U)
    if system.nu:
        yield da.lqr, [system, motion], {"Q": 1.0, "R": 1.0}
    yield da.satisfy_constraints, [model, q], {"tolerance": 1e-12, "max_iterations": 200, "keep_kinematic": True}
    yield da.equilibrium, [flat, w.point(flat, rng)], {"tolerance": 1e-10, "max_iterations": 20, "u": None}
    for rank in (da.controllable_rank, da.uncontrollable_modes):
        yield rank, [numbers(rng, 3, 3), numbers(rng, 3, 1)], {"tolerance": 1e-9}
    yield da.controllability_gramian, [0.5 * np.eye(2), np.ones((2, 1))], {"steps": 5}


def environment_calls(w: World, rng: random.Random) -> Iterator[Call]:
    """Environments for learning, one and many, by functions and by bounds."""
    try:
        from dalembert.bridges.gymnasium import Environment, VectorEnvironment
    except ImportError:
        return
    model = rng.choice([w.pendulum, models.cart_pole(), w.with_balls()[0]])
    system = da.System(da.MidpointVI(model, 0.02, order=rng.choice((2, 4))), steps=3)
    x = system.neutral()
    quick = {"start": (x - 0.0, x + 0.0), "cost": -1.0, "over": {system.x_names[0]: (-2.4, 2.4)}}
    free = {
        "start": lambda rng, n: np.tile(x, (n, 1)),
        "cost": lambda x, u: (x**2).sum(1),
        "over": lambda x: x[:, 0] > 3.0,
        "observe": lambda x: x[:, :1],
    }
    task = {**rng.choice((quick, free)), "actions": (-1.0, 1.0)}
    if rng.random() < 0.3:
        task["actions"] = np.zeros((2, system.nu))
    chosen = isinstance(task["actions"], np.ndarray)

    def episode(kind: Any, n: tuple[int, ...]) -> Callable[..., Any]:
        def run(action: Any, *a: Any, **o: Any) -> Any:
            env = kind(system, *a, **o)
            found = [env.reset(seed=1)[0]]
            for _ in range(4 if n else 3):
                found += env.step(action)[:4]
            return found

        run.__name__ = kind.__name__
        return run

    def action(*n: int) -> Any:
        return np.ones(n, dtype=int) if chosen else numbers(rng, *n, system.nu)

    yield episode(Environment, ()), [1 if chosen else action()], task
    n = rng.choice((1, 3, 20))
    yield episode(VectorEnvironment, (n,)), [action(n), n], task
    yield Environment(system, **task).reset, [], {"seed": 1, "options": None}


def export_calls(w: World, rng: random.Random) -> Iterator[Call]:
    """Code in C of models of all kinds, with filters and regulators."""
    if rng.random() < 0.6:
        return  # half a second each
    pick = rng.randrange(5)
    model = [w.pendulum, models.cart_pole(), w.with_balls()[0], w.with_balls()[1], w.models[4]][pick]
    vi = da.MidpointVI(model, 0.02)
    start = vi.state(w.point(model, rng))
    ekf = da.ExtendedKalmanFilter(da.System(vi, steps=2), da.measure(vi, vi.x_names[0]), Q=1e-6, R=0.01)
    options: dict[str, Any] = {"name": None, "real": "double", "linearize": True, "fold": True, "vectors": 2}
    options |= {"max_iterations": 12, "start": start, "every": 1, "limits": None, "gains": None, "ekf": ekf}

    def export(*args: Any, **options: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            da.export_c(*args, to=folder, **options)

    yield export, [vi], options
    options = {"gains": da.Feedback.at_point(np.zeros(2), np.zeros(1), np.ones((1, 2))), "limits": {"torque": (-1, 1)}}
    yield export, [da.MidpointVI(w.pendulum, 0.02)], options


ROOMS = [
    *(frame_calls, mechanics_calls, integrate_calls, system_calls, control_calls, estimate_calls, sensor_calls),
    *(director_calls, optimize_calls, gauss_calls, touch_calls, roll_calls, kalman_calls, parameter_calls),
    *(predictive_calls, product_calls, environment_calls, export_calls),
]


# ---- spoiling


class Odd:
    """Something nobody expects."""


VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3.5, 1e308, -1e308, 1e-320, 10**400, float("nan"), float("inf"), -float("inf"), 1j,
    "", "x", "theta", "1.0", b"x", "\x1b[31m", "a" * 500, [], [[]], (), {}, {"theta": float("nan")}, {"nothing": 1}, {1: 2},
    {"theta": "x"}, {"*": 1j}, set(), range(3), np.zeros(0), np.zeros((2, 2, 2)), np.full(2, np.nan), np.array([1j, 0]),
    np.array(["a", "b"]), np.array([None, 1]), np.array(1.0), np.float32(0.5), np.int64(2), [1, [2, 3]], Decimal("0.5"),
    Fraction(1, 3), Odd(), lambda: None, lambda *a: "x", lambda *a: float("nan"), int, np, slice(None), Ellipsis,
]  # fmt: skip


def spoilt(value: Any, rng: random.Random) -> Any:
    """Another value in place of a good one."""
    if (
        isinstance(value, (list, tuple, np.ndarray))
        and len(np.shape(np.asarray(value, dtype=object)))
        and rng.random() < 0.6
    ):
        try:
            a = np.array(value, dtype=float)
        except (TypeError, ValueError):
            return rng.choice(VALUES)
        kind = rng.randrange(8)
        if kind == 0 and a.size:
            a.flat[rng.randrange(a.size)] = rng.choice((np.nan, np.inf, -np.inf, 1e308, 1e200, -1.0, 1e-320))
        elif kind == 1:
            a = a[..., :-1]
        elif kind == 2:
            a = np.concatenate([a, a])
        elif kind == 3:
            return a.astype(complex) + 1j
        elif kind == 4:
            return a.astype(str)
        elif kind == 5:
            a = a[None]
        elif kind == 6:
            a = np.asfortranarray(np.repeat(a, 2, axis=-1)[..., ::2])
        else:
            a = a * rng.choice((1e150, -1.0, 1e-200, 1e8))
        return a
    return rng.choice(VALUES)


def calls(count: int, seed: int) -> Iterator[tuple[int, str, Call]]:
    """(number, name, call); the same for the same seed."""
    rng, world, n = random.Random(seed), World(), 0
    while n < count:
        for name, call in ((room.__name__.split("_")[0], c) for room in ROOMS for c in room(world, rng)):
            function, args, options = call
            args, options = list(args), dict(options)
            for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
                k = rng.randrange(len(args) + len(options))
                if k < len(args):
                    args[k] = spoilt(args[k], rng)
                else:
                    key = list(options)[k - len(args)]
                    options[key] = spoilt(options[key], rng)
            title = f"{name}.{getattr(function, '__qualname__', type(function).__name__).split('.')[-1]}"
            yield n, title, (function, args, options)
            n += 1
            if n >= count:
                return


# ---- judging


def has_nan(result: object, depth: int = 0) -> bool:
    """NaN among what may not have it; entries of measurements that are missing, and what failed in a batch, may."""
    if depth > 4 or isinstance(result, (str, bytes, type(None))) or callable(result):
        return False
    if isinstance(result, (float, np.floating)):
        return bool(np.isnan(result))
    if isinstance(result, np.ndarray):
        return result.dtype.kind == "f" and bool(np.isnan(result).any())
    if isinstance(result, (tuple, list)):
        return any(has_nan(x, depth + 1) for x in result)
    if isinstance(result, dict):
        return any(has_nan(x, depth + 1) for x in result.values())
    names = ("t", "q", "p", "u", "rho", "lam", "mean", "covariance", "K", "P", "X", "U", "cost")
    if isinstance(result, (da.State, da.Trajectory, da.Estimate, da.Filtered, da.Feedback)) or hasattr(
        result, "converged"
    ):
        return any(has_nan(getattr(result, name), depth + 1) for name in names if hasattr(result, name))
    return False


def judge(call: Call) -> tuple[str, str]:
    """(verdict, what happened): "ok", "refused", "nan", "untyped" or "hang"."""
    function, args, options = call

    def late(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT, 0.5)
    try:
        result = function(*args, **options)
        return ("nan", repr(result)[:200]) if has_nan(result) else ("ok", "")
    except Hang:
        return "hang", ""
    except (RuntimeError, Exception) as error:
        plain = type(error) in TYPED or isinstance(error, (da.DalembertError, OSError))
        plain = plain or type(error).__module__ == "gymnasium.error"  # of its own seeds
        return ("refused" if plain else "untyped"), f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def work(count: int, seed: int, first: int) -> None:
    """Judge the calls from `first` on; a line for each, so that the last one before a crash is known."""
    warnings.simplefilter("ignore")
    for n, name, call in calls(count, seed):
        if n < first:
            continue
        print(json.dumps(["begin", n, name]), flush=True)
        begun = time.process_time()
        verdict, what = judge(call)
        text = ""
        if verdict not in ("ok", "refused"):
            text = f"{call[1]!r:.300} {call[2]!r:.300}"
        print(json.dumps(["end", n, name, verdict, what, text, round(time.process_time() - begun, 3)]), flush=True)


def run(count: int, seed: int) -> tuple[Counter[str], dict[str, Counter[str]], list[list[Any]], float]:
    """(verdicts, verdicts by room, what is wrong, slowest call in s)."""
    total: Counter[str] = Counter()
    rooms: dict[str, Counter[str]] = {}
    wrong: list[list[Any]] = []
    first, slowest = 0, 0.0
    while first < count:
        command = [
            sys.executable,
            "-m",
            "tests.tools.fuzz",
            "--work",
            str(first),
            "--calls",
            str(count),
            "--seed",
            str(seed),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        ends = [r for r in rows if r[0] == "end"]
        if len(rows) > 2 * len(ends):  # the last call has no end
            last = rows[-1]
            ends.append(["end", last[1], last[2], "crash", f"exit code {done.returncode}", done.stderr[-300:], 0.0])
        elif done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        for row in ends:
            total[row[3]] += 1
            rooms.setdefault(row[2].split(".")[0], Counter())[row[3]] += 1
            slowest = max(slowest, row[6])
            if row[3] not in ("ok", "refused"):
                wrong.append(row)
        first = ends[-1][1] + 1
    return total, rooms, wrong, slowest


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--calls", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--work", type=int)
    given = arguments.parse_args()
    if given.work is not None:
        work(given.calls, given.seed, given.work)
        return
    total, rooms, wrong, slowest = run(given.calls, given.seed)
    kinds = ("ok", "refused", "nan", "untyped", "hang", "crash")
    print(f"{'':12}" + "".join(f"{k:>9}" for k in kinds))
    for name, row in [*sorted(rooms.items()), ("all", total)]:
        print(f"{name:12}" + "".join(f"{row[k]:9}" for k in kinds))
    print(f"slowest call: {slowest:.2f} s of CPU time")
    for row in wrong[:200]:
        print(json.dumps(row[1:6]))


if __name__ == "__main__":
    main()
