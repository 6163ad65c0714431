"""How steps, derivatives and calls grow: `python -m benchmarks.scale [lifts] [bars] [nets] [chains] [calls] [--peer SRC]`.

Prints one table per name (all without a name). Times are CPU time in one process, best of several; on a shared machine
compare ratios only. `--peer` runs the same in interleaved processes with another source tree in front of the path, and prints both.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import dalembert as da
from dalembert import models


def best(run: Callable[[], object], seconds: float = 0.3, least: int = 3) -> float:
    """Microseconds of the fastest of several calls."""
    found, start, count = 1e9, time.perf_counter(), 0
    while count < least or time.perf_counter() - start < seconds:
        t = time.process_time_ns()
        run()
        found = min(found, (time.process_time_ns() - t) / 1e3)
        count += 1
    return found


def measured(make: Callable[[], tuple[da.Model, np.ndarray]], *, dt: float = 0.005, steps: int = 200) -> str:
    """Building, steps, linearization of one model."""
    t = time.process_time()
    model, q = make()
    vi = da.MidpointVI(model, dt)
    built = time.process_time() - t
    start = vi.state(q=q, v=np.zeros(model.nv))
    motion = vi.simulate(start, steps=steps, accuracy="ignore")
    step = best(lambda: vi.simulate(start, steps=steps, accuracy="ignore")) / steps
    first = best(lambda: vi.linearize(motion[steps // 2]))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{step:10.1f} us/step {np.mean(motion.iterations):5.2f} iterations {first / 1e3:9.3f} ms A, B "
        f"{built * 1e3:8.0f} ms to build {memory:6.0f} MB at most"
    )


def lift(segments: int) -> tuple[da.Model, np.ndarray]:
    """A scissor lift."""
    return models.scissor_lift(segments), models.scissor_lift_configuration(0.6, segments=segments)


def four_bars(count: int) -> tuple[da.Model, np.ndarray]:
    """Parallelograms one below the other, each hanging from the coupler of the one above."""
    frame: da.Frame | None = None
    pins = []
    for i in range(count - 1, -1, -1):
        below = () if frame is None else (da.tz(-0.2, frame),)
        coupler = da.ry(f"c{i}", da.tx(1.0, name=f"end{i}", mass=0.5), *below, name=f"coupler{i}", mass=0.3)
        right = da.tx(1.0, da.ry(f"b{i}", da.tz(-1.0, name=f"tip{i}", mass=0.2)))
        frame = da.tx(0.0, da.ry(f"a{i}", da.tz(-1.0, coupler, mass=0.2)), right)
        pins.append(da.PointToPoint(f"end{i}", f"tip{i}", "xz"))
    assert frame is not None
    model = da.Model([frame], [da.Gravity(), *reversed(pins)])
    q = np.zeros(model.nq)
    for i in range(count):
        turn = 0.3 * (-1) ** i
        q[model.index(f"a{i}")], q[model.index(f"b{i}")], q[model.index(f"c{i}")] = turn, turn, -turn
    return model, q


def net(columns: int, rows: int) -> tuple[da.Model, np.ndarray]:
    """Hanging chains of point masses, side by side, with rods between them."""

    def chain(c: int) -> da.Frame:
        frame: da.Frame | None = None
        for r in range(rows - 1, -1, -1):
            below = () if frame is None else (frame,)
            frame = da.ry(f"q{c}_{r}", da.tz(-1.0, *below, name=f"n{c}_{r}", mass=1.0))
        assert frame is not None
        return da.tx(float(c), frame)

    rods = [da.Distance(f"n{c}_{r}", f"n{c + 1}_{r}", 1.0) for c in range(columns - 1) for r in range(rows)]
    model = da.Model([chain(c) for c in range(columns)], [da.Gravity(), *rods])
    q = np.zeros(model.nq)
    for c in range(columns):
        q[model.index(f"q{c}_0")] = 0.2  # all chains swing side by side
    return model, q


def lifts() -> None:
    """Scissor lifts."""
    for n in (5, 10, 20, 50, 100, 200):
        print(f"lift {n:4d}", measured(partial(lift, n)), flush=True)


def bars() -> None:
    """Chains of four-bars."""
    for n in (5, 25, 50, 100, 200):
        print(f"four-bars {n:4d}", measured(partial(four_bars, n), dt=0.002, steps=40), flush=True)


def nets() -> None:
    """Square nets."""
    for n in (4, 9, 20):
        print(f"net {n:2d} x {n:2d}", measured(partial(net, n, n), dt=0.002, steps=40), flush=True)


def velocity(state: da.State) -> np.ndarray:
    """What belongs to a momentum."""
    return state.v


def chains() -> None:
    """A, B and velocities of open chains."""
    for n in (8, 32, 64, 128, 500, 1000):
        model = models.n_link(n)
        vi = da.MidpointVI(model, 0.001)
        state = vi.state(q=np.linspace(0.5, 0.1, n), v=np.linspace(0.0, 0.5, n))
        first, step, back = (
            best(partial(vi.linearize, state)),
            best(partial(vi.step, state)),
            best(partial(velocity, state)),
        )
        print(f"chain {n:5d} {step:9.1f} us/step {first:11.1f} us A, B {back:9.1f} us v of p", flush=True)


def calls() -> None:
    """One call from Python each, on a cart-pole; with mujoco installed also in units of its `mj_step`, interleaved."""
    model = models.cart_pole()
    vi = da.MidpointVI(model, 0.01)
    state, u = vi.state(q=[0.0, 0.3], v=[0.0, 0.0]), np.array([0.5])
    system = da.System(vi, steps=200)
    x = system.x(q=[0.0, 0.3], v=[0.0, 0.0])
    kalman = da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=1e-4, R=1e-2)
    estimate, z = kalman.start(x, 0.1), np.array([0.01, 0.29])
    U, Z = np.tile(u, (200, 1)), np.tile(z, (201, 1))
    runs: dict[str, tuple[Callable[[], object], int]] = {
        "vi.step": (lambda: vi.step(state, u), 1),
        "vi.linearize": (lambda: vi.linearize(state, u), 1),
        "System.f": (lambda: system.f(x, u), 1),
        "System.linearize": (lambda: system.linearize(x, u), 1),
        "System.advance": (lambda: system.advance(x, u), 1),
        "policy, per step": (lambda: vi.simulate(state, 200, u=lambda t, s: u, accuracy="ignore"), 200),
        "Kalman filter, predict and update": (lambda: kalman.update(kalman.predict(estimate, u), z), 1),
        "Kalman filter, a record, per step": (lambda: kalman.run(estimate, U, Z), 200),
    }
    try:
        import mujoco
    except ImportError:
        pass
    else:
        pole = mujoco.MjModel.from_xml_string(
            "<mujoco><option timestep='0.01'/><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom size='.1'/>"
            "<body><joint type='hinge' axis='0 1 0'/><geom type='capsule' fromto='0 0 0 0 0 -1' size='.02'/></body></body></worldbody>"
            "<actuator><motor joint='x'/></actuator></mujoco>"
        )
        data = mujoco.MjData(pole)
        runs = {"mj_step": (lambda: mujoco.mj_step(pole, data), 1)} | runs
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(15):
        for name, (run, steps) in runs.items():
            repeats = max(1, 400 // steps)
            begun = time.process_time()
            for _ in range(repeats):
                run()
            found[name].append((time.process_time() - begun) / (repeats * steps) * 1e6)
    unit = min(found.get("mj_step", [float("nan")]))
    for name, times in found.items():
        print(f"{name:34} {min(times):8.2f} us {min(times) / unit:8.2f} mj_step")


TABLES = {f.__name__: f for f in (lifts, bars, nets, chains, calls)}


def main(words: list[str]) -> None:
    """As the head of this file says."""
    if "--peer" in words:
        at = words.index("--peer")
        names = [w for i, w in enumerate(words) if i not in (at, at + 1)] or list(TABLES)
        for name in names:
            for label, path in (("this", None), ("peer", words[at + 1])):
                print(f"# {name}, {label}", flush=True)
                environment = os.environ | ({"PYTHONPATH": path} if path else {})
                subprocess.run([sys.executable, __file__, name], env=environment, check=False)
        return
    for name in words or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
