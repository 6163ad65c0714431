"""System: a one-step map over N steps, x' = f(x, u, k), as control, estimation and optimization see it (Embedded control synthesis, eq. 8).

Of a `MidpointVI` the state is x = (q: dynamic then kinematic, p, v_rho), the input u = (inputs, next kinematic values); all derivatives are
exact, of the discrete step of any order, and computed in the core. Any other `OneStep` works as well: what it does not bring along is done
in plain loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from .arrays import Array, Named, finite, floats, matrix, whole
from .errors import ConvergenceError
from .integrate.midpoint_steps import MidpointSteps
from .integrate.motions import Motions
from .integrate.onestep import Course, OneStep, OneStepMap, Tangent, complete
from .integrate.scheme import Scheme
from .integrate.trajectory import State, Trajectory


class System(OneStepMap):
    """N steps of a one-step: `System(one_step, steps=N)` or `System(one_step, t=times (N+1,))`; a one-step itself.

    Sizes: `nx` coordinates, `ndx` tangent components, `nu` inputs, with names; `t` (N+1,), `dt` (N,). Motions are X (N+1, nx), U (N, nu).
    With times of other lengths than its own a map must be able to take such steps (`MidpointVI` is).

    >>> import dalembert as da
    >>> m = da.Model([da.rz("theta", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")])
    >>> sys = da.System(da.MidpointVI(m, dt=0.1, forcing="left"), steps=10)
    >>> A, B = sys.linearize([0.2, 0.5], [0.8], 0)
    >>> A.round(8)
    array([[ 0.95333434,  0.09766672],
           [-0.93331323,  0.95333434]])
    """

    nx: int
    nu: int
    x_names: tuple[str, ...]
    u_names: tuple[str, ...]
    dt: Array

    def __init__(self, one_step: OneStep, *, steps: int | None = None, t: ArrayLike | None = None) -> None:
        map_ = complete(one_step)
        lengths = np.asarray(map_.dt, dtype=float)
        if t is not None:
            times = floats(t, "t")
            if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
                raise ValueError("t must be an increasing array of at least two times")
            if steps is not None and steps != len(times) - 1:
                raise ValueError(f"steps = {steps} does not match t with {len(times)} times")
            given = np.diff(times)
            # equal steps must be equal to the last bit: the predictor and the user rely on it
            if lengths.shape not in ((), given.shape) or not np.allclose(given, lengths, rtol=1e-12, atol=0):
                map_ = map_.with_dt(given)
                lengths = given
        elif lengths.ndim == 0:
            if steps is None:
                raise ValueError("give steps= or t=")
            if whole(steps, "steps") < 1:
                raise ValueError(f"steps must be a positive whole number, not {steps}")
            times = float(lengths) * np.arange(int(steps) + 1, dtype=np.float64)
        else:
            count = len(lengths) if steps is None else whole(steps, "steps")
            if not 1 <= count <= len(lengths):
                raise ValueError(
                    f"steps must be a positive whole number up to the {len(lengths)} that are defined, not {steps}"
                )
            times = np.concatenate([[0.0], np.cumsum(lengths[:count])])
        self.one_step = map_
        self.model = getattr(map_, "model", None)
        self.t: Array = times
        self.steps = len(times) - 1
        self.dt = np.full(self.steps, lengths) if lengths.ndim == 0 else lengths[: self.steps]
        self.nx, self.nu = map_.nx, map_.nu
        self.x_names, self.u_names = map_.x_names, map_.u_names
        self._ndx, self._dx_names = map_.ndx, map_.dx_names
        self._steps = map_.over(times)

    def __repr__(self) -> str:
        name = repr(self.model.name) if self.model is not None else type(self.one_step).__name__
        return f"System of {name}: {self.nx} states, {self.nu} inputs, {self.steps} steps"

    # ---- states

    @property
    def ndx(self) -> int:
        """Components of a tangent vector."""
        return self._ndx

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the tangent components."""
        return self._dx_names

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> Array:
        """The tangent vector (..., ndx) at x0 (..., nx) that leads to x1."""
        return self.one_step.difference(finite(x0, "x0"), finite(x1, "x1"))

    def retract(self, x: ArrayLike, dx: ArrayLike) -> Array:
        """The state (..., nx) to which dx (..., ndx) leads from x."""
        return self.one_step.retract(finite(x, "x"), finite(dx, "dx"))

    def difference_jacobian(self, x0: Array, x1: Array) -> Array | None:
        """Derivative (..., ndx, ndx) of difference(x0, retract(x1, dx)) by dx at 0; None: the identity."""
        return self.one_step.difference_jacobian(x0, x1)

    def retract_jacobian(self, x: Array) -> Array | None:
        """Derivative (..., nx, ndx) of retract(x, dx) by dx at 0; None: the identity."""
        return self.one_step.retract_jacobian(x)

    def neutral(self) -> Array:
        """A state (nx,) to start from."""
        return self.one_step.neutral()

    def tangent(self, X: Array, tolerance: float = 1e-10) -> Tangent | None:
        """The directions in which motions can leave states X (n, nx), their number decided by `tolerance`; None: all."""
        return self.one_step.tangent(X, tolerance)

    def settle(self, x: Array) -> Array:
        """The state (nx,) on the constraints nearest to x."""
        return self.one_step.settle(self._x(x))

    def nearby(self, x: Array, away: Array) -> Array:
        """States (m, nx) that motions can have, from such a state x (nx,) and tangent vectors `away` (m, ndx) in which motions can leave it."""
        return self.one_step.nearby(floats(x, "x"), floats(away, "away"))

    def free_difference(self, x0: Array, x1: Array) -> Array:
        """`difference` of x0 and x1 without what no step feels (momenta across constraints)."""
        return self.one_step.free_difference(floats(x0, "x0"), floats(x1, "x1"))

    def with_dt(self, dt: Array) -> System:
        """As many steps of the lengths dt (N,)."""
        return System(self.one_step, t=np.concatenate([[0.0], np.cumsum(dt)]))

    def within(self, x: Array, u: Array, share: float) -> Array:
        """The input (nu,) of the first `share` of a step with the input u."""
        return self.one_step.within(x, u, share)

    def compiled(self) -> Any:
        """What takes single steps in the core, for filters; None where the map is Python's."""
        return self.one_step.compiled()

    @property
    def constrained(self) -> bool:
        """Whether constraints keep motions from some states."""
        return self.one_step.constrained

    def violation(self, x: Array) -> float:
        """How far a state is from those that motions can have (constraints)."""
        return self.one_step.violation(x)

    def state(self, x: ArrayLike, k: int = 0) -> State:
        """State of the integrator that belongs to a state vector x at step k."""
        return self._midpoint("states").state(self._x(x), k)

    def x(
        self,
        q: Named | State | None = None,
        *,
        p: Named | None = None,
        v: Named | None = None,
        v_rho: ArrayLike | None = None,
        u: Named | None = None,
    ) -> Array:
        """State vector from q with p or v (and the load u; as `MidpointVI.state`), and the kinematic velocities
        `v_rho` (default: those of v); a State is taken as it is."""
        if isinstance(q, State):
            if any(given is not None for given in (p, v, v_rho, u)):
                raise ValueError("a State has its own momentum: give the rest to MidpointVI.state")
            return self._x(q.x)
        vi = self._midpoint("configurations").one_step
        s = vi.state(q, p=p, v=v, u=u)
        rate = s.v_rho if v_rho is None else matrix(v_rho, (vi.model.nkv,), "v_rho")
        return np.concatenate([s.q, s.p, np.zeros(vi.model.nkv) if rate is None else rate])

    def _midpoint(self, what: str) -> MidpointSteps:
        if not isinstance(self._steps, MidpointSteps):
            raise TypeError(f"{what} belong to an integrator of a Model, not to {type(self.one_step).__name__}")
        return self._steps

    def _x(self, x: ArrayLike, what: str = "x") -> Array:
        return self._state(matrix(x, (self.nx,), what), what)

    def _state(self, x: Array, what: str) -> Array:
        """States (..., nx) as they are; where they have quaternions, of unit ones."""
        model = self.model
        if model is not None and not model.configuration.flat and isinstance(self._steps, MidpointSteps):
            model.configuration.unit(x[..., : model.nq], what)
        return x

    def _xu(self, x: ArrayLike, u: ArrayLike, k: int) -> tuple[Array, Array]:
        return self._x(x), self._u(u, k)

    def _once(self, x: ArrayLike, u: ArrayLike, k: int, derive: bool) -> Any:
        """x', or with `derive` (x', A, B), where nothing has to be converted; None: the arguments are to be checked."""
        return self._steps.once(x, u, k, derive) if type(k) is int and 0 <= k < self.steps else None

    def _u(self, u: ArrayLike, k: int) -> Array:
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool):
            raise TypeError(f"the step k must be a whole number, not {k!r}")
        if not 0 <= k < self.steps:
            raise ValueError(f"step {k} is outside of 0 ... {self.steps - 1}")
        return matrix(u, (self.nu,), "u")

    def _along(self, X: ArrayLike, U: ArrayLike) -> tuple[Array, Array]:
        return matrix(X, (self.steps + 1, self.nx), "X"), matrix(U, (self.steps, self.nu), "U")

    # ---- the map and its motions

    def f(self, x: ArrayLike, u: ArrayLike, k: int = 0, *, guess: ArrayLike | None = None) -> Array:
        """x' (nx,) after step k from x with input u; `guess` (nx,) starts Newton nearer."""
        new: Array | None = self._once(x, u, k, False) if guess is None else None
        if new is not None:
            return new
        y, w = self._xu(x, u, k)
        return self._steps.f(y, w, k, None if guess is None else self._x(guess, "guess"))

    def f_batch(self, X: ArrayLike, u: ArrayLike, k: int = 0) -> Array:
        """f of many states X (n, nx) under one input, side by side where the map can."""
        return self._steps.f_batch(self._state(matrix(X, (-1, self.nx), "X"), "X"), self._u(u, k), k)

    def simulate(self, x0: ArrayLike, U: ArrayLike | Callable[[float, Array], Any]) -> Array:
        """X (N+1, nx) from x0 under the inputs U (N, nu), or under a policy (t, x) -> u, e.g. a `Feedback`."""
        y = self._x(x0, "x0")
        if not callable(U):
            return self._steps.simulate(y, matrix(U, (self.steps, self.nu), "U"))

        def law(k: int, x: Array) -> Array:
            u = U(float(self.t[k]), x)
            whole_u = np.concatenate([np.atleast_1d(part) for part in u]) if isinstance(u, tuple) else u
            return matrix(whole_u, (self.nu,), "u of the policy")

        return self._steps.follow(y, law)[0]

    def project(self, X: ArrayLike, U: ArrayLike, K: ArrayLike, x0: ArrayLike | None = None) -> tuple[Array, Array]:
        """Closed loop around (X, U): u_k = U_k - K_k difference(X_k, x_k), K (N, nu, ndx), from X_0 (or x0). Returns a feasible (X, U).

        Raises ConvergenceError with the trajectory so far when a step fails.
        """
        ref, ins = self._along(X, U)
        gains = matrix(K, (self.steps, self.nu, self.ndx), "K")
        return self._steps.project(ref, ins, gains, ref[0] if x0 is None else self._x(x0, "x0"))

    def shoot(self, X: ArrayLike, U: ArrayLike, *, derive: bool = False) -> tuple[Array, Array | None, Array | None]:
        """Ends (N, nx) of all steps, each from its own X_k under U_k: `difference(X[1:], ends)` are the gaps of a curve that is no motion.

        With `derive` their A (N, ndx, ndx), B (N, ndx, nu) too, of steps that are solved once."""
        return self._steps.shoot(*self._along(X, U), derive)

    def roll(self, course: Course) -> tuple[Array, Array]:
        """The motion (X, U) of a `course` (`Course`): along a tangent curve under feedback, with a share of the curve's gaps left open."""
        return self._steps.roll(course)

    def plan(self, Q: Array, Qf: Array, R: Array, low: Array, high: Array, mu: float) -> Any:
        """A plan of predictive control in the core (see `MPC`), or None where the map does not run there: weights `Q`, `Qf`, `R`, bounds
        `low` and `high`
        of the inputs (nu,), and the barrier `mu` of the interior point."""
        return self._steps.plan(Q, Qf, R, low, high, mu)

    def shooting(self, terms: list[Any], boxes: list[Any], free: list[int]) -> Any:
        """The default optimizer's search in the core (see `optimize`), or None where the map does not run there: `terms` of a quadratic cost,
        `boxes` on inputs and states, `free` components of the start."""
        return self._steps.shooting(terms, boxes, free)

    def rollouts(self, X0: ArrayLike, U: ArrayLike, *, threads: int | None = None) -> tuple[Array, Array]:
        """Motions (count, N+1, nx) from many states X0 (count, nx) under U (N, nu) or (count, N, nu), and the steps done (count,).

        A failed motion does not stop the others: it is NaN after its last state. `threads`: default all cores, where the map runs in the core.
        """
        starts, ins = matrix(X0, (-1, self.nx), "X0"), floats(U, "U")
        ins = matrix(ins, (self.steps, self.nu) if ins.ndim == 2 else (len(starts), self.steps, self.nu), "U")
        return self._steps.rollouts(starts, ins, threads)

    @cached_property
    def motions(self) -> Motions:
        """Batches of motions and their derivatives in coordinates, for other frameworks (see `dalembert.bridges`): `roll`, `push`, `pull`,
        `kick`."""
        return self._steps.motions()

    # ---- first order

    def linearize(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> tuple[Array, Array]:
        """Exact A (ndx, ndx), B (ndx, nu) of f at (x, u)."""
        found: tuple[Array, Array, Array] | None = self._once(x, u, k, True)
        if found is not None:
            return found[1:]
        y, w = self._xu(x, u, k)
        return self._steps.linearize(y, w, k)

    def advance(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> tuple[Array, Array, Array]:
        """(x' (nx,), A (ndx, ndx), B (ndx, nu)) of step k, which is solved once."""
        found: tuple[Array, Array, Array] | None = self._once(x, u, k, True)
        if found is not None:
            return found
        y, w = self._xu(x, u, k)
        return self._steps.advance(y, w, k)

    def linearize_trajectory(self, X: ArrayLike, U: ArrayLike, *, threads: int | None = None) -> tuple[Array, Array]:
        """A (N, ndx, ndx), B (N, ndx, nu) of f at every (X_k, U_k); threads over the steps."""
        return self._steps.linearize_trajectory(*self._along(X, U), threads)

    def adjoint(self, x: ArrayLike, u: ArrayLike, k: int, z: ArrayLike) -> tuple[Array, Array]:
        """(A^T z, B^T z) without forming A and B; z (ndx,)."""
        y, w = self._xu(x, u, k)
        return self._steps.adjoint(y, w, k, matrix(z, (self.ndx,), "z"))

    def push(self, x: ArrayLike, u: ArrayLike, k: int, dx: ArrayLike, du: ArrayLike) -> Array:
        """A dx + B du (ndx,) of step k without forming A and B; dx (ndx,), du (nu,).

        >>> import dalembert as da
        >>> system = da.System(da.MidpointVI(da.models.cart_pole(), dt=0.01), steps=10)
        >>> x, u = np.zeros(system.nx), np.zeros(system.nu)
        >>> A, B = system.linearize(x, u)
        >>> bool(np.allclose(system.push(x, u, 0, np.ones(system.ndx), u + 1.0), A.sum(1) + B.sum(1)))
        True
        """
        y, w = self._xu(x, u, k)
        return self._steps.push(y, w, k, matrix(dx, (self.ndx,), "dx"), matrix(du, (self.nu,), "du"))

    def derivatives(self, x: ArrayLike, u: ArrayLike, k: int = 0, *, with_dt: bool = False) -> dict[str, Array]:
        """Derivatives of q' (nd rows), p' (nd rows) and lambda (nc rows) by w = (q, p, u, rho'), and, `with_dt`, by dt as a last
        column."""
        y, w = self._xu(x, u, k)
        return self._midpoint("multipliers").derivatives(y, w, k, with_dt)

    # ---- second order

    def second_order(self, x: ArrayLike, u: ArrayLike, k: int, z: ArrayLike) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f: (xx (ndx, ndx), xu (ndx, nu), uu (nu, nu))."""
        y, w = self._xu(x, u, k)
        return self._steps.second_order(y, w, k, matrix(z, (self.ndx,), "z"))

    def second_order_full(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> Array:
        """Second derivatives of every component of f, (ndx, ndx + nu, ndx + nu)."""
        return self._steps.second_order_full(*self._xu(x, u, k), k)

    def second_order_trajectory(
        self, X: ArrayLike, U: ArrayLike, Z: ArrayLike, *, threads: int | None = None
    ) -> tuple[Array, Array, Array]:
        """`second_order` at every step of X, U, on `threads`, with costates Z (N, ndx): (N, ndx, ndx), (N, ndx, nu), (N, nu, nu)."""
        ref, ins = self._along(X, U)
        return self._steps.second_order_trajectory(ref, ins, matrix(Z, (self.steps, self.ndx), "Z"), threads)

    def second_derivatives(self, x: ArrayLike, u: ArrayLike, k: int = 0) -> dict[str, Array]:
        """Full tensors of q' (nd, nw, nw), p' (nd, nw, nw), lambda (nc, nw, nw) by w = (q, p, u, rho')."""
        y, w = self._xu(x, u, k)
        return self._midpoint("multipliers").second_derivatives(y, w, k)

    # ---- filters

    def kalman(self, *record: Any, threads: int | None = None, keep: bool = False) -> Any:
        """Many extended Kalman filters at once for `monte_carlo` (see there for the `record`, `threads`, `keep`), or
        None where the map runs one after the other."""
        return self._steps.kalman(*record, threads=threads, keep=keep)

    # ---- trajectories

    @property
    def scheme(self) -> Scheme | None:
        """What makes the motions, if it is an integrator of a Model."""
        return self._steps.one_step.scheme if isinstance(self._steps, MidpointSteps) else None

    def trajectory(self, X: ArrayLike, U: ArrayLike) -> Any:
        """Trajectory of states X (n+1, nx) and inputs U (n, nu); the multipliers are those of the steps between given states. Of a map that is no
        integrator of a Model: the pair (X, U)."""
        ref = matrix(X, (-1, self.nx), "X")
        ins = matrix(U, (len(ref) - 1, self.nu), "U")
        if len(ins) > self.steps:
            raise ValueError(f"X has {len(ins)} steps, the system {self.steps}")
        return self._steps.trajectory(ref, ins)

    def from_trajectory(self, traj: object, *, project: bool = False) -> tuple[Array, Array]:
        """(X (N+1, nx), U (N, nu)) of a motion of this system, with the same steps.

        A trajectory of another scheme (order, alpha, forcing, lengths of steps) is not a motion of this system: ValueError, unless `project`,
        which gives the motion that follows it under a regulator of unit weights. One that does not say what made it is checked
        step by step. `curve` takes any trajectory as it is.
        """
        X, U = self.curve(traj)
        why = self._foreign(traj) if isinstance(traj, Trajectory) else ""
        if not why and (not isinstance(traj, Trajectory) or traj.scheme is None or traj.scheme.forcing is None):
            why = self._not_a_motion(X, U)
        if not why:
            return X, U
        if not project:
            made = f" ({self.scheme})" if self.scheme is not None else ""
            raise ValueError(
                f"the trajectory is not a motion of this system{made}: {why}; from_trajectory(..., project=True) gives the "
                "motion that follows it, curve(...) its states as they are"
            )
        A, B = self.linearize_trajectory(X, U)
        unit = np.eye(self.ndx)
        K, *_ = _core.riccati(A, B, unit, np.eye(self.nu), unit, self.steps, cost_to_go=False)
        return self.project(X, U, K)

    def curve(self, traj: object) -> tuple[Array, Array]:
        """(X (N+1, nx), U (N, nu)) of any trajectory with as many steps and the same variables, whatever made it."""
        return self._along(*self._steps.curve(traj))

    def _foreign(self, traj: Trajectory) -> str:
        """Why a trajectory cannot be a motion of this system, from what it says about itself; empty if it can."""
        made = traj.scheme
        if not np.allclose(traj.dt, self.dt, rtol=1e-9, atol=1e-9 * float(self.dt.min())):
            return "its steps have other lengths"
        if made is None or self.scheme is None:
            return ""
        if made.forcing is not None and not made.same_equations(self.scheme):
            return f"it was made by {made}"
        if made.dt is not None and not np.allclose(made.dt, self.dt, rtol=1e-9, atol=0):
            return f"it was made by {made}, and not every state was kept"
        return ""

    def _not_a_motion(self, X: Array, U: Array) -> str:
        """Where a curve leaves the motions of the system: empty if it is one."""
        for k in range(self.steps):
            try:
                gap = np.abs(self.difference(self.f(X[k], U[k], k, guess=X[k + 1]), X[k + 1]))
            except ConvergenceError:
                return f"it does not say what made it, and step {k} has no solution"
            if gap.max() > 1e-6 * max(1.0, float(np.abs(X[k + 1]).max())):
                worst = self.dx_names[int(gap.argmax())]
                return (
                    f"it does not say what made it, and step {k} misses its next state by {gap.max():.2g} in '{worst}'"
                )
        return ""


def as_system(one_step: OneStep, *, steps: int | None = None, t: ArrayLike | None = None) -> System:
    """A System as it is; any other one-step over the times `t` (N+1,), or the given number of steps."""
    if isinstance(one_step, System):
        return one_step
    return System(one_step, t=t) if t is not None else System(one_step, steps=steps)
