"""State and Trajectory: what an integrator starts from and what it returns; arrays with names."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import finite, floats, nearest
from ..files import read_npz, replacing
from ..model import Model
from .scheme import Scheme

if TYPE_CHECKING:
    from .events import Occurrence
    from .hybrid import Piece
    from .impacts import Impact
    from .quality import Quality

Array = NDArray[np.float64]


def states(model: Model, q: Array, p: Array, dt: Array) -> Array:
    """State vectors (N+1, nx) of configurations (N+1, nq) and momenta (N+1, nd), with steps of dt (N,); prescribed variables start at rest."""
    q = floats(q, "q")
    rho = q[:, model.nqd :]
    rate = model.prescribed.difference(rho[:-1], rho[1:]) / dt[:, None]
    return np.hstack([q, p, np.zeros((1, model.nkv)) if not len(rate) else np.vstack([np.zeros_like(rate[:1]), rate])])


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """One instant: time `t`, configuration `q` (nq,), momentum `p` (nd,), multipliers `lam` of the step that led here (nc,).

    `v_rho` (nkv,) are the velocities of the prescribed variables (None: at rest), `model` what it is a state of. `state["theta"]`,
    `state["v.theta"]`, `state["p.theta"]`, `state["lam.Distance(a, b)"]` are numbers by name, `state["bob"]` is the position of a frame (3,)
    and `state["bob.x"]` one coordinate of it, as in a `Trajectory`.

    >>> import dalembert as da
    >>> vi = da.MidpointVI(da.models.n_link(1), dt=0.1)
    >>> vi.state(q=[0.2], v=[1.5]).v
    array([1.5])
    """

    t: float
    q: Array
    p: Array
    lam: Array
    v_rho: Array | None = field(default=None, repr=False)
    model: Model | None = field(default=None, repr=False)

    @property
    def v(self) -> Array:
        """Velocity (nv,) that belongs to the momentum, along the constraints; `v_rho` of prescribed variables."""
        from ..mechanics import core

        if self.model is None:
            raise ValueError("this State does not know its model; make it with MidpointVI.state")
        rate = np.zeros(self.model.nkv) if self.v_rho is None else self.v_rho
        v: Array = core(self.model).velocity(self.q[None], self.p[None], rate[None])[0][0]
        return v

    @property
    def x(self) -> Array:
        """The state (nx,) as a System, a filter or a regulator sees it: q, p and the velocities of prescribed variables."""
        if self.v_rho is None and self.model is None:
            return np.concatenate([self.q, self.p])
        rate = np.zeros(self.model.nkv) if self.v_rho is None and self.model is not None else self.v_rho
        return np.concatenate([self.q, self.p, np.zeros(0) if rate is None else rate])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """A State will do wherever a vector x (nx,) is asked for."""
        return np.asarray(self.x, dtype=dtype)

    def __getitem__(self, name: str) -> Any:
        """A quantity by name, as those of a Trajectory: a number, or a frame's position (3,).

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.Model([da.tz("z", name="bob", mass=1.0)]), dt=0.1)
        >>> state = vi.state(q=[0.2], v=[1.5])
        >>> state["bob.z"].round(6), state["v.z"].round(6)
        (np.float64(0.2), np.float64(1.5))
        """
        m = self.model
        if m is None:
            raise ValueError("this State does not know its model; make it with MidpointVI.state")
        found = _named(m, name, self.q[None], self.p[None], self.lam[None], lambda: self.v[None])
        if found is not None:
            return found[0]
        if name in m.inputs:
            raise KeyError(f"a state has no {name!r}: inputs belong to steps")
        raise KeyError(f"the state has no {name!r}{nearest(name, _state_names(m))}")

    def __repr__(self) -> str:
        return (
            f"State(t={self.t:g}, q={np.array2string(self.q, precision=6)}, p={np.array2string(self.p, precision=6)})"
        )


def _state_names(model: Model) -> tuple[str, ...]:
    """What `_named` knows: variables, rotation vectors, velocities, momenta, multipliers, frames."""
    axes = (f"{frame}.{axis}" for frame in model.frame_names[1:] for axis in "xyz")
    speeds = (*(f"v.{n}" for n in model.velocities), *(f"p.{n}" for n in model.velocities[: model.nd]))
    lam = (f"lam.{n}" for n in model.constraints)
    names = (*model.variables, *model.configuration.readings, *speeds, *lam, *model.frame_names[1:], *axes)
    return tuple(dict.fromkeys(names))


def _named(model: Model, name: str, q: Array, p: Array, lam: Array, v: Callable[[], Array]) -> Array | None:
    """The rows of what has this name: (N,), or of a frame its positions (N, 3); None if nothing has it."""
    if name in model.variables:
        return q[:, model.index(name)]
    kind, _, rest = name.partition(".")
    if kind == "lam" and rest in model.constraints:
        return lam[:, model.constraints.index(rest)]
    index = model.configuration.velocity_index
    if kind == "p" and index.get(rest, model.nd) < model.nd:
        return p[:, index[rest]]
    if kind == "v" and rest in index:
        return v()[:, index[rest]]
    if name in model.velocities:  # of a joint with other coordinates than velocities
        return v()[:, model.velocities.index(name)]
    if name in model.configuration.readings:  # a component of a ball's rotation vector
        return model.configuration.read(q)[:, model.configuration.readings.index(name)]
    frame, _, axis = (name, "", "") if name in model.frame_names else name.rpartition(".")
    if frame in model.frame_names and axis in ("", "x", "y", "z"):
        from ..mechanics import positions

        path = positions(model, q)[:, model.frame_index(frame)]
        return path[:, "xyz".index(axis)] if axis else path
    return None


def fixed(a: Array) -> Array:
    """The same numbers, read only."""
    view = a.view()
    view.flags.writeable = False
    return view


def _no_rows(columns: int) -> Array:
    return np.zeros((0, columns))


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A motion in time: N + 1 instants, N steps.

    `t` (N+1,), `q` (N+1, nq), `p` (N+1, nd); per step `u` (N, nu), `rho` (N, nk: next kinematic values), `lam` (N, nc), `iterations` (N,).
    `trajectory["theta"]` is the column of a variable, of an input (N,), of a velocity ("v.theta"), a momentum ("p.theta") or a multiplier
    ("lam.Distance(a, b)", (N,)); a frame's name gives its positions in the world (N+1, 3), "bob.x" one of them. "u.theta" is an input
    that is called as a variable. `quantities` lists these names.
    Slices give shorter trajectories; `len` counts instants.
    `interrupted` is True when Ctrl-C ended it early. `scheme` says which discrete equations the steps satisfy (None: not known).
    `checks` (N, 5) is what the core found about the accuracy of each step (None: not recorded); `quality()` tells.
    `events` are those that `simulate(..., events=..., until=...)` found, `impacts` what limits and contacts did, in order; `pieces` tell derivatives
    how steps were solved in which something happened. `a + b` is one motion of two where b begins at the end of a.
    """

    model: Model
    t: Array
    q: Array
    p: Array
    u: Array
    rho: Array
    lam: Array
    iterations: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    interrupted: bool = False
    scheme: Scheme | None = None
    checks: Array | None = None
    events: tuple[Occurrence, ...] = ()
    impacts: tuple[Impact, ...] = ()
    pieces: tuple[Piece, ...] = field(default=(), repr=False)

    @property
    def steps(self) -> int:
        """Number of steps N."""
        return len(self.t) - 1

    @property
    def dt(self) -> Array:
        """Lengths of the steps, (N,)."""
        return np.diff(floats(self.t, "t"))

    @property
    def x(self) -> Array:
        """States (N+1, nx) as a System, a filter or a regulator sees them: q, p and the velocities of prescribed variables in the step before.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.pendulum(), dt=0.1)
        >>> vi.simulate(vi.state([0.5]), steps=20).x.shape
        (21, 2)
        """
        return states(self.model, self.q, self.p, self.dt)

    @property
    def v(self) -> Array:
        """Velocities (N+1, nv) that belong to the momenta, along the constraints (p lacks part of their impulses, which no step feels);
        kinematic ones by differences of the prescribed values, of the order of the scheme."""
        from ..mechanics import core

        q, p = np.ascontiguousarray(self.q), np.ascontiguousarray(self.p)
        return core(self.model).velocity(q, p, self._kinematic_rates(np.arange(len(self.t))))[0]  # type: ignore[no-any-return]

    def _kinematic_rates(self, at: NDArray[np.intp]) -> Array:
        """Velocities (n, nkv) of the prescribed variables at the instants `at` (n,): the slope of the polynomial through the
        nearest order + 1 instants, which has the order of the scheme also with varying steps."""
        model, count = self.model, len(self.t)
        if not model.nk or count < 2:
            return np.zeros((len(at), model.nkv))
        size = min(count, (2 if self.scheme is None else self.scheme.order) + 1)
        near = np.clip(at - size // 2, 0, count - size)[:, None] + np.arange(size)
        ways = model.difference(self.q[at][:, None], self.q[near])[..., model.nd :]
        weights = slope_weights(self.t[near] - self.t[at][:, None])
        return np.asarray((weights[..., None] * ways).sum(axis=1))

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, key: str | slice | int) -> Any:
        if isinstance(key, str):
            return self._column(key)
        if isinstance(key, slice):
            first, last, stride = key.indices(len(self.t))
            if stride != 1:
                raise ValueError("a trajectory can only be cut in pieces, not thinned (use simulate(..., every=n))")
            if last <= first:
                raise ValueError(f"no state in [{key.start}:{key.stop}] of a trajectory with {len(self.t)} states")
            steps = slice(first, last - 1)
            begin, end = float(self.t[first]), float(self.t[last - 1])

            opening = {
                p.step for p in self.pieces if p.jumps and not (p.steps or p.length)
            }  # steps that begin with a blow

            def within(
                time: float, blow: bool = False
            ) -> bool:  # at a cut: in the piece that ends there, or has the blow
                if time == begin:
                    return first == 0 or (blow and first in opening)
                return begin < time < end or (time == end and not (blow and last - 1 in opening))

            return self.picked(
                key,
                steps,
                steps,
                checks=None if self.checks is None else self.checks[steps],
                events=tuple(e for e in self.events if within(e.time)),
                impacts=tuple(i for i in self.impacts if within(i.time, True)),
                pieces=tuple(p for piece in self.pieces for p in piece.within(first, last - 1)),
            )
        k = range(len(self.t))[key]
        lam = self.lam[k - 1] if k else np.zeros(self.model.nc)
        rate = self._kinematic_rates(np.array([k]))[0]
        return State(float(self.t[k]), fixed(self.q[k]), fixed(self.p[k]), fixed(lam), rate, self.model)

    def picked(self, states: Any, first: Any, last: Any, **changes: Any) -> Trajectory:
        """Some of the `states` (a slice, or numbers): the inputs are those of the steps `first`, which begin there, prescribed values and multipliers
        those of the steps `last`, which end there; other fields by name in `changes`."""
        kept = {name: getattr(self, name)[states] for name in ("t", "q", "p")}
        kept |= {name: getattr(self, name)[last] for name in ("rho", "lam", "iterations")}
        return replace(self, u=self.u[first], **kept, **changes)

    def __add__(self, other: Trajectory) -> Trajectory:
        """This motion and then another one, which begins where this one ends: `b = vi.simulate(a[-1], ...)`. The momentum may differ (an impulse).

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.n_link(1), dt=0.1)
        >>> a = vi.simulate(vi.state(q=[0.2]), steps=3)
        >>> (a + vi.simulate(a[-1], steps=4)).steps
        7
        """
        if not isinstance(other, Trajectory):
            return NotImplemented
        if other.model is not self.model and other.model != self.model:
            raise ValueError(
                f"motions of different models ('{self.model.name}' and '{other.model.name}') do not make one"
            )
        gap = other.t[0] - self.t[-1]
        if abs(gap) > 1e-9 * max(1.0, abs(self.t[-1])):
            raise ValueError(
                f"the second motion begins at t = {other.t[0]:g}, the first ends at t = {self.t[-1]:g} (simulate from its last state, motion[-1])"
            )
        apart = np.abs(self.model.difference(self.q[-1], other.q[0]))
        if apart.max(initial=0.0) > 1e-9 * (1 + np.abs(self.q[-1]).max(initial=0.0)):
            name = self.model.velocities[int(apart.argmax())]
            raise ValueError(f"the second motion begins {apart.max():.3g} in '{name}' from where the first one ends")
        return joined([self, other])

    def __iter__(self) -> Iterator[State]:
        return (self[k] for k in range(len(self)))

    def _column(self, name: str) -> Array:
        model = self.model
        for names in (model.input_columns, [f"u.{n}" for n in model.inputs]):
            if name in names:
                return self.u[:, names.index(name)]
        found = _named(model, name, self.q, self.p, self.lam, lambda: self.v)
        if found is not None:
            return found
        raise KeyError(
            f"the motion has no {name!r}{nearest(name, self.quantities)}; motion.quantities lists what it has"
        )

    @property
    def quantities(self) -> tuple[str, ...]:
        """Every name that `motion[name]` and `motion.plot(name)` take: variables, inputs, velocities, momenta, multipliers, frames."""
        return tuple(dict.fromkeys((*_state_names(self.model), *self.model.input_columns)))

    def __repr__(self) -> str:
        m = self.model
        span = f"t = {self.t[0]:g} ... {self.t[-1]:g}" if len(self.t) else "empty"
        made = f" of {self.scheme}" if self.scheme is not None else ""
        lines = [
            f"Trajectory of {m.name!r}: {self.steps} steps{made}; {span}"
            + (" (interrupted)" if self.interrupted else "")
        ]
        for i, name in enumerate(m.variables[:12]):
            x = self.q[:, i]
            lines.append(f"  {name:<16} {x[0]: .6g} ... {x[-1]: .6g}   in [{x.min():.6g}, {x.max():.6g}]")
        if m.nq > 12:
            lines.append(f"  ... {m.nq - 12} more variables")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ..viewing import result_html

        facts: dict[str, object] = {}
        if self.steps:
            energy = self.energy()
            facts["largest energy change (J)"] = float(np.abs(energy - energy[0]).max())
            if self.model.nc:
                facts["largest constraint violation"] = float(self.constraint_violation().max())
        return result_html(repr(self).splitlines()[0], facts, self)

    # ---- what a user asks first

    def energy(self) -> Array:
        """Total energy T + V at every instant (J), (N+1,): velocities from the momenta."""
        from ..mechanics import core

        t, u = core(self.model).energy(np.ascontiguousarray(self.q), np.ascontiguousarray(self.v))
        return t + u  # type: ignore[no-any-return]

    def step_energy(self) -> Array:
        """Energy at the midpoint of every step with the step's velocity (N,): what the papers plot."""
        from ..mechanics import core

        t, u = core(self.model).energy(*map(np.ascontiguousarray, self.middles()))
        return t + u  # type: ignore[no-any-return]

    def middles(self) -> tuple[Array, Array]:
        """Configurations (N, nq) at the midpoints of the steps, and velocities (N, nv) of the steps."""
        alpha = 0.5 if self.scheme is None else self.scheme.alpha
        way = self._ways()
        return self.model.integrate(self.q[:-1], alpha * way), way / self.dt[:, None]

    def quality(self, samples: int = 8) -> Quality:
        """How good the steps are: largest and typical jump of energy and local error with time and variable, energy minus work, violation of
        the constraints, and the condition of the step at the worst and `samples` other states. See `Quality`.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.n_link(2), dt=0.01)
        >>> found = vi.simulate(vi.state(q=[1.0, 0.5]), time=1.0).quality()
        >>> found.good, bool(found.jump < 1e-4)
        (True, True)
        """
        from .quality import quality

        return quality(self, samples)

    def linearize(self) -> tuple[Array, Array]:
        """Exact A (N, ndx, ndx), B (N, ndx, nu) of every step along the motion, x = (q, p, v_rho), u = (inputs, next kinematic values): also
        through impacts, whose instants depend on the state, and with contacts that rest. The product of the A is the derivative of the last state
        by the first.

        Which contacts are hit or held is taken from the motion; at a grazing contact derivatives do not exist, and near one they are large. What an
        event's own function changed has no derivative; a last step that an event ended keeps its length.

        >>> import dalembert as da
        >>> balls = [da.tx("x1", name="a", mass=1.0), da.tx("x2", name="b", mass=1.0)]
        >>> vi = da.MidpointVI(da.Model(balls, [da.SphereContact("a", "b", 0.1, 0.1, restitution=1.0)]), dt=0.1)
        >>> A, B = vi.simulate(vi.state(q=[0.0, 0.53], v=[1.0, 0.0]), steps=10).linearize()
        >>> abs(np.linalg.multi_dot(A[::-1])[1].round(12))  # of x2 by x1, x2, p1, p2
        array([1., 0., 1., 0.])
        """
        from .sensitivity import linearize_motion

        return linearize_motion(self)

    def adjoint(self, z: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of z . (last state), with z (ndx,), by the first state (ndx,) and by the inputs (N, nu), through impacts too (see `linearize`).

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.Model([da.tx("x", mass=2.0)], [da.ConfigForce("x", "push")]), dt=0.5)
        >>> by_start, by_input = vi.simulate(vi.state(), steps=2).adjoint([1.0, 0.0])
        >>> by_start, by_input[:, 0]
        (array([1. , 0.5]), array([0.1875, 0.0625]))
        """
        from .sensitivity import adjoint_motion

        return adjoint_motion(self, z)

    def momentum(self) -> Array:
        """Spatial momentum (angular about the world origin; linear) at every instant, (N+1, 6)."""
        from ..mechanics import spatial_momentum

        return spatial_momentum(self.model, self.q, self.v)

    def constraint_violation(self) -> Array:
        """Largest |h(q)| at every instant, (N+1,)."""
        from ..mechanics import constraints

        if not self.model.nh:
            return np.zeros(len(self.t))
        return np.abs(constraints(self.model, self.q)).max(axis=1)  # type: ignore[no-any-return]

    def at(self, t: ArrayLike) -> Array:
        """Configuration (..., nq) at any time(s) (...), by cubic interpolation through q with the velocities of the momenta."""
        x = floats(t, "t").reshape(np.shape(t))
        if not np.all((x >= self.t[0] - 1e-12) & (x <= self.t[-1] + 1e-12)):
            raise ValueError(f"time outside of [{self.t[0]:g}, {self.t[-1]:g}]")
        if not self.steps:
            return np.broadcast_to(self.q[0], (*x.shape, self.model.nq)).copy()
        k = np.clip(np.searchsorted(self.t, x, side="right") - 1, 0, self.steps - 1)
        h = self.dt[k][..., None]
        s, v = (x - self.t[k])[..., None] / h, self.v
        # Hermite's cubic from 0 to the next configuration, in the tangent space of the one before
        way = s * s * (3 - 2 * s) * self._ways()[k] + h * s * (1 - s) * ((1 - s) * v[k] - s * v[k + 1])
        return self.model.integrate(self.q[k], way)

    def _ways(self) -> Array:
        """From every configuration to the next, (N, nv)."""
        return self.model.difference(self.q[:-1], self.q[1:])

    # ---- pictures

    def plot(self, *names: str, **options: Any) -> Any:
        """Figure of the motion (matplotlib): `names` of quantities (see `quantities`) and parts ("energy", "constraints", "momentum", "p",
        "inputs"); by default variables, energy and constraint violation. See `da.plot_trajectory` for the options."""
        from ..viewing import plot_trajectory

        return plot_trajectory(self, *names, **options)

    def view(self, *others: Trajectory, **options: Any) -> Any:
        """Browser page that plays the motion, and `others` over it; see `da.view`."""
        from ..viewing import view

        return view(self, *others, **options)

    def show(self, *others: Trajectory, **options: Any) -> Any:
        """The motion as a page that plays inline in a notebook, offline; `others` are drawn over it. See `da.show`."""
        from ..viewing import show

        return show([self, *others], **options)

    # ---- tables

    def to_frame(self) -> Any:
        """A pandas DataFrame: rows are instants (index t), columns variables, "v.", "p." and inputs (NaN at the last instant, where no step
        starts), with "u." in front where a variable has their name.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
        >>> vi.simulate(vi.state(q={"theta": 0.1}), steps=4).to_frame().columns.tolist()
        ['x', 'theta', 'v.x', 'v.theta', 'p.x', 'p.theta', 'push']
        """
        import pandas as pd

        m = self.model
        held = np.vstack([self.u, np.full((1, m.nu), np.nan)])
        columns = dict(zip(m.variables, self.q.T, strict=True))
        columns |= {f"v.{n}": c for n, c in zip(m.velocities, self.v.T, strict=True)}
        columns |= {f"p.{n}": c for n, c in zip(m.velocities, self.p.T, strict=False)}
        columns |= dict(zip(m.input_columns, held.T, strict=True))
        return pd.DataFrame(columns, index=pd.Index(self.t, name="t"))

    def to_xarray(self) -> Any:
        """An xarray Dataset: q (t, variable), v (t, velocity), p (t, momentum), positions (t, frame, axis); per step, at the times that
        steps begin, u (step, input) and lam (step, constraint).

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
        >>> motion = vi.simulate(vi.state(q={"theta": 0.1}), steps=4)
        >>> float(motion.to_xarray().q.sel(variable="theta").isel(t=0))
        0.1
        """
        import xarray as xr

        from ..mechanics import positions

        m = self.model
        frames = list(m.frame_names)
        places = positions(m, self.q)[:, [m.frame_index(name) for name in frames]]
        return xr.Dataset(
            {
                "q": (("t", "variable"), self.q),
                "v": (("t", "velocity"), self.v),
                "p": (("t", "momentum"), self.p),
                "positions": (("t", "frame", "axis"), places),
                "u": (("step", "input"), self.u),
                "lam": (("step", "constraint"), self.lam),
            },
            coords={
                "t": self.t,
                "step": self.t[:-1],
                "variable": list(m.variables),
                "velocity": list(m.velocities),
                "momentum": list(m.velocities[: m.nd]),
                "frame": frames,
                "axis": list("xyz"),
                "input": list(m.inputs),
                "constraint": list(m.constraints),
            },
            attrs={"model": m.name},
        )

    # ---- files

    def save(self, path: str | Path) -> None:
        """Write to `path`: .npz (with the model's description; no pickle) or .csv (columns t, variables, momenta)."""
        path = Path(path)
        if path.suffix == ".csv":
            with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
                out = csv.writer(file)
                m = self.model
                out.writerow(
                    ["t", *m.variables, *(f"p.{n}" for n in m.velocities[: m.nd]), *(f"u.{n}" for n in m.inputs)]
                )
                u = np.vstack([self.u, np.full((1, m.nu), np.nan)])
                for row in np.hstack([self.t[:, None], self.q, self.p, u]):
                    out.writerow(["" if np.isnan(x) else repr(float(x)) for x in row])
            return
        if path.suffix != ".npz":
            raise ValueError(f"trajectories are saved as .npz or .csv, not {path.suffix!r}")
        from ..formats import dumps

        arrays = {k: getattr(self, k) for k in _ARRAYS}
        if self.checks is not None:
            arrays["checks"] = self.checks
        scheme = None if self.scheme is None else asdict(self.scheme)
        events = [
            {"time": e.time, "name": e.name, "step": e.step, "t": e.state.t}
            | {key: np.asarray(getattr(e.state, key)).tolist() for key in ("q", "p", "lam")}
            | {"v_rho": None if e.state.v_rho is None else np.asarray(e.state.v_rho).tolist()}
            for e in self.events
        ]
        meta = json.dumps(
            {"scheme": scheme, "interrupted": self.interrupted, "events": events}
            | {"impacts": [asdict(i) for i in self.impacts], "pieces": [asdict(p) for p in self.pieces]}
        )
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, model=np.array(dumps(self.model, "json")), meta=np.array(meta), **arrays)

    @staticmethod
    def load(path: str | Path, model: Model | None = None) -> Trajectory:
        """Read what `save` wrote to `path`; a .csv needs the model."""
        path = Path(path)
        if path.suffix == ".csv":
            return _load_csv(path, model)
        from ..formats import loads

        data = read_npz(path, "a trajectory of dalembert", "model", "meta", *_ARRAYS, optional=("checks",))
        try:
            found = loads(str(data["model"]), "json") if model is None else model
            arrays = _checked(found, {name: data[name] for name in _ARRAYS})
            checks = data.get("checks")
            if checks is not None:
                checks = finite(checks, "checks", (len(arrays["t"]) - 1, 5))
                if not ((checks[:, 3] >= 0) & (checks[:, 3] < found.nv)).all():
                    raise ValueError("checks: no such variable")
            meta = json.loads(str(data["meta"]))
            impacts, pieces = _contacts(found, meta, len(arrays["t"]) - 1)
            return Trajectory(
                found,
                **arrays,
                interrupted=bool(meta["interrupted"]),
                scheme=_scheme(meta),
                checks=checks,
                events=tuple(_occurrence(found, e) for e in meta.get("events", ())),
                impacts=impacts,
                pieces=pieces,
            )
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ValueError(f"{path} is not a trajectory of dalembert ({error})") from None


