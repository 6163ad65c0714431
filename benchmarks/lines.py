"""What `python -m benchmarks --against REF` measures, and the process that measures it for one revision.

This one file runs on both revisions, so it leans on little: public names wherever they do, and for the rest several ways of
doing the same thing. A line is measured by the first way that both revisions know; what one of them cannot do at all is
"not comparable". It imports nothing of this package, only numpy and the dalembert that stands first on the path.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

Run = Callable[[int], float]  # repeats -> CPU seconds of all of them

UNJUDGED = "DALEMBERT_UNJUDGED"  # variable of the environment: steps are not judged, as before they could be
LINKS = (2, 8, 32, 128)
KERNELS = {
    "gradient": "first", "generators": "generators", "second": "second", "third": "third",
    "linearize": "linearize", "linearize after a step": "linearize_after_step",
    "second order": "second_order", "second order after a step": "second_order_after_step", "tensors": "tensors",
}  # fmt: skip
SHIPPED = (
    "pendulum", "cart_pole", "spherical_pendulum", "eight_link", "free_top", "crane", "closed_chain", "scissor_lift",
    "string_puppet", "marionette",
)  # fmt: skip


class Unable(Exception):
    """This revision does not know this way."""


# ---- machines: an integrator and a motion, made with public names


def _integrator(model: Any, dt: float, *, order: int = 2, **options: Any) -> tuple[Any, dict[str, Any]]:
    """The integrator and what its `simulate` must be told: revisions differ in who knows the order."""
    import dalembert as da

    if order == 2:
        return da.MidpointVI(model, dt, **options), {}
    if "order" in inspect.signature(da.MidpointVI.__init__).parameters:
        return da.MidpointVI(model, dt, order=order, **options), {}
    return da.MidpointVI(model, dt, **options), {"order": order}


def _machine(name: str) -> tuple[Any, Any, dict[str, Any]]:
    """(model, configuration to start from, options of the integrator)."""
    import dalembert as da
    from dalembert import models

    kind, _, size = name.partition(" ")
    if kind == "links":  # a pendulum with a motor in every joint, started with the first link level
        plain = models.n_link(int(size), inertia=0.1)
        motors = [da.ConfigForce(joint, input=f"u.{joint}") for joint in plain.variables]
        q = np.zeros(plain.nq)
        q[0] = np.pi / 2
        return da.Model(plain.frames, [*plain.elements, *motors]), q, {}
    if kind == "lift":
        n = int(size)
        return models.scissor_lift(n), models.scissor_lift_configuration(np.pi / 20, segments=n), {}
    model, configurations = models.load_with_configurations(name)
    return model, configurations["q0"], {"forcing": "left"} if name == "marionette" else {}


def _strings(name: str, model: Any, q0: Any, steps: int, dt: float = 0.01) -> dict[str, Any]:
    """Prescribed motion: the marionette walks, other machines keep theirs still."""

    if name != "marionette":
        return {}
    rho = np.tile(q0[-model.nk :], (steps, 1))
    for limb, sign in {"left_leg": -1, "right_leg": 1, "left_arm": 1, "right_arm": -1}.items():
        column = model.kinematic.index(f"{limb}_string-length")
        rho[:, column] += sign * 0.1 * np.sin(0.6 * np.pi * dt * np.arange(steps))
    return {"kinematic": rho}


@cache
def _in_motion(name: str) -> tuple[Any, Any, int]:
    """An integrator, a motion and a step of it where everything moves."""
    model, q0, options = _machine(name)
    vi, _ = _integrator(model, 0.01, **options)
    k = 100 if name == "marionette" else 10
    return vi, vi.simulate(vi.state(q=q0), steps=k + 1, **_strings(name, model, q0, k + 1)), k


@cache
def _system(name: str, steps: int) -> tuple[Any, Any, Any]:
    """A system and a motion (X, U) of it."""
    import dalembert as da

    model, q0, options = _machine(name)
    vi, _ = _integrator(model, 0.01, **options)
    motion = vi.simulate(vi.state(q=q0), steps=steps, **_strings(name, model, q0, steps))
    system = da.System(vi, steps=steps)
    return system, *system.from_trajectory(motion)


def _clocked(call: Callable[[], Any]) -> Run:
    """Repeats of a call in Python; CPU time of the process, because some calls work on a thread of their own."""

    def run(repeats: int) -> float:
        begun = time.process_time()
        for _ in range(repeats):
            call()
        return time.process_time() - begun

    return run


# ---- ways: each makes a Run, or raises


def _kernel_in_core(what: str, machine: str) -> Run:
    """Looped in the core, on the CPU clock of the thread."""
    vi, motion, k = _in_motion(machine)
    core, options = getattr(vi, "_core", None), getattr(vi, "options", None)
    if core is None or not hasattr(core, "time"):
        raise Unable("the core does not time its kernels")
    state = (0.01, motion.q[k], motion.p[k], motion.u[k], motion.q[k + 1], motion.lam[k])
    return lambda repeats: repeats * core.time(what, options, *state, repeats)


def _kernel_by_name(what: str, machine: str) -> Run:
    """The same by a public call, with its conversions."""

    system, X, U = _system(machine, 12)
    k, z = 10, np.ones(system.nx)
    calls: dict[str, Callable[[], Any]] = {
        "linearize": lambda: system.linearize(X[k], U[k], k),
        "second_order": lambda: system.second_order(X[k], U[k], k, z),
        "tensors": lambda: system.second_derivatives(X[k], U[k], k),
    }
    if what not in calls:
        raise Unable("no public call does only this")
    return _clocked(calls[what])


def _unjudged(call: Callable[..., Any]) -> dict[str, Any]:
    """What tells a call not to judge steps, where that is asked for and the revision can."""
    known = UNJUDGED in os.environ and "accuracy" in inspect.signature(call).parameters
    return {"accuracy": "ignore"} if known else {}


def _simulate(machine: str, steps: int, order: int = 2) -> Run:
    model, q0, options = _machine(machine)
    vi, more = _integrator(model, 0.01, order=order, **(options if order == 2 else {}))
    start, given = vi.state(q=q0), {**_strings(machine, model, q0, steps), **more}
    given |= _unjudged(vi.simulate)
    return _clocked(lambda: vi.simulate(start, steps=steps, **given))


def _along(what: str, machine: str, steps: int) -> Run:
    """Derivatives along a motion, on one thread."""

    system, X, U = _system(machine, steps)
    if what == "linearize":
        return _clocked(lambda: system.linearize_trajectory(X, U, threads=1))
    if what == "second order":
        Z = np.ones((steps, system.nx))
        return _clocked(lambda: system.second_order_trajectory(X, U, Z, threads=1))
    K = np.zeros((steps, system.nu, system.nx))
    return _clocked(lambda: system.project(X, U, K))


def _rollouts(size: int, count: int, steps: int, lanes: bool) -> Run:
    import dalembert as da

    model, q0, _ = _machine(f"links {size}")
    vi, _ = _integrator(model, 0.01)
    starts = [vi.state(q=np.r_[q0[0] + x, q0[1:]]) for x in np.linspace(-0.1, 0.1, count)]
    given = _unjudged(da.rollouts)
    return _clocked(lambda: da.rollouts(vi, starts, steps, threads=1, lanes=lanes, **given))


def _filter(trials: int, steps: int) -> Run:
    import dalembert as da
    from dalembert import models

    vi, _ = _integrator(models.cart_pole(), 0.02)
    system = da.System(vi, steps=steps)
    U = np.zeros((steps, 1))
    X = system.simulate(system.x({"theta": 1.0}), U)
    kalman = da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=1e-6, R=0.01)
    return _clocked(lambda: da.monte_carlo(kalman, (X, U), trials=trials, P0=0.01, threads=1))


def _gains(machine: str, steps: int, in_core: bool) -> Run:

    system, X, U = _system(machine, steps)
    A, B = system.linearize_trajectory(X, U, threads=1)
    Q, R = np.eye(system.nx), np.eye(system.nu)
    if not in_core:
        import dalembert as da

        return _clocked(lambda: da.solve_lq(A, B, Q, R, Q))
    from dalembert import _core

    if not hasattr(_core, "riccati"):
        raise Unable("the core has no `riccati`")
    return _clocked(lambda: _core.riccati(A, B, Q, R, Q, steps))


def _swing_up() -> Run:
    import dalembert as da
    from dalembert import models

    vi, _ = _integrator(models.pendulum(), 0.1, forcing="left")
    system = da.System(vi, steps=100)
    Xd = np.zeros((101, 2))
    Xd[50:, 0] = np.pi
    cost = da.TrackingCost((Xd, np.zeros((100, 1))), Q=[1000.0, 1.0], R=[50.0])
    return _clocked(lambda: da.optimize(system, cost, (np.zeros((101, 2)), np.zeros((100, 1)))))


# ---- the list


def lines() -> dict[str, dict[str, Callable[[], Run]]]:
    """Name -> {way: what makes its Run}, the way to prefer first."""

    def kernels(machine: str) -> Iterator[tuple[str, dict[str, Callable[[], Run]]]]:
        for label, what in KERNELS.items():
            if label == "tensors" and machine == "links 128":
                continue  # a second per call
            yield (
                f"{label}, {machine}",
                {
                    "in the core": lambda what=what: _kernel_in_core(what, machine),
                    "public call": lambda what=what: _kernel_by_name(what, machine),
                },
            )

    out: dict[str, dict[str, Callable[[], Run]]] = {}
    machines = [*(f"links {n}" for n in LINKS), "lift 5", "lift 20", "closed_chain", "marionette"]
    for machine in machines:
        out.update(kernels(machine))
    for machine in machines:
        steps = 20 if machine in ("links 128", "lift 20") else 100
        out[f"step, {machine}"] = {"simulate": lambda m=machine, n=steps: _simulate(m, n)}
    for name in SHIPPED:
        out[f"simulate, {name}"] = {"simulate": lambda m=name: _simulate(m, 100)}
    for order in (4, 6):
        for machine in ("links 8", "lift 5", "marionette"):
            out[f"simulate at order {order}, {machine}"] = {
                "simulate": lambda m=machine, n=order: _simulate(m, 20, n),
            }
    for what in ("linearize", "second order", "project"):
        for machine in ("links 8", "lift 5", "marionette"):
            out[f"{what} along a motion, {machine}"] = {
                "System": lambda w=what, m=machine: _along(w, m, 20),
            }
    out["rollouts in lanes, links 8"] = {"rollouts": lambda: _rollouts(8, 64, 50, True)}
    out["rollouts one by one, links 8"] = {"rollouts": lambda: _rollouts(8, 16, 50, False)}
    out["EKF, 64 trials of the cart-pole"] = {"monte_carlo": lambda: _filter(64, 100)}
    for machine in ("links 8", "marionette"):
        out[f"Riccati, {machine}"] = {
            "in the core": lambda m=machine: _gains(m, 20, True),
            "public call": lambda m=machine: _gains(m, 20, False),
        }
    out["optimize, swing-up"] = {"optimize": _swing_up}
    return out


# ---- the process


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints must not end up among the answers
    package = sys.argv[1]
    # an editable installation would win over the path
    sys.meta_path[:] = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
    sys.path.insert(0, package)
    gc.disable()
    runs: dict[tuple[str, str], Run] = {}
    for request in map(json.loads, sys.stdin):
        try:
            answers.write(json.dumps(_answer(request, runs, package)) + "\n")
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
            answers.write(json.dumps({"error": text.replace("\n", " ")[:300]}) + "\n")
        answers.flush()


def _answer(request: dict[str, Any], runs: dict[tuple[str, str], Run], package: str) -> Any:
    """ways: which ways of a line work here and why the others do not; run: seconds per repeat; drop: forget a line."""
    if request["do"] == "ways":
        import dalembert

        found = os.path.realpath(os.path.join(os.path.dirname(dalembert.__file__), ".."))
        if found != os.path.realpath(package):
            raise ImportError(f"dalembert comes from {found}")
        reasons = {}
        for way, make in lines()[request["line"]].items():
            try:
                run = make()
                run(1)
                runs[request["line"], way] = run
                reasons[way] = ""
            except Exception as error:
                reasons[way] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return reasons
    if request["do"] == "run":
        run, repeats = runs[request["line"], request["way"]], request["repeats"]
        # the quickest of several: the first finds the cache as the other process left it, any may be interrupted
        return min(run(repeats) for _ in range(request["tries"])) / repeats
    runs.clear()
    gc.collect()
    return None


if __name__ == "__main__":
    main()
