"""OneStep: a discrete map x' = f(x, u), which is all that control, estimation and optimization see of a mechanism.

States are points of a manifold: nx coordinates, ndx tangent components. `difference` and `retract` are the only ways to subtract and add them; for
flat states (every hinge and slider) they are - and +. Derivatives are those of the map in tangent components,

    (dx, du) -> difference(f(x, u), f(retract(x, dx), u + du)).

`MidpointVI` is a one-step, of every order. A map of your own derives from `OneStepMap`, which needs f and linearize and has a plain default for all
else; or it is any class with the members of `OneStep`. `System(one_step, steps=N)` takes N steps of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from ..errors import ConvergenceError
from .motions import Motions, PlainMotions

Policy = Callable[[float, Array], Any]  # (t, x) -> u (nu,), or its parts one after the other as a tuple


class OneStep(Protocol):
    """x' = f(x, u, k): the members that a map must have; `OneStepMap` has defaults for most of them and for what rooms ask besides.

    Sizes: `nx` coordinates of a state, `ndx` components of its tangent, `nu` inputs, with names of all. `dt`: length of the steps (s), one
    number or (N,) for a map of N steps; k is the number of the step. Everything depends on the arguments only. A step that has no solution
    raises `ConvergenceError`.
    """

    @property
    def nx(self) -> int:
        """Coordinates of a state."""

    @property
    def ndx(self) -> int:
        """Components of a tangent vector."""

    @property
    def nu(self) -> int:
        """Inputs."""

    @property
    def x_names(self) -> tuple[str, ...]:
        """Names of the coordinates, (nx)."""

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the tangent components, (ndx)."""

    @property
    def u_names(self) -> tuple[str, ...]:
        """Names of the inputs, (nu)."""

    @property
    def dt(self) -> float | Array:
        """Length of the steps (s): one number, or (N,)."""

    def f(self, x: Array, u: Array, k: int = 0) -> Array:
        """The state (nx,) after step k from x (nx,) with the input u (nu,)."""

    def linearize(self, x: Array, u: Array, k: int = 0) -> tuple[Array, Array]:
        """A (ndx, ndx), B (ndx, nu)."""

    def adjoint(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array]:
        """A'z (ndx,), B'z (nu,) for a costate z (ndx,)."""

    def second_order(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives contracted with z (ndx,): xx (ndx, ndx), xu (ndx, nu), uu (nu, nu)."""

    def difference(self, x0: Array, x1: Array) -> Array:
        """The tangent vector (..., ndx) at x0 that leads to x1; leading axes broadcast."""

    def retract(self, x: Array, dx: Array) -> Array:
        """The state (..., nx) to which dx (..., ndx) leads from x: undoes `difference`, and follows straight lines, so that
        retract(retract(x, v), v) = retract(x, 2 v)."""

    def f_batch(self, X: Array, u: Array, k: int = 0) -> Array:
        """f of many states X (n, nx) under one input."""


class StateSpace:
    """Where states live: here plain numbers, whose difference and retraction are - and +. A child has `nx` and `x_names`.

    A child on a manifold overrides `ndx`, `dx_names`, `difference`, `retract` and `neutral`; the Jacobians are then taken by differences
    (to about 1e-10), unless it knows better. All functions take arrays with any leading axes.

    >>> class Plane(StateSpace):
    ...     nx, x_names = 2, ("a", "b")
    >>> Plane().retract(np.array([1.0, 2.0]), np.array([0.5, 0.0]))
    array([1.5, 2. ])
    """

    nx: int  # coordinates of a state
    x_names: tuple[str, ...]

    @property
    def ndx(self) -> int:
        """Components of a tangent vector."""
        return self.nx

    @property
    def dx_names(self) -> tuple[str, ...]:
        """Names of the tangent components."""
        return self.x_names

    def difference(self, x0: Array, x1: Array) -> Array:
        """The tangent vector at x0 that leads to x1."""
        return np.subtract(x1, x0)

    def retract(self, x: Array, dx: Array) -> Array:
        """The state to which dx leads from x."""
        return np.add(x, dx)

    def difference_jacobian(self, x0: Array, x1: Array) -> Array | None:
        """Derivative of difference(x0, retract(x1, dx)) by dx at 0, or None for the identity."""
        if self._flat():
            return None
        return slopes(lambda dx: self.difference(x0, self.retract(x1, dx)), self.ndx, np.shape(x1)[:-1])

    def retract_jacobian(self, x: Array) -> Array | None:
        """Derivative of retract(x, dx) by dx at 0, or None for the identity."""
        if self._flat():
            return None
        return slopes(lambda dx: self.retract(x, dx), self.ndx, np.shape(x)[:-1])

    def neutral(self) -> Array:
        """Zeros (nx,)."""
        if self.nx != self.ndx:
            raise NotImplementedError(f"{type(self).__name__}.neutral() must give a state of its manifold")
        return np.zeros(self.nx)

    def _flat(self) -> bool:
        return type(self).difference is StateSpace.difference and type(self).retract is StateSpace.retract


@dataclass(frozen=True, eq=False)
class Tangent:
    """Directions z (nr) along constraints at n states: dx = `lift` z, (n, ndx, nr), and z = `lower` dx, (n, nr, ndx), whatever part of dx no step
    feels. `basis` (n, ndx, nr) has orthonormal columns: dq and dp along the constraints, with which weights are taken. `onto` (n, ndx, ndx) is the
    derivative of `settle`: it takes any dx at a settled state to one along the constraints, and leaves prescribed variables as they are."""

    basis: Array
    lift: Array
    lower: Array
    onto: Array


class OneStepMap(StateSpace):
    """What a one-step has without saying so. A child has `nx`, `nu`, `x_names`, `u_names`, `f` and `linearize`, and perhaps `dt`.

    Adjoints come from A and B, second order from central differences of adjoints (to about 1e-9 of its size), batches and motions from loops; states
    are plain numbers, unless the child overrides what `StateSpace` says. A map of a Model's variables may have it as `model`; its states must then
    begin with q.

    >>> class Oscillator(OneStepMap):
    ...     nx, nu, dt = 2, 1, 0.1
    ...     x_names, u_names = ("x", "v"), ("force",)
    ...     A, B = np.array([[1.0, 0.1], [-0.1, 0.99]]), np.array([[0.0], [0.1]])
    ...
    ...     def f(self, x, u, k=0):
    ...         return self.A @ x + self.B @ u
    ...
    ...     def linearize(self, x, u, k=0):
    ...         return self.A, self.B
    >>> import dalembert as da
    >>> system = da.System(Oscillator(), steps=50)
    >>> law = da.lqr(system, (np.zeros((51, 2)), np.zeros((50, 1))), Q=1.0, R=0.1)
    >>> bool(abs(system.simulate([1.0, 0.0], law)[-1]).max() < 0.01)
    True
    """

    nu: int  # inputs
    u_names: tuple[str, ...]
    dt: float | Array = 1.0  # length of the steps (s)

    # ---- the map

    def f(self, x: Array, u: Array, k: int = 0) -> Array:
        """The next state (nx,)."""
        raise NotImplementedError(f"{type(self).__name__}.f")

    def linearize(self, x: Array, u: Array, k: int = 0) -> tuple[Array, Array]:
        """A (ndx, ndx), B (ndx, nu)."""
        raise NotImplementedError(f"{type(self).__name__}.linearize")

    def adjoint(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array]:
        """A'z (ndx,), B'z (nu,)."""
        A, B = self.linearize(x, u, k)
        return z @ A, z @ B

    def push(self, x: Array, u: Array, k: int, dx: Array, du: Array) -> Array:
        """A dx + B du (ndx,) for changes dx (ndx,) of the state and du (nu,) of the input."""
        A, B = self.linearize(x, u, k)
        return A @ dx + B @ du

    def second_order(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f: xx (ndx, ndx), xu (ndx, nu), uu (nu, nu), by central differences of the adjoint."""
        n, end = self.ndx, self.f(x, u, k)

        def gradient(d: Array) -> Array:
            at, by = self.retract(x, d[:n]), u + d[n:]
            turn = self.difference_jacobian(end, self.f(at, by, k)) if not self._flat() else None
            return np.concatenate(self.adjoint(at, by, k, z if turn is None else z @ turn))

        H = slopes(gradient, n + self.nu)
        H = (H + H.T) / 2  # along straight lines only the symmetric part is seen
        return H[:n, :n], H[:n, n:], H[n:, n:]

    def f_batch(self, X: Array, u: Array, k: int = 0) -> Array:
        """f of many states X (n, nx), one after the other."""
        return np.stack([np.asarray(self.f(x, u, k), dtype=float) for x in X])

    # ---- what is special about a map

    def tangent(self, X: Array, tolerance: float = 1e-10) -> Tangent | None:
        """The directions in which motions can leave the states X (n, nx) (see `reduce_state`), their number decided by `tolerance`;
        None: all of them."""
        return None

    def settle(self, x: Array) -> Array:
        """The state (nx,) that motions can have and that is nearest to x: x itself, unless there are constraints."""
        return x

    def nearby(self, x: Array, away: Array) -> Array:
        """States (m, nx) that motions can have, from such a state x (nx,) and tangent vectors `away` (m, ndx) in which motions can leave it."""
        return self.retract(x, away)

    def free_difference(self, x0: Array, x1: Array) -> Array:
        """`difference` of x0 (nx,) and x1 (..., nx) without what no step feels (momenta across constraints): what laws feed back."""
        return self.difference(x0, x1)

    def advance(self, x: Array, u: Array, k: int = 0) -> tuple[Array, Array, Array]:
        """f and linearize of step k together: (x' (nx,), A (ndx, ndx), B (ndx, nu)); a map that solves for x' does so once."""
        return np.asarray(self.f(x, u, k), dtype=float), *self.linearize(x, u, k)

    @property
    def constrained(self) -> bool:
        """Whether constraints keep motions from some states."""
        return False

    def violation(self, x: Array) -> float:
        """How far a state is from those that motions can have: 0, unless there are constraints."""
        return 0.0

    def with_dt(self, dt: Array) -> OneStepMap:
        """The same map with steps of the lengths dt (N,)."""
        raise ValueError(f"{type(self).__name__} has steps of its own lengths: give steps=, not t=")

    def within(self, x: Array, u: Array, share: float) -> Array:
        """The input (nu,) of the first `share` of a step with the input u: u itself, unless it says where the step ends."""
        return u

    def compiled(self) -> Any:
        """What takes single steps of state vectors and inputs in the core (`_core.Stepper`), for filters; None: nothing, the map is Python's."""
        return None

    def over(self, t: Array) -> Steps:
        """Steps between the times t (N+1,): `Steps`, or a child of it that does the same faster."""
        return Steps(self, t)


class _Completed(OneStepMap):
    """A map with no more than the members of `OneStep`: what it has wins, the rest are the defaults."""

    def __init__(self, given: OneStep) -> None:
        self._given = given

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(self._given, name):
            return getattr(self._given, name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return repr(self._given)

    def _flat(self) -> bool:
        return False


def complete(one_step: OneStep) -> OneStepMap:
    """A one-step with all that rooms ask for; TypeError that names what a map lacks."""
    if isinstance(one_step, OneStepMap):
        return one_step
    missing = [name for name in vars(OneStep) if not name.startswith("_") and not hasattr(one_step, name)]
    if missing:
        raise TypeError(
            f"{type(one_step).__name__} is no one-step: it has no {', '.join(missing)} (derive it from OneStepMap, which has "
            "defaults for all but f, linearize, sizes and names)"
        )
    return _Completed(one_step)


@dataclass(frozen=True, eq=False)
class Course:
    """What a rollout follows: the `share` of the tangent curve dX (N+1, ndx), dU (N, nu) at the curve X, U, under its feedback K (N, nu, ndx), with
    inputs between `low` and `high` (N, nu); of the curve's `gaps` (N, ndx), what the share leaves open is left open."""

    X: Array
    U: Array
    dX: Array
    dU: Array
    K: Array
    gaps: Array | None = None
    share: float = 1.0
    low: Array | None = None
    high: Array | None = None


class Steps:
    """N steps of a one-step between the times t (N+1,), by plain loops; what `System` calls after checking shapes.

    A map that can do better (`MidpointVI` runs whole motions in the core) overrides what it likes. Failed steps raise ConvergenceError with
    the step, its time, and the motion until then.
    """

    def __init__(self, one_step: OneStepMap, t: Array) -> None:
        self.one_step, self.t, self.count = one_step, t, len(t) - 1

    # ---- motions

    def f(self, x: Array, u: Array, k: int, guess: Array | None = None) -> Array:
        """One step; `guess` (nx,) of the result is for maps that iterate."""
        try:
            new = np.asarray(self.one_step.f(x, u, k), dtype=float)
        except ConvergenceError as error:
            error.step, error.time = k, float(self.t[k])
            error.state = x if error.state is None else error.state
            raise
        if not np.isfinite(new).all():
            bad = self.one_step.x_names[int(np.flatnonzero(~np.isfinite(new))[0])]
            at = float(self.t[k])
            raise ConvergenceError(
                f"step {k} at t = {at:g} gives a '{bad}' that is not finite", step=k, time=at, state=x
            )
        return new

    def once(self, x: object, u: object, k: int, derive: bool) -> Any:
        """x', or with `derive` (x', A, B), of step k from arguments that nobody has looked at yet, if they can be taken as they are; None: look at
        them first."""
        return None

    def f_batch(self, X: Array, u: Array, k: int) -> Array:
        """f of many states (n, nx)."""
        return self.one_step.f_batch(X, u, k)

    def follow(self, x0: Array, law: Callable[[int, Array], Array]) -> tuple[Array, Array]:
        """The motion (X, U) from x0 with the inputs u = law(k, x)."""
        X, U = np.empty((self.count + 1, len(x0))), np.empty((self.count, self.one_step.nu))
        X[0] = x0
        for k in range(self.count):
            U[k] = law(k, X[k])
            try:
                X[k + 1] = self.f(X[k], U[k], k)
            except ConvergenceError as error:
                error.trajectory = self.trajectory(X[: k + 1], U[:k])
                raise
        return X, U

    def simulate(self, x0: Array, U: Array) -> Array:
        """X (N+1, nx) from x0 under the inputs U (N, nu)."""
        return self.follow(x0, lambda k, x: U[k])[0]

    def project(self, X: Array, U: Array, K: Array, x0: Array) -> tuple[Array, Array]:
        """The motion (X, U) under u_k = U_k - K_k difference(X_k, x_k) from x0."""
        away = self.one_step.difference
        return self.follow(x0, lambda k, x: U[k] - K[k] @ away(X[k], x))

    def rollouts(self, X0: Array, U: Array, threads: int | None = None) -> tuple[Array, Array]:
        """Motions (count, N+1, nx) from many states under U (N, nu) or (count, N, nu), NaN after a step that fails; steps done (count,)."""
        out, done = np.full((len(X0), self.count + 1, X0.shape[1]), np.nan), np.full(len(X0), self.count)
        for i, x0 in enumerate(X0):
            out[i, 0] = x0
            for k in range(self.count):
                try:
                    out[i, k + 1] = self.f(out[i, k], U[k] if U.ndim == 2 else U[i, k], k)
                except ConvergenceError:
                    done[i] = k
                    break
        return out, done

    # ---- curves with gaps, for optimization

    def shoot(self, X: Array, U: Array, derive: bool) -> tuple[Array, Array | None, Array | None]:
        """The ends (N, nx) of all steps, each from its own X_k under U_k, and with `derive` their A (N, ndx, ndx), B (N, ndx, nu)."""
        ends = np.stack([self.f(X[k], U[k], k, X[k + 1]) for k in range(self.count)])
        return (ends, *self.linearize_trajectory(X, U)) if derive else (ends, None, None)

    def roll(self, course: Course) -> tuple[Array, Array]:
        """The motion (X, U) of a `Course`."""
        c, space = course, self.one_step
        aim, by = space.retract(c.X, c.share * c.dX), c.U + c.share * c.dU
        X, U = np.empty_like(c.X), np.empty_like(c.U)
        X[0] = aim[0]
        for k in range(self.count):
            u = by[k] - c.K[k] @ space.difference(aim[k], X[k])
            U[k] = u if c.low is None or c.high is None else np.clip(u, c.low[k], c.high[k])
            end = self.f(X[k], U[k], k, aim[k + 1])
            X[k + 1] = end if c.gaps is None else space.retract(end, (c.share - 1.0) * c.gaps[k])
        return X, U

    def plan(self, Q: Array, Qf: Array, R: Array, low: Array, high: Array, mu: float) -> Any:
        """A plan of predictive control in the core, or None: there is none for this map."""
        return None

    def shooting(self, terms: list[Any], boxes: list[Any], free: list[int]) -> Any:
        """The default optimizer's search in the core, or None: there is none for this map."""
        return None

    # ---- derivatives of one step, and along a motion

    def linearize(self, x: Array, u: Array, k: int) -> tuple[Array, Array]:
        """A (ndx, ndx), B (ndx, nu) of step k."""
        return self.one_step.linearize(x, u, k)

    def advance(self, x: Array, u: Array, k: int) -> tuple[Array, Array, Array]:
        """x' (nx,), A (ndx, ndx), B (ndx, nu) of step k."""
        return self.one_step.advance(x, u, k)

    def adjoint(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array]:
        """A'z (ndx,), B'z (nu,) of step k."""
        return self.one_step.adjoint(x, u, k, z)

    def push(self, x: Array, u: Array, k: int, dx: Array, du: Array) -> Array:
        """A dx + B du (ndx,) of step k; a map without such products has them from A and B."""
        own = getattr(self.one_step, "push", None)
        if own is not None:
            found: Array = own(x, u, k, dx, du)
            return found
        A, B = self.linearize(x, u, k)
        return A @ dx + B @ du

    def second_order(self, x: Array, u: Array, k: int, z: Array) -> tuple[Array, Array, Array]:
        """Second derivatives of z . f of step k: xx, xu, uu."""
        return self.one_step.second_order(x, u, k, z)

    def second_order_full(self, x: Array, u: Array, k: int) -> Array:
        """Second derivatives of every component of step k, (ndx, ndx + nu, ndx + nu)."""
        out = []
        for z in np.eye(self.one_step.ndx):
            xx, xu, uu = self.one_step.second_order(x, u, k, z)
            out.append(np.block([[xx, xu], [xu.T, uu]]))
        return np.stack(out)

    def linearize_trajectory(self, X: Array, U: Array, threads: int | None = None) -> tuple[Array, Array]:
        """A (N, ndx, ndx), B (N, ndx, nu) at every (X_k, U_k)."""
        pairs = [self.one_step.linearize(X[k], U[k], k) for k in range(self.count)]
        return np.stack([a for a, _ in pairs]), np.stack([b for _, b in pairs])

    def second_order_trajectory(
        self, X: Array, U: Array, Z: Array, threads: int | None = None
    ) -> tuple[Array, Array, Array]:
        """Second derivatives of Z_k . f at every step: (N, ndx, ndx), (N, ndx, nu), (N, nu, nu)."""
        found = [self.one_step.second_order(X[k], U[k], k, Z[k]) for k in range(self.count)]
        xx, xu, uu = (np.stack([part[i] for part in found]) for i in range(3))
        return xx, xu, uu

    # ---- batches for other frameworks

    def motions(self) -> Motions:
        """Batches of motions and their derivatives in coordinates."""
        return PlainMotions(self)

    # ---- filters

    def kalman(self, *record: Any, **options: Any) -> Any:
        """Many extended Kalman filters at once (`monte_carlo`), or None: there is nothing faster than one after the other."""
        return None

    # ---- what users call a motion

    def trajectory(self, X: Array, U: Array) -> Any:
        """The motion as users have it: the pair (X, U)."""
        return X, U

    def curve(self, motion: object) -> tuple[Array, Array]:
        """(X, U) of what `trajectory` returns."""
        if not isinstance(motion, (tuple, list)) or len(motion) != 2:
            kind = type(self.one_step).__name__
            raise TypeError(f"a motion of {kind} is a pair (X, U), not {type(motion).__name__}")
        return motion[0], motion[1]


def slopes(g: Callable[[Array], Array], n: int, lead: tuple[int, ...] = (), step: float = 1e-3) -> Array:
    """Derivative (..., m, n) of g(d) (..., m) at d = 0 (..., n), by central differences of fourth order.

    >>> slopes(lambda d: np.sin(d), 2).round(9)
    array([[1., 0.],
           [0., 1.]])
    """
    columns = []
    for i in range(n):
        d = np.zeros((*lead, n))
        total: Any = 0.0
        for factor, weight in ((1, 8.0), (2, -1.0)):
            d[..., i] = factor * step
            ahead = np.asarray(g(d))
            d[..., i] = -factor * step
            total = total + weight * (ahead - np.asarray(g(d)))
        columns.append(total / (12 * step))
    return np.stack(columns, axis=-1)
