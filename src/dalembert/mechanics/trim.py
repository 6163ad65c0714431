"""Trim: the inputs that hold a mechanism where it is, or keep it on a motion."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, Named, finite, needed, positive
from ..errors import ConvergenceError
from ..model import Model
from .evaluate import acceleration, constraint_jacobian, force_first, mass_matrix


def trim(
    model: Model,
    q: Named,
    v: Named | None = None,
    a: Named | None = None,
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 30,
) -> Array:
    """The inputs u (nu,) with which the model in q (nq,), moving with v (nv,), accelerates by a (nv,); both are zero by default: an equilibrium.

    Of many such inputs the smallest. Where q, v, a are arrays of points (N, ...), so are the inputs (N, nu): the feedforward of a motion.
    Constraint forces are found along the way, kinematic variables accelerate as a says. ConvergenceError names the variables that no input
    can hold; `tolerance` bounds what is left of their accelerations, relative to those without inputs, in `max_iterations` Newton steps (one
    suffices where forces are linear in the inputs).

    >>> import dalembert as da
    >>> arm = da.Model([da.ry("shoulder", da.tx(1.0, mass=2.0))], [da.Gravity(), da.ConfigForce("shoulder", "motor")])
    >>> da.trim(arm, {"shoulder": 0.0}).round(6)
    array([-19.62])
    """
    if not needed(model, Model).nu:
        raise ValueError("the model has no inputs: nothing can be trimmed")
    tolerance = positive(tolerance, "tolerance")
    many = not isinstance(q, dict) and np.ndim(q) == 2  # type: ignore[arg-type]
    if not many:
        point = model.configuration.point(q)
        w, dw = model.configuration.tangent(v), model.configuration.tangent(a, "a")
        return _trim(model, point, w, dw, tolerance, max_iterations)
    points = finite(q, "q", (None, model.nq))

    def rows(x: Named | None, what: str) -> Array:
        if x is None or isinstance(x, dict) or np.ndim(x) == 1:  # type: ignore[arg-type]
            return np.broadcast_to(model.configuration.tangent(x, what), (len(points), model.nv))
        return finite(x, what, (len(points), model.nv))

    each = zip(points, rows(v, "v"), rows(a, "a"), strict=True)
    return np.array([_trim(model, *row, tolerance, max_iterations) for row in each]).reshape(-1, model.nu)


def _trim(model: Model, q: Array, v: Array, a: Array, tolerance: float, max_iterations: int) -> Array:
    nd = model.nd
    c = constraint_jacobian(model, q)[:, :nd]
    kkt = np.block([[mass_matrix(model, q)[:nd, :nd], c.T], [c, np.zeros((model.nc, model.nc))]])
    still = np.zeros((model.nc, model.nu))

    def left(u: ArrayLike) -> tuple[Array, Array]:
        """What is missing of the acceleration, and its derivative by u."""
        found = acceleration(model, q, v, u, a[nd:])
        right = np.vstack([force_first(model, q, v, u)[2], still])  # constraints may say a thing twice, or nothing
        return a[:nd] - found.ddq[:nd], np.linalg.lstsq(kkt, right, rcond=1e-13)[0][:nd]

    u: Array = np.zeros(model.nu)
    missing, by_u = left(u)
    size = float(np.abs(missing).max())
    scale = 1.0 + size
    for _ in range(max_iterations):
        if size <= tolerance * scale:
            break
        step = np.linalg.lstsq(by_u, missing, rcond=1e-12)[0]
        for _shorter in range(30):
            after, slope = left(u + step)
            if float(np.linalg.norm(after)) < (1 - 1e-9) * float(np.linalg.norm(missing)):
                break
            step = step / 2
        else:
            break
        u, missing, by_u, size = u + step, after, slope, float(np.abs(after).max())
    if size > tolerance * scale:
        held = [model.velocities[i] for i in np.flatnonzero(np.abs(missing) > 0.1 * size)]
        across = np.linalg.lstsq(c, c @ missing, rcond=1e-12)[0]  # what constraints allow no input to give
        hint = (
            "it may not be an equilibrium (da.equilibrium finds one); there may be fewer inputs than degrees of freedom"
        )
        if np.linalg.norm(across) > 0.5 * np.linalg.norm(missing):
            hint = "v and a do not satisfy the constraints (differences of a path do so only nearly): " + (
                f"tolerance={2.0 * size / scale:.1g} takes the inputs that come nearest"
            )
        raise ConvergenceError(
            f"no inputs give this acceleration: {', '.join(map(repr, held[:4]))} would still be off by {size:.3g}",
            residual=size,
            state=u,
            hint=hint,
        )
    return u
