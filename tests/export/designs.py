"""Designs that the tests export: a cart with a pole, and the closed chain with a motor."""

from __future__ import annotations

import numpy as np

import dalembert as da


def cart_pole(dt: float = 0.01):
    """(vi, options of export_c): upright regulator, filter of both encoders."""
    vi = da.MidpointVI(da.models.cart_pole(), dt)
    A, B = vi.linearize(vi.state(q={"theta": np.pi}))
    gains = da.lqr_infinite(A, B, Q={"theta": 10, "*": 0.1}, R={"push": 0.1}, names=vi).K
    law = da.Feedback.at_point([0, np.pi, 0, 0], [0.0], gains, system=vi, wrap=True)
    sensor = da.measure(vi, "x", "theta", angles=("theta",))
    ekf = da.ExtendedKalmanFilter(vi, sensor, Q=1e-5, R=1e-4, gate=0.9999)
    start = np.array([0.02, np.pi + 0.25, 0.0, 0.0])
    return vi, {"ekf": ekf, "gains": law, "limits": {"push": (-10.0, 10.0)}, "start": start}


def closed_chain(
    dt: float = 0.01, *, reduced: bool | None = None, every: int = 7, steps: int = 50, whole: bool = False
):
    """(vi, options): regulator along a motion (a table), filter of two angles, both on the constraints. `whole`: the points of both loops meet in
    all three directions, which makes six constraints for seven variables, two of them redundant."""
    model, places = da.models.load_with_configurations("closed_chain")
    motor = da.ConfigForce(model.variables[0], "torque")
    across = [da.PointOnPlane(a, (0.0, 1.0, 0.0), b) for a, b in (("G", "G2"), ("O", "O2"))] if whole else []
    model = da.Model(model.frames, [*model.elements, *across, motor], name="closed_chain")
    vi = da.MidpointVI(model, dt)
    rest = vi.state(da.satisfy_constraints(model, places["q0"]))
    start = np.concatenate([rest.q, rest.p])
    system = da.System(vi, steps=steps)
    U = np.zeros((steps, 1))
    X = system.simulate(start, U)
    sensor = da.measure(system, *model.variables[:2])
    ekf = da.ExtendedKalmanFilter(system, sensor, Q=1e-6, R=1e-4, reduced=reduced)
    law = da.lqr(system, (X, U), Q=1.0, R=0.1, reduced=reduced)
    return vi, {"ekf": ekf, "gains": law, "every": every, "start": start}
