"""Simulations that look for events: chunks of steps in the core, and a step solved in pieces where something happens inside it.

The core runs until a guard (`cpp/guard.hpp`) stops it: after a step in which a gap closes or may have closed, a contact that is held would pull, or
a simple event has passed. Other watches (`events.py`) are evaluated at the ends of all steps of a chunk at once. A step in which one passes zero is
solved again with other lengths until the passage is known to rounding. What only records leaves the motion as it is; what changes it (a stop, a
new state) ends the step there, and the rest of the step follows, so that the instants of the motion stay on the grid of its steps. Inputs are held
during the whole step; prescribed variables follow their function of time, or straight lines between the ends of the step.

Limits and contacts are looked at in the same way: gaps that close are impacts (`impacts.py`), and a contact that rests is a constraint of
the steps that follow, until the force that it needs would pull: that instant is looked for, too.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..arrays import Array
from ..errors import ConvergenceError, Stop
from ..mechanics import core, gap_jacobian, gaps
from ..progress import progress as shown
from .events import Occurrence, Watch, may_dip, passed, zero
from .impacts import REST, TOUCH, Blow, Contacts, Impact, Jump, check_gaps, complementary, impacts_of
from .quality import BALANCE, STEPS
from .trajectory import State, Trajectory, fixed

if TYPE_CHECKING:
    from .midpoint import MidpointVI

FIRST, MOST = 32, 4096  # steps of a chunk
GUARDED = 4096, 1 << 16  # the same where the core itself stops at what changes the motion: none are made in vain
SEARCH = 24  # trials to find where a dip is deepest
SHARES = np.linspace(0.1, 0.9, 9)
IN_A_STEP = 1000  # things that may happen in one step

Solution = tuple[Array, Array, Array]  # q, p and multipliers at the end of (a part of) a step


@dataclass(frozen=True)
class Feed:
    """What acts during the steps: inputs `u` (N, nu) or a policy, prescribed values `path` (N, s, nk) after the parts of every step, and,
    where they are a function of time, that function."""

    u: Array | None
    path: Array | None
    policy: Callable[[float, State], tuple[Array, Array | None]] | None = None
    prescribed: Callable[[Array], Array] | None = None


@dataclass(frozen=True)
class Piece:
    """What the derivatives of a motion need to know: `steps` whole steps from `step` on with the gaps `held` closed, or (steps = 0) a part of a
    step of this `length`, at whose end the `cause` became zero ("gap" or "force" of the gap `number`; "" at the end of the step, "event" for one
    that is not differentiated) and the `jumps` followed."""

    step: int
    steps: int
    length: float
    held: tuple[int, ...]
    cause: str = ""
    number: int = -1
    jumps: tuple[Jump, ...] = ()

    def within(self, first: int, last: int) -> list[Piece]:
        """What it is of the steps from `first` to before `last`, counted from there."""
        if not self.steps:
            return [replace(self, step=self.step - first)] if first <= self.step < last else []
        begin, end = max(self.step, first), min(self.step + self.steps, last)
        return [replace(self, step=begin - first, steps=end - begin)] if begin < end else []


@dataclass(frozen=True)
class Hit:
    """Something inside of a step: after `tau`, a watch, or a `cause` of the gap `number`."""

    tau: float
    watch: Watch | None = None
    cause: str = "event"
    number: int = -1


class Run:
    """A simulation of the steps dt (N,) at the times t (N+1,) from `start`, under watches."""

    def __init__(
        self,
        vi: MidpointVI,
        start: State,
        dt: Array,
        t: Array,
        feed: Feed,
        watches: list[Watch],
        adapt: float = 0.0,
        pieces: int = 1,
    ) -> None:
        self.adapt, self.shares = adapt, pieces  # tolerance of steps in substeps, prescribed values for each of them
        self.substeps = 1  # of the (rest of the) step, kept while something is looked for in it: it then depends smoothly on its length
        self.vi, self.model, self.dt, self.t, self.feed, self.watches = vi, vi.model, dt, t, feed, watches
        m, n = vi.model, len(dt)
        self.Q, self.P, self.lam = np.empty((n + 1, m.nq)), np.empty((n + 1, m.nd)), np.zeros((n, m.nc))
        self.u = np.zeros((n, m.nu)) if feed.u is None else feed.u.copy()
        self.rho = np.zeros((n, m.nk)) + start.q[m.nqd :] if feed.path is None else feed.path[:, -1].copy()
        self.iterations, self.checks = np.zeros(n, dtype=np.int64), np.zeros((n, 5))
        self.Q[0], self.P[0] = start.q, start.p
        self.k, self.begun = 0, 0.0  # the step, and how much of it is done
        self.split = False  # whether it is solved in pieces
        self.q, self.p, self.first_lam = start.q, start.p, start.lam
        self.v_rho = start.v_rho
        self.found: list[Occurrence] = []
        self.over = self.interrupted = False
        simple = [w.crossing(m) for w in watches]
        self.alarms = [c[3] for c in simple if c is not None and c[1] < 0 and c[5]]  # events that are times
        self.crossings = [c for c in simple if c is not None and c[1] >= 0]
        column = iter(range(len(simple)))
        self.columns = [None if c is None or c[1] < 0 else next(column) for c in simple]
        changing = [c for c, w in zip(simple, watches, strict=True) if w.event.action != "record"]
        self.size, self.most = GUARDED if None not in changing else (FIRST, MOST)
        self.way: Array | None = None  # prescribed values within the step, from a policy
        self.contacts = Contacts(vi) if vi.model.gaps else None
        if not changing and self.contacts is None:
            self.size = self.most = 1 << 20  # the steps are then those of a simulation that nobody looks at
        self.held: tuple[int, ...] = ()  # gaps that are constraints now
        self.freed: set[int] = set()  # gaps that were let go in this step
        self.forced: set[int] = set()  # gaps that stay closed until its end
        self.struck: set[int] = set()  # gaps that closed at this very instant
        self.happened = 0  # in this step
        self.impacts: list[Impact] = []
        self.pieces: list[Piece] = []
        if self.contacts is not None:
            check_gaps(vi.model, start.q, "the start")

    # ---- the loop

    def go(self, progress: bool) -> Trajectory:
        """The motion until its end, or the first event that stops it."""
        started = clock.monotonic()
        n = len(self.dt)
        with shown("simulate", n, wanted=progress) as tell:
            try:
                self.over = self._over_at_start()
                while self.k < n and not self.over:
                    if self.split or self.adapt or self.feed.policy is not None:
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

    def _rate_before(self) -> Array | None:
        """Velocities of the prescribed variables before the step: those of the last one, or of a start that has some."""
        m, k = self.model, self.k
        if not m.nk:
            return None
        if k:
            return np.asarray(m.prescribed.difference(self.Q[k - 1, m.nqd :], self.rho[k - 1]) / self.dt[k - 1])
        return self.v_rho if self.v_rho is not None and self.v_rho.any() else None

    def _drift(self) -> Array:
        """Accelerations of the prescribed variables during the step: contacts that are held feel them."""
        before, k = self._rate_before(), self.k
        return np.zeros(self.model.nkv) if before is None else (self._rate(self.q) - before) / self.dt[k]

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
        vi, k = self.current, self.k
        m = min(self.size, len(self.dt) - k)
        for alarm in self.alarms:
            if alarm > self.t[k]:
                m = min(m, max(1, int(np.searchsorted(self.t, alarm)) - k))
        path = None if self.feed.path is None else np.ascontiguousarray(self.feed.path[k : k + m])
        q, p, lam, its, done, status, error, halted, checks, _, touched, crossed, *_ = vi._core.simulate(
            vi.options, self.q, self.p, self.dt[k : k + m], self.u[k : k + m], path, 1, guard=self._guard()
        )
        checks[:, BALANCE] += self.checks[k - 1, BALANCE] if k else 0.0
        q, p, lam = q[: done + 1], p[: done + 1], lam[:done]
        here = self._instants(self.t[k : k + done + 1], q, p, self.rho[k : k + done])
        marked = np.zeros(done, dtype=bool)
        marked[done - 1 :] = touched
        seen = []
        for w, column in zip(self.watches, self.columns, strict=True):
            g = w.values(here) if column is None else w.finite(crossed[: done + 1, column], self.t[k:])
            dips = np.zeros(done, dtype=bool) if w.either or w.truth else may_dip(g)
            seen.append((g[:-1], g[1:], dips))
            marked |= passed(g[:-1], g[1:], w.either) | dips
        quiet = 0
        for j in [*np.flatnonzero(marked).tolist(), done]:
            self._accept(slice(quiet, j), q, p, self._own(lam), its, checks)
            if j == done:
                break
            if not self._within(
                (q[j + 1], p[j + 1], lam[j]), [tuple(x[j] for x in s) for s in seen], int(its[j]), checks[j]
            ):
                self.size = max(FIRST, 2 * (j + 1))
                return
            quiet = j + 1
        if status:
            self._fail(status, error)
        if halted:
            raise KeyboardInterrupt
        self.size = min(2 * self.size, self.most)

    def _guard(self) -> Any:
        """What ends the steps of a chunk early; None if nothing does."""
        if self.contacts is not None:
            return self.contacts.guard(self.held, self.crossings, self._rate_before())
        return _core.Guard(None, np.zeros(0), (), 0, self.crossings) if self.crossings else None

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
        if self.held:
            self.pieces.append(Piece(k, count, 0.0, self.held))

    # ---- one step, or the rest of one

    def _piece(self) -> None:
        """The (rest of the) step that has been reached."""
        k = self.k
        if self.feed.policy is not None and not self.split:
            self.u[k], rho = self.feed.policy(float(self.t[k]), self.state())
            self.way = None
            if rho is not None:
                self.rho[k] = rho
            elif self.feed.path is None:
                self.rho[k] = self.Q[k, self.model.nqd :]
            else:
                self.way = self.feed.path[k]
        h = self.dt[k] - self.begun
        row = np.zeros(5)
        row[STEPS] = 1.0
        q, p, lam, its = self._solve(h, row=row)
        row[BALANCE] += self.checks[k - 1, BALANCE] if k else 0.0
        here = self._instants(
            np.array([self.now, self.t[k + 1]]), np.stack([self.q, q]), np.stack([self.p, p]), q[None, self.model.nqd :]
        )
        seen = [(*w.values(here), False) for w in self.watches]
        self._within((q, p, lam), seen, its, row)

    def _within(self, end: Solution, seen: list[Any], its: int, checks: Array) -> bool:
        """Whether the (rest of the) step that leads to `end` is done: False when something has changed the motion inside. `seen`: of every
        watch the values at both ends, and whether it may dip between."""
        k, h = self.k, self.dt[self.k] - self.begun
        hits: list[Hit] = []
        for w, (first, last, dip) in zip(self.watches, seen, strict=True):
            tau = self._locate(w, end, h, float(first), float(last), dip)
            if tau is not None:
                hits.append(Hit(tau, w))
        if self.contacts is not None:
            hits += self._contact_hits(end, h)
        for hit in sorted(hits, key=lambda hit: hit.tau):
            tau = hit.tau
            if tau < 1e-12 * h:  # as good as now
                tau = 0.0
            q, p, lam = (self.q, self.p, self.first_lam) if not tau else self._solve(tau, end)[:3] if tau < h else end
            answer: State | str | None = None
            if hit.watch is not None:
                answer = self._occurred(hit.watch, self._state(self.now + tau, q, p, self._own(lam)))
                if answer is None:
                    continue
            if tau:
                self.q, self.p, self.first_lam = q, p, self._own(lam)
                self.lam[k] += self.first_lam
                self.iterations[k] += its
                self._check(checks)
                self.begun += tau
            self.split = True
            held, jumps = self.held, self._happen(hit)
            self.pieces.append(Piece(k, 0, tau, held, hit.cause, hit.number, jumps))
            if isinstance(answer, State):
                self.q, self.p = self.vi._checked(answer)
                self.held = ()
                check_gaps(self.model, self.q, f"the state that event '{self.found[-1].name}' returns")
            elif answer is not None:
                self.over = True
            if self.dt[k] - self.begun <= 1e-12 * self.dt[k]:
                if not self.over:
                    self.pieces.append(Piece(k, 0, 0.0, self.held))
                self._close(k)
            return False
        self.q, self.p, self.first_lam = end[0], end[1], self._own(end[2])
        self.lam[k] += self.first_lam
        if self.split:
            self.pieces.append(Piece(k, 0, h, self.held))
        elif self.held:
            self.pieces.append(Piece(k, 1, 0.0, self.held))
        self.iterations[k] += its
        self._check(checks)
        self._close(k)
        return True

    def _check(self, checks: Array) -> None:
        """The checks of a piece of the step, with those of the pieces before it."""
        row = self.checks[self.k]
        count = row[STEPS] + checks[STEPS]
        row[:] = np.maximum(row, checks) if row[STEPS] else checks
        row[BALANCE], row[STEPS] = checks[BALANCE], count

    def _close(self, k: int) -> None:
        """The end of step k has been reached."""
        self.Q[k + 1], self.P[k + 1] = self.q, self.p
        self.k, self.begun, self.split = k + 1, 0.0, False
        self.freed.clear()
        self.forced.clear()
        self.struck.clear()
        self.happened = 0

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

    def _solve(
        self, tau: float, end: Solution | None = None, row: Array | None = None
    ) -> tuple[Array, Array, Array, int]:
        """(q, p, lam, iterations) after a part of the step of length tau from what has been reached; `end` is the end of the step, `row` (5,)
        where its checks go."""
        vi, m, k = self.current, self.model, self.k
        h = self.dt[k] - self.begun
        if self.adapt:
            return self._adapted(tau, row)
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
        guess = self.first_lam if not self.held else np.zeros(vi.model.nc)
        q, p, lam, its, status, error = vi._solve(tau, self.q, self.p, self.u[k], y, guess, way)
        if status:
            self._fail(status, error)
        if self.held:
            p = self._along(q[None], p[None], self._rate(q)[None])[0]
        return q, p, lam, its

    def _adapted(self, tau: float, row: Array | None) -> tuple[Array, Array, Array, int]:
        """As `_solve` in substeps: with `row` as many as the tolerance asks for, else as many as that were."""
        vi, k, none = self.current, self.k, np.zeros((1, 0))
        if row is not None:
            even = np.arange(1, self.shares + 1) / self.shares
            way = self._way(tau, even)
            q, p, lam, its, status, error, checks = vi._adaptive(
                tau, self.q, self.p, self.u[k], none if way is None else way, self.adapt
            )
            row[:], self.substeps = checks, max(1, int(checks[STEPS]))
        else:
            n = self.substeps
            parts = np.cumsum(vi.parts)
            parts[-1] = 1.0
            way = self._way(tau, ((np.arange(n)[:, None] + parts) / n).ravel())
            path = None if way is None else np.ascontiguousarray(way.reshape(n, len(parts), -1))
            u = np.repeat(self.u[k : k + 1], n, axis=0)
            rows, momenta, lams, counts, _, status, error, *_ = vi._core.simulate(
                vi.options, self.q, self.p, np.full(n, tau / n), u, path, 1
            )
            q, p, lam, its = rows[-1], momenta[-1], lams.sum(axis=0), int(counts.sum())
        if status:
            self._fail(status, error)
        if self.held:
            p = self._along(q[None], p[None], self._rate(q)[None])[0]
        return q, p, lam, its

    def _way(self, tau: float, shares: Array | None = None) -> Array | None:
        """Prescribed values (s, nk) after `shares` (s,) of a piece of length tau of the step: after its parts, if not given."""
        m, k, feed = self.model, self.k, self.feed
        if not m.nk:
            return None
        if shares is None:
            shares = np.cumsum(self.vi.parts)
            shares[-1] = 1.0
        whole = (
            self.begun == 0.0
            and tau == self.dt[k]
            and len(shares) == (self.shares if self.adapt else len(self.vi.parts))
        )
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

    def _locate(self, w: Watch, end: Solution, h: float, first: float, last: float, dip: bool) -> float | None:
        """When, from what has been reached, a watch passes zero within the (rest of the) step; None if it does not."""
        if passed(first, last, w.either):
            return zero(lambda x: self._value(x, end, w), 0.0, first, h, last, 1e-16 * h)[1]
        if not dip or last <= 0 or first <= 0:
            return None
        return self._dip(lambda x: self._value(x, end, w), h, first)

    def _dip(self, f: Callable[[float], float], h: float, first: float) -> float | None:
        """Where f, positive at 0 and h, first becomes 0 between; None if it does not."""
        low, high = 0.0, h
        golden = (3 - 5**0.5) / 2
        a, b = golden * h, (1 - golden) * h
        ga, gb = f(a), f(b)
        for _ in range(SEARCH):
            if min(ga, gb) <= 0:
                deep, value = (a, ga) if ga <= 0 else (b, gb)
                return zero(f, 0.0, first, deep, value, 1e-16 * h)[1]
            if ga < gb:
                high, b, gb = b, a, ga
                a = low + golden * (high - low)
                ga = f(a)
            else:
                low, a, ga = a, b, gb
                b = high - golden * (high - low)
                gb = f(b)
        return None

    def _value(self, tau: float, end: Solution, w: Watch) -> float:
        """Value of a watch after a part of the step."""
        q, p, *_ = self._solve(tau, end)
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
        scheme = None if self.adapt else self.vi.scheme if not self.begun else replace(self.vi.scheme, dt=None)
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
            tuple(self.impacts),
            tuple(self.pieces),
        )

    # ---- contacts

    @property
    def current(self) -> MidpointVI:
        """The integrator with the constraints of now."""
        return self.vi if self.contacts is None else self.contacts.holding(self.held)

    @property
    def _pressed(self) -> slice:
        """Rows of the contacts that are held: behind the constraints on the configuration, before those on velocities."""
        return slice(self.model.nh, self.model.nh + len(self.held))

    def _own(self, lam: Array) -> Array:
        """Multipliers (..., nc) of the model's own constraints."""
        return np.delete(lam, self._pressed, axis=-1) if lam.shape[-1] > self.model.nc else lam

    def _along(self, q: Array, p: Array, rates: Array) -> Array:
        """Momenta (n, nd) of the velocities along the constraints and the contacts that are held: what no step feels is left out."""
        c = core(self.current.model)
        v = c.velocity(np.ascontiguousarray(q), np.ascontiguousarray(p), np.ascontiguousarray(rates))[0]
        return np.stack([c.first(a, b)[1][: self.model.nd] for a, b in zip(q, v, strict=True)])

    def _forces(self, q: Array, p: Array, rate: Array, u: Array) -> Array:
        """Forces of the contacts that are held, positive when they push."""
        m = self.current.model
        v = core(m).velocity(q[None], p[None], rate[None])[0][0]
        lam = core(m).acceleration(q, v, u, self._drift())[1][self._pressed]
        return np.asarray(lam / np.array([self.model.gaps[i].scale for i in self.held]))

    def _contact_hits(self, end: Solution, h: float) -> list[Hit]:
        """Gaps that close, and contacts that let go, within the (rest of the) step."""
        hits: list[Hit] = []
        m, k = self.model, self.k
        rate = self._rate(self.q)
        q = np.stack([self.q, end[0]])
        gap = gaps(m, q)
        v = core(self.current.model).velocity(q, np.stack([self.p, end[1]]), np.stack([rate, rate]))[0]
        speed = np.einsum("nij,nj->ni", gap_jacobian(m, q), v)
        dips = may_return(gap, speed, h)[0]

        def closing(i: int) -> Callable[[float], float]:
            assert self.contacts is not None
            gap = self.contacts.gap
            return lambda tau: gap(self._solve(tau, end)[0], i)

        for i in range(gap.shape[1]):
            if i in self.held:
                continue
            tau: float | None = None
            if gap[1, i] < -TOUCH:
                tau = self._closes(closing(i), gap[0, i], speed[0, i], gap[1, i], h)
            elif dips[i] and gap[0, i] > TOUCH:
                tau = self._dip(closing(i), h, gap[0, i])
            if tau is not None:
                hits.append(Hit(tau, None, "gap", i))
        if self.held:
            first = self._forces(self.q, self.p, rate, self.u[k])
            last = self._forces(end[0], end[1], rate, self.u[k])
            for j, i in enumerate(self.held):
                if i in self.forced or min(first[j], last[j]) >= 0:
                    continue

                def pull(tau: float, j: int = j) -> float:
                    q, p = self._solve(tau, end)[:2]
                    return float(self._forces(q, p, rate, self.u[k])[j])

                tau = 0.0 if first[j] <= 0 else zero(pull, 0.0, first[j], h, last[j], 1e-16 * h)[0]
                hits.append(Hit(tau, None, "force", i))
        return hits

    @staticmethod
    def _closes(f: Callable[[float], float], first: float, speed: float, last: float, h: float) -> float:
        """When a gap closes that is below zero at the end of a step of length h: 0 if it is closed and does not open before."""
        begin, value = 0.0, first
        if first <= TOUCH and speed > 0:  # just touched: it may open and close again
            bend = (last - first - speed * h) / h**2
            begin = min(-speed / (2 * bend), h) if bend < 0 else h
            for _ in range(8):
                value = f(begin)
                if value > TOUCH:
                    break
                begin /= 2
        if value <= 0 or (begin and value <= TOUCH):
            return 0.0
        return zero(f, begin, value, h, last, 1e-16 * h)[0]

    def _happen(self, hit: Hit) -> tuple[Jump, ...]:
        """The impact of a gap, or the end of a contact, at the state that has been reached."""
        if hit.watch is not None or self.contacts is None:
            return ()
        self.happened += 1
        if self.happened > IN_A_STEP:
            raise ConvergenceError(
                f"more than {IN_A_STEP} impacts in step {self.k} at t = {self.now:g}",
                time=self.now, step=self.k, state=self.state(), trajectory=self.motion(), hint="take a shorter dt, or a smaller restitution",
            )  # fmt: skip
        if hit.cause == "force":
            self.freed.add(hit.number)
            self.held = tuple(i for i in self.held if i != hit.number)
            return ()
        return self._impact(hit.number, hit.tau)

    def _impact(self, number: int, tau: float) -> tuple[Jump, ...]:
        contacts, k = self.contacts, self.k
        assert contacts is not None
        gap = gaps(self.model, self.q)
        touching = sorted({number, *self.held, *np.flatnonzero(gap <= 10 * TOUCH).tolist()})
        here = contacts.at(self.q, self.p, self._rate(self.q))
        e = contacts.e.copy()
        blow = contacts.blow(here, touching, e)
        slow = 1e-10 * (np.abs(blow.before).max() + np.abs(here.gradients @ here.v).max()) + 1e-14
        held, bent = self._resting(here, blow, blow.after <= slow)
        flight = (blow.after > slow) & (2 * blow.after < REST * self.dt[k] * -bent)  # it would be back at once
        short = [i for i, hit, ends in zip(blow.rows, blow.impulse > 0, flight, strict=True) if hit and ends and e[i]]
        if short:
            e[short] = 0.0
            blow = contacts.blow(here, touching, e)
        if flight.any():
            held, _ = self._resting(here, blow, (blow.after <= slow) | flight)
        if tau:
            self.struck.clear()
        if number in self.freed or number in self.struck:
            self.forced.add(number)  # nothing pushes, and still it would close: it stays until the end of the step
        self.struck.add(number)
        if blow.before.min() < -slow:
            self.impacts += impacts_of(blow, contacts.names, self.model, self.q, self.now, k)
        self.p = blow.p
        self.held = tuple(sorted({*held, *self.forced}))
        if self.held:
            self.p = self._along(self.q[None], self.p[None], self._rate(self.q)[None])[0]
        return blow.jumps

    def _resting(self, here: Any, blow: Blow, closed: Any) -> tuple[tuple[int, ...], Array]:
        """Which of the gaps of a blow that are `closed` (they do not open) stay so, and the accelerations of all of them then."""
        free = here.accelerations(self.u[self.k], blow.rows, blow.p, self._drift())
        A = here.resistance(blow.rows)
        calm = np.flatnonzero(closed)
        force = complementary(A[np.ix_(calm, calm)], free[calm])
        held = tuple(blow.rows[i] for i in calm[force > 0])
        return held, free + A[:, calm] @ force

    def _fail(self, status: int, error: float) -> None:
        self.vi._fail(status, error, self.k, self.now, self.state(), self.motion())