def joined(parts: Sequence[Trajectory]) -> Trajectory:
    """One motion of several that follow each other; the first state of each is the last one before."""
    together: dict[str, Any] = {
        name: np.concatenate(
            [getattr(part, name)[1 if i and name in ("t", "q", "p") else 0 :] for i, part in enumerate(parts)]
        )
        for name in _ARRAYS
    }
    checks = [part.checks for part in parts if part.checks is not None]
    begins = np.cumsum([0, *(part.steps for part in parts[:-1])]).tolist()
    return replace(
        parts[-1],
        **together,
        scheme=_one_scheme([part.scheme for part in parts]),
        checks=np.concatenate(checks) if len(checks) == len(parts) else None,
        events=tuple(e for part in parts for e in part.events),
        impacts=tuple(i for part in parts for i in part.impacts),
        pieces=tuple(
            replace(p, step=p.step + before) for part, before in zip(parts, begins, strict=True) for p in part.pieces
        ),
    )


def _one_scheme(schemes: Sequence[Scheme | None]) -> Scheme | None:
    """That of a motion of several parts: None if they satisfy different equations."""
    known = [scheme for scheme in schemes if scheme is not None]
    if len(known) < len(schemes) or not all(scheme.same_equations(known[0]) for scheme in known):
        return None
    return known[0] if len({scheme.dt for scheme in known}) == 1 else replace(known[0], dt=None)


