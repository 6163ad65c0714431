"""Inputs of prescribed variables as a System has them.

Inputs are vectors. A prescribed number enters with its next value; a rotation is no vector, so a prescribed ball enters with its angular velocity w
during the step, three components along body axes (rad/s): R' = R exp(dt w), v' = w.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Array, floats
from ..model import rotation
from ..model.configuration import Configuration

if TYPE_CHECKING:
    from .trajectory import Trajectory


def input_names(prescribed: Configuration) -> tuple[str, ...]:
    """Names (nkv,) of the inputs of prescribed variables: of numbers as they are, of a ball k as k.wx, k.wy, k.wz."""
    names = list(prescribed.velocities)
    for q, v in zip(*prescribed.numbers, strict=True):
        names[v] = prescribed.coordinates[q]
    return tuple(names)


def inputs_between(prescribed: Configuration, before: Array, after: Array, dt: Array | float) -> Array:
    """Inputs (..., nkv) that lead from the coordinates `before` (..., nk) to `after` in steps of dt (...)."""
    if prescribed.flat:
        return after
    out = prescribed.difference(before, after)
    q, v = prescribed.numbers
    out[..., v] = after[..., q]
    for place in prescribed.places:
        out[..., place.v] /= np.asarray(dt)[..., None]
    return out


def coordinates_after(prescribed: Configuration, before: Array, w: Array, dt: Array | float) -> Array:
    """Coordinates (..., nk) after steps of dt (...) with the inputs w (..., nkv) from `before`."""
    if prescribed.flat:
        return w
    q, v = prescribed.numbers
    move = np.array(np.broadcast_to(w, (*np.broadcast_shapes(w.shape[:-1], before.shape[:-1]), prescribed.nv)))
    for place in prescribed.places:
        move[..., place.v] *= np.asarray(dt)[..., None]
    out = prescribed.integrate(before, move)
    out[..., q] = w[..., v]
    return out


def inputs_of(motion: Trajectory) -> Array:
    """Inputs (N, nu) of a motion as a System has them: those of the model, then those of the prescribed variables."""
    m = motion.model
    q, rho = floats(motion.q, "q"), floats(motion.rho, "rho")
    rho = inputs_between(m.prescribed, q[:-1, m.nqd :], rho, motion.dt)
    return np.hstack([floats(motion.u, "u"), rho])


def slopes_after(prescribed: Configuration, w: Array, dt: Array | float, share: float = 1.0) -> tuple[Array, Array]:
    """(E, J) (..., nkv, nkv): at the `share` of a step prescribed variables move by E x + J dw, when by x at its start and their inputs by dw."""
    eye = np.eye(prescribed.nv)
    E, J = (np.array(np.broadcast_to(x * eye, (*w.shape[:-1], *eye.shape))) for x in (1.0 - share, share))
    for place in prescribed.places:
        length = share * np.asarray(dt)[..., None]
        phi = length * w[..., place.v]
        E[..., place.v, place.v] = rotation.matrix(rotation.exponential(-phi))
        J[..., place.v, place.v] = length[..., None] * rotation.right_jacobian(phi)
    return E, J
