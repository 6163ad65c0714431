"""The recursions of a paper, written down as they are printed: slow, plain, 4x4 matrices. An oracle for the core.

Johnson, Murphey: Scalable variational integrators for constrained mechanical systems in generalized coordinates.
Frames eqs 2-4, body velocities eqs 5-10, L eq. 11 with eqs 23-27, gravity eqs 30-32, springs eqs 33-35, wire, point and
screw constraints (section IV-D), wrenches and discrete forces (section IV-E), Newton's method eqs 16-22.

Two things differ from the print: the factor 1/2 in the second derivative of a spring's length is a misprint (the
derivative of (v.v)^(1/2) has none), and a rotation may carry a pitch (section III-A allows such a transformation).
Elements that the paper does not have are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import dalembert as da

ZERO = np.zeros((4, 4))


def primitive(transform: str, x: float, pitch: float, order: int) -> np.ndarray:
    """g_k, g_k' or g_k'' of a primitive transformation (section III-D)."""
    g = np.eye(4) if order == 0 else np.zeros((4, 4))
    axis = "xyz".index(transform[1])
    along = 1.0 if transform[0] == "t" else pitch
    g[axis, 3] = (along * x, along, 0.0)[order]
    if transform[0] == "r":
        a, b = (axis + 1) % 3, (axis + 2) % 3
        c, s = ((np.cos(x), np.sin(x)), (-np.sin(x), np.cos(x)), (-np.cos(x), -np.sin(x)))[order]
        g[a, a] = g[b, b] = c
        g[b, a], g[a, b] = s, -s
    return g


def inverse(transform: str, x: float, pitch: float, order: int) -> np.ndarray:
    """The inverse is the same transformation by the opposite amount."""
    return (-1.0) ** order * primitive(transform, -x, pitch, order)


def unhat(m: np.ndarray) -> np.ndarray:
    """(x, y, z, a, b, c) of a 4x4 twist."""
    return np.array([m[0, 3], m[1, 3], m[2, 3], m[2, 1], m[0, 2], m[1, 0]])


def cached(method: Callable[..., Any]) -> Callable[..., Any]:
    """Section III-E: values are kept until a new configuration is written."""

    @wraps(method)
    def call(self: Tree, *key: int) -> Any:
        place = (method.__name__, *key)
        if place not in self.cache:
            self.cache[place] = method(self, *key)
        return self.cache[place]

    return call


