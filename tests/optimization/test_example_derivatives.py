"""Derivative checks for every example and method, in discrete time and in continuous time, to 1e-5."""

import functools
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.optimization import ContinuousSystem, Discrete, TrackingCost, optimize, with_inputs

from . import problems
from .derivatives import check_direction, check_random

EXAMPLES = Path(__file__).parents[2] / "examples"
METHODS = ["steepest", "quasi", "newton", "auto"]


def example(name):
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES))


# ---- discrete time: (system, cost, start)


def inversion():
    stage = example("cart_pendulum_inversion").stages()[1]
    return stage.system, stage.cost, (np.zeros((1000, 4)), np.zeros((999, 2)))


def string_robot():
    module = example("string_robot")
    system = da.System(da.MidpointVI(models.crane(), dt=module.DT), steps=module.STEPS)
    Xd, Ud = module.wish()
    cost = TrackingCost((Xd, Ud), Q=[100.0, 100.0, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5], R=[0.1, 0.1])
    return system, cost, (np.tile(Xd[0], (module.STEPS + 1, 1)), np.tile(Ud[0], (module.STEPS, 1)))


def motion_capture():
    module = example("marionette_mocap")
    return module.problem(module.RECORDING, 0.2)[:3]


DISCRETE = {
    "swing-up": lambda: example("pendulum_swing_up").problem(),
    "tipping": lambda: example("cart_pendulum_tipping").problem()[:3],
    "inversion with helper": inversion,
    "string robot": string_robot,
    "marionette walk": lambda: example("marionette_walk").problem(20)[:3],
    "motion capture": motion_capture,
}


@functools.cache
def discrete(name):
    """One Gauss-Newton step from the start: a motion that is neither at rest nor an optimum."""
    system, cost, start = DISCRETE[name]()
    first = optimize(system, cost, start, method="quasi", max_iterations=1)
    return system, cost.bind(system), first.X, first.U


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name, method):
    system, cost, X, U = discrete(name)
    problem = Discrete(system, cost, gains="lq" if method == "auto" else "lqr")
    p = problem.point(X, U)
    check_direction(problem, p, method)
    if method in ("newton", "auto"):  # the projection's own derivatives, with both kinds of gains
        check_random(problem, p)


# ---- continuous time: (model, times, cost, x0)


def continuous_swing_up(t):
    return problems.pendulum(), TrackingCost({"theta": np.where(t < 5, 0.0, np.pi)}, [100.0, 0.1], 5.0), np.zeros(2)


def continuous_tipping(t):
    angle = np.where((t >= 3) & (t < 7), np.pi - np.pi / 8 * np.sin(np.pi / 4 * (t - 3)), np.pi)
    return models.cart_pole(), TrackingCost({"theta": angle}, {"theta": 50.0, "*": 0.1}, 1.0), [0.0, np.pi, 0.0, 0.0]


def continuous_inversion(t):
    model = with_inputs(problems.cart_pendulum(cart=10.0, damping=0.01), {"theta": "helper"})
    return (
        model,
        TrackingCost({"theta": example("continuous_vs_discrete").angle(t)}, {"theta": 10.0, "*": 0.1}, 0.1),
        np.zeros(4),
    )


def continuous_kinematic(t):
    return problems.driven_pendulum(), TrackingCost({"theta": np.sin(t), "x": 0.3}, 1.0, 1.0), [0.4, 0.0, 0.0, 0.0]


def continuous_constraint(t):
    return problems.hanging(), TrackingCost({"x": 0.5 * np.sin(t)}, 1.0, 1.0), [0.6, -0.8, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def continuous_marionette(t):
    model, configurations = models.load_with_configurations("marionette")
    cost = TrackingCost({"relbow_rx": -1.0}, dict.fromkeys(model.dynamic, 10.0) | {"*": 0.1}, 1.0)
    return model, cost, np.concatenate([configurations["q0"], np.zeros(model.nq)])


CONTINUOUS = {
    "swing-up": (continuous_swing_up, 0.1, 100),
    "tipping": (continuous_tipping, 0.1, 100),
    "inversion with helper": (continuous_inversion, 0.05, 200),
    "kinematic input": (continuous_kinematic, 0.1, 20),
    "constraint": (continuous_constraint, 0.05, 20),
    "marionette": (continuous_marionette, 0.01, 4),
}


@functools.cache
def continuous(name):
    make, dt, steps = CONTINUOUS[name]
    t = dt * np.arange(steps + 1)
    model, cost, x0 = make(t)
    system = ContinuousSystem(model, t)
    U = 0.1 * np.sin(t[:, None] + np.arange(system.nu))
    start = (np.tile(x0, (steps + 1, 1)), U)
    if model.nc:
        start = (system.simulate(x0, U), U)
    first = optimize(system, cost, start, method="quasi", max_iterations=1, projection=(0.01, 1.0))
    return system, cost.bind(system.cost_system), first.X, first.U


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name, method):
    system, cost, X, U = continuous(name)
    problem = system.optimization_problem(cost, gains="lq" if method == "auto" else "lqr", weights=(0.01, 1.0))
    p = problem.point(X, U)
    check_direction(problem, p, method)
    if method in ("newton", "auto"):
        check_random(problem, p)