_ARRAYS = ("t", "q", "p", "u", "rho", "lam", "iterations")


def _checked(model: Model, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays of a file as those of a motion: shapes that fit the model and each other, finite numbers, growing times."""
    t = finite(arrays["t"], "t", (None,))
    if len(t) == 0 or (np.diff(t) <= 0).any():
        raise ValueError("the times must increase")
    n = len(t) - 1
    shapes: dict[str, tuple[int, ...]] = {"q": (n + 1, model.nq), "p": (n + 1, model.nd), "u": (n, model.nu)}
    shapes |= {"rho": (n, model.nk), "lam": (n, model.nc), "iterations": (n,)}
    found: dict[str, NDArray[Any]] = {name: finite(arrays[name], name, shape) for name, shape in shapes.items()}
    model.configuration.unit(found["q"], "q")
    return {"t": t, **found, "iterations": found["iterations"].astype(np.int64)}


def _scheme(meta: dict[str, Any]) -> Scheme | None:
    """The scheme that a file records; files of version 0.1 know alpha only, which with another value than 1/2 means order 2."""
    if "scheme" not in meta:
        return None if meta.get("alpha", 0.5) == 0.5 else Scheme(2, meta["alpha"], None)
    return None if meta["scheme"] is None else Scheme(**meta["scheme"])


def _occurrence(model: Model, e: dict[str, Any]) -> Occurrence:
    """An event that a file records."""
    from .events import Occurrence

    sizes = {"q": model.nq, "p": model.nd, "lam": model.nc, "v_rho": model.nkv}
    q, p, lam, rate = (None if e[key] is None else finite(e[key], key, (n,)) for key, n in sizes.items())
    if q is None or p is None or lam is None or not isinstance(e["name"], str):
        raise ValueError("events: a state is missing")
    state = State(finite(e["t"], "t", ()).item(), q, p, lam, rate, model)
    return Occurrence(finite(e["time"], "time", ()).item(), e["name"], state, int(e["step"]))


def _contacts(model: Model, meta: dict[str, Any], steps: int) -> tuple[tuple[Impact, ...], tuple[Piece, ...]]:
    """Impacts and pieces that a file records."""
    from .hybrid import Piece
    from .impacts import Impact, Jump

    impacts = [
        Impact(**i | {"place": None if i["place"] is None else tuple(i["place"])}) for i in meta.get("impacts", ())
    ]
    pieces = []
    for entry in meta.get("pieces", ()):
        jumps = tuple(Jump(tuple(map(int, j["rows"])), tuple(map(float, j["e"]))) for j in entry["jumps"])
        piece = Piece(**entry | {"held": tuple(map(int, entry["held"])), "jumps": jumps})
        rows = (*piece.held, *(i for j in jumps for i in j.rows))
        if not (
            0 <= piece.step < steps
            and 0 <= piece.steps <= steps - piece.step
            and all(0 <= i < len(model.gaps) for i in rows)
        ):
            raise ValueError("pieces: no such step or contact")
        pieces.append(piece)
    return tuple(impacts), tuple(pieces)


def slope_weights(t: Array) -> Array:
    """Weights (n, m) of values at the times t (n, m), one of which is 0 in every row: their sum is the slope at 0 of the polynomial through them.

    >>> slope_weights(np.array([[0.0, 1.0, 2.0]]))
    array([[-1.5,  2. , -0.5]])
    """
    m = t.shape[1]
    centre = np.abs(t).argmin(axis=1)
    gap = t[:, :, None] - t[:, None, :] + np.eye(m)
    bary = 1 / gap.prod(axis=2)
    own = np.take_along_axis(bary, centre[:, None], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = bary / own / -t
    rows = np.arange(len(t))
    out[rows, centre] = 0.0
    out[rows, centre] = -out.sum(axis=1)
    return out


def _load_csv(path: Path, model: Model | None) -> Trajectory:
    if model is None:
        raise ValueError(f"{path}: a CSV holds numbers only; pass model=")
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    if not rows:
        raise ValueError(f"{path}: empty file")
    head = rows[0]
    missing = [n for n in ("t", *model.variables) if n not in head]
    if missing:
        raise ValueError(f"{path}: no column {missing[0]!r}")
    try:
        table = np.array([[float(x) if x else np.nan for x in r] for r in rows[1:]])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if table.ndim != 2 or table.shape[1] != len(head):
        raise ValueError(f"{path}: rows of different length")
    column = {n: table[:, i] for i, n in enumerate(head)}

    def pick(names: list[str]) -> Array:
        return (
            np.column_stack([column.get(n, np.full(len(table), np.nan)) for n in names])
            if names
            else np.zeros((len(table), 0))
        )

    q = pick(list(model.variables))
    steps = len(table) - 1
    return Trajectory(
        model,
        column["t"],
        q,
        np.nan_to_num(pick([f"p.{n}" for n in model.velocities[: model.nd]])),
        np.nan_to_num(pick([f"u.{n}" for n in model.inputs])[:steps]),
        q[1:, model.nqd :],
        np.zeros((steps, model.nc)),
        np.zeros(steps, dtype=np.int64),
    )