class Tree:
    """A model at one configuration q, velocity dq. Frames are numbered as in `Model.frame_entries`; frame 0 is s."""

    def __init__(self, model: da.Model, q: np.ndarray, dq: np.ndarray | None = None) -> None:
        self.model = model
        self.q = np.asarray(q, dtype=float)
        self.dq = np.zeros(model.nq) if dq is None else np.asarray(dq, dtype=float)
        self.n = model.nq
        self.cache: dict[Any, Any] = {}
        self.par = [e.parent for e in model.frame_entries]
        self.var: list[int] = []  # variable of a frame, -1 for constant ones
        self.anc: list[set[int]] = []  # variables above a frame, its own included
        for e in model.frame_entries:
            name = None if e.frame is None or e.frame.transform == "se3" else e.frame.variable
            self.var.append(-1 if name is None else model.index(name))
            self.anc.append((self.anc[e.parent] if e.index else set()) | ({self.var[-1]} - {-1}))

    def _local(self, k: int, order: int = 0, inverted: bool = False) -> np.ndarray:
        frame: Any = self.model.frame_entries[k].frame
        if frame.transform == "se3":
            g = np.array(frame.value)
            return np.linalg.inv(g) if inverted else g
        x = self.q[self.var[k]] if self.var[k] >= 0 else frame.value
        return (inverse if inverted else primitive)(frame.transform, x, frame.pitch, order)

    def _xi(self, k: int) -> np.ndarray:
        """Twist of a frame: g_k^-1 g_k' (constant)."""
        return self._local(k, inverted=True) @ self._local(k, 1)

    # ---- frames

    @cached
    def g(self, k: int) -> np.ndarray:
        """Eq. 2."""
        return np.eye(4) if k == 0 else self.g(self.par[k]) @ self._local(k)

    @cached
    def g_q(self, k: int, i: int) -> np.ndarray:
        """Eq. 3."""
        if k == 0 or i not in self.anc[k]:
            return ZERO
        if i != self.var[k]:
            return self.g_q(self.par[k], i) @ self._local(k)
        return self.g(self.par[k]) @ self._local(k, 1)

    @cached
    def g_qq(self, k: int, i: int, j: int) -> np.ndarray:
        """Eq. 4."""
        if k == 0 or i not in self.anc[k] or j not in self.anc[k]:
            return ZERO
        above, own = self.par[k], self.var[k]
        if i == own == j:
            return self.g(above) @ self._local(k, 2)
        if i == own:
            return self.g_q(above, j) @ self._local(k, 1)
        if j == own:
            return self.g_q(above, i) @ self._local(k, 1)
        return self.g_qq(above, i, j) @ self._local(k)

    # ---- body velocities

    def _moved(self, k: int, twist: np.ndarray, left: int = 0, right: int = 0) -> np.ndarray:
        """(g_k^-1)^(left) twist g_k^(right)."""
        return self._local(k, left, inverted=True) @ twist @ self._local(k, right)

    @cached
    def v(self, k: int) -> np.ndarray:
        """Eq. 5."""
        if k == 0:
            return ZERO
        own = self._xi(k) * self.dq[self.var[k]] if self.var[k] >= 0 else ZERO
        return self._moved(k, self.v(self.par[k])) + own

    @cached
    def v_q(self, k: int, i: int) -> np.ndarray:
        """Eq. 6."""
        if k == 0 or i not in self.anc[k]:
            return ZERO
        above = self.par[k]
        if i == self.var[k]:
            return self._moved(k, self.v(above), 1, 0) + self._moved(k, self.v(above), 0, 1)
        return self._moved(k, self.v_q(above, i))

    @cached
    def v_qq(self, k: int, i: int, j: int) -> np.ndarray:
        """Eq. 7."""
        if k == 0 or i not in self.anc[k] or j not in self.anc[k]:
            return ZERO
        above, own = self.par[k], self.var[k]
        if i == own == j:
            v = self.v(above)
            return self._moved(k, v, 2, 0) + 2 * self._moved(k, v, 1, 1) + self._moved(k, v, 0, 2)
        if j == own or i == own:
            v = self.v_q(above, i if j == own else j)
            return self._moved(k, v, 1, 0) + self._moved(k, v, 0, 1)
        return self._moved(k, self.v_qq(above, i, j))

    @cached
    def v_v(self, k: int, i: int) -> np.ndarray:
        """Eq. 8; eq. 9 says that the next derivative is zero."""
        if k == 0 or i not in self.anc[k]:
            return ZERO
        return self._xi(k) if i == self.var[k] else self._moved(k, self.v_v(self.par[k], i))

    @cached
    def v_qv(self, k: int, i: int, j: int) -> np.ndarray:
        """Eq. 10: by q_i and dq_j."""
        if k == 0 or self.var[k] == j or i not in self.anc[k] or j not in self.anc[k]:
            return ZERO
        v = self.v_v(self.par[k], j)
        if i == self.var[k]:
            return self._moved(k, v, 1, 0) + self._moved(k, v, 0, 1)
        return self._moved(k, self.v_qv(self.par[k], i, j))

    # ---- points

    def p(self, k: int, at: Any = (0, 0, 0)) -> np.ndarray:
        return (self.g(k) @ [*at, 1.0])[:3]

    def p_q(self, k: int, at: Any = (0, 0, 0)) -> np.ndarray:
        return np.array([(self.g_q(k, i) @ [*at, 1.0])[:3] for i in range(self.n)])

    def p_qq(self, k: int, at: Any = (0, 0, 0)) -> np.ndarray:
        return np.array([[(self.g_qq(k, i, j) @ [*at, 1.0])[:3] for j in range(self.n)] for i in range(self.n)])

    # ---- Lagrangian

    def _bodies(self) -> list[tuple[int, np.ndarray, np.ndarray, Any]]:
        """(frame, inertia 6x6 at the centre of mass, shift there, frame value): a frame at each centre of mass."""
        found = []
        for e in self.model.frame_entries[1:]:
            f: Any = e.frame
            if f.mass or any(f.inertia):
                xx, yy, zz, xy, xz, yz = f.inertia
                m = np.zeros((6, 6))
                m[:3, :3] = f.mass * np.eye(3)
                m[3:, 3:] = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
                shift = np.eye(4)
                shift[:3, 3] = f.com
                found.append((e.index, m, shift, f))
        return found

    def lagrangian(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """L (eq. 11), L_q (23), L_v (25), L_qq (24), L_qv (26; rows q, columns dq), L_vv (27)."""
        n = self.n
        value, q, v = 0.0, np.zeros(n), np.zeros(n)
        qq, qv, vv = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
        for k, m, shift, _ in self._bodies():
            back = np.linalg.inv(shift)

            def at(twist: np.ndarray, back: np.ndarray = back, shift: np.ndarray = shift) -> np.ndarray:
                return unhat(back @ twist @ shift)

            path = sorted(self.anc[k])
            b = at(self.v(k))
            momentum = m @ b
            bq, bv = {i: at(self.v_q(k, i)) for i in path}, {i: at(self.v_v(k, i)) for i in path}
            value += b @ momentum / 2
            for i in path:
                q[i] += momentum @ bq[i]
                v[i] += momentum @ bv[i]
                for j in path:
                    qq[i, j] += bq[j] @ m @ bq[i] + momentum @ at(self.v_qq(k, i, j))
                    qv[i, j] += bv[j] @ m @ bq[i] + momentum @ at(self.v_qv(k, i, j))
                    vv[i, j] += bv[j] @ m @ bv[i]
        u, uq, uqq = self.potential()
        return value - u, q - uq, v, qq - uqq, qv, vv

    def potential(self) -> tuple[float, np.ndarray, np.ndarray]:
        """V, V_q, V_qq of all potentials."""
        n = self.n
        value, q, qq = 0.0, np.zeros(n), np.zeros((n, n))
        for e in self.model.elements:
            if isinstance(e, da.Gravity):
                chosen = None if e.masses is None else {self.model.frame_index(name) for name in e.masses}
                for k, _, _, f in self._bodies():
                    if chosen is None or k in chosen:  # eqs 30-32
                        force = f.mass * np.array(e.acceleration)
                        value -= force @ self.p(k, f.com)
                        q -= self.p_q(k, f.com) @ force
                        qq -= self.p_qq(k, f.com) @ force
            elif isinstance(e, (da.LinearSpring, da.PointGravity)):
                x, xq, xqq = self.distance(e.frame1, e.frame2)
                if isinstance(e, da.LinearSpring):
                    c0 = e.stiffness / 2 * (x - e.rest_length) ** 2
                    c1, c2 = e.stiffness * (x - e.rest_length), e.stiffness
                else:
                    c0, c1, c2 = -e.strength / x, e.strength / x**2, -2 * e.strength / x**3
                value += c0
                q += c1 * xq
                qq += c2 * np.outer(xq, xq) + c1 * xqq
            elif isinstance(e, da.ConfigSpring):
                i = self.model.index(e.variable)
                value += e.stiffness / 2 * (self.q[i] - e.rest) ** 2
                q[i] += e.stiffness * (self.q[i] - e.rest)
                qq[i, i] += e.stiffness
            elif e.FAMILY == "potentials":
                raise NotImplementedError(e.label)
        return value, q, qq

    def distance(self, frame1: str, frame2: str) -> tuple[float, np.ndarray, np.ndarray]:
        """Length x of a spring with derivatives (eqs 33-35 and the lines before)."""
        a, b = self.model.frame_index(frame1), self.model.frame_index(frame2)
        v, vq, vqq = self.p(a) - self.p(b), self.p_q(a) - self.p_q(b), self.p_qq(a) - self.p_qq(b)
        x = float(np.sqrt(v @ v))
        xq = vq @ v / x
        return x, xq, -np.outer(xq, vq @ v) / x**2 + vq @ vq.T / x + vqq @ v / x

    # ---- constraints

    def constraints(self) -> tuple[np.ndarray, np.ndarray]:
        """h and Dh (section IV-D): wires (eqs 37, 38), points along directions, screws and gears (eqs 39, 40)."""
        h: list[float] = []
        dh: list[np.ndarray] = []
        for e in self.model.elements:
            if isinstance(e, da.Distance):
                a, b = self.model.frame_index(e.frame1), self.model.frame_index(e.frame2)
                gap = self.p(a) - self.p(b)
                row = 2 * (self.p_q(a) - self.p_q(b)) @ gap
                length: Any = e.length
                if not isinstance(length, float):
                    i = self.model.index(length.name if isinstance(length, da.Kinematic) else length)
                    length = self.q[i]
                    row[i] -= 2 * length
                h.append(gap @ gap - length**2)
                dh.append(row)
            elif isinstance(e, (da.PointToPoint, da.PointOnPlane)):
                first, second, axes, directions = (
                    (e.frame1, e.frame2, e.axes_of, e.directions)
                    if isinstance(e, da.PointToPoint)
                    else (e.point, e.plane, e.plane, [e.normal])
                )
                a, b, c = (self.model.frame_index(f) for f in (first, second, axes))
                for n in directions:
                    # the direction may be given relative to a coordinate frame
                    turned = self.g(c)[:3, :3] @ n
                    turned_q = np.array([self.g_q(c, i)[:3, :3] @ n for i in range(self.n)])
                    gap = self.p(a) - self.p(b)
                    h.append(turned @ gap)
                    dh.append((self.p_q(a) - self.p_q(b)) @ turned + turned_q @ gap)
            elif isinstance(e, da.LinearRelation):
                row = np.zeros(self.n)
                for name, c in e.coefficients:
                    row[self.model.index(name)] = c
                h.append(row @ self.q - e.offset)
                dh.append(row)
            elif e.size:
                raise NotImplementedError(e.label)
        return np.array(h), np.array(dh).reshape(len(h), self.n)

    # ---- forces

    def force(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f_c (nq,) with derivatives by q and dq (nq, nq); wrenches through the body Jacobian (section IV-E)."""
        n = self.n
        f, fq, fv = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
        for e in self.model.elements:
            if isinstance(e, da.Damping):
                c = np.array([e.coefficient(name) for name in self.model.dynamic] + [0.0] * self.model.nk)
                f -= c * self.dq
                fv -= np.diag(c)
            elif isinstance(e, da.ConfigForce):
                f[self.model.index(e.variable)] += u[self.model.input_index(e.input)]
            elif isinstance(e, da.Wrench) and e.axes == "body":
                k = self.model.frame_index(e.frame)
                parts = [
                    e.gear * u[self.model.input_index(c)] if isinstance(c, str) else c for c in (*e.force, *e.torque)
                ]
                back = np.linalg.inv(self.g(k))
                for i in sorted(self.anc[k]):
                    f[i] += unhat(back @ self.g_q(k, i)) @ parts
                    for j in sorted(self.anc[k]):
                        # derivative of g^-1 g_qi
                        change = back @ self.g_qq(k, i, j) - back @ self.g_q(k, j) @ back @ self.g_q(k, i)
                        fq[i, j] += unhat(change) @ parts
            elif e.FAMILY == "forces":
                raise NotImplementedError(e.label)
        return f, fq, fv


# ---- the variational integrator


def step_equations(
    model: da.Model, dt: float, alpha: float, before: np.ndarray, after: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """D1 Ld + fd-, D2 Ld + fd+ and D2 (D1 Ld + fd-) of a step (eqs 19-22, 43; fd- = fd+ = dt/2 f_c at the midpoint)."""
    tree = Tree(model, (1 - alpha) * before + alpha * after, (after - before) / dt)
    _, q, v, qq, qv, vv = tree.lagrangian()
    f, fq, fv = tree.force(u)
    d1 = (1 - alpha) * dt * q - v + dt / 2 * f
    d2 = alpha * dt * q + v + dt / 2 * f
    d2d1 = (1 - alpha) * alpha * dt * qq + (1 - alpha) * qv - alpha * qv.T - vv / dt
    return d1, d2, d2d1 + dt / 2 * (alpha * fq + fv / dt)


def residual(
    model: da.Model,
    dt: float,
    alpha: float,
    p: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    lam: np.ndarray,
    u: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """f(q_k+1, lambda_k) of the root solver and Df (section IV-D2), dynamic rows; p is D2 Ld of the step before."""
    nd, nc = model.nd, model.nc
    d1, _, jacobian = step_equations(model, dt, alpha, before, after, u)
    dh = Tree(model, before).constraints()[1][:, :nd]
    h, dh_after = Tree(model, after).constraints()
    f = np.concatenate([p + d1[:nd] - dh.T @ lam, h])
    return f, np.block([[jacobian[:nd, :nd], -dh.T], [dh_after[:, :nd], np.zeros((nc, nc))]])


def newton(
    model: da.Model, dt: float, alpha: float, p: np.ndarray, before: np.ndarray, guess: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(q_k+1, lambda_k) by the root solver of section IV-A; kinematic entries of the guess are kept."""
    after, lam = guess.copy(), np.zeros(model.nc)
    for _ in range(30):
        f, df = residual(model, dt, alpha, p, before, after, lam, u)
        z = -np.linalg.solve(df, f)
        after[: model.nd] += z[: model.nd]
        lam += z[model.nd :]
        if np.abs(z[: model.nd]).max() < 1e-13:
            return after, lam
    raise AssertionError("the root solver of the paper did not converge")
