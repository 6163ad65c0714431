"""Ctrl-C and other signals in long calls: answered at once, never swallowed, and nothing that was computed is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

import dalembert as da
from dalembert import models

ANSWER = 0.2  # seconds of work that a call may still do, per core


@contextmanager
def interrupt(after: float) -> Iterator[list[float]]:
    """SIGINT after so many seconds, and so many of computing; the list then has the CPU time at which it was sent. One that comes when all is
    over is dropped. (Threads of BLAS that wait for work compute, too, so that the clock may be behind: in its first half second Ctrl-C is raised.)"""
    sent: list[float] = []
    begun, clock, over = time.process_time(), time.perf_counter(), threading.Event()

    def answer(number: int, frame: FrameType | None) -> None:
        if not over.is_set():
            signal.default_int_handler(number, frame)

    def send() -> None:
        while time.process_time() < begun + after or time.perf_counter() < clock + after:
            if over.wait(0.005):
                return
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, answer)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield sent
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGINT, before)


def chain(n: int, order: int = 2, **options: float) -> da.MidpointVI:
    return da.MidpointVI(models.n_link(n, **options), 1e-3, order=order)


def riccati() -> None:
    n = 150
    da.solve_lq(np.eye(n) + 0.01, np.ones((n, 4)), np.eye(n), np.eye(4), np.eye(n), steps=3000)


def along(what: str, n: int, steps: int, order: int = 2) -> Callable[[], None]:
    def run() -> None:
        system = da.System(chain(n, order), steps=steps)
        x = np.concatenate([np.linspace(0.1, 1.0, n), np.zeros(n)])
        X, U = np.tile(x, (steps + 1, 1)), np.zeros((steps, 0))
        if what == "linearize":
            system.linearize_trajectory(X, U)
        elif what == "second":
            system.second_order_trajectory(X, U, np.ones((steps, 2 * n)))
        else:
            system.project(X, U, np.zeros((steps, 0, 2 * n)))

    return run


def study() -> None:
    system = da.System(da.MidpointVI(models.pendulum(), 0.01), steps=2000)
    U = np.zeros((2000, system.nu))
    X = system.simulate([1.0, 0.0], U)
    kalman = da.ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=1e-6, R=0.01)
    da.monte_carlo(kalman, (X, U), trials=4000, P0=0.01)


LONG = {
    "solve_lq": riccati,
    "linearize_trajectory": along("linearize", 40, 5000, 6),
    "second_order_trajectory": along("second", 30, 3000, 6),
    "project": along("project", 20, 200_000),
    "monte_carlo": study,
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_call_ends(name: str) -> None:
    late = []
    for _ in range(3):  # the machine may be busy
        with interrupt(0.4) as sent, pytest.raises(KeyboardInterrupt):
            LONG[name]()
        late.append(time.process_time() - sent[0])
        if late[-1] < ANSWER * (os.cpu_count() or 1):
            return
    pytest.fail(f"answered after {late} s of work")


@pytest.mark.parametrize("lanes", [True, False])
def test_rollouts_from_one_start(lanes: bool) -> None:
    vi = chain(8)
    start = vi.state(q=np.full(8, 0.3))
    with interrupt(0.9) as sent:
        batch = da.rollouts(vi, [start], 3_000_000, lanes=lanes, keep=False)
    assert time.process_time() - sent[0] < ANSWER * (os.cpu_count() or 1)
    assert batch.interrupted
    assert 0 < batch.completed[0] < 3_000_000
    assert np.isfinite(batch.q).all()


def test_what_is_complete_is_not_called_interrupted() -> None:
    vi = chain(1)
    batch = da.rollouts(vi, [vi.state(q=[0.1])] * 3, 100)
    assert not batch.interrupted
    np.testing.assert_array_equal(batch.completed, 100)


def test_a_long_simulation_returns_what_it_has() -> None:
    vi = chain(8)
    with interrupt(0.9) as sent:
        motion = vi.simulate(vi.state(q=np.full(8, 0.3)), 3_000_000, every=1000)
    assert time.process_time() - sent[0] < ANSWER * (os.cpu_count() or 1)
    assert motion.interrupted
    assert 0 < motion.steps < 3000
    assert np.isfinite(motion.q).all()


def test_a_policy_as_well() -> None:
    vi = da.MidpointVI(models.cart_pole(), 1e-3)
    with interrupt(0.7):
        motion = vi.simulate(vi.state(), 2_000_000, u=lambda t, state: np.zeros(vi.model.nu))
    assert motion.interrupted
    assert 0 < motion.steps < 2_000_000


def test_a_loop_of_short_calls_ends() -> None:
    vi = chain(4)
    start = vi.state(q=np.full(4, 0.3))

    def for_ever() -> None:
        for _ in range(1_000_000):
            assert not vi.simulate(start, 2000).interrupted

    with interrupt(0.4) as sent, pytest.raises(KeyboardInterrupt):
        for_ever()
    assert time.process_time() - sent[0] < ANSWER * (os.cpu_count() or 1)


@pytest.mark.parametrize("what", ["simulate", "rollouts", "linearize"])
def test_what_a_handler_raises_comes_out(what: str) -> None:
    def late(number: int, frame: object) -> None:
        raise TimeoutError("too late")

    vi = chain(8)
    start = vi.state(q=np.full(8, 0.3))
    call = {
        "simulate": lambda: vi.simulate(start, 3_000_000, every=1000),
        "rollouts": lambda: da.rollouts(vi, [start], 3_000_000, keep=False),
        "linearize": LONG["linearize_trajectory"],
    }[what]
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    try:
        with pytest.raises(TimeoutError, match="too late"):
            call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_failed_linearization_names_its_step_and_its_residual() -> None:
    system = da.System(da.MidpointVI(models.n_link(2), 0.1), steps=10)
    fast = [0.5, 0.2, 1e200, 0.0]  # its square overflows
    with pytest.raises(da.ConvergenceError) as caught:
        system.linearize(fast, np.zeros(system.nu), 7)
    assert caught.value.step == 7
    assert caught.value.time == pytest.approx(0.7)
    assert "1e276" not in str(caught.value)
    X = np.tile([0.5, 0.2, 0.0, 0.0], (11, 1))
    X[4] = fast
    for threads in (1, 3):
        with pytest.raises(da.ConvergenceError) as caught:
            system.linearize_trajectory(X, np.zeros((10, system.nu)), threads=threads)
        assert caught.value.step == 4


def test_restarts_of_the_optimizer_end() -> None:
    """Those that run end with their iteration, those that wait do not begin, and the best motion so far is kept."""
    system = da.System(da.MidpointVI(models.pendulum(), 0.05), steps=100)
    cost = da.TrackingCost({"theta": np.pi}, Q=1.0, R=0.1, Qf=100.0)
    start = (np.zeros((101, 2)), np.zeros((100, 1)))
    with interrupt(1.0) as sent:
        found = da.optimize(system, cost, start, restarts=10**9)
    assert time.process_time() - sent[0] < 10 * ANSWER  # an iteration of each
    assert found.status == "interrupted"
    assert np.isfinite(found.X).all()
    assert found.cost <= da.optimize(system, cost, start).cost
