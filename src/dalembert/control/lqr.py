"""Linear-quadratic regulators of the one-step map: along a trajectory, and for an infinite horizon.

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, eqs 36, 37
(the printed gain has B where A belongs): K = [R + B'PB]^-1 B'PA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, weight
from ..errors import SingularityError
from ..integrate import OneStep
from ..text import Brief
from .analysis import Mode, uncontrollable_modes, unobservable_modes
from .feedback import Feedback, wrapped
from .lq import solve_lq
from .reduce import reduce_state
from .reference import Reference, reference_arrays
from .weights import Names, weights

Weight = ArrayLike | Mapping[str, float]


class UnstabilizableError(SingularityError):
    """Some unstable or undamped modes cannot be regulated; `modes` lists them, `variables` names their states."""

    def __init__(self, message: str, *, modes: tuple[Mode, ...] = (), **facts: Any) -> None:
        self.modes = modes
        super().__init__(message, **facts)


@dataclass(frozen=True, eq=False, repr=False)
class LQR(Brief):
    """Infinite-horizon regulator u = -K x: gain K (m, n), cost to go x'P x/2 (n, n), closed-loop poles (n,)."""

    K: Array
    P: Array
    poles: Any


def lqr(
    system: OneStep,
    reference: Reference,
    Q: Weight,
    R: Weight,
    Qf: Weight | None = None,
    *,
    S: ArrayLike | None = None,
    reduced: bool | None = None,
    wrap: bool = False,
) -> Feedback:
    """The regulator along a trajectory that minimizes sum 1/2 dx'Q dx + dx'S du + 1/2 du'R du + 1/2 dx_N'Qf dx_N.

    `system` is a System, an integrator or any other one-step, `reference` a Trajectory or (X (N+1, nx), U (N, nu)) that satisfies the
    dynamics; dx (ndx) is the difference from it. Q, R: a number, a diagonal, a matrix, one matrix per step (N, ...), or {name: weight} ("*"
    for the rest, otherwise 0); Qf defaults to Q of the last step. `reduced` regulates on the constraint manifold (see `reduce_state`), where
    constrained systems have no directions that nothing can move; it is the default where there are constraints, and False takes the whole
    state as the papers do. `wrap` takes differences of hinges the shorter way round, in [-pi, pi), as those of balls are. Returns a Feedback,
    u_k = U_k - K_k difference(X_k, x_k), K (N, nu, ndx), with the cost to go in `.P`.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))],
    ...                     [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", input="torque")])
    >>> vi = da.MidpointVI(pendulum, dt=0.1)
    >>> upright = vi.simulate(vi.state(q=[3.141592653589793]), steps=50, u=lambda t: [0.0])
    >>> regulator = lqr(vi, upright, Q=1.0, R=1.0)
    >>> closed = vi.simulate(vi.state(q=[3.0]), steps=50, u=regulator)
    >>> bool(abs(closed.q[-1, 0] - 3.141592653589793) < 1e-3)
    True
    """
    whole, X, U = reference_arrays(system, reference)
    A, B = whole.linearize_trajectory(X, U)
    n, m, N = A.shape[1], B.shape[2], len(A)

    def matrices(value: Weight, what: str, size: int, of: str, steps: int | None = None) -> Array:
        numbers = weights(whole, value, default=0.0, of=of) if isinstance(value, Mapping) else value
        return weight(numbers, what, size, steps)

    Qs, Rs = matrices(Q, "Q", n, "x", N), matrices(R, "R", m, "u", N)
    Qn = (Qs if Qs.ndim == 2 else Qs[-1]) if Qf is None else matrices(Qf, "Qf", n, "x")
    Ss = None if S is None else finite(S, "S", (n, m), (N, n, m))
    P: Array | None
    on = None
    if not (whole.constrained if reduced is None else reduced):
        solution = solve_lq(A, B, Qs, Rs, Qn, S=Ss)
        K, P = solution.K, solution.P
    else:
        on = reduce_state(whole, (X, U), linearization=(A, B))
        T = on.basis
        down = np.ascontiguousarray(np.swapaxes(T, 1, 2))
        Sr = None if Ss is None else down[:-1] @ Ss
        solution = solve_lq(on.A, on.B, _even(down[:-1] @ (Qs @ T[:-1])), Rs, _even(down[-1] @ Qn @ T[-1]), S=Sr)
        assert solution.P is not None
        K = solution.K @ on.lower[:-1]
        P = np.swapaxes(on.lower, 1, 2) @ solution.P @ on.lower
    away = whole.difference if on is None else whole.free_difference
    return Feedback(K=K, X=X, U=U, t=whole.t, P=P, difference=wrapped(whole, away) if wrap else away)


