"""Directions in which constrained motions can go.

With constraints h(q) = 0 the state (q, p, v_rho) has directions that the dynamics does not have: dq across the manifold (the next step
lands on it again), and dp = C'mu with C = dh/dq_dynamic, which the multipliers absorb exactly (p_k enters the step only as p_k - C'lambda).
Neither can be moved by any input. The others are spanned by T = diag(Nq, V, 1) with orthonormal bases

    Nq of null [dh/dq]  (nv, nv - nc),    V of null C  (nd, nd - nc).
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..errors import SingularityError
from ..mechanics import constraint_jacobian
from ..model import Model


def free_directions(model: Model, Q: Array, tolerance: float) -> Array | None:
    """T (n, 2 nv, nr) at the configurations Q (n, nq); None without constraints.

    Raises SingularityError if the rank of the constraints (singular values above `tolerance` of the largest) changes.
    """
    if not model.nc:
        return None
    D = np.stack([constraint_jacobian(model, q) for q in Q])
    Nq, V = _null(D, tolerance, model), _null(D[:, :, : model.nd], tolerance, model)
    nv, nd, a, b = model.nv, model.nd, Nq.shape[2], V.shape[2]
    T = np.zeros((len(Q), 2 * nv, a + b + nv - nd))
    T[:, :nv, :a], T[:, nv : nv + nd, a : a + b], T[:, nv + nd :, a + b :] = Nq, V, np.eye(nv - nd)
    return T


def _null(D: Array, tolerance: float, model: Model) -> Array:
    """Orthonormal bases of the null spaces of a stack of matrices, all of the same dimension."""
    _, s, right = np.linalg.svd(D)
    ranks = np.sum(s > tolerance * np.maximum(s[:, :1], np.finfo(float).tiny), axis=1)
    if (ranks != ranks[0]).any():
        step = int(np.argmax(ranks != ranks[0]))
        raise SingularityError(
            f"the rank of the constraints changes at step {step}",
            matrix="dh/dq",
            variables=tuple(model.constraints),
            step=step,
            hint="the mechanism passes a singular configuration there; regulate the pieces before and after it",
        )
    return np.swapaxes(right[:, ranks[0] :], 1, 2)
