"""Impacts: what happens at an instant at which gaps close, and which contacts rest afterwards.

With the gaps that touch, G = Dphi(q) their gradients, W the inverse mass matrix along the constraints, and the rates of the gaps
gamma = G v(q, p), an impact is an impulse L >= 0 along the gradients:

    p+ = p- + G' L,     gamma+ = gamma- + G W G' L,     0 <= L  perpendicular to  gamma+ + e min(gamma-, 0) >= 0

("together": a linear complementarity problem, so that several contacts share the blow), or one contact after the other, the fastest
first, until none approaches ("sequence"). Newton's cradle moves on two balls under the first and one under the second; both keep momentum and, with
e = 1, energy. A contact whose next flight would last less than REST of a step does not bounce (e = 0): that ends accumulations of impacts.
Contacts with gamma+ = 0 rest if forces press them: 0 <= f perpendicular to the acceleration of the gap >= 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from ..arrays import Array
from ..errors import AccuracyError, AccuracyWarning, ConvergenceError, user_level
from ..mechanics import (
    acceleration,
    constraint_jacobian,
    core,
    gap_hessian,
    gap_jacobian,
    gap_rows,
    gaps,
    mass_matrix,
    positions,
)
from ..model import Model
from .events import Crossing

if TYPE_CHECKING:
    from .midpoint import MidpointVI

REST = 0.05  # of a step: shorter flights are none
LAWS = ("together", "sequence")
TOUCH = 1e-12  # of a gap (rad or m) that is closed
CROSSED = 1e-8  # of a gap that cannot be meant


@dataclass(frozen=True)
class Impact:
    """A contact that was hit: `time` (s), `name` of the gap, `impulse` (N s, or N m s at a joint), `energy` lost (J), `place` (3,) of the frame's
    origin in the world (None for a joint), speeds of the gap `before` and `after`, and the `step` of the simulation during which it was.

    Of several contacts at once each has its share of the energy, and the sum is what was lost; a single one can then be negative."""

    time: float
    name: str
    impulse: float
    energy: float
    place: tuple[float, float, float] | None
    before: float
    after: float
    step: int


@dataclass(frozen=True)
class Jump:
    """A change of momentum as derivatives need it: the gaps `rows` get the rates gamma+ = -e gamma-."""

    rows: tuple[int, ...]
    e: tuple[float, ...]


@dataclass(frozen=True)
class Blow:
    """What an impact does: the momentum after it, impulses and rates before and after of the gaps `rows`, and the jumps that it is made of."""

    rows: tuple[int, ...]
    p: Array
    impulse: Array
    before: Array
    after: Array
    jumps: tuple[Jump, ...]


class Contacts:
    """The gaps of a model, and the integrators in which some of them are held closed."""

    def __init__(self, vi: MidpointVI) -> None:
        self.vi, self.model = vi, vi.model
        self.names = [gap.name for gap in vi.model.gaps]
        self.e = np.array([gap.restitution for gap in vi.model.gaps])
        self._held: dict[tuple[int, ...], MidpointVI] = {}

    def holding(self, held: tuple[int, ...]) -> MidpointVI:
        """The integrator with the gaps `held` as constraints, after those of the model."""
        if not held:
            return self.vi
        if held not in self._held:
            from .midpoint import MidpointVI

            rows = [self.model.gaps[i].row for i in held]
            model = self.model.without_contacts()
            model = model.with_elements([*model.elements, *rows])
            vi = self.vi
            self._held[held] = MidpointVI(
                model, vi.dt, order=vi.order, alpha=vi.alpha, forcing=vi.forcing,
                tolerance=vi.tolerance, max_iterations=vi.max_iterations, plain=vi.plain,
            )  # fmt: skip
        return self._held[held]

    def guard(self, held: tuple[int, ...], crossings: Sequence[Crossing], rate: Array | None) -> _core.Guard:
        """What ends a rollout of `holding(held)`: gaps that close, contacts that pull, events; `rate`: prescribed velocities before it."""
        return _core.Guard(*gap_rows(self.model), held, self.model.nh, crossings, [] if rate is None else rate.tolist())

    def gap(self, q: Array, i: int) -> float:
        """One gap at q (nq,)."""
        return float(gaps(self.model, q[None])[0, i])

    def at(self, q: Array, p: Array, v_rho: Array) -> Touch:
        """What an impact at a state needs."""
        return Touch(self.model, q, p, v_rho)

    def blow(self, here: Touch, touching: Sequence[int], e: Array) -> Blow:
        """The impact of the gaps `touching` with coefficients of restitution e (number of gaps,)."""
        rows = tuple(touching)
        before = here.rates[list(rows)]
        if self.vi.impacts == "sequence":
            impulse, after, jumps = in_sequence(here.resistance(rows), before, e[list(rows)], rows)
        else:
            bounce = e[list(rows)] * np.minimum(before, 0.0)
            impulse = complementary(here.resistance(rows), before + bounce)
            after = before + here.resistance(rows) @ impulse
            hit = np.flatnonzero(impulse > 0)
            jumps = (Jump(tuple(rows[i] for i in hit), tuple(float(e[rows[i]]) * (before[i] < 0) for i in hit)),)
        p = here.p + impulse @ here.gradients[list(rows), : self.model.nd]
        return Blow(rows, p, impulse, before, after, tuple(j for j in jumps if j.rows))


class Touch:
    """Gradients and rates of the gaps at a state, and how the mechanism resists impulses along them."""

    def __init__(self, model: Model, q: Array, p: Array, v_rho: Array) -> None:
        self.model, self.q, self.p, self.v_rho = model, q, p, v_rho
        self.gradients = gap_jacobian(model, q)
        self.v: Array = core(model).velocity(q[None], p[None], v_rho[None])[0][0]

    @property
    def rates(self) -> Array:
        """Rates of the gaps (number of gaps,)."""
        return self.gradients @ self.v

    @cached_property
    def _yielding(self) -> Array:
        """W G' (nd, number of gaps): the change of velocity by unit impulses."""
        m, nd = self.model, self.model.nd
        mass = mass_matrix(m, self.q)[:nd, :nd]
        push = self.gradients[:, :nd].T
        if not m.nc:
            return np.asarray(np.linalg.solve(mass, push))
        C = constraint_jacobian(m, self.q)[:, :nd]
        full = np.zeros((nd + m.nc, nd + m.nc))
        full[:nd, :nd], full[:nd, nd:], full[nd:, :nd] = mass, C.T, C
        right = np.vstack([push, np.zeros((m.nc, push.shape[1]))])
        return np.asarray(np.linalg.lstsq(full, right, rcond=1e-13)[0][:nd])

    def resistance(self, rows: Sequence[int]) -> Array:
        """G W G' of some gaps: the change of their rates by unit impulses."""
        rows = list(rows)
        return np.asarray(self.gradients[rows, : self.model.nd] @ self._yielding[:, rows])

    def accelerations(self, u: Array, rows: Sequence[int], p: Array, ddq_kin: Array) -> Array:
        """Second derivatives in time of some gaps with the momentum p and prescribed accelerations where no contact pushes."""
        m = self.model
        v = core(m).velocity(self.q[None], p[None], self.v_rho[None])[0][0]
        ddq = acceleration(m, self.q, v, u, ddq_kin).ddq
        unit = np.eye(len(self.gradients))
        bend = np.array([v @ gap_hessian(m, self.q, unit[i]) @ v for i in rows])
        return np.asarray(self.gradients[list(rows)] @ ddq + bend)