def may_return(gap: Array, speed: Array, h: Any) -> Any:
    """Steps (N, ...) of lengths h between instants (N+1, ...) at which gaps are open, but which they may close in between: by Hermite's cubic."""
    a, b, down, up = gap[:-1], gap[1:], speed[:-1] * h, speed[1:] * h
    found = (down < 0) & (up > 0) & (a > TOUCH) & (b > -TOUCH)
    if found.any():
        a, b, down, up = a[found], b[found], down[found], up[found]
        s = SHARES[:, None]
        cubic = a * (1 + 2 * s) * (1 - s) ** 2 + b * s**2 * (3 - 2 * s) + s * (1 - s) * (down * (1 - s) - up * s)
        found[found] = cubic.min(axis=0) < 0.05 * (up - down)
    return found


def thinned(motion: Trajectory, every: int) -> Trajectory:
    """Each n-th state of a motion, and its last one."""
    if every == 1:
        return motion
    n = motion.steps
    at: NDArray[np.intp] = np.unique([*range(0, n + 1, every), n])
    first, last = at[:-1], at[1:] - 1
    checks = motion.checks
    if checks is not None and n:
        worst = np.maximum.reduceat(checks, first, axis=0)
        worst[:, BALANCE], worst[:, STEPS] = checks[last, BALANCE], np.add.reduceat(checks[:, STEPS], first)
        checks = worst
    scheme = motion.scheme if motion.scheme is not None and motion.scheme.dt is not None else None
    return motion.picked(at, first, last, checks=checks, pieces=(), scheme=scheme)
