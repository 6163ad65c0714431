"""The default optimizer: Newton's method on curves that may have gaps, with an interior point for bounds and constraints.

Unknowns are states X, inputs U and costates lambda; the gaps c_k = difference(x_k+1, f(x_k, u_k)) are closed on the way. Every iteration solves one
LQ problem (`cpp/riccati.hpp`) around the curve, min 1/2 d'(H + delta D)d + b'd with dx_k+1 = A dx_k + B du_k + c_k, where H is the second
derivative of the Lagrangian ("newton") or of the cost alone ("gauss-newton"). Its solution can be followed in two ways:

    roll    u = U + a dU - K (x - X - a dX) through the steps, leaving (1 - a) c open, K the gains of this LQ problem: without gaps
            this is the projection operator of Schultz, Johnson, Murphey with those gains,
    linear  X + a dX, U + a dU: opens gaps instead of following the steps.

Gauss-Newton is used while it contracts, and where Newton's model must be regularized so strongly that Gauss-Newton wins more. The first step
is linear where it promises much more than the roll, gaps weighed by their costates: problems far from their optimum are solved along curves
that no motion could take. delta grows where a step is shortened or wins less than its model promised, and falls again.

`cpp/shooting.hpp` is the same algorithm for the common problems (see `compiled.py`); this one takes every cost, constraint and one-step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from ..arrays import Array
from ..errors import ConvergenceError, DalembertError
from ..integrate.onestep import Course
from ..system import System
from .constraints import Interior, Rows
from .costs import BoundCost, Hessian
from .descent import downward_motion, sweep_back

DELTA = 1e-3  # the smallest regularization that is not zero
GROW, FALL = 5.0, 3.0
GIVE_UP = 8  # so many short steps in a row with open gaps: back to a motion
OPEN = 60  # so many iterations with open gaps
RESETS = 10


@dataclass
class Curve:
    """A trial: states, inputs, gaps (None: a motion), cost, barrier, and the size of all that is not closed."""

    X: Array
    U: Array
    gaps: Array | None
    value: float
    barrier: float = 0.0
    off: float = 0.0
    slacks: list[Array] = field(default_factory=list)
    residuals: list[Array] = field(default_factory=list)

    def merit(self, penalty: float) -> float:
        """l1 merit."""
        return self.value + self.barrier + penalty * self.off


@dataclass
class Point:
    """Derivatives along a curve. lx, lu of the cost; bx, bu with the barrier; Q, S, R of the Gauss-Newton model."""

    A: Array
    B: Array
    turn: Array | None
    lx: Array
    lu: Array
    bx: Array
    bu: Array
    Q: Array
    S: Array | None
    R: Array
    Dx: Array
    Du: Array


@dataclass
class Proposal:
    """Solution of an LQ problem: gains, step, new costates, slope and curvature of cost and barrier along it."""

    kind: str
    delta: float
    K: Array
    dX: Array
    dU: Array
    costates: Array
    slope: float
    curvature: float
    moves: list[Array] = field(default_factory=list)  # of the slacks


@dataclass
class Step:
    """What an iteration did; `status` ends the search."""

    method: str
    slope: float
    curve: Curve | None = None
    proposal: Proposal | None = None
    length: float = 0.0
    trials: int = 0
    failed: int = 0


class Shooting:
    """The problem and its search. `free` (ndx,) marks components of the initial state that are optimized too."""

    def __init__(self, system: System, cost: BoundCost, rows: Sequence[Rows] = (), free: Array | None = None) -> None:
        self.system, self.cost = system, cost
        self.free = None if free is None or not free.any() else free
        self.inside = Interior(rows)
        self.curve: Curve
        self.costates: Array | None = None
        self.gains: Array | None = None
        self.penalty = 0.0
        self.delta = 0.0
        self.slope = math.nan
        self.error = math.inf
        self.gave_up = False
        self.saddle = False
        self._flat = system.nx == system.ndx and system.difference_jacobian(system.neutral(), system.neutral()) is None
        self._contraction: tuple[float, float] | None = None
        self._closed_loop_costate = False
        self._resets = self._short = self._open = self._last_digits = 0
        self._newton = False  # the last step was Newton's, without regularization
        self._start: tuple[Array, Array] | None = None
        self._motion: Curve | None = None  # the newest curve without gaps
        self._filter: list[tuple[float, float]] | None = None
        self._widest = math.inf

    # ---- curves

    def begin(self, X: Array, U: Array) -> None:
        """Start from a curve, which need not be a motion."""
        self._start = (X, U)
        first = self.cost_of(X, U)
        refused("" if math.isfinite(first) else "cost")
        if self.inside.rows:
            U = self.inside.begin(X, U, max(1e-2, 0.1 * abs(first) / len(U)))
        curve = self._shoot(X, U)
        refused("steps" if curve is None else "")
        assert curve is not None
        self.curve = curve
        if self.inside.rows:
            self.inside.s, self.inside.r = curve.slacks, curve.residuals

    X = property(lambda self: self.curve.X, doc="States (N+1, nx) of the curve.")
    U = property(lambda self: self.curve.U, doc="Inputs (N, nu) of the curve.")
    value = property(lambda self: self.curve.value, doc="Its cost.")

    @property
    def gap(self) -> float:
        """Largest gap of the curve."""
        return 0.0 if self.curve.gaps is None else float(np.abs(self.curve.gaps).max())

    def violation(self) -> tuple[float, str]:
        """By how much the worst limit is broken, and its name."""
        return self.inside.violation(self.X, self.U)

    def multipliers(self) -> dict[str, Array] | None:
        """Multipliers of every bound and limit over time."""
        return self.inside.by_name() if self.inside.rows else None

    def cost_of(self, X: Array, U: Array) -> float:
        """The cost; infinite or NaN where it overflows."""
        with np.errstate(all="ignore"):
            return float(self.cost.values(X, U).sum())

    def _measure(
        self, X: Array, U: Array, gaps: Array | None, d: Proposal | None = None, step: float = 1.0
    ) -> Curve | None:
        value = self.cost_of(X, U)
        if not math.isfinite(value):
            return None
        curve = Curve(X, U, gaps, value, off=0.0 if gaps is None else float(np.abs(gaps).sum()))
        if self.inside.rows:
            curve.barrier, off, curve.slacks, curve.residuals = self.inside.trial(
                X, U, None if d is None or not d.moves else d.moves, step
            )
            curve.off += off
            if not math.isfinite(curve.merit(1.0)):
                return None
        return curve

    def _shoot(self, X: Array, U: Array, d: Proposal | None = None, step: float = 1.0) -> Curve | None:
        """A curve with its gaps; None where a step cannot be taken."""
        try:
            ends = self.system.shoot(X, U)[0]
        except DalembertError:
            return None
        gaps = self.system.difference(X[1:], ends)
        if not np.isfinite(gaps).all():
            return None
        return self._measure(X, U, gaps if np.abs(gaps).max() > _closed(X) else None, d, step)

    def _linear(self, d: Proposal, step: float) -> Curve | None:
        X, U = self.system.retract(self.curve.X, step * d.dX), self.curve.U + step * d.dU
        low, high = self.inside.limits(self.curve.U)
        return self._shoot(X, U if low is None else np.clip(U, low, high), d, step)

    def _roll(self, d: Proposal, step: float) -> Curve | None:
        c = self.curve
        X, dX = c.X, d.dX
        try:
            if self.free is not None and self.system.constrained:
                X, dX = X.copy(), dX.copy()
                X[0], dX[0] = self.system.settle(self.system.retract(X[0], step * dX[0])), 0.0
            X, U = self.system.roll(Course(X, c.U, dX, d.dU, d.K, c.gaps, step, *self.inside.limits(c.U)))
        except DalembertError:
            return None
        if not (np.isfinite(X).all() and np.isfinite(U).all()):
            return None
        return self._measure(X, U, None if c.gaps is None or step == 1.0 else (1.0 - step) * c.gaps, d, step)

    # ---- derivatives

    def _point(self) -> Point:
        c = self.curve
        ends, A, B = self.system.shoot(c.X, c.U, derive=True)
        assert A is not None
        assert B is not None
        turn = None
        if not self._flat and c.gaps is not None:
            turn = self.system.difference_jacobian(c.X[1:], ends)
            if turn is not None:
                A, B = turn @ A, turn @ B
        if not (np.isfinite(A).all() and np.isfinite(B).all()):
            raise ConvergenceError("the linearization along the motion is not finite")
        lx, lu = self.cost.gradient(c.X, c.U)
        if not (np.isfinite(lx).all() and np.isfinite(lu).all()):
            raise ValueError("the gradient of the cost is not finite")
        for r in self.inside.rows:
            r.linearize(c.X, c.U)
        Q, S, R = self.cost.hessian(c.X, c.U)
        p = Point(A, B, turn, lx, lu, lx, lu, Q, S, R, _scale(Q), _scale(R))
        self._with_barrier(p)
        return p

    def _with_barrier(self, p: Point) -> None:
        """Gradient and Gauss-Newton Hessian with the rows' part, for the present mu."""
        if not self.inside.rows:
            return
        p.bx, p.bu = p.lx.copy(), p.lu.copy()
        Q, S, R = self.cost.hessian(self.curve.X, self.curve.U)
        p.Q, p.R = Q.copy(), R.copy()
        p.S = self.inside.model(p.bx, p.bu, p.Q, S, p.R)

    def _second(self, p: Point) -> Hessian:
        """Q, S, R with the second derivatives of the steps and of the constraints."""
        c = self.curve
        assert self.costates is not None
        z = self.costates
        if self._closed_loop_costate and self.gains is not None:
            z = sweep_back(p.A, p.B, self.gains, p.bx, p.bu)
        z = z[1:] if p.turn is None else np.matmul(z[1:, None, :], p.turn)[:, 0]
        xx, xu, uu = self.system.second_order_trajectory(c.X, c.U, np.ascontiguousarray(z))
        Q, S, R = p.Q.copy(), xu if p.S is None else p.S + xu, p.R + uu
        Q[:-1] += xx
        for i, r in enumerate(self.inside.rows):
            more = r.curvature(c.X, c.U, self.inside.multipliers(i))
            if more is not None:
                Q, S, R = Q + more[0], S + more[1] if more[1] is not None else S, R + more[2]
        return Q, S, R

    def _solve(self, p: Point, model: Hessian, kind: str, delta: float) -> Proposal | None:
        """The LQ problem with delta D added; None where it has no minimum."""
        Q, S, R = model
        if delta:
            Q, R = Q + delta * p.Dx, R + delta * p.Du
        gaps = self.curve.gaps
        K, k, P, b, status = _core.riccati(
            p.A, p.B, Q[:-1], R, Q[-1], len(R), S=S, q=p.bx[:-1], r=p.bu, qf=p.bx[-1], c=gaps, cost_to_go=True
        )
        if status["failed_step"] >= 0:
            return None
        start = np.zeros(p.A.shape[1])
        if self.free is not None:
            basis = self._free_basis()
            try:
                factor = np.linalg.cholesky(basis.T @ P[0] @ basis + 1e-12 * np.eye(basis.shape[1]))
            except np.linalg.LinAlgError:
                return None
            start = -basis @ np.linalg.solve(factor.T, np.linalg.solve(factor, basis.T @ b[0]))
        dX, dU = _core.riccati_rollout(p.A, p.B, K, k, start, gaps)
        costates = np.matmul(P, dX[:, :, None])[:, :, 0] + b
        moves = self.inside.moves(dX, dU)
        slope = float(np.vdot(p.lx, dX) + np.vdot(p.lu, dU)) + self.inside.slope(moves)
        if not (math.isfinite(slope) and np.isfinite(costates).all()):
            return None
        Q, S, R = model
        bend = float(
            np.vdot(dX, np.matmul(Q, dX[:, :, None])[:, :, 0]) + np.vdot(dU, np.matmul(R, dU[:, :, None])[:, :, 0])
        )
        if S is not None:
            bend += 2 * float(np.vdot(dX[:-1], np.matmul(S, dU[:, :, None])[:, :, 0]))
        return Proposal(kind, delta, K, dX, dU, costates, slope, bend, moves)

    def _free_basis(self) -> Array:
        """Directions (ndx, n) in which the start may move."""
        assert self.free is not None
        chosen = np.eye(len(self.free))[:, self.free]
        tangent = self.system.tangent(self.curve.X[:1])
        if tangent is None:
            return chosen
        along = tangent.basis[0]
        if self.free.all():
            return along
        # directions along the constraints that leave the components that are not free where they are
        fixed = along[np.logical_not(self.free)]
        _, size, rows = np.linalg.svd(fixed, full_matrices=True)
        rank = int((size > 1e-10).sum())
        return np.asarray(along @ rows[rank:].T)

    def _regularized(self, p: Point, model: Hessian, kind: str, delta: float) -> Proposal | None:
        """The LQ problem with the least regularization from delta on that gives it a minimum."""
        found = self._solve(p, model, kind, delta)
        while found is None:
            delta = max(DELTA, self.delta / FALL) if delta == 0.0 else delta * (GROW if self.delta else 20.0)
            if delta > 1e12:
                return None
            found = self._solve(p, model, kind, delta)
        return found

    # ---- convergence

    def _kkt(self, p: Point) -> tuple[float, float, float]:
        """Scaled residuals: of stationarity, of gaps and constraints, and the scale."""
        z = self.costates
        assert z is not None
        gx, gu = p.lx, p.lu
        if self.inside.rows:
            gx, gu = gx.copy(), gu.copy()
            self.inside.gradient(gx, gu)
        rx = gx.copy()
        rx[1:] -= z[1:]
        rx[:-1] += np.matmul(z[1:, None, :], p.A)[:, 0]
        rx[0] = 0.0 if self.free is None else self._free_basis() @ (self._free_basis().T @ rx[0])
        ru = gu + np.matmul(z[1:, None, :], p.B)[:, 0]
        scale = max(100.0, float(np.abs(z[1:]).mean())) / 100.0
        c = self.curve
        primal = 0.0 if c.gaps is None else float(np.abs(c.gaps).max())
        return max(float(np.abs(rx).max()), float(np.abs(ru).max())) / scale, max(primal, self.inside.residual()), scale

    def _lower_barrier(self, p: Point, dual: float, primal: float, scale: float, least: float) -> None:
        """While the barrier problem is solved well enough for its mu: a smaller mu."""
        inside = self.inside
        changed = False
        while inside.mu > least and max(dual, primal, inside.complementarity(inside.mu) / scale) <= 10 * inside.mu:
            inside.mu = max(least, min(0.2 * inside.mu, inside.mu**1.5))
            changed = True
        if changed:
            self.penalty, self._filter = 0.0, None if self._filter is None else []
            self.curve.barrier = inside.barrier()[0]
            self._with_barrier(p)

    # ---- one iteration

    def iterate(self, tolerance: float, may_step: bool) -> tuple[Step, str, str]:
        """One step, or none and a status with its reason."""
        if self.curve.gaps is None:
            self._motion = self.curve
        p = self._point()
        gauss: Proposal | None = None
        first = self.costates is None
        if self.costates is None:
            gauss = self._regularized(p, (p.Q, p.S, p.R), "gauss-newton", 0.0)
            if gauss is None:
                return Step("gauss-newton", math.nan), "stalled", _UNSTEERED
            self.costates, self.gains = gauss.costates, gauss.K
            self.slope = gauss.slope
        dual, primal, scale = self._kkt(p)
        gap = self.inside.complementarity() / scale if self.inside.sided else 0.0
        self.error = max(dual, primal, gap)
        if self.inside.sided:
            least = 1e-5 * tolerance
            self._lower_barrier(p, dual, primal, scale, least)
            done = max(dual, primal) <= tolerance and self.inside.mu <= least and gap <= 10 * least
        else:
            done = max(dual, primal) <= tolerance
        rest = Step("-", self.slope)
        if done or self._last_digits > 3:
            return self._at_rest(p, rest, tolerance, may_step)
        if not may_step:
            return rest, "iterations", "the limit of iterations is reached"
        for step in self._attempts(p, gauss, first):
            if step.curve is not None and step.proposal is not None:
                self._take(p, step)
                return step, "", ""
            rest = step
        if abs(rest.slope) <= 1e-11 * max(1.0, abs(self.curve.value)) and self.curve.gaps is None:
            return rest, "converged", f"the slope {abs(rest.slope):.3g} is the rounding error of the cost"
        if self._filter is None:  # second attempt: linear steps and a filter
            self._filter, self._resets, self.delta, self.penalty = [], 0, 0.0, 0.0
            self._widest = 1e4 * max(1.0, self.curve.off)
            return Step("linear", rest.slope, trials=rest.trials, failed=rest.failed), "", ""
        if math.isnan(rest.slope):
            return rest, "stalled", _UNSTEERED
        return rest, "stalled", f"no step lowers the cost ({rest.trials} trials, {rest.failed} without a motion)"

    def _attempts(self, p: Point, gauss: Proposal | None, first: bool) -> Iterator[Step]:
        """Steps until one is accepted; afterwards resets to Gauss-Newton's gains and costates."""
        plain = (p.Q, p.S, p.R)
        total = Step("newton", math.nan)
        while True:
            contracts = first
            if self._contraction is not None and self._filter is None:
                gauss = gauss or self._solve(p, plain, "gauss-newton", 0.0)
                if gauss is not None:
                    size, length = self._contraction
                    contracts = (
                        abs(gauss.slope) + self.penalty * self.curve.off < (0.05 if length >= 1.0 else 0.3) * size
                    )
            self._contraction = None
            if contracts and gauss is not None:
                yield self._gauss_step(p, gauss, first)
                first = False
            try:
                model = self._second(p)
            except (DalembertError, ValueError):
                model = plain
            step = self._newton_step(p, model, gauss)
            gauss = step[1]
            yield step[0]
            # nothing helped: begin anew from Gauss-Newton's gains and costates, the other costate in second order
            if self._resets >= RESETS:
                return
            self._resets += 1
            self.delta = self.penalty = 0.0
            self._closed_loop_costate = not self._closed_loop_costate
            gauss = self._solve(p, plain, "gauss-newton", 0.0)
            if gauss is None:
                total.slope = math.nan
                yield total
                return
            self.gains, self.costates = gauss.K, gauss.costates
            self._filter = None if self._filter is None else []

    def _gauss_step(self, p: Point, d: Proposal, first: bool) -> Step:
        """Gauss-Newton; the first step may open gaps."""
        out = self._search(d)
        if not first or self._filter is not None:
            return out
        weight = np.abs(d.costates[1:])

        def weighed(c: Curve) -> float:
            gap = 0.0 if c.gaps is None else float(np.vdot(np.abs(c.gaps), weight))
            return (
                c.value
                + c.barrier
                + gap
                + sum(float(np.vdot(np.abs(r), np.abs(self.inside.multipliers(i)))) for i, r in enumerate(c.residuals))
            )

        best = min(weighed(self.curve), math.inf if out.curve is None else weighed(out.curve))
        for share in (0.5, 0.25, 0.125):  # what the roll could win at most
            if out.curve is not None and out.length <= share:
                break
            c = self._roll(d, share)
            best = min(best, math.inf if c is None else weighed(c))
        bold = self._linear(d, 1.0)
        if bold is not None and weighed(bold) < 0.5 * best and bold.gaps is not None:
            out = Step("open", d.slope, bold, d, 1.0, out.trials + 1, out.failed)
        return out

    def _newton_step(self, p: Point, model: Hessian, gauss: Proposal | None) -> tuple[Step, Proposal | None]:
        """Newton with the regularization of the last step, or as much more as it needs; compared with Gauss-Newton where it does badly."""
        delta = self.delta if self.delta >= DELTA else 0.0
        total = Step("newton", math.nan)
        plain = (p.Q, p.S, p.R)
        for attempt in range(40):
            d = self._regularized(p, model, "newton", delta)
            if d is None:
                break
            step = self._search(d)
            total.trials, total.failed, total.slope = total.trials + step.trials, total.failed + step.failed, d.slope
            closed = self.curve.gaps is None
            if step.curve is not None and closed and self._filter is None:
                step = self._shorter_delta(p, model, step)
            bad = step.curve is None or step.length < 0.3 or d.delta > 1.0
            if attempt == 0 and closed and bad and self._filter is None:
                gauss = gauss or self._solve(p, plain, "gauss-newton", 0.0)
                if gauss is not None:
                    other = self._search(gauss, 4)
                    total.trials, total.failed = total.trials + other.trials, total.failed + other.failed
                    if other.curve is not None and (
                        step.curve is None or other.curve.merit(self.penalty) < step.curve.merit(self.penalty)
                    ):
                        step = other
            if step.curve is not None:
                step.trials, step.failed = total.trials, total.failed
                if d.delta > 1e4 and step.proposal is d and self._resets < RESETS:
                    break  # so much regularization is no Newton step any more
                return step, gauss
            delta = max(DELTA, self.delta / FALL) if d.delta == 0.0 else d.delta * GROW
            if delta > 1e10:
                break
        return total, gauss

    def _shorter_delta(self, p: Point, model: Hessian, step: Step) -> Step:
        """A full step with regularization: less of it, as long as that wins more."""
        while step.proposal is not None and step.curve is not None and step.length >= 1.0 and step.proposal.delta > 0:
            delta = step.proposal.delta / FALL
            d = self._solve(p, model, "newton", delta if delta >= DELTA else 0.0)
            if d is None:
                break
            c = self._roll(d, 1.0)
            step.trials += 1
            if c is None or not c.merit(self.penalty) < step.curve.merit(self.penalty):
                break
            step.curve, step.proposal, step.length, step.slope = c, d, 1.0, d.slope
        return step

    def _search(self, d: Proposal, limit: int | None = None) -> Step:
        """Halve the step until the merit falls enough; double a full step while that wins more.

        Doubling is tried where the parabola through merit, slope and the full step's merit says that it wins (at two thirds of the slope), or
        nearly so."""
        c = self.curve
        out = Step(d.kind, d.slope)
        if c.off > 0.0:
            self.penalty = max(self.penalty, (d.slope + 0.5 * max(d.curvature, 0.0)) / (0.9 * c.off))
        fall = d.slope - self.penalty * c.off
        now = c.merit(self.penalty)
        follow: Callable[[Proposal, float], Curve | None] = self._roll if self._filter is None else self._linear
        if abs(d.slope) + self.penalty * c.off < 1e-13 * max(
            1.0, abs(now)
        ):  # less than can be seen in the cost: believe the model
            new = follow(d, 1.0)
            if new is not None:
                self._last_digits += 1
                return Step(d.kind, d.slope, new, d, 1.0, 1)
        length = 1.0
        for _ in range(limit or (12 if c.gaps is None else 25)):
            out.trials += 1
            new = follow(d, length)
            if new is None:
                out.failed += 1
            elif self._accepts(new, d, length, fall, now):
                out.curve, out.proposal, out.length = new, d, length
                break
            length *= 0.5
        if self._filter is not None or c.gaps is not None or out.curve is None:
            return out
        if now - out.curve.merit(self.penalty) > -0.6 * fall:
            while 1.0 <= out.length < 64:
                new = self._roll(d, 2 * out.length)
                out.trials += 1
                if new is None or not new.merit(self.penalty) < out.curve.merit(self.penalty):
                    break
                out.curve, out.length = new, 2 * out.length
        return out

    def _accepts(self, new: Curve, d: Proposal, length: float, fall: float, now: float) -> bool:
        if self._filter is None:
            return new.merit(self.penalty) <= now + 1e-4 * length * fall + 1e-12 * abs(now)
        # the filter: not worse than any point before in both cost and gaps, and better than here in one of them
        c = self.curve
        cost, here = new.value + new.barrier, c.value + c.barrier
        if new.off > self._widest or any(new.off >= off and cost >= value for off, value in self._filter):
            return False
        if d.slope < 0 and length * (-d.slope) ** 2.3 > c.off**1.1 and c.off <= 1e-8 * self._widest:
            return cost <= here + 1e-4 * length * d.slope + 1e-12 * abs(here)
        if new.off <= (1 - 1e-5) * c.off or cost <= here - 1e-5 * c.off:
            self._filter.append(((1 - 1e-5) * c.off, here - 1e-5 * c.off))
            return True
        return False

    def _take(self, p: Point, step: Step) -> None:
        """Go to the new curve; regularization by how well the model predicted it."""
        d, new, c = step.proposal, step.curve, self.curve
        assert d is not None
        assert new is not None
        assert self.costates is not None
        self.slope, self.gains = d.slope, d.K
        a = min(step.length, 1.0)
        if d.kind == "newton":
            fall = d.slope - self.penalty * c.off
            promised = -(step.length * fall + 0.5 * step.length**2 * d.curvature)
            ratio = (c.merit(self.penalty) - new.merit(self.penalty)) / max(promised, 1e-300)
            if step.length < 0.3 or ratio < 0.1:
                self.delta = max(self.delta, d.delta, DELTA) * GROW
            elif step.length >= 1.0 and ratio > 0.3:
                self.delta = d.delta / FALL
            else:
                self.delta = d.delta
            if self.delta < 0.99 * DELTA:
                self.delta = 0.0
        else:
            self._contraction = (abs(d.slope) + self.penalty * c.off, step.length) if step.method != "open" else None
            if step.length >= 1.0:  # what held Newton back lies behind
                self.delta = 0.0
        self._newton = d.kind == "newton" and d.delta == 0.0
        if self.inside.rows:
            self.inside.advance(a, self.inside.proposal(d.moves), new.slacks, new.residuals)
        self.costates = self.costates + a * (d.costates - self.costates)
        self.curve = new
        # gaps that do not close
        self._open = self._open + 1 if new.gaps is not None else 0
        self._short = self._short + 1 if new.gaps is not None and step.length < 0.05 else 0
        if (self._short >= GIVE_UP or self._open >= OPEN) and not self.gave_up:
            self._give_up()

    def _give_up(self) -> None:
        """The motion of the inputs of the start, instead of a curve whose gaps do not close."""
        assert self._start is not None
        X, U = self._start
        if self.inside.rows:
            U = Interior(self.inside.rows).begin(X, U, self.inside.mu)
        try:
            Xn = self.system.simulate(X[0], U)
        except DalembertError:
            self._short = self._open = 0
            return
        self.gave_up = True
        self._short = self._open = 0
        if self.inside.rows:
            self.inside.begin(Xn, U, max(1e-2, 0.1 * abs(self.cost_of(Xn, U)) / len(U)))
        new = self._measure(Xn, U, None)
        if new is not None:
            self.curve, self.delta, self.penalty = new, 0.0, 0.0
            if self.inside.rows:
                self.inside.s, self.inside.r = new.slacks, new.residuals

    # ---- the end

    def _at_rest(self, p: Point, rest: Step, tolerance: float, may_step: bool) -> tuple[Step, str, str]:
        """A curve without slope: a minimum, unless some direction bends downwards, which is then followed."""
        said = f"the scaled KKT error {self.error:.3g} is below {tolerance:g}"
        if self._last_digits > 3:
            said = f"the scaled KKT error {self.error:.3g} is all that rounding of the cost lets see"
        if self._newton:
            return rest, "converged", said
        try:
            model = self._second(p)
        except (DalembertError, ValueError):
            return rest, "converged", said
        d = self._solve(p, model, "newton", 0.0)
        if d is not None:
            self.gains = d.K
            return rest, "converged", said
        down = self._downward(p, model)
        if down is None:
            return rest, "converged", said
        if not may_step:
            return rest, "saddle", "no slope, but a direction in which the cost falls: a saddle or a maximum"
        step = Step("downward", 0.0)
        best: Curve | None = None
        now = self.curve.merit(self.penalty)
        for length in 0.5 ** np.arange(0, 20, 2):
            for side in (length, -length):
                c = self._roll(down, float(side))
                step.trials += 1
                if c is not None and c.merit(self.penalty) < min(
                    now - 10 * tolerance, math.inf if best is None else best.merit(self.penalty)
                ):
                    best, step.length = c, float(length)
            if best is not None:
                break
        if best is None:
            return rest, "saddle", f"{said}, but in some direction the cost bends downwards, too little to be followed"
        self.curve, self.delta, self.costates = best, 0.0, None
        if self.inside.rows:
            self.inside.s, self.inside.r = best.slacks, best.residuals
        self._last_digits = 0
        self._contraction = None
        return step, "", ""

    def _downward(self, p: Point, model: Hessian) -> Proposal | None:
        """A tangent motion along which the model bends downwards."""
        found = downward_motion(p.A, p.B, *model)
        if found is None:
            return None
        dX, dU, K = found
        gains = self.gains if self.gains is not None else np.zeros_like(K)
        return Proposal("downward", 0.0, gains, dX, dU, np.zeros_like(dX), 0.0, -1.0)

    def close(self) -> bool:
        """Make the curve a motion if it is none, or go back to the newest that was one; False if that is not possible."""
        c = self.curve
        if c.gaps is None:
            return True
        zero = np.zeros((len(c.X), self.system.ndx)), np.zeros_like(c.U)
        K = np.zeros((len(c.U), c.U.shape[1], self.system.ndx)) if self.gains is None else self.gains
        tries: list[Any] = [lambda: self.system.roll(Course(c.X, c.U, *zero, K, None, 1.0, *self.inside.limits(c.U)))]
        if self._motion is not None:
            X, U = self._motion.X, self._motion.U
            tries.append(lambda: (X, U))
        elif self._start is not None:
            X, U = self._start
            tries.append(lambda: (self.system.simulate(X[0], U), U))
        for follow in tries:
            try:
                Xn, Un = follow()
                new = self._measure(Xn, Un, None)
            except DalembertError:
                continue
            if new is not None:
                self.curve = new
                return True
        return False


_UNSTEERED = (
    "no feedback stabilizes the motion: the Riccati sweep overflows or no regularization helps; shorten the horizon, weigh all inputs, or give "
    "another start"
)


def refused(why: str) -> None:
    """Raise why a start is none: its "cost" is not finite, its "steps" have no solution."""
    if why == "cost":
        raise ValueError("the cost of the start is not finite")
    if why:
        raise ConvergenceError(
            "the steps of the start cannot be taken",
            hint="start from a simulated trajectory, or from rest with constant inputs",
        )


def _closed(X: Array) -> float:
    """Gaps below this are rounding."""
    return 1e-11 * max(1.0, float(np.abs(X).max()))


def _scale(W: Array) -> Array:
    """Diagonal (n, n) of what weights W (N, n, n) are like: their largest entry over time without the last, no less than 1e-3 of the largest."""
    d = np.abs(np.diagonal(W, axis1=1, axis2=2))
    typical = d[:-1].max(0) if len(d) > 1 else d[0]
    if not typical.max() > 0:
        typical = d[-1] / len(d)
    most = float(typical.max())
    return np.diag(np.maximum(typical, 1e-3 * most))