def complementary(A: Array, b: Array) -> Array:
    """x >= 0 with A x + b >= 0 and x (A x + b) = 0, for symmetric A >= 0 (active sets, as for non-negative least squares).

    >>> complementary(np.array([[2.0, -1.0], [-1.0, 2.0]]), np.array([-1.0, 1.0]))
    array([0.5, 0. ])
    """
    n = len(b)
    x = np.zeros(n)
    free = np.zeros(n, dtype=bool)
    small = 1e-13 * max(np.abs(b).max(initial=0.0), 1e-300)
    barred = np.zeros(n, dtype=bool)  # what came in and left at once: dependent rows
    for _ in range(10 * n + 10):
        w = A @ x + b
        w[free | barred] = 0.0
        i = int(w.argmin()) if n else 0
        if not n or w[i] >= -small:
            return x
        free[i] = True
        while True:
            y = np.zeros(n)
            if (
                free.sum() == 1 and A[free, free] > 0
            ):  # a ball that bounces for ever must not drift by the last bit of a solver
                y[free] = -b[free] / A[free, free]
            else:
                y[free] = np.linalg.lstsq(A[np.ix_(free, free)], -b[free], rcond=1e-12)[0]
            if (y[free] > 0).all():
                x, barred[:] = y, False
                break
            over = free & (y <= 0)
            ratio = np.full(n, np.inf)
            ratio[over] = x[over] / np.maximum(x[over] - y[over], 1e-300)
            step = float(ratio.min())
            x = x + step * (y - x)
            gone = over & (ratio <= step)
            barred |= gone & (np.arange(n) == i)
            free &= ~gone
            x[~free] = 0.0
            if not free.any():
                break
    raise ConvergenceError("the impulses of simultaneous contacts could not be found", hint="are contacts redundant?")