def lqr_infinite(
    A: ArrayLike,
    B: ArrayLike,
    Q: Weight,
    R: Weight,
    *,
    S: ArrayLike | None = None,
    names: Sequence[str] | Names | None = None,
) -> LQR:
    """The regulator u = -K x of x' = A x + B u that minimizes the infinite sum of 1/2 x'Qx + x'Su + 1/2 u'Ru.

    A (n, n), B (n, m); Q, R: a number, a diagonal, a matrix, or {name: weight} ("*" for the rest, otherwise 0). `names` tells the names: the
    integrator or System that A and B are of, or a list of n names (of the states only). Raises UnstabilizableError that names the states of
    unstable or undamped modes which no input reaches, or which the cost does not see although they stay undamped.

    >>> lqr_infinite([[1, 0.1], [0, 1]], [[0], [0.1]], Q=1.0, R=1.0).K.round(4)
    array([[0.917 , 1.6821]])
    >>> import dalembert as da
    >>> vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
    >>> A, B = vi.linearize(vi.state(q={"theta": 3.141592653589793}))
    >>> lqr_infinite(A, B, Q={"theta": 10, "*": 0.1}, R={"push": 0.1}, names=vi).K.shape
    (1, 4)
    """
    states = names if names is None or isinstance(names, Sequence) else names.dx_names
    A = finite(A, "A", (None, None))
    n = len(A)
    B = finite(B, "B", (n, None))
    m = B.shape[1]
    Q, R = weight(_by_name(Q, "Q", names, "x"), "Q", n), weight(_by_name(R, "R", names, "u"), "R", m)
    least = float(np.linalg.eigvalsh(R).min())
    if least <= 0:
        raise SingularityError(
            f"R is not positive definite (least eigenvalue {least:.3g})", matrix="R", hint="weight every input"
        )
    S = None if S is None else finite(S, "S", (n, m))
    stuck = uncontrollable_modes(A, B, names=states)
    grows = any(abs(mode.eigenvalue) > 1.0 + 1e-6 for mode in stuck)
    aside = "" if grows else "; or let it be, as a car at rest that cannot go sideways: da.lqr along a motion does"
    _refuse(stuck, "no input reaches", "[A - lambda 1, B]", hint=f"add an input{aside}")

    from scipy.linalg import solve_discrete_are

    def refuse_unseen() -> None:
        """Modes on the unit circle that the cost does not see leave no stabilizing solution."""
        drift = A if S is None else A - B @ np.linalg.solve(R, S.T)
        cost = Q if S is None else Q - S @ np.linalg.solve(R, S.T)
        unseen = unobservable_modes(drift, cost, names=states)
        _refuse(unseen, "the cost does not see", "[A - lambda 1; Q]", undamped=True)

    try:
        P = np.asarray(solve_discrete_are(A, B, Q, R, s=S))
    except (np.linalg.LinAlgError, ValueError) as failure:
        refuse_unseen()
        raise SingularityError(
            f"the algebraic Riccati equation has no stabilizing solution: {failure}", matrix="DARE"
        ) from failure
    H = B.T @ P @ A + (0 if S is None else S.T)
    K = np.linalg.solve(R + B.T @ P @ B, H)
    poles = np.linalg.eigvals(A - B @ K)
    radius = float(np.abs(poles).max(initial=0.0))
    if radius > 1 - 1e-9:
        refuse_unseen()
    if not (np.isfinite(K).all() and radius < 1):
        raise SingularityError(
            f"the closed loop is not stable (spectral radius {radius:.6g})",
            matrix="A - B K",
            hint="scale states and weights",
        )
    return LQR(K=K, P=(P + P.T) / 2, poles=poles)


def dlqr(
    A: ArrayLike, B: ArrayLike, Q: ArrayLike, R: ArrayLike, *, S: ArrayLike | None = None
) -> tuple[Array, Array, Any]:
    """`lqr_infinite` with python-control's name and result: (K, P, closed-loop poles); `S` (n, m) weights x'Su.

    >>> K, P, poles = dlqr([[1, 0.1], [0, 1]], [[0], [0.1]], Q=[1, 1], R=1)
    >>> bool(abs(poles).max() < 1)
    True
    """
    result = lqr_infinite(A, B, Q, R, S=S)
    return result.K, result.P, result.poles


def _refuse(modes: tuple[Mode, ...], why: str, matrix: str, *, hint: str = "", undamped: bool = False) -> None:
    """Raise if some of the modes do not decay by themselves."""
    low, high = (1 - 1e-6, 1 + 1e-6) if undamped else (1 - 1e-9, np.inf)
    bad = tuple(mode for mode in modes if low <= abs(mode.eigenvalue) <= high)
    if not bad:
        return
    names = tuple(dict.fromkeys(name for mode in bad for name in mode.states))
    values = ", ".join(f"{mode.eigenvalue.real:.6g}{mode.eigenvalue.imag:+.3g}j" for mode in bad)
    raise UnstabilizableError(
        f"{why} the mode{'s' if len(bad) > 1 else ''} with eigenvalue {values}, which does not decay: "
        f"states {', '.join(names)}",
        modes=bad,
        matrix=matrix,
        variables=names,
        hint=hint or "weight these states in Q",
    )


@dataclass(frozen=True)
class _StateNames:
    """Names of states alone."""

    dx_names: tuple[str, ...]
    u_names: tuple[str, ...] = ()


def _by_name(value: Weight, what: str, names: Sequence[str] | Names | None, of: str) -> ArrayLike:
    """A weight as numbers; {name: weight} by the names of a system."""
    if not isinstance(value, Mapping):
        return value
    if names is None or (of == "u" and isinstance(names, Sequence)):
        raise ValueError(f"{what} = {{name: weight}} needs names=: the integrator or System that A and B are of")
    return weights(_StateNames(tuple(names)) if isinstance(names, Sequence) else names, value, default=0.0, of=of)


def _even(M: Array) -> Array:
    return (M + np.swapaxes(M, -1, -2)) / 2
