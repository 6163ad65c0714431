"""Simulations that look for events: chunks of steps in the core, and a step solved in pieces where something happens inside it.

Watches (`events.py`) are evaluated at the ends of all steps of a chunk at once. A step in which one passes zero is solved again with other
lengths until the passage is known to rounding. What only records leaves the motion as it is; what changes it (a stop, a new state)
ends the step there, and the rest of the step follows, so that the instants of the motion stay on the grid of its steps. Inputs are held
during the whole step; prescribed variables follow their function of time, or straight lines between the ends of the step.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..errors import Stop
from ..progress import progress as shown
from .events import Occurrence, Watch, may_dip, passed, zero
from .quality import BALANCE, STEPS
from .trajectory import State, Trajectory, fixed

if TYPE_CHECKING:
    from .midpoint import MidpointVI

FIRST, MOST = 32, 4096  # steps of a chunk
SEARCH = 24  # trials to find where a dip is deepest

Solution = tuple[Array, Array, Array]  # q, p and multipliers at the end of (a part of) a step


@dataclass(frozen=True)
class Feed:
    """What acts during the steps: inputs `u` (N, nu) or a policy, prescribed values `path` (N, s, nk) after the parts of every step, and,
    where they are a function of time, that function."""

    u: Array | None
    path: Array | None
    policy: Callable[[float, State], tuple[Array, Array | None]] | None = None
    prescribed: Callable[[Array], Array] | None = None


class Run:
    """A simulation of the steps dt (N,) at the times t (N+1,) from `start`, under watches."""

    def __init__(self, vi: MidpointVI, start: State, dt: Array, t: Array, feed: Feed, watches: list[Watch]) -> None:
        self.vi, self.model, self.dt, self.t, self.feed, self.watches = vi, vi.model, dt, t, feed, watches
        m, n = vi.model, len(dt)
        self.Q, self.P, self.lam = np.empty((n + 1, m.nq)), np.empty((n + 1, m.nd)), np.zeros((n, m.nc))
        self.u = np.zeros((n, m.nu)) if feed.u is None else feed.u.copy()
        self.rho = np.zeros((n, m.nk)) + start.q[m.nqd :] if feed.path is None else feed.path[:, -1].copy()
        self.iterations, self.checks = np.zeros(n, dtype=np.int64), np.zeros((n, 5))
        self.Q[0], self.P[0] = start.q, start.p
        self.k, self.begun = 0, 0.0  # the step, and how much of it is done
        self.q, self.p, self.first_lam = start.q, start.p, start.lam
        self.v_rho = start.v_rho
        self.found: list[Occurrence] = []
        self.over = self.interrupted = False
        only_looks = all(w.event.action == "record" for w in watches)
        self.size = 1 << 20 if only_looks else FIRST  # the steps are then those of a simulation that nobody looks at
        self.most = max(self.size, MOST)
        self.way: Array | None = None  # prescribed values within the step, from a policy

    # ---- the loop

    def go(self, progress: bool) -> Trajectory:
        """The motion until its end, or the first event that stops it."""
        started = clock.monotonic()
        n = len(self.dt)
        with shown("simulate", n, wanted=progress) as tell:
            try:
                self.over = self._over_at_start()
                while self.k < n and not self.over:
                    if self.begun or self.feed.policy is not None:
                        self._piece()
                    else:
                        self._chunk()
                    if tell is not None:
                        tell(self.k, "")
            except Stop as stop:
                self.found.append(Occurrence(self.now, str(stop) or "Stop", self.state(), self.k))
            except KeyboardInterrupt:
                if clock.monotonic() - started < 0.5:  # nothing worth to be kept, and perhaps one of many calls
                    raise
                self.interrupted = True
        return self.motion()

    @property
    def now(self) -> float:
        """Time of the state that has been reached."""
        return float(self.t[self.k]) + self.begun

    def state(self) -> State:
        """What has been reached."""
        return self._state(self.now, self.q, self.p, self.first_lam)

    def _state(self, t: float, q: Array, p: Array, lam: Array) -> State:
        return State(t, fixed(q), fixed(p), fixed(lam), self._rate(q), self.model)

    def _rate(self, q: Array) -> Array:
        """Velocities of the prescribed variables, those of the step."""
        m, k = self.model, min(self.k, len(self.dt) - 1)
        if not m.nk or k < 0:
            return np.zeros(m.nkv)
        return np.asarray(m.prescribed.difference(self.Q[k, m.nqd :], self.rho[k]) / self.dt[k])

    def _over_at_start(self) -> bool:
        """Whether a condition of `until` holds already: its event is then the start."""
        here = self._instants(self.t[:1], self.Q[:1], self.P[:1], np.zeros((0, self.model.nq)))
        for w in self.watches:
            if w.at_start and (w.values(here)[0] <= 0):
                self._occurred(w, self.state())
                return True
        return False

    # ---- many steps at once

    def _chunk(self) -> None:
        vi, k = self.vi, self.k
        m = min(self.size, len(self.dt) - k)
        path = None if self.feed.path is None else np.ascontiguousarray(self.feed.path[k : k + m])
        q, p, lam, its, done, status, error, halted, checks = vi._core.simulate(
            vi.options, self.q, self.p, self.dt[k : k + m], self.u[k : k + m], path, 1
        )
        checks[:, BALANCE] += self.checks[k - 1, BALANCE] if k else 0.0
        here = self._instants(self.t[k : k + done + 1], q[: done + 1], p[: done + 1], self.rho[k : k + done])
        marked = np.zeros(done, dtype=bool)
        dips = []
        for w in self.watches:
            g = w.values(here)
            dips.append(np.zeros(done, dtype=bool) if w.either or w.truth else may_dip(g))
            marked |= passed(g[:-1], g[1:], w.either) | dips[-1]
        quiet = 0
        for j in [*np.flatnonzero(marked).tolist(), done]:
            self._accept(slice(quiet, j), q, p, lam, its, checks)
            if j == done:
                break
            if not self._within((q[j + 1], p[j + 1], lam[j]), [bool(d[j]) for d in dips], int(its[j]), checks[j]):
                self.size = max(FIRST, 2 * (j + 1))
                return
            quiet = j + 1
        if status:
            self._fail(status, error)
        if halted:
            raise KeyboardInterrupt
        self.size = min(2 * self.size, self.most)

    def _accept(self, steps: slice, q: Array, p: Array, lam: Array, its: Any, checks: Array) -> None:
        """Steps of a chunk that are as they are."""
        k, count = self.k, steps.stop - steps.start
        if not count:
            return
        to, ends = slice(k, k + count), slice(steps.start + 1, steps.stop + 1)
        self.Q[k + 1 : k + count + 1], self.P[k + 1 : k + count + 1] = q[ends], p[ends]
        self.lam[to], self.iterations[to], self.checks[to] = lam[steps], its[steps], checks[steps]
        self.k += count
        self.q, self.p, self.first_lam = self.Q[self.k], self.P[self.k], self.lam[self.k - 1]

    # ---- one step, or the rest of one

    def _piece(self) -> None:
        """The (rest of the) step that has been reached."""
        k = self.k
        if self.feed.policy is not None and not self.begun:
            self.u[k], rho = self.feed.policy(float(self.t[k]), self.state())
            self.way = None
            if rho is not None:
                self.rho[k] = rho
            elif self.feed.path is None:
                self.rho[k] = self.Q[k, self.model.nqd :]
            else:
                self.way = self.feed.path[k]
        h = self.dt[k] - self.begun
        q, p, lam, its = self._solve(h)
        row = np.zeros(5)
        row[STEPS] = 1.0
        row[BALANCE] = self.checks[k - 1, BALANCE] if k else 0.0
        self._within((q, p, lam), [False] * len(self.watches), its, row)

    def _within(self, end: Solution, dips: list[bool], its: int, checks: Array) -> bool:
        """Whether the (rest of the) step that leads to `end` is done: False when something has changed the motion inside."""
        k, h = self.k, self.dt[self.k] - self.begun
        hits: list[tuple[float, Watch]] = []
        for w, dip in zip(self.watches, dips, strict=True):
            tau = self._locate(w, end, h, dip)
            if tau is not None:
                hits.append((tau, w))
        for tau, w in sorted(hits, key=lambda hit: hit[0]):
            if tau < 1e-12 * h:  # as good as now
                tau = 0.0
            q, p, lam = (self.q, self.p, self.first_lam) if not tau else self._solve(tau, end)[:3] if tau < h else end
            at = self._state(self.now + tau, q, p, lam)
            answer = self._occurred(w, at)
            if answer is None:
                continue
            if tau:
                self.q, self.p, self.first_lam = q, p, lam
                self.lam[k] += lam
                self.iterations[k] += its
                self.checks[k] += checks
                self.begun += tau
            if isinstance(answer, State):
                self.q, self.p = self.vi._checked(answer)
            else:
                self.over = True
            if self.dt[k] - self.begun <= 1e-12 * self.dt[k]:
                self._close(k)
            return False
        self.q, self.p, self.first_lam = end
        self.lam[k] += end[2]
        self.iterations[k] += its
        self.checks[k] += checks
        self._close(k)
        return True

    def _close(self, k: int) -> None:
        """The end of step k has been reached."""
        self.Q[k + 1], self.P[k + 1] = self.q, self.p
        self.k, self.begun = k + 1, 0.0

    def _occurred(self, w: Watch, at: State) -> State | str | None:
        """Note an event; what its action asks for."""
        self.found.append(Occurrence(float(at.t), w.name, at, self.k))
        action = w.event.action
        answer = action(at) if callable(action) else (None if action == "record" else "stop")
        if answer is None or isinstance(answer, State) or answer == "stop":
            return answer
        raise TypeError(
            f"the action of event '{w.name}' must return a State, None or 'stop', not {type(answer).__name__}"
        )

    # ---- inside a step

    def _solve(self, tau: float, end: Solution | None = None) -> tuple[Array, Array, Array, int]:
        """(q, p, lam, iterations) after a part of the step of length tau from what has been reached; `end` is the end of the step."""
        vi, m, k = self.vi, self.model, self.k
        h = self.dt[k] - self.begun
        way = self._way(tau)
        if end is None:
            y = self.q.copy()
            if k and not self.begun:
                y = m.configuration.integrate(
                    self.q, m.configuration.difference(self.Q[k - 1], self.q) * (h / self.dt[k - 1])
                )
        else:
            y = m.configuration.integrate(self.q, m.configuration.difference(self.q, end[0]) * (tau / h))
        if m.nk:
            y[m.nqd :] = way[-1] if way is not None else self.rho[k]
        q, p, lam, its, status, error = vi._solve(tau, self.q, self.p, self.u[k], y, self.first_lam, way)
        if status:
            self._fail(status, error)
        return q, p, lam, its

    def _way(self, tau: float) -> Array | None:
        """Prescribed values (s, nk) after the parts of a piece of length tau of the step."""
        m, k, feed = self.model, self.k, self.feed
        if not m.nk:
            return None
        shares = np.cumsum(self.vi.parts)
        shares[-1] = 1.0
        whole = self.begun == 0.0 and tau == self.dt[k]
        if whole and feed.policy is None and feed.path is not None:
            return feed.path[k]
        if whole and self.way is not None:
            return self.way
        if feed.prescribed is not None and (feed.policy is None or self.way is not None):
            return feed.prescribed(self.now + tau * shares)
        before = self.Q[k, m.nqd :]
        way = m.prescribed.difference(before, self.rho[k])
        done = (self.begun + tau * shares) / self.dt[k]
        return np.stack([m.prescribed.integrate(before, x * way) for x in done])

    def _locate(self, w: Watch, end: Solution, h: float, dip: bool) -> float | None:
        """When, from what has been reached, a watch passes zero within the (rest of the) step; None if it does not."""
        last = float(self._value(h, end, w))
        first = float(self._value(0.0, end, w))
        if passed(first, last, w.either):
            return zero(lambda x: self._value(x, end, w), 0.0, first, h, last, 1e-16 * h)[1]
        if not dip or last <= 0 or first <= 0:
            return None
        low, high = 0.0, h
        golden = (3 - 5**0.5) / 2
        a, b = golden * h, (1 - golden) * h
        ga, gb = self._value(a, end, w), self._value(b, end, w)
        for _ in range(SEARCH):
            if min(ga, gb) <= 0:
                deep, value = (a, ga) if ga <= 0 else (b, gb)
                return zero(lambda x: self._value(x, end, w), 0.0, first, deep, value, 1e-16 * h)[1]
            if ga < gb:
                high, b, gb = b, a, ga
                a = low + golden * (high - low)
                ga = self._value(a, end, w)
            else:
                low, a, ga = a, b, gb
                b = high - golden * (high - low)
                gb = self._value(b, end, w)
        return None

    def _value(self, tau: float, end: Solution, w: Watch) -> float:
        """Value of a watch after a part of the step."""
        h = self.dt[self.k] - self.begun
        q, p = (self.q, self.p) if tau == 0 else end[:2] if tau == h else self._solve(tau, end)[:2]
        if tau == 0:
            here = self._instants(np.array([self.now]), q[None], p[None], np.zeros((0, self.model.nk)))
        else:
            t = np.array([self.now, self.now + tau])
            here = self._instants(t, np.stack([self.q, q]), np.stack([self.p, p]), q[None, self.model.nqd :])
        return float(w.values(here)[-1])

    # ---- what comes out

    def _instants(self, t: Array, q: Array, p: Array, rho: Array) -> Trajectory:
        """A piece of the motion for watches to look at."""
        m, n = self.model, len(t) - 1
        return Trajectory(m, t, q, p, np.zeros((n, m.nu)), rho[:n], np.zeros((n, m.nc)), scheme=self.vi.scheme)

    def motion(self) -> Trajectory:
        """The motion so far: on the grid, and at its end where an event stopped it."""
        m, k = self.model, self.k
        steps = k + (self.begun > 0)
        t = self.t[: steps + 1].copy()
        if self.begun > 0:
            t[-1] = self.now
            self.Q[steps], self.P[steps] = self.q, self.p
            self.rho[k] = self.q[m.nqd :]
        scheme = self.vi.scheme if not self.begun else replace(self.vi.scheme, dt=None)
        return Trajectory(
            m,
            t,
            self.Q[: steps + 1],
            self.P[: steps + 1],
            self.u[:steps],
            self.rho[:steps],
            self.lam[:steps],
            self.iterations[:steps],
            self.interrupted,
            scheme,
            self.checks[:steps],
            tuple(self.found),
        )

    def _fail(self, status: int, error: float) -> None:
        self.vi._fail(status, error, self.k, self.now, self.state(), self.motion())


def thinned(motion: Trajectory, every: int) -> Trajectory:
    """Each n-th state of a motion, and its last one."""
    n = motion.steps
    at: NDArray[np.intp] = np.unique([*range(0, n + 1, every), n])
    first, last = at[:-1], at[1:] - 1
    checks = motion.checks
    if checks is not None and n:
        worst = np.maximum.reduceat(checks, first, axis=0)
        worst[:, BALANCE], worst[:, STEPS] = checks[last, BALANCE], np.add.reduceat(checks[:, STEPS], first)
        checks = worst
    return replace(
        motion,
        t=motion.t[at],
        q=motion.q[at],
        p=motion.p[at],
        u=motion.u[first],
        rho=motion.rho[last],
        lam=motion.lam[last],
        iterations=motion.iterations[last],
        checks=checks,
    )