def in_sequence(A: Array, rates: Array, e: Array, rows: tuple[int, ...]) -> tuple[Array, Array, tuple[Jump, ...]]:
    """(impulses, rates after, jumps) of single impacts one after the other, the fastest first."""
    impulse, gamma = np.zeros(len(rates)), rates.copy()
    jumps: list[Jump] = []
    slow = 1e-10 * max(np.abs(rates).max(initial=0.0), 1e-300)
    for count in range(10_000):
        i = int(gamma.argmin())
        if gamma[i] >= -slow:
            return impulse, gamma, tuple(jumps)
        bounce = e[i] if count < 1000 else 0.0  # a chain of ever smaller impacts ends
        push = -(1 + bounce) * gamma[i] / A[i, i]
        impulse[i] += push
        gamma = gamma + push * A[:, i]
        jumps.append(Jump((rows[i],), (float(bounce),)))
    raise ConvergenceError("the contacts do not come apart one after the other", hint='use impacts="together"')


def impacts_of(blow: Blow, names: Sequence[str], model: Model, q: Array, t: float, step: int) -> list[Impact]:
    """What to tell about an impact: the gaps that were hit and their shares of the energy."""
    found: list[Impact] = []
    for i, impulse, before, after in zip(blow.rows, blow.impulse, blow.before, blow.after, strict=True):
        if impulse > 1e-12 * blow.impulse.max():
            frame = model.gaps[i].frame
            place: Any = None
            if frame:
                place = tuple(float(x) for x in positions(model, q)[model.frame_index(frame)])
            lost = -0.5 * impulse * (before + after)
            found.append(Impact(t, names[i], float(impulse), float(lost), place, float(before), float(after), step))
    return found


def check_gaps(model: Model, q: Array, what: str) -> None:
    """ValueError if a configuration (nq,) violates a limit or contact."""
    if model.gaps:
        gap = gaps(model, q)
        worst = int(gap.argmin())
        if gap[worst] < -CROSSED:
            raise ValueError(f"{what} violates {model.gaps[worst].name} by {-gap[worst]:.3g}{_range(model, worst)}")


def _range(model: Model, number: int) -> str:
    """The range of the joint whose limit a gap is, for messages."""
    for variable, (low, high) in model.limits.items():
        if model.gaps[number].name.startswith(f"Limit({variable}) "):
            return f": '{variable}' goes from {low:.6g} to {high:.6g}"
    return ""


def say_crossed(model: Model, t: Array, q: Array, who: str, accuracy: str = "warn") -> None:
    """AccuracyWarning (or AccuracyError) when a motion q (N+1, nq) of a map that knows no limits and contacts crosses one; rows of NaN are none."""
    if not model.gaps or accuracy == "ignore":
        return
    rows = np.isfinite(q).all(axis=1)
    gap = gaps(model, q[rows])
    bad = np.argwhere(gap < -CROSSED)
    if not len(bad):
        return
    first, i = (int(x) for x in bad[0])
    when = float(t[rows][first])
    text = (
        f"{who} takes no notice of limits and contacts: {model.gaps[i].name} is crossed at t = {when:g}, by up to {-gap[:, i].min():.3g} "
        "(simulate heeds them; model.without_contacts() leaves them out)"
    )
    if accuracy == "raise":
        raise AccuracyError(text, time=when, step=first, first=first, count=len(bad))
    warnings.warn(AccuracyWarning(text, time=when, step=first, first=first, count=len(bad)), stacklevel=user_level())
