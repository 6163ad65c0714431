"""Collocation to compare with (DMOCC, section 7.1): midpoint rules for the Hamiltonian and for the velocity form.

A scheme returns (gap, rows): `gap` (nd) determines the second unknown of the next node, `rows` (nd) ties the
configurations. The second unknown is the momentum, or the velocity for `velocity_midpoint`.
"""

from __future__ import annotations

from typing import Any

from .mechanics import Mechanics


def hamiltonian_midpoint(
    m: Mechanics, q0: Any, p0: Any, u: Any, lam: Any, q1: Any, p1: Any, *, h: Any
) -> tuple[Any, Any]:
    """Hamilton's equations in (q, p): dp = h (-H_q + F) and M(q) dq = h p, at the midpoint.

    -H_q(q, p) is L_q at the velocity that belongs to p; the second equation is dq = h H_p times the mass matrix.
    """
    q, p, v = (q0 + q1) / 2, (p0 + p1) / 2, (q1 - q0) / h
    return p1 - p0 - h * (m.lq(q, v) + m.force(q, v, u)), p - m.lv(q, v)


def velocity_midpoint(m: Mechanics, q0: Any, v0: Any, u: Any, lam: Any, q1: Any, v1: Any, *, h: Any) -> tuple[Any, Any]:
    """The second-order equations in (q, v): dq = h v and M(q) dv = h (L_q - L_vq v + F), at the midpoint."""
    q, v = (q0 + q1) / 2, (v0 + v1) / 2
    force = m.lq(q, v) - m.curvature(q, v) @ v + m.force(q, v, u)
    # the second row is scaled as a momentum too, so that the solver compares like with like
    return m.mass(q) @ (v1 - v0) - h * force, m.mass(q) @ ((q1 - q0) / h - v)
