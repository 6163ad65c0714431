"""dalembert itself, with the plain baselines that its fast paths replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

import dalembert as da
from dalembert import models

from .. import machines
from . import Case


def version() -> str:
    from dalembert import _core

    return f"{da.__version__} ({_core.kernels()} kernels)"


def _vi(
    machine: str,
    size: int,
    dt: float,
    plain: bool = False,
    inputs: bool = False,
    loose: bool = False,
    power: int = 2,
    gauss: bool = False,
) -> tuple[Any, Any, np.ndarray]:
    """(integrator, start, order of the links)."""
    m = getattr(machines, machine)(size)
    model = machines.to_dalembert(m, inputs=inputs)
    order = machines.from_model_order(m, model)
    q0 = np.empty(m.n)
    q0[order] = m.q0
    # pivoted dense solves of closed chains stall a little above the default tolerance
    options: dict[str, Any] = {"tolerance": 1e-12 if gauss else 1e-10} if plain or loose else {}
    if plain:
        options["plain"] = True
    vi = (da.GaussVI if gauss else da.MidpointVI)(model, dt, order=power, **options)
    return vi, vi.state(q=q0), order


def rollout(
    machine: str, size: int, dt: float, steps: int, every: int, method: str = "vi", accuracy: str = "warn"
) -> Case:
    """Methods "vi", "order 4", "order 6", "gauss 4", "gauss 6", "gauss 8", "plain" (dense KKT matrix, full Newton, pivoting).

    With "loose" (alone or behind one of them) at a tolerance of 1e-10, Gauss steps at 1e-12: their energy does not drift there.
    `accuracy`: whether steps are judged, as in `simulate`.
    """
    kind, *number = method.removesuffix("loose").split() or ["vi"]
    power = int(number[0]) if number else 2
    loose = method.endswith("loose")
    vi, start, order = _vi(machine, size, dt, kind == "plain", loose=loose, power=power, gauss=kind == "gauss")

    def read(t: Any) -> dict[str, Any]:
        h = np.abs(t.constraint_violation()[1:]).max() if vi.model.nc else 0.0
        return {
            "q": t.q[1:, order],
            "v": t.v[1:][:, order],
            "iterations": float(t.iterations.mean()),
            "violation": float(h),
        }

    return Case(lambda: vi.simulate(start, steps=steps, every=every, accuracy=accuracy), read)


def reference(machine: str, size: int, time: float) -> Case:
    """The configuration at a time, by DOP853 at 1e-13."""
    vi, start, order = _vi(machine, size, 0.01)
    t = np.array([0.0, time])

    def run() -> Any:
        return da.simulate_continuous(vi.model, start.q, np.zeros(vi.model.nq), t, rtol=1e-13, atol=1e-14)

    return Case(run, lambda s: {"q": s.q[-1, order], "v": s.v[-1, order]})


def energies(machine: str, size: int, states: Any) -> np.ndarray:
    """Total energy of states {"q": (N, n), "v": (N, n)} in the order of the links, minus that of the start."""
    vi, start, order = _vi(machine, size, 0.01)
    back = np.argsort(order)
    q, v = (np.ascontiguousarray(np.asarray(states[k], dtype=float)[:, back]) for k in "qv")
    first = da.potential_energy(vi.model, start.q)
    return np.asarray(da.kinetic_energy(vi.model, q, v) + da.potential_energy(vi.model, q) - first)


def violation(machine: str, size: int, q: Any) -> float:
    """Largest constraint violation (m) of configurations in the order of the links."""
    vi, _, order = _vi(machine, size, 0.01)
    x = np.ascontiguousarray(np.asarray(q, dtype=float)[:, np.argsort(order)])
    return float(np.abs(da.constraints(vi.model, x)).max())


def holding_forces(machine: str, size: int, q: Any) -> list[float]:
    """Forces in the order of the links that hold a configuration against gravity."""
    vi, _, order = _vi(machine, size, 0.01)
    x = np.empty(len(order))
    x[order] = q
    return [float(f) for f in da.potential_gradient(vi.model, x)[order]]


# ---- derivatives of a step


def _marionette(steps: int = 101) -> tuple[Any, Any]:
    """Integrator and the first second of its walk."""
    model, configurations = models.load_with_configurations("marionette")
    q0 = configurations["q0"]
    vi = da.MidpointVI(model, 0.01, forcing="left")
    rho = np.tile(q0[model.nd :], (steps, 1))
    t = 0.01 * np.arange(steps)
    for limb, sign in {"left_leg": -1, "right_leg": 1, "left_arm": 1, "right_arm": -1}.items():
        rho[:, model.index(f"{limb}_string-length") - model.nd] += sign * 0.1 * np.sin(0.6 * np.pi * t)
    return vi, vi.simulate(vi.state(q=q0, q0=q0), steps=steps, kinematic=rho)


def _step_of(machine: str, size: int) -> tuple[Any, tuple[Any, ...]]:
    """An integrator and the arguments (dt, q, p, u, q', lambda) of a step in motion."""
    if machine == "marionette":
        vi, motion = _marionette()
        k = 100
        return vi, (0.01, motion.q[k], motion.p[k], motion.u[k], motion.q[k + 1], motion.lam[k])
    vi, start, _ = _vi(machine, size, 0.01, inputs=machine != "scissor")
    motion = vi.simulate(start, steps=11)
    return vi, (0.01, motion.q[10], motion.p[10], motion.u[10], motion.q[11], motion.lam[10])


def kernel(what: str, machine: str, size: int, repeats: int) -> Case:
    """A single kernel of the core (first, second, third, linearize, second_order, ...), looped inside of it."""
    vi, (dt, q, p, u, y, lam) = _step_of(machine, size)

    def run() -> dict[str, float]:
        return {"seconds": vi._core.time(what, vi.options, dt, q, p, u, y, lam, repeats)}

    return Case(run, lambda _: {})


def step(machine: str, size: int, repeats: int = 100) -> Case:
    """One step of a motion, without Python: a rollout of `repeats` steps."""
    if machine == "marionette":
        vi, motion = _marionette(repeats)
        start, rho = vi.state(q=motion.q[0], p=motion.p[0]), motion.rho
        return Case(lambda: vi.simulate(start, steps=repeats, kinematic=rho), lambda _: {})
    vi, start, _ = _vi(machine, size, 0.01)
    return Case(lambda: vi.simulate(start, steps=repeats), lambda _: {})


def linearize(machine: str, size: int, steps: int, fd: bool = False) -> Case:
    """A, B along a trajectory (including what is needed to recover the multipliers), per call of the core; or by finite
    differences of the step. `error`: against extrapolated differences of the step."""
    vi, start, _ = _vi(machine, size, 0.01, inputs=True)
    system = da.System(vi, steps=steps)
    U = np.zeros((steps, system.nu))
    X = system.simulate(np.concatenate([start.q, start.p]), U)

    def differences(k: int, h: float) -> np.ndarray:
        w = np.concatenate([X[k], U[k]])
        nx = system.nx
        columns = []
        for i in range(len(w)):
            d = np.zeros(len(w))
            d[i] = h
            ahead, behind = system.f((w + d)[:nx], (w + d)[nx:], k), system.f((w - d)[:nx], (w - d)[nx:], k)
            columns.append((ahead - behind) / (2 * h))
        return np.array(columns).T

    def by_differences() -> Any:
        both = differences(steps - 1, 1e-6)
        return both[None, :, : system.nx], both[None, :, system.nx :]

    def read(out: Any) -> dict[str, Any]:
        h = 2e-2
        rough = [differences(steps - 1, h / 2**i) for i in range(3)]
        exact = (64 * rough[2] - 20 * rough[1] + rough[0]) / 45
        found = np.hstack([out[0][-1], out[1][-1]])
        return {"error": float(np.abs(found - exact).max() / np.abs(exact).max())}

    return Case(by_differences if fd else lambda: system.linearize_trajectory(X, U, threads=1), read)


def second_order(machine: str, size: int, full: bool, repeats: int) -> Case:
    """Second derivatives of a step: contracted with one costate, or all tensors."""
    vi, (dt, q, p, u, y, lam) = _step_of(machine, size)
    rows = 2 * vi.model.nd + vi.model.nc
    unit = np.eye(rows) if full else np.ones((1, rows))

    def run() -> Any:
        for _ in range(repeats):
            vi._core.second_order(vi.options, dt, q, p, u, y, lam, unit)

    return Case(run)


# ---- optimization, estimation, batches


def optimize_paper(which: str) -> Case:
    """The papers' problems: swing-up, cart-pendulum tipping, marionette walk."""
    from dalembert.models import cart_pole, pendulum

    if which == "swing_up":
        system = da.System(da.MidpointVI(pendulum(), 0.1, forcing="left"), steps=100)
        Xd = np.zeros((101, 2))
        Xd[50:, 0] = np.pi
        cost: Any = da.TrackingCost((Xd, np.zeros((100, 1))), Q=[1000.0, 1.0], R=[50.0])
        start: Any = (np.zeros((101, 2)), np.zeros((100, 1)))
    elif which == "tipping":
        system = da.System(da.MidpointVI(cart_pole(), 0.1, forcing="left"), steps=100)
        t = system.t
        peak = 7 * np.pi / 8
        theta = np.where((t >= 3) & (t < 7), np.pi + (peak - np.pi) * np.sin(np.pi / 4 * (t - 3)), np.pi)
        cost = da.TrackingCost({"theta": theta}, Q={"x": 100.0, "theta": 50000.0, "*": 0.1}, R=1.0)
        start = (np.tile([0.0, np.pi, 0.0, 0.0], (101, 1)), np.zeros((100, 1)))
    else:
        steps = 1001
        vi, walk = _marionette(steps)
        model = vi.model
        q0 = walk.q[0]
        hang = vi.simulate(vi.state(q=q0), steps=steps)
        system = da.System(vi, t=walk.t)
        Xd, Ud = system.from_trajectory(walk)
        Xd[:, model.nq :] = 0.0
        weights = np.ones(system.nx)
        weights[: model.nd] = 100.0
        cost = da.TrackingCost((Xd, np.zeros_like(Ud)), Q=weights, R=0.1)
        start = system.from_trajectory(hang)

    def read(r: Any) -> dict[str, Any]:
        return {"iterations": r.iterations, "cost": r.cost, "status": r.status}

    return Case(lambda: da.optimize(system, cost, start, method="projection"), read)


def optimize(machine: str, size: int, problem: dict[str, Any]) -> Case:
    """A problem that Crocoddyl solves too: go from q0 to `goal` in `knots` steps with quadratic costs."""
    m = getattr(machines, machine)(size)
    model = machines.to_dalembert(m, inputs=True)
    order = machines.from_model_order(m, model)
    N, n = problem["knots"], m.n
    vi = da.MidpointVI(model, problem["dt"])
    system = da.System(vi, steps=N)

    def states(q: Any) -> np.ndarray:
        x = np.zeros(2 * n)
        x[order] = q
        return x

    def weights(position: float, momentum: float) -> np.ndarray:
        return np.diag([position] * n + [momentum] * n)

    forces = np.empty(n)
    forces[[model.inputs.index(f"u.{link.name}") for link in m.links]] = problem["effort"]
    dt = problem["dt"]
    cost = da.TrackingCost(
        (np.tile(states(problem["goal"]), (N + 1, 1)), np.zeros((N, n))),
        Q=dt * weights(*problem["running"]), R=dt * np.diag(forces), Qf=weights(*problem["final"]),
    )  # fmt: skip
    guess = np.empty(n)
    guess[[model.inputs.index(f"u.{link.name}") for link in m.links]] = problem["guess"]
    U = np.tile(guess, (N, 1))
    X = system.simulate(states(problem["start"]), U)

    def run() -> Any:
        return da.optimize(system, cost, (X, U), tolerance=1e-6, max_iterations=problem["limit"])

    def read(r: Any) -> dict[str, Any]:
        costs = [row.cost for row in r.history[1:]]  # after each iteration
        return {"iterations": r.iterations, "cost": r.cost, "status": r.status, "costs": costs}

    return Case(run, read)


def two_link(steps: int, solver: str, warm: bool) -> Case:
    """DMOC of the two-link pendulum (Leyendecker et al., section 7.1)."""
    rod = {"mass": 1.0, "inertia": (0.0, 1 / 12, 1 / 12)}
    second = da.tx(1.0, da.rz("b", da.tx(0.5, name="second", **rod)))
    model = da.Model(
        [da.rz("a", da.tx(0.5, name="first", **rod), second)],
        [da.Gravity((0, -9.81, 0)), da.ConfigForce("a", "base"), da.ConfigForce("b", "joint")],
    )
    problem: dict[str, Any] = {
        "start": {"q": [-np.pi / 2, 0.0], "v": [0.0, 0.0]}, "goal": {"q": [np.pi / 2, 0.0], "v": [0.0, 0.0]}, "time": 1.0,
    }  # fmt: skip
    guess = None
    if warm:
        guess = da.dmoc(model, steps=steps // 8, guess=da.dmoc(model, steps=steps, **problem), **problem)

    def read(r: Any) -> dict[str, Any]:
        return {"objective": r.objective, "iterations": r.iterations, "setup": r.setup_time, "success": bool(r.success)}

    return Case(lambda: da.dmoc(model, steps=steps, solver=solver, guess=guess, **problem), read)


def ekf(trials: int, steps: int, threads: int = 1) -> Case:
    """A Monte-Carlo study of the extended Kalman filter on the cart-pole: 4 states, both coordinates measured."""
    vi = da.MidpointVI(models.cart_pole(), 0.02)
    system = da.System(vi, steps=steps)
    U = np.zeros((steps, 1))
    X = system.simulate(system.x({"theta": 1.0}), U)
    kalman = da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=1e-6, R=0.01)

    def run() -> Any:
        return da.monte_carlo(kalman, (X, U), trials=trials, P0=0.01, threads=threads)

    return Case(run, lambda s: {"error": s.average})


def rollouts(machine: str, size: int, dt: float, steps: int, count: int, threads: int, lanes: bool = True) -> Case:
    """Many starting states, on threads and SIMD lanes."""
    vi, start, order = _vi(machine, size, dt)
    offsets = np.linspace(-0.1, 0.1, count)
    q = np.tile(start.q, (count, 1))
    q[:, order[0]] += offsets
    starts = [vi.state(q=x) for x in q]

    def run() -> Any:
        return da.rollouts(vi, starts, steps, threads=threads, lanes=lanes)

    return Case(run, lambda b: {"shape": list(b.q.shape), "failed": len(b.failed)})


def build(machine: str, size: int) -> Case:
    """Model, compiled core and integrator from Python objects."""
    return Case(lambda: _vi(machine, size, 0.01)[0])


def closed_chain(dt: float, steps: int, plain: bool = False) -> Case:
    """The closed-chain device of Scalable variational integrators, Listing 1."""
    model, configurations = models.load_with_configurations("closed_chain")
    options: dict[str, Any] = {"plain": True, "tolerance": 1e-10} if plain else {}
    vi = da.MidpointVI(model, dt, **options)
    start = vi.state(q=configurations["q0"])

    def read(t: Any) -> dict[str, Any]:
        e = t.energy()
        return {
            "energy_error": float(np.abs(e - e[0]).max()), "drift": float(e[-len(e) // 10 :].mean() - e[: len(e) // 10].mean()),
            "violation": float(np.abs(t.constraint_violation()[1:]).max()), "iterations": float(t.iterations.mean()),
        }  # fmt: skip

    return Case(lambda: vi.simulate(start, steps=steps), read)


def rolling_disk(dt: float, time: float, order: int, tolerance: float) -> Case:
    """A disk that rolls and falls: the place of its centre at the end, and with what velocities it began (world axes)."""
    disk = da.floating("b", name="disk", mass=1.0, inertia=machines.DISK_INERTIA)
    model = da.Model([disk], [da.Gravity((0, 0, -machines.GRAVITY)), da.RollingDisk("disk", machines.DISK_RADIUS)])
    vi = da.MidpointVI(model, dt, order=order, tolerance=tolerance)
    lean = machines.DISK_LEAN
    turned = da.rotation.exponential(np.array([lean, 0.0, 0.0]))
    q = model.configuration.point({"b": turned, "b.z": machines.DISK_RADIUS * np.cos(lean)})
    v = da.consistent_velocity(model, q, np.array([0, 0, 0, *machines.DISK_RATES]))
    start, steps = vi.state(q=q, v=v), round(time / dt)

    def read(motion: Any) -> dict[str, Any]:
        rates = da.pose(model, q, "disk")[:3, :3] @ v[3:6]
        return {"end": motion.q[-1, :3], "velocity": v[:3], "rates": rates}

    return Case(lambda: vi.simulate(start, steps, every=steps, accuracy="ignore"), read)


def tumbling(dt: float, time: float, order: int) -> Case:
    """A free body without forces: its rotation matrix at the end."""
    body = da.floating("b", name="body", mass=1.0, inertia=machines.BODY_INERTIA)
    vi = da.MidpointVI(da.Model([body]), dt, order=order)
    rates = dict(zip(("b.wx", "b.wy", "b.wz"), machines.BODY_RATES, strict=True))
    start, steps = vi.state(v=rates), round(time / dt)

    def read(motion: Any) -> dict[str, Any]:
        return {"end": da.rotation.matrix(motion.q[-1, 3:7])}

    return Case(lambda: vi.simulate(start, steps, accuracy="ignore"), read)
