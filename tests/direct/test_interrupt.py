"""Ctrl-C during a solver of CasADi is Ctrl-C, not a failure of the problem."""

from __future__ import annotations

import os
import signal

import pytest

import dalembert as da
from dalembert.direct.interrupt import told_apart


def solver_that_is_stopped() -> None:
    with told_apart():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("what a solver makes of it") from None


def test_ctrl_c_is_not_a_failure() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            solver_that_is_stopped()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def plan_for_ever() -> None:
    arm = da.Model(
        [da.rx("a", da.tz(-1.0, da.rx("b", da.tz(-1.0, mass=1.0)), mass=1.0))],
        [da.Gravity((0, 0, -9.8)), da.ConfigForce("a", "ua"), da.ConfigForce("b", "ub")],
    )
    rest = [0.0, 0.0]
    for _ in range(1000):
        plan = da.dmoc(arm, start={"q": rest, "v": rest}, goal={"q": [3.1, 0], "v": rest}, time=3.0, steps=300)
        assert plan.status != "failed"


def test_dmoc_ends() -> None:
    pytest.importorskip("casadi")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            plan_for_ever()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, before)
