"""Identification: parameters (and initial states) of a model that explain records best, by Gauss-Newton with exact derivatives.

Records are cut in segments that begin with states of their own ("multiple shooting"): each is short enough to follow its measurements
from the start, whatever the parameters. First the segments are fitted as if they had nothing to do with each other, which brings the parameters
near; then the gaps between them are closed. The states of segments are eliminated from every linear problem (a gap is a linear function of what
comes before it), so its size is that of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, nearest, needed, number, positive, whole
from ..errors import ConvergenceError, ModelError
from ..integrate import MidpointVI, Trajectory
from ..mechanics.evaluate import constraint_jacobian, core, parameter_links
from ..mechanics.solve import consistent_velocity, satisfy_constraints
from ..model import Model
from .charts import Chart, chart
from .naming import name_parameters
from .record import Record, Seen
from .result import Identifiability, Identification, identifiability_of


@dataclass
class _Segment:
    """Steps first .. last of a record, from a state (q, p) of its own."""

    record: int
    first: int
    last: int
    q: Array
    p: Array


@dataclass
class _Linear:
    """A least-squares problem in the parameters z: |r - J dz|^2 as H = J'J, g = J'r, initial states eliminated; and how states follow dz."""

    H: Array
    g: Array
    cost: float
    gap: float
    follow: list[tuple[Array, Array]]  # per segment: change of (q, p) = a + B dz
    residuals: list[Array]
    rows: int


class Problem:
    """Records of one model, measured alike."""

    def __init__(
        self,
        vi: MidpointVI,
        records: Sequence[Record],
        names: tuple[str, ...],
        seen: Seen,
        deviations: Array,
        segment: int,
    ) -> None:
        self.vi, self.records, self.names, self.seen, self.deviations = (
            vi,
            [needed(r, Record) for r in records],
            names,
            seen,
            deviations,
        )
        m = vi.model
        self.inputs = []
        for i, r in enumerate(self.records):
            if r.y.shape[1] != seen.size:
                raise ValueError(f"record {i}: y has {r.y.shape[1]} columns, the measurement {seen.size} entries")
            u = np.zeros((r.steps, m.nu)) if r.u is None else finite(r.u, f"u of record {i}", (r.steps, m.nu))
            if m.nk and r.kinematic is None:
                raise ValueError(f"record {i}: the model has kinematic variables, so `kinematic` is needed")
            rho = (
                np.zeros((r.steps, 0)) if not m.nk else finite(r.kinematic, f"kinematic of record {i}", (r.steps, m.nk))
            )
            self.inputs.append(np.hstack([u, rho]))
        self.lengths = [_lengths(r.t) for r in self.records]
        self.segments = [s for i in range(len(self.records)) for s in self._cut(i, segment)]
        self.joined = True  # segments continue each other; else each stands for itself

    # ---- where segments begin

    def _cut(self, i: int, length: int) -> list[_Segment]:
        r = self.records[i]
        edges = list(range(0, r.steps, max(1, length)))
        if len(edges) > 1 and r.steps - edges[-1] < length / 2:
            edges.pop()
        out = []
        for k, first in enumerate(edges):
            last = edges[k + 1] if k + 1 < len(edges) else r.steps
            q, p = self._start(i, first)
            out.append(_Segment(i, first, last, q, p))
        return out

    def _start(self, i: int, k: int) -> tuple[Array, Array]:
        """A first guess of the state at time k: the known or given one, or from measured coordinates and their differences."""
        r, m = self.records[i], self.vi.model
        given = r.start or r.guess
        if k == 0 and given is not None:
            return given.q.copy(), core(m).first(given.q, given.v)[1][: m.nd].copy()
        measured = {n: c for c, n in enumerate(self.seen.names)}
        missing = [n for n in m.dynamic if n not in measured or np.isnan(r.y[k, measured[n]])]
        if missing:
            raise ValueError(
                f"record {i}: where does {', '.join(missing)} begin (t = {r.t[k]:g})? Not all coordinates are measured: give `guess`, and "
                "segment=None if only the first state is known"
            )
        rest = given.q if given is not None else m.neutral()

        def at(j: int) -> Array:
            q = rest.copy()
            for n in m.dynamic:
                q[m.index(n)] = r.y[j, measured[n]]
            if m.nk:
                q[m.nqd :] = self.inputs[i][max(j - 1, 0), m.nu :]
            return q

        q = at(k)
        a, b = max(k - 1, 0), min(k + 1, r.steps)
        v = m.difference(at(a), at(b)) / (r.t[b] - r.t[a])
        if not np.isfinite(v).all():
            v = np.zeros(m.nv)
        if m.nc:
            q = satisfy_constraints(m, q)
            v = consistent_velocity(m, q, v)
        return q, core(m).first(q, v)[1][: m.nd].copy()

    # ---- at values of the parameters

    def at(self, values: Mapping[str, float]) -> Model:
        """The model with these values, sensible or not."""
        return self.vi.model.with_parameters(values, check=False)

    def settle(self, model: Model) -> None:
        """Known starts, and constraints, at the values of a model."""
        for s in self.segments:
            r = self.records[s.record]
            if s.first == 0 and r.start is not None:
                s.q, s.p = r.start.q.copy(), core(model).first(r.start.q, r.start.v)[1][: model.nd].copy()
            elif model.nc:
                s.q = satisfy_constraints(model, s.q)

    def simulate(self, model: Model, s: _Segment) -> Array:
        """States (n+1, nx) of a segment."""
        vi = self.vi.with_dt(self.lengths[s.record][s.first : s.last]).with_model(model)
        x = np.concatenate([s.q, s.p, np.zeros(model.nkv)])
        t = self.records[s.record].t[s.first : s.last + 1]
        return vi.over(t).simulate(x, self.inputs[s.record][s.first : s.last])

    def residuals(self, model: Model, s: _Segment, X: Array) -> Array:
        """(y - expected)/deviation (rows, ny) of a segment, NaN where nothing was measured; its first state counts in the segment before."""
        y = self.records[s.record].y[s.first : s.last + 1]
        r = (y - self.seen.values(model, X[:, : model.nq])) / self.deviations
        return r[self._counted(s) :]

    def _counted(self, s: _Segment) -> int:
        """The first state of a segment that is compared with measurements."""
        return 1 if self.joined and s.first else 0

    def evaluate(self, model: Model) -> tuple[float, float]:
        """Half the sum of squares, and the gaps between segments."""
        cost = gap = 0.0
        end: Array | None = None
        for s in self.segments:
            if self.joined and s.first and end is not None:
                gap += float(np.abs(self._gap(model, s, end)).sum())
            X = self.simulate(model, s)
            r = self.residuals(model, s, X)
            cost += 0.5 * float(np.nansum(r * r))
            end = X[-1]
        return cost, gap

    def _gap(self, model: Model, s: _Segment, end: Array) -> Array:
        """Tangent vector (2 nd,) from where a segment begins to where the one before ends."""
        m = model
        return np.concatenate([m.difference(s.q, end[: m.nq])[: m.nd], end[m.nq : m.nq + m.nd] - s.p])

    def linearize(self, model: Model) -> _Linear:
        """The least-squares problem around the present states and the values of a model."""
        n, nd = len(self.names), model.nd
        links = parameter_links(model, self.names)
        H, g = np.zeros((n, n)), np.zeros(n)
        cost = gap = 0.0
        rows = 0
        follow: list[tuple[Array, Array]] = []
        residuals: list[Array] = []
        at = 0
        while at < len(self.segments):
            # one record: unknowns (dz, ds) with ds the change of its first state
            head = self.segments[at]
            known = self.records[head.record].start is not None and head.first == 0
            free, by_z = self._first(model, self.segments[at], links, known)
            a, B = np.zeros(2 * nd), np.hstack([by_z, free])  # change of the segment's start: a + B (dz, ds)
            columns = n + free.shape[1]
            Hr, gr = np.zeros((columns, columns)), np.zeros(columns)
            starts: list[tuple[Array, Array]] = []
            while True:
                s = self.segments[at]
                X = self.simulate(model, s)
                r = self.residuals(model, s, X)
                cost += 0.5 * float(np.nansum(r * r))
                residuals.append(r)
                rows += int((~np.isnan(r)).sum())
                end, JJ, Je = self._products(model, s, links, X, r, np.hstack([B, a[:, None]]))
                Hr += JJ[:-1, :-1]
                gr += Je[:-1] - JJ[:-1, -1]
                starts.append((a, B))
                at += 1
                if not self.joined or at == len(self.segments) or self.segments[at].record != s.record:
                    break
                d = self._gap(model, self.segments[at], X[-1])  # to be closed
                gap += float(np.abs(d).sum())
                a, B = d + end[:, -1], end[:, :-1]
            # ds = inverse (g_s - H_sz dz): eliminated
            inverse = np.linalg.pinv(Hr[n:, n:], rcond=1e-12, hermitian=True) if columns > n else np.zeros((0, 0))
            by_state = inverse @ Hr[n:, :n]
            H += Hr[:n, :n] - Hr[:n, n:] @ by_state
            g += gr[:n] - by_state.T @ gr[n:]
            ds = inverse @ gr[n:]
            follow += [(a + B[:, n:] @ ds, B[:, :n] - B[:, n:] @ by_state) for a, B in starts]
        return _Linear((H + H.T) / 2, g, cost, gap, follow, residuals, rows)

    def _first(self, model: Model, s: _Segment, links: Any, known: bool) -> tuple[Array, Array]:
        """Directions in which the first state of a record may change (2 nd, k), and how it must with the parameters (2 nd, n)."""
        m, nd = model, model.nd
        by_z = np.zeros((2 * nd, len(self.names)))
        if known:
            start = self.records[s.record].start
            assert start is not None
            for i in range(nd):  # p = L_v
                by_z[nd + i] = core(m).lagrangian_parameters(start.q, start.v, links, np.zeros(m.nv), np.eye(m.nv)[i])
            return np.zeros((2 * nd, 0)), by_z
        free = np.eye(2 * nd)
        if m.nc:
            C = constraint_jacobian(m, s.q)[: m.nh, :nd]
            by_z[:nd] = -np.linalg.pinv(C) @ core(m).configuration_parameters(s.q, [], links)[0][: m.nh]
            _, size, V = np.linalg.svd(C)
            rank = int((size > 1e-10 * size.max(initial=0.0)).sum())
            basis = np.zeros((2 * nd, 2 * nd - rank))
            basis[:nd, : nd - rank], basis[nd:, nd - rank :] = V[rank:].T, np.eye(nd)
            free = basis
        return free, by_z

    def _products(
        self, model: Model, s: _Segment, links: Any, X: Array, r: Array, S0: Array
    ) -> tuple[Array, Array, Array]:
        """Derivatives of the end of a segment from those of its start, S0 (2 nd, columns; the first ones are parameters), and J'J, J'r of its
        measurements."""
        m, nd, n, k0 = model, model.nd, len(self.names), self._counted(s)
        dt = self.lengths[s.record][s.first : s.last]
        U = np.ascontiguousarray(self.inputs[s.record][s.first : s.last])
        known = ~np.isnan(r)
        e = np.where(known, r, 0.0)
        if self.seen.frames:
            S, _, bad, _ = core(model).sensitivities(self.vi.options, links, X, U, dt, None, S0, False)
            by_q, direct = self.seen.slopes(model, self.names, X[k0:, : m.nq])
            J = by_q[:, :, :nd] @ S[k0:, :nd]
            J[:, :, :n] += direct
            J *= (known / self.deviations)[:, :, None]
            J = J.reshape(-1, S0.shape[1])
            out = S[-1], J.T @ J, J.T @ e.ravel()
        else:
            at = np.array(self.seen.components)
            weight, error = np.zeros((2, len(X), len(at)))
            weight[k0:], error[k0:] = np.where(at < nd, known / self.deviations, 0.0), e
            row = np.where(at < nd, at, 0).astype(np.int32)  # prescribed variables depend on nothing
            JJ, Je, end, bad, _ = core(model).information(self.vi.options, links, X, U, dt, S0, row, weight, error)
            out = end, JJ, Je
        if bad < len(dt):
            raise ConvergenceError(
                f"record {s.record}: step {s.first + bad} cannot be differentiated", step=s.first + bad
            )
        return out

    def move(self, linear: _Linear, dz: Array, share: float) -> None:
        """Let all states follow a change of the parameters, and close a share of the gaps."""
        m = self.vi.model
        for s, (a, B) in zip(self.segments, linear.follow, strict=True):
            d = share * a + B @ dz
            s.q = m.integrate(s.q, np.concatenate([d[: m.nd], np.zeros(m.nkv)]))
            s.p = s.p + d[m.nd :]

    def states(self) -> list[tuple[Array, Array]]:
        """The first states of all segments."""
        return [(s.q, s.p) for s in self.segments]

    def restore(self, states: list[tuple[Array, Array]]) -> None:
        """Back to these."""
        for s, (q, p) in zip(self.segments, states, strict=True):
            s.q, s.p = q, p


def identify(
    model: Model | MidpointVI,
    records: Record | Sequence[Record],
    parameters: Sequence[str] | None = None,
    measurement: Sequence[str] | None = None,
    *,
    noise: float | Mapping[str, float] | ArrayLike | None = None,
    segment: int | None = 50,
    prior: Mapping[str, tuple[float, float]] | None = None,
    physical: bool = True,
    tolerance: float = 1e-10,
    max_iterations: int = 50,
    progress: Callable[[str], None] | None = None,
) -> Identification:
    """Parameters of a model that explain records best: nonlinear least squares with exact derivatives through the discrete steps.

    `model`: a Model, simulated with its own steps between the times of the records, or an integrator with its order and forcing. `parameters`: names
    of `model.parameters` (default: all), or of numbers as `name_parameters` calls them. `measurement`: names of variables (hinges, sliders) and
    frames (origin, three numbers) in the order of the columns of `Record.y`; default: all dynamic variables. `noise`: standard deviations of the
    measurements, one number or by name; None: unknown but equal, then they are estimated from the residuals. `segment`: steps per shooting
    segment (None: each record whole). `prior`: {name: (mean, standard deviation)}. `physical`: bodies whose mass, centre of mass and inertia
    are all identified stay bodies (log-Cholesky coordinates); other parameters keep to their bounds. The iteration ends where a step changes
    parameters, or the cost, by less than `tolerance` (relative), or after `max_iterations`; `progress` is called with a line about each.

    What the records cannot tell is not guessed: such directions stay where they start, and `Identification.identifiability` names them.

    >>> import dalembert as da
    >>> import numpy as np
    >>> true = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity(), da.Damping(0.3)])
    >>> vi = da.MidpointVI(true, dt=0.02)
    >>> record = da.Record.of(vi.simulate(vi.state(q=[1.0]), steps=200), ["theta"], noise=1e-3)
    >>> guess = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity(), da.Damping(da.Parameter("c", 0.1))])
    >>> fit = da.identify(guess, record, ["c"], ["theta"], noise=1e-3)
    >>> abs(fit["c"] - 0.3) < 3 * fit.deviation["c"] < 0.003
    True
    """
    given = [records] if isinstance(records, Record) else list(records)
    if not given or any(not isinstance(r, Record) for r in given):
        raise ValueError("records must be Record values, one at least")
    tolerance = positive(tolerance, "tolerance")
    vi = model if isinstance(model, MidpointVI) else MidpointVI(model, dt=float(np.diff(given[0].t)[0]))
    vi, names = _named(vi, parameters)
    seen = Seen(vi.model, measurement if measurement is not None else vi.model.dynamic)
    scale = np.ones(seen.size) if noise is None else seen.deviations(noise)
    length = max(r.steps for r in given) if segment is None else whole(segment, "segment")
    if length < 1:
        raise ValueError("segment must be at least 1")
    problem = Problem(vi, given, names, seen, scale, length)
    means, weights = _prior(prior, names)
    start = np.array([float(vi.model.parameters[n]) for n in names])
    search = chart(vi.model, names, physical)
    z = search.coordinates(start)
    low, high = _bounds(vi.model, names, search)
    scales = _scales(vi.model, names)
    for places in search.bodies:  # logarithms, and centres of mass
        scales[list(places)] = [1.0, *scales[list(places[1:4])], *([1.0] * 6)]

    def values(z: Array) -> dict[str, float]:
        return dict(zip(names, search.values(z).tolist(), strict=True))

    def penalty(z: Array) -> float:
        e = search.values(z) - means
        return 0.5 * float(e @ (weights * e))

    def iterate(z: Array, tolerance: float) -> tuple[Array, Model, _Linear, str]:
        current = problem.at(values(z))
        problem.settle(current)
        linear = problem.linearize(current)
        damping = 1e-6
        for iteration in range(max_iterations + 1):
            slope = search.slope(z)
            H = slope.T @ (linear.H + np.diag(weights)) @ slope
            g = slope.T @ (linear.g - weights * (search.values(z) - means))
            cost = linear.cost + penalty(z)
            history.append(cost)
            if progress is not None:
                progress(f"iteration {iteration}: cost {cost:.6g}, gaps {linear.gap:.3g}")
            if iteration == max_iterations:
                break
            worth = 10 * (cost + 1e-300) / linear.gap if linear.gap > 0 else 0.0  # of a gap: it has to shrink first
            kept, share = problem.states(), 1.0
            while True:
                dz = share * _step(H, g, damping, z, low, high, scales)
                better = False
                try:
                    problem.move(linear, search.values(z + dz) - search.values(z), share)
                    new = problem.at(values(z + dz))
                    problem.settle(new)
                    c, gap = problem.evaluate(new)
                    better = c + penalty(z + dz) + worth * gap < cost + worth * linear.gap
                except (ConvergenceError, ModelError, ValueError, np.linalg.LinAlgError):
                    pass  # too far
                small = np.abs(dz).max(initial=0.0) <= tolerance * (1 + np.abs(z).max(initial=0.0))
                if better or small or damping > 1e12:
                    break
                problem.restore(kept)
                damping *= 8
                share *= 0.5 if problem.joined and linear.gap > 0 else 1.0
            if not better:
                problem.restore(kept)
                return z, current, linear, "converged" if small else "no step helps"
            z, current = z + dz, new
            damping = max(damping / 10, 1e-15)
            linear = problem.linearize(current)
            if small or (abs(cost - linear.cost - penalty(z)) <= tolerance * cost and linear.gap < 1e-8):
                history.append(linear.cost + penalty(z))
                return z, current, linear, "converged"
        return z, current, linear, "max_iterations reached"

    history: list[float] = []
    if len(problem.segments) > len(problem.records):
        problem.joined = False
        z, *_ = iterate(z, max(tolerance, 1e-5))
        problem.joined = True
    z, current, linear, reason = iterate(z, tolerance)
    return _result(problem, vi, current, names, search, z, linear, weights, noise is None, history, reason)


def identifiability(
    model: Model | MidpointVI,
    records: Record | Sequence[Record] | Trajectory,
    parameters: Sequence[str] | None = None,
    measurement: Sequence[str] | None = None,
    *,
    noise: float | Mapping[str, float] | ArrayLike = 1.0,
    segment: int | None = None,
    tolerance: float = 1e-6,
) -> Identifiability:
    """What records (or motions that are only planned: a Trajectory) can tell of parameters, before anything is fitted.

    `noise` (standard deviations of the measurements), `segment` and the other arguments are those of `identify`; `tolerance`: singular values
    below it, relative to the largest, count as zero.

    >>> import dalembert as da
    >>> m, g = da.Parameter("m", 1.0), da.Parameter("g", 9.81)
    >>> model = da.Model([da.rx("theta", da.tz(-1.0, mass=m))], [da.Gravity((0, 0, -g))])
    >>> vi = da.MidpointVI(model, dt=0.02)
    >>> report = da.identifiability(vi, vi.simulate(vi.state(q=[1.0]), steps=100), measurement=["theta"])
    >>> report.rank, report.unknown  # the mass of a pendulum does not matter
    (1, ('m',))
    """
    given: list[Record]
    if isinstance(records, Trajectory):
        shown = measurement if measurement is not None else records.model.dynamic
        given = [Record.of(records, shown)]
    else:
        given = [records] if isinstance(records, Record) else list(records)
    if isinstance(model, MidpointVI):
        vi = model
    elif given:
        vi = MidpointVI(needed(model, Model), dt=float(np.diff(needed(given[0], Record).t)[0]))
    else:
        raise ValueError("records must be Record values, one at least")
    vi, names = _named(vi, parameters)
    seen = Seen(vi.model, measurement if measurement is not None else vi.model.dynamic)
    length = max(r.steps for r in given) if segment is None else whole(segment, "segment")
    if length < 1:
        raise ValueError("segment must be at least 1")
    tolerance = positive(tolerance, "tolerance")
    problem = Problem(vi, given, names, seen, seen.deviations(noise), length)
    problem.settle(vi.model)
    linear = problem.linearize(vi.model)
    return identifiability_of(names, _scales(vi.model, names), linear.H, tolerance)


# ---- pieces


def _lengths(t: Array) -> Array:
    """Lengths (N,) of steps; equal ones are exactly so, whatever rounding did to the times."""
    dt = np.diff(t)
    even = (t[-1] - t[0]) / len(dt)
    return np.full(len(dt), even) if np.allclose(dt, even, rtol=1e-9, atol=0) else dt


def _named(vi: MidpointVI, parameters: Sequence[str] | None) -> tuple[MidpointVI, tuple[str, ...]]:
    """The integrator of a model that has the parameters, and their names."""
    from .sensitivity import names_of

    if parameters is None:
        return vi, names_of(vi.model, None)
    if isinstance(parameters, str):
        raise ValueError("parameters must be a list of names")
    twice = [name for i, name in enumerate(parameters) if name in parameters[:i]]
    if twice:
        raise ValueError(f"parameters: {twice[0]!r} is named twice")
    if not parameters:
        raise ValueError("parameters: one at least is needed")
    if all(name in vi.model.parameters for name in parameters):
        return vi, tuple(parameters)
    before = set(vi.model.parameters)
    model = name_parameters(vi.model, *parameters)
    names = tuple(n for n in model.parameters if n not in before or n in parameters)
    return vi.with_model(model), names


def _prior(prior: Mapping[str, tuple[float, float]] | None, names: tuple[str, ...]) -> tuple[Array, Array]:
    means, weights = np.zeros(len(names)), np.zeros(len(names))
    for name, pair in needed({} if prior is None else prior, Mapping).items():
        if name not in names:
            raise ValueError(f"prior: unknown parameter {name!r}{nearest(name, names)}")
        mean, spread = (number(x, f"prior of '{name}'") for x in pair)
        if spread <= 0:
            raise ValueError(f"prior of '{name}': the standard deviation must be positive")
        means[names.index(name)], weights[names.index(name)] = mean, spread**-2
    return means, weights


def _bounds(model: Model, names: tuple[str, ...], search: Chart) -> tuple[Array, Array]:
    inside = {i for places in search.bodies for i in places}
    low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    for i, name in enumerate(names):
        a, b = model.parameters[name].bounds
        if i in inside:
            continue  # bodies keep themselves
        low[i], high[i] = -np.inf if a is None else a, np.inf if b is None else b
    return low, high


def _step(H: Array, g: Array, damping: float, z: Array, low: Array, high: Array, scales: Array) -> Array:
    """Levenberg-Marquardt step in scaled coordinates, within bounds: what would leave them stops there, the others go on without it.

    Directions that records cannot tell are left alone: along them rounding would lead far away.
    """
    dz = np.zeros(len(z))
    free = np.ones(len(z), dtype=bool)
    for _ in range(len(z) + 1):
        rest = g[free] - H[np.ix_(free, ~free)] @ dz[~free]
        d = scales[free]
        size, vectors = np.linalg.eigh(H[np.ix_(free, free)] * np.outer(d, d))
        most = max(float(size.max(initial=0.0)), 1e-300)
        keep = size > 1e-12 * most
        along = vectors[:, keep].T @ (rest * d)
        dz[free] = d * (vectors[:, keep] @ (along / (size[keep] + damping * most)))
        out = free & ((z + dz < low) | (z + dz > high))
        if not out.any():
            break
        dz[out] = np.clip(z[out] + dz[out], low[out], high[out]) - z[out]
        free &= ~out
        if not free.any():
            break
    return dz


def _scales(model: Model, names: tuple[str, ...]) -> Array:
    """Typical sizes of parameters, to compare directions: their values, or the largest of those of the same kind."""
    values = np.array([abs(float(model.parameters[n])) for n in names])
    kinds = [n.rpartition(".")[2][:1] if "." in n else n for n in names]
    return np.array(
        [
            max(v, max(values[j] for j in range(len(names)) if kinds[j] == kinds[i]) * 0.1) or 1.0
            for i, v in enumerate(values)
        ]
    )


def _result(
    problem: Problem,
    vi: MidpointVI,
    model: Model,
    names: tuple[str, ...],
    search: Chart,
    z: Array,
    linear: _Linear,
    weights: Array,
    estimate_noise: bool,
    history: list[float],
    reason: str,
) -> Identification:
    information = linear.H + np.diag(weights)
    report = identifiability_of(names, _scales(vi.model, names), information)
    squares = float(sum(np.nansum(r * r) for r in linear.residuals))
    unknowns = report.rank + 2 * vi.model.nd * sum(r.start is None for r in problem.records)
    variance = squares / max(linear.rows - unknowns, 1) if estimate_noise else 1.0
    residuals: list[list[Array]] = [[] for _ in problem.records]
    for s, r in zip(problem.segments, linear.residuals, strict=True):
        residuals[s.record].append(r * problem.deviations)
    return Identification(
        model=model,
        names=names,
        values=search.values(z),
        covariance=report.covariance(information) * variance,
        identifiability=report,
        residuals=tuple(np.vstack(r) for r in residuals),
        times=tuple(r.t for r in problem.records),
        measured=tuple(problem.seen.names),
        noise=problem.deviations * np.sqrt(variance),
        cost=history[-1],
        history=tuple(history),
        gap=linear.gap,
        reason=reason,
    )
