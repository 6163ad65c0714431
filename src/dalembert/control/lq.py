"""The affine linear-quadratic problem, time-varying, by one Riccati sweep in the core (`cpp/riccati.hpp`).

Schultz, Johnson, Murphey, Trajectory optimization in discrete mechanics, section 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, weight
from ..errors import SingularityError
from ..text import Brief


@dataclass(frozen=True, eq=False, repr=False)
class LQSolution(Brief):
    """u_k = -K_k x_k - k_k and the cost to go 1/2 x'P_k x + p_k'x (+ `constant` at k = 0).

    K (N, m, n), k (N, m), P (N+1, n, n) and p (N+1, n) or None; `min_pivot` is the smallest pivot of R + B'PB relative
    to its diagonal entry (a small one warns of a badly conditioned problem), met at step `min_pivot_step`.
    """

    K: Array
    k: Array
    P: Array | None
    p: Array | None
    constant: float
    min_pivot: float
    min_pivot_step: int
    A: Array
    B: Array
    c: Array | None

    def rollout(self, x0: ArrayLike) -> tuple[Array, Array]:
        """The optimal trajectory of the linear system from x0 (n,): X (N+1, n), U (N, m)."""
        from .. import _core  # type: ignore[attr-defined]

        start = finite(x0, "x0", (self.K.shape[2],))
        X, U = _core.riccati_rollout(self.A, self.B, self.K, self.k, start, self.c)
        return X, U


def solve_lq(
    A: ArrayLike,
    B: ArrayLike,
    Q: ArrayLike,
    R: ArrayLike,
    Qf: ArrayLike,
    *,
    S: ArrayLike | None = None,
    q: ArrayLike | None = None,
    r: ArrayLike | None = None,
    qf: ArrayLike | None = None,
    c: ArrayLike | None = None,
    steps: int | None = None,
    regularization: float = 0.0,
    cost_to_go: bool = True,
) -> LQSolution:
    """Minimize sum_k 1/2 x'Qx + x'Su + 1/2 u'Ru + q'x + r'u + 1/2 x_N'Qf x_N + qf'x_N for x' = Ax + Bu + c.

    Shapes: A (N, n, n), B (N, n, m), Q (N, n, n), R (N, m, m), S (N, n, m), q, c (N, n), r (N, m), Qf (n, n), qf (n,).
    An array without its time axis holds for all steps (give `steps` if A and B both lack it); Q, R, Qf may also be a
    number or a diagonal. Q may be indefinite as long as every R + B'PB is positive definite; `regularization` is added
    to the diagonal of R. `cost_to_go=False` leaves out P and p, which take most of the memory.

    Raises SingularityError (`step`, `residual` = the bad pivot, `state` = the LQSolution of the later steps) where
    R + B'PB is not positive definite.

    >>> import numpy as np
    >>> A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
    >>> s = solve_lq(A, B, Q=1.0, R=1.0, Qf=1.0, steps=100)
    >>> s.K[0].round(4)
    array([[0.917 , 1.6821]])
    """
    from .. import _core  # type: ignore[attr-defined]

    A = finite(A, "A", (None, None), (None, None, None))
    B = finite(B, "B", (None, None), (None, None, None))
    n, m = B.shape[-2:]
    lengths = {len(a) for a, rank in ((A, 3), (B, 3)) if a.ndim == rank}
    if steps is not None:
        lengths.add(steps)
    if len(lengths) != 1:
        raise ValueError(
            "the number of steps is unknown: give steps, or A and B with a time axis"
            if not lengths
            else f"A, B and steps disagree about the number of steps: {sorted(lengths)}"
        )
    N = lengths.pop()
    A = finite(A, "A", (n, n), (N, n, n))
    Q, R, Qf = weight(Q, "Q", n, N), weight(R, "R", m, N), weight(Qf, "Qf", n)
    options = {
        "S": None if S is None else finite(S, "S", (n, m), (N, n, m)),
        "q": None if q is None else finite(q, "q", (n,), (N, n)),
        "r": None if r is None else finite(r, "r", (m,), (N, m)),
        "qf": None if qf is None else finite(qf, "qf", (n,)),
        "c": None if c is None else finite(c, "c", (n,), (N, n)),
    }
    reg = float(finite(regularization, "regularization", ()))
    K, k, P, p, status = _core.riccati(A, B, Q, R, Qf, N, **options, regularization=reg, cost_to_go=cost_to_go)
    solution = LQSolution(
        K, k, P, p, status["constant"], status["min_pivot"], status["min_pivot_step"], A, B, options["c"]
    )
    step = status["failed_step"]
    if step >= 0:
        raise SingularityError(
            f"R + B'PB is not positive definite at step {step} (input {status['failed_input']}, "
            f"relative pivot {status['min_pivot']:.3g})",
            matrix="R + B'PB",
            variables=(f"u[{status['failed_input']}]",),
            step=step,
            residual=status["min_pivot"],
            state=solution,
            hint="weight every input (R positive definite), make Q positive semidefinite, or raise regularization",
        )
    if not np.isfinite(K).all() or not np.isfinite(k).all():
        step = int(np.argwhere(~np.isfinite(K).all(axis=(1, 2)) | ~np.isfinite(k).all(axis=1)).max())
        raise SingularityError(
            f"the cost to go overflows at step {step}",
            matrix="P",
            step=step,
            state=solution,
            hint="the system may not be stabilizable; shorten the horizon or scale the weights",
        )
    return solution
