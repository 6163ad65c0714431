"""docs/kernels.md: every citation in the sources has its section, and the formulas as printed give the core's numbers."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert.integrate.composition import composition, straight
from tests.random_models import random_model, random_point

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
SECTIONS = set(re.findall(r"^## (\d+)\. ", PAGE, re.MULTILINE))
NOTES = {f"15.{n}" for n in re.findall(r"^(\d+)\. \*\*", PAGE, re.MULTILINE)}
EQUATIONS = set(re.findall(r"\((\d+\.\d+)\)\s*$", PAGE, re.MULTILINE))


# ---- citations

NUMBERS = r"(\d+(?:\.\d+)?(?:(?:-|, | and )\d+(?:\.\d+)?)*)"
CITATION = re.compile(rf"(?:KERNELS|docs/kernels\.md),?\s+(?:sections?\s+)?{NUMBERS}")
# in the core a bare "(section 6)" or "(6.1)" in a comment means this page
BARE = re.compile(rf"\((?:sections?\s+{NUMBERS}|(\d+\.\d+))[);,]")


def cited(text: str, bare: bool) -> set[str]:
    """Sections and equations that a source names."""
    comments = " ".join(line.partition("//")[2] for line in text.splitlines()) if bare else text
    found = [m[1] for m in CITATION.finditer(comments)]
    if bare:
        found += [m[1] or m[2] for m in BARE.finditer(comments)]
    return {n for group in found for n in re.split(r"-|, | and ", group)}


def sources() -> list[Path]:
    return [
        p
        for folder in ("cpp", "src")
        for p in sorted((ROOT / folder).rglob("*"))
        if p.suffix in (".hpp", ".cpp", ".py")
    ]


def test_citations_lead_somewhere():
    known = SECTIONS | EQUATIONS | NOTES
    wrong = {
        f"{path.relative_to(ROOT)}: {number}"
        for path in sources()
        for number in cited(path.read_text(encoding="utf-8"), path.suffix != ".py") - known
    }
    assert not wrong


def test_citations_are_found():
    """The patterns see what they should, and the core does cite."""
    assert cited("// as docs/kernels.md 6.1 and KERNELS sections 3-7; (section 9), (7.4)", True) == set("379") | {
        "6.1",
        "7.4",
    }
    assert cited("x = 1  # docs/kernels.md 15.1", False) == {"15.1"}
    assert len(set().union(*(cited(p.read_text(encoding="utf-8"), True) for p in (ROOT / "cpp").rglob("*.hpp")))) > 10


def test_the_page_is_whole():
    assert {str(i) for i in range(23)} == SECTIONS
    assert {"0.1", "4.2", "6.1", "7.7", "8.3", "9.1", "10.2", "11.1", "12.1", "13.3", "16.2", "19.1"} <= EQUATIONS
    for name in re.findall(r"`((?:cpp|tests)/[\w./]+)`", PAGE):
        assert (ROOT / name).exists(), name


# ---- a tree in plain NumPy


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A × B of motions."""
    return np.r_[np.cross(a[:3], b[:3]), np.cross(a[:3], b[3:]) + np.cross(a[3:], b[:3])]


def crossf(a: np.ndarray, f: np.ndarray) -> np.ndarray:
    """A ×* f."""
    return np.r_[np.cross(a[:3], f[:3]) + np.cross(a[3:], f[3:]), np.cross(a[:3], f[3:])]


def hat(w: np.ndarray) -> np.ndarray:
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def inertia(m: float, c: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The ten numbers as a 6x6 matrix: I (w; v) = (I w + c×v ; m v + w×c)."""
    return np.block([[second, hat(c)], [-hat(c), m * np.eye(3)]])


def rotation(axis: int, angle: float) -> np.ndarray:
    e = np.eye(3)[axis]
    return np.eye(3) + np.sin(angle) * hat(e) + (1 - np.cos(angle)) * hat(e) @ hat(e)


G = 9.8
PARENT = (-1, 0, 1, 1, 3, 0, 5, 6, 4)
KIND = ("tx", "rz", "ry", "tz", "rx", "ry", "rz", "ty", "rz")


class Tree:
    """Nine joints on three branches; each carries a body off its origin and is shifted and turned on its parent."""

    n = len(PARENT)

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.shift, self.turn = rng.uniform(-0.5, 0.5, (self.n, 3)), rng.uniform(-1, 1, self.n)
        self.mass, self.com = rng.uniform(0.5, 2, self.n), rng.uniform(-0.3, 0.3, (self.n, 3))
        self.moments = rng.uniform(0.1, 0.5, (self.n, 3))
        self.q, self.v = rng.normal(size=self.n), rng.normal(size=self.n)

    def model(self, elements: list[da.Element] | None = None) -> da.Model:
        def build(j: int) -> da.Frame:
            x, y, z = self.com[j]
            body = da.tx(x, da.ty(y, da.tz(z, name=f"b{j}", mass=self.mass[j], inertia=self.moments[j])))
            below = [build(k) for k in range(self.n) if PARENT[k] == j]
            x, y, z = self.shift[j]
            joint = getattr(da, KIND[j])(f"q{j}", body, *below)
            return da.tx(x, da.ty(y, da.tz(z, da.rx(self.turn[j], joint))))

        model = da.Model([build(0)], [da.Gravity((0, 0, -G)), *(elements or [])])
        self.order = [model.index(f"q{j}") for j in range(self.n)]  # of the model's variables
        return model

    def above(self, a: int, d: int) -> bool:
        """a <= d"""
        while d > a:
            d = PARENT[d]
        return a == d

    def walk(self) -> None:
        """Section 2, then the sums of sections 3 and 4, about the world's origin."""
        n = self.n
        self.R, self.p, self.a = [None] * n, np.zeros((n, 3)), np.zeros((n, 3))
        self.S, self.B, self.V = np.zeros((n, 6)), np.zeros((n, 6)), np.zeros((n, 6))
        self.I, self.h = np.zeros((n, 6, 6)), np.zeros((n, 6))
        self.parts: list[tuple[float, np.ndarray, np.ndarray]] = []
        for j in range(n):
            up = PARENT[j]
            R, p, V = (np.eye(3), np.zeros(3), np.zeros(6)) if up < 0 else (self.R[up], self.p[up], self.V[up])
            base, axis = R @ rotation(0, self.turn[j]), "xyz".index(KIND[j][1])
            place, a = p + R @ self.shift[j], base[:, axis]
            if KIND[j][0] == "r":
                self.R[j], self.p[j], self.S[j] = base @ rotation(axis, self.q[j]), place, np.r_[a, np.cross(place, a)]
            else:
                self.R[j], self.p[j], self.S[j] = base, place + a * self.q[j], np.r_[np.zeros(3), a]
            self.a[j] = a
            self.V[j], self.B[j] = V + self.S[j] * self.v[j], cross(V, self.S[j])
            m, r = self.mass[j], self.p[j] + self.R[j] @ self.com[j]
            second = self.R[j] @ np.diag(self.moments[j]) @ self.R[j].T + m * (r @ r * np.eye(3) - np.outer(r, r))
            self.parts.append((m, m * r, second))
            self.I[j] = inertia(*self.parts[j])
            self.h[j] = self.I[j] @ self.V[j]
        self.H, self.IC = self.subtree(self.h), self.subtree(self.I)
        self.F = np.array([self.IC[j] @ self.S[j] for j in range(n)])
        self.G = np.array([self.IC[j] @ self.B[j] + crossf(self.S[j], self.H[j]) for j in range(n)])

    def subtree(self, x: np.ndarray) -> np.ndarray:
        out = np.array(x)
        for j in range(self.n - 1, 0, -1):
            out[PARENT[j]] += out[j]
        return out

    @staticmethod
    def left(a: float, b: float, S: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.column_stack([a * B + b * S, -a * G * S[:, 1], a * G * S[:, 0]])  # g_z = -G

    @staticmethod
    def right(a: float, b: float, F: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.column_stack([a * G + b * F, -a * F[:, 3], -a * F[:, 4]])

    def pairs(self, left: np.ndarray, right: np.ndarray, other_left: np.ndarray, other_right: np.ndarray) -> np.ndarray:
        """E_ij by (6.1): left, right of slots i, j; the others of slots j, i for the pairs below the diagonal."""
        out = np.zeros((self.n, self.n))
        for d in range(self.n):
            for a in range(d + 1):
                if self.above(a, d):
                    out[a, d], out[d, a] = left[a] @ right[d], other_left[a] @ other_right[d]
        return out

    def generators(self, slots: dict[int, tuple[float, float]]) -> None:
        self.P = {i: self.left(a, b, self.S, self.B) for i, (a, b) in slots.items()}
        self.Q = {i: self.right(a, b, self.F, self.G) for i, (a, b) in slots.items()}

    def second(self, i: int, j: int) -> np.ndarray:
        return self.pairs(self.P[i], self.Q[j], self.P[j], self.Q[i])

    def third(
        self, slots: dict[int, tuple[float, float]], dq: np.ndarray, dv: np.ndarray
    ) -> dict[tuple[int, int], np.ndarray]:
        """Section 7."""
        n = self.n
        eta, xi, dS, dB = (np.zeros((n, 6)) for _ in range(4))
        dI, dh = np.zeros((n, 6, 6)), np.zeros((n, 6))
        for j in range(n):
            e, x = (np.zeros(6), np.zeros(6)) if PARENT[j] < 0 else (eta[PARENT[j]], xi[PARENT[j]])
            dS[j], dB[j] = cross(e, self.S[j]), cross(e, self.B[j]) + cross(x, self.S[j])
            eta[j], xi[j] = e + self.S[j] * dq[j], x + self.B[j] * dq[j] + self.S[j] * dv[j]
            dh[j] = crossf(eta[j], self.h[j]) + self.I[j] @ xi[j]
            m, c, second = self.parts[j]
            w, v = eta[j, :3], eta[j, 3:]
            A = hat(w) @ second
            change = A + A.T + 2 * (c @ v) * np.eye(3) - np.outer(c, v) - np.outer(v, c)
            dI[j] = inertia(0.0, np.cross(w, c) + m * v, change)
        dH, dIC = self.subtree(dh), self.subtree(dI)
        dF = np.array([dIC[j] @ self.S[j] + self.IC[j] @ dS[j] for j in range(n)])
        dG = np.array(
            [
                dIC[j] @ self.B[j] + self.IC[j] @ dB[j] + crossf(dS[j], self.H[j]) + crossf(self.S[j], dH[j])
                for j in range(n)
            ]
        )
        dP = {i: self.left(a, b, dS, dB) for i, (a, b) in slots.items()}
        dQ = {i: self.right(a, b, dF, dG) for i, (a, b) in slots.items()}
        return {
            (i, j): self.pairs(dP[i], self.Q[j], dP[j], self.Q[i]) + self.pairs(self.P[i], dQ[j], self.P[j], dQ[i])
            for i in slots
            for j in slots
        }


CONTINUOUS = {1: (1.0, 0.0), 2: (0.0, 1.0)}


@cache
def tree() -> tuple[Tree, da.Model]:
    t = Tree()
    model = t.model()
    t.walk()
    t.generators(CONTINUOUS)
    return t, model


def values(t: Tree, x: np.ndarray) -> np.ndarray:
    """Numbers by joint in the order of the model."""
    out = np.empty(t.n)
    out[t.order] = x
    return out


def by_joint(t: Tree, x: np.ndarray) -> np.ndarray:
    return x[np.ix_(t.order, t.order)] if x.ndim == 2 else x[t.order]


def close(ours: np.ndarray, page: np.ndarray, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(page, ours, rtol=0, atol=tolerance * max(1e-3, np.abs(ours).max(initial=0.0)))


def test_sections_2_to_5_and_7():
    t, model = tree()
    q, v = values(t, t.q), values(t, t.v)
    Lq, Lv = (by_joint(t, x) for x in da.lagrangian_first(model, q, v))
    close(Lv, np.einsum("ij,ij->i", t.S, t.H))  # (3.1)
    gravity = np.array([-G * t.F[j, 5] for j in range(t.n)])  # -V_q of (5.1), g_z = -G
    close(Lq, np.einsum("ij,ij->i", t.B, t.H) + gravity)  # (3.2)
    qq, qv, vv = (by_joint(t, x) for x in da.lagrangian_second(model, q, v))
    for ours, slot in ((qq, (1, 1)), (qv, (1, 2)), (vv, (2, 2))):
        close(ours, t.second(*slot))
    rng = np.random.default_rng(1)
    dq, dv = rng.normal(size=t.n), rng.normal(size=t.n)
    found = t.third(CONTINUOUS, dq, dv)
    exact = da.lagrangian_third(model, q, v, values(t, dq), values(t, dv))
    for ours, slot in zip(exact, ((1, 1), (1, 2), (2, 2)), strict=True):
        close(by_joint(t, ours), found[slot])


def test_section_2_derivatives_of_twists():
    """(2.1) to (2.3) by differences."""
    t, _ = tree()
    h = 1e-6
    for i in (1, 3, 4):
        ends = []
        for sign in (1, -1):
            moved = Tree()
            moved.q = t.q + sign * h * np.eye(t.n)[i]
            moved.walk()
            ends.append(moved)
        dS, dV = ((getattr(ends[0], x) - getattr(ends[1], x)) / (2 * h) for x in "SV")
        for j in range(t.n):
            np.testing.assert_allclose(dS[j], cross(t.S[i], t.S[j]) if t.above(i, j) else np.zeros(6), atol=1e-8)
            np.testing.assert_allclose(
                dV[j], t.B[i] + cross(t.S[i], t.V[j]) if t.above(i, j) else np.zeros(6), atol=1e-8
            )


def discrete(alpha: float = 0.3, dt: float = 0.07) -> tuple[Tree, dict[int, tuple[float, float]]]:
    slots = {1: (dt * (1 - alpha), -1.0), 2: (dt * alpha, 1.0)}
    t, _ = tree()
    out = Tree()
    out.walk()
    out.generators(slots)
    out.order = t.order
    return out, slots


def test_section_6_discrete_blocks():
    """dt D_iD_j Ld from the chain rule on L_qq, L_qv, L_vv of the core."""
    t, slots = discrete()
    _, model = tree()
    qq, qv, vv = (by_joint(t, x) for x in da.lagrangian_second(model, values(t, t.q), values(t, t.v)))
    for i, (ai, bi) in slots.items():
        for j, (aj, bj) in slots.items():
            close(ai * aj * qq + ai * bj * qv + bi * aj * qv.T + bi * bj * vv, t.second(i, j))


def test_sections_9_and_10_solve_the_newton_matrix():
    t, _ = discrete()
    N = t.second(1, 2)
    rng = np.random.default_rng(3)
    b, extra = rng.normal(size=t.n), rng.uniform(0, 0.1, t.n)
    exact = np.linalg.solve(N + np.diag(extra), b)
    transposed = np.linalg.solve((N + np.diag(extra)).T, b)

    path = [[a for a in range(d + 1) if t.above(a, d)] for d in range(t.n)]
    lo = [np.array([(N + np.diag(extra))[d, a] for a in path[d]]) for d in range(t.n)]
    up = [np.array([N[a, d] for a in path[d][:-1]]) for d in range(t.n)]
    for k in range(t.n - 1, -1, -1):
        D = lo[k][-1]
        for depth, i in enumerate(path[k][:-1]):
            lo[i] -= up[k][depth] / D * lo[k][: depth + 1]
            up[i] -= lo[k][depth] / D * up[k][:depth]
    for first, last, expected in ((up, lo, exact), (lo, up, transposed)):
        x = b.copy()
        for k in range(t.n - 1, -1, -1):
            for depth, i in enumerate(path[k][:-1]):
                x[i] -= first[k][depth] / lo[k][-1] * x[k]
        for k in range(t.n):
            x[k] = (x[k] - sum(last[k][depth] * x[i] for depth, i in enumerate(path[k][:-1]))) / lo[k][-1]
        close(expected, x, 1e-11)

    Phi, phi = np.zeros((t.n, 8, 8)), np.zeros((t.n, 8))
    U, W, D, z = np.zeros((t.n, 8)), np.zeros((t.n, 8)), np.zeros(t.n), np.zeros(t.n)
    for i in range(t.n - 1, -1, -1):
        U[i], W[i] = t.Q[2][i] + Phi[i] @ t.P[2][i], t.Q[1][i] + Phi[i].T @ t.P[1][i]
        D[i] = t.P[1][i] @ U[i] + extra[i]
        z[i] = (b[i] - t.P[1][i] @ phi[i]) / D[i]
        if PARENT[i] >= 0:
            Phi[PARENT[i]] += Phi[i] - np.outer(U[i], W[i]) / D[i]
            phi[PARENT[i]] += phi[i] + U[i] * z[i]
    y, xi = np.zeros(t.n), np.zeros((t.n, 8))
    for i in range(t.n):
        above = np.zeros(8) if PARENT[i] < 0 else xi[PARENT[i]]
        y[i] = z[i] - W[i] / D[i] @ above
        xi[i] = above + t.P[2][i] * y[i]
    close(exact, y, 1e-11)


# ---- elements


class Between:
    """d, d_i, d_ik and their changes between the bodies of two joints, by (8.1), (8.2); None: the world's origin."""

    def __init__(self, t: Tree, first: int, second: int | None) -> None:
        self.t = t
        w = np.array([t.a[j] if KIND[j][0] == "r" else np.zeros(3) for j in range(t.n)])
        self.w, self.d, self.di = w, np.zeros(3), np.zeros((t.n, 3))
        for joint, sign in ((first, 1), (second, -1)):
            if joint is None:
                continue
            p = t.p[joint] + t.R[joint] @ t.com[joint]
            self.d = self.d + sign * p
            for i in range(t.n):
                if t.above(i, joint):
                    self.di[i] += sign * (np.cross(w[i], p - t.p[i]) if KIND[i][0] == "r" else t.a[i])

    def second(self, i: int, k: int) -> np.ndarray:
        """d_ik, i <= k in the tree or zero."""
        return np.cross(self.w[i], self.di[k]) if self.t.above(i, k) else np.zeros(3)

    def along(self, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(d', d_i', w_i') along delta."""
        t = self.t
        dw, ddi = np.zeros((t.n, 3)), np.zeros((t.n, 3))
        for i in range(t.n):
            turn = sum((self.w[k] * delta[k] for k in range(t.n) if t.above(k, i)), np.zeros(3))
            below = sum((self.di[k] * delta[k] for k in range(t.n) if i != k and t.above(i, k)), np.zeros(3))
            dw[i] = np.cross(turn, self.w[i])
            ddi[i] = np.cross(turn, self.di[i]) + np.cross(self.w[i], below)
        return delta @ self.di, ddi, dw


def test_section_8_distance():
    t, _ = tree()
    model = t.model([da.Distance("b2", "b7", 1.0)])
    q = values(t, t.q)
    x = Between(t, 2, 7)
    assert da.constraints(model, q)[0] == pytest.approx(x.d @ x.d - 1.0, abs=1e-13)
    close(by_joint(t, da.constraint_jacobian(model, q)[0]), 2 * x.di @ x.d)
    delta = np.random.default_rng(4).normal(size=t.n)
    dd, ddi, dw = x.along(delta)
    s2, s3 = np.zeros((t.n, t.n)), np.zeros((t.n, t.n))
    for i in range(t.n):
        for k in range(i, t.n):
            s2[i, k] = x.di[i] @ x.di[k] + x.d @ x.second(i, k)
            s3[i, k] = ddi[i] @ x.di[k] + x.di[i] @ ddi[k]
            if t.above(i, k):
                change = np.cross(dw[i], x.di[k]) + np.cross(x.w[i], ddi[k])
                s3[i, k] += dd @ x.second(i, k) + x.d @ change
            s2[k, i], s3[k, i] = s2[i, k], s3[i, k]
    close(by_joint(t, da.constraint_hessian(model, q, np.ones(1))), 2 * s2)
    close(by_joint(t, da.constraint_third(model, q, values(t, delta), np.ones(1))), 2 * s3)


@pytest.mark.parametrize("axes", ["body", "mixed", "world"])
def test_section_8_wrenches(axes):
    """(8.4) to (8.7)."""
    t, _ = tree()
    f, tau, end = np.array([0.4, -1.0, 0.7]), np.array([0.3, 0.8, -0.5]), 4
    model = t.model([da.Wrench("b4", tuple(f), tuple(tau), axes)])
    q, v = values(t, t.q), values(t, t.v)
    p, R = t.p[end] + t.R[end] @ t.com[end], t.R[end]
    if axes == "body":
        W = np.r_[R @ tau + np.cross(p, R @ f), R @ f]
    else:
        W = np.r_[tau + np.cross(p, f) if axes == "mixed" else tau, f]
    path = [i for i in range(t.n) if t.above(i, end)]
    Q, dQ, d2 = np.zeros(t.n), np.zeros((t.n, t.n)), np.zeros((t.n, t.n))
    mu = np.random.default_rng(6).normal(size=t.n)
    x = Between(t, end, None)
    for i in path:
        Q[i] = t.S[i] @ W
        for k in path:
            a, d = min(i, k), max(i, k)
            if axes == "body" and i < k:
                dQ[i, k] = cross(t.S[i], t.S[k]) @ W
            elif axes == "mixed":
                dQ[i, k] = f @ np.cross(x.w[a], x.di[d]) + (tau @ np.cross(x.w[k], x.w[i]) if k < i else 0)
            elif axes == "world" and k < i:
                dQ[i, k] = cross(t.S[k], t.S[i]) @ W
    close(by_joint(t, da.force(model, q, v, np.zeros(0))), Q)
    close(by_joint(t, da.force_first(model, q, v, np.zeros(0))[0]), dQ)
    for n, lower in enumerate(path):
        for k in path[n:]:
            if axes == "body":
                eta = sum((mu[i] * t.S[i] for i in path if i < lower), np.zeros(6))
                d2[lower, k] = cross(cross(eta, t.S[lower]), t.S[k]) @ W
            elif axes == "world":
                below = sum((mu[i] * t.S[i] for i in path if i > k), np.zeros(6))
                d2[lower, k] = cross(t.S[lower], cross(t.S[k], below)) @ W
            else:
                _, ddi, dw = x.along(mu)
                turn = np.cross(x.w[lower], np.cross(x.w[k], sum((mu[i] * x.w[i] for i in path if i > k), np.zeros(3))))
                d2[lower, k] = f @ (np.cross(dw[lower], x.di[k]) + np.cross(x.w[lower], ddi[k])) + tau @ turn
            d2[k, lower] = d2[lower, k]
    close(by_joint(t, da.force_second(model, q, v, np.zeros(0), mu[np.argsort(t.order)])[0]), d2, 1e-11)


# ---- the step: derivatives of L, F, h from the core, the rest as printed


def sym(A: np.ndarray) -> np.ndarray:
    return A + A.T


class Step:
    """A step of a mechanism, solved and differentiated by sections 9, 11 and 12 from the core's derivatives of L, F and h.

    Arguments: q_k, p_k, the inputs and the prescribed values at the end; shares of the force in F- and F+.
    """

    def __init__(
        self, model: da.Model, dt: float, x: np.ndarray, p: np.ndarray, u: np.ndarray, rho: np.ndarray,
        alpha: float = 0.5, shares: tuple[float, float] = (0.5, 0.5),
    ) -> None:  # fmt: skip
        self.model, self.dt, self.alpha, (self.minus, self.plus) = model, dt, alpha, shares
        self.nd, self.nq, self.nc = model.nd, model.nq, model.nc
        self.x, self.p, self.u = x, p, u
        ends = np.cumsum([0, model.nq, model.nd, model.nu, model.nk])
        self.w = {name: slice(*ends[i : i + 2]) for i, name in enumerate(("q", "p", "u", "rho"))}
        self.nw = int(ends[-1])
        self.y, self.lam = np.r_[x[: self.nd], rho], np.zeros(self.nc)
        for _ in range(20):  # (9.1)
            self.prepare()
            C1, h = self.C1[:, : self.nd], da.constraints(model, self.y)
            y0 = np.linalg.solve(self.N, self.r)
            dl = np.linalg.solve(self.schur, C1 @ y0 - h / dt)
            dy = dt * (self.X @ dl - y0)
            self.y[: self.nd] += dy
            self.lam += dl
        assert np.abs(dy).max() < 1e-12
        self.prepare()
        self.p_next = dt * alpha * self.Lq + self.Lv + dt * self.plus * self.force

    def prepare(self) -> None:
        m, dt, nd, a = self.model, self.dt, self.nd, self.alpha
        self.q, self.v = q, v = (1 - a) * self.x + a * self.y, (self.y - self.x) / dt
        self.Lq, self.Lv = (x[:nd] for x in da.lagrangian_first(m, q, v))
        qq, qv, vv = da.lagrangian_second(m, q, v)
        self.slots = {1: (dt * (1 - self.alpha), -1.0), 2: (dt * self.alpha, 1.0)}
        self.E = {(i, j): self.block(i, j, qq, qv, vv) for i in (1, 2) for j in (1, 2)}
        self.force = da.force(m, q, v, self.u)
        fq, fv, fu = da.force_first(m, q, v, self.u)
        shares = {"-": self.minus, "+": self.plus}
        self.DF = {(i, s): f * (a * fq + b * fv) for i, (a, b) in self.slots.items() for s, f in shares.items()}
        self.DuF = {s: f * dt * fu for s, f in shares.items()}
        self.C0, self.C1 = da.constraint_jacobian(m, self.x), da.constraint_jacobian(m, self.y)
        self.r = self.p + dt * (1 - a) * self.Lq - self.Lv + dt * self.minus * self.force - self.C0[:, :nd].T @ self.lam
        self.N = (self.E[1, 2][:nd] + dt * self.DF[2, "-"])[:, :nd]
        self.X = np.linalg.solve(self.N, self.C0[:, :nd].T)
        self.schur = self.C1[:, :nd] @ self.X

    def block(self, i: int, j: int, qq: np.ndarray, qv: np.ndarray, vv: np.ndarray) -> np.ndarray:
        (ai, bi), (aj, bj) = self.slots[i], self.slots[j]
        return ai * aj * qq + ai * bj * qv + bi * aj * qv.T + bi * bj * vv

    def first(self) -> None:
        """(11.1), (11.2)."""
        nd, nq, dt = self.nd, self.nq, self.dt
        R1, R2 = np.zeros((nd, self.nw)), np.zeros((self.nc, self.nw))
        D2h = da.constraint_hessian(self.model, self.x, self.lam)
        self.R = ((self.E[1, 1] - dt * D2h)[:nd] + dt * self.DF[1, "-"]) / dt
        R1[:, self.w["q"]] = dt * self.R
        R1[:, self.w["p"]] = dt * np.eye(nd)
        R1[:, self.w["u"]] = dt * self.DuF["-"]
        R1[:, self.w["rho"]] = (self.E[1, 2][:nd] + dt * self.DF[2, "-"])[:, nd:]
        R2[:, self.w["rho"]] = self.C1[:, nd:]
        Z = -np.linalg.solve(self.N, R1)
        self.Lam = np.linalg.solve(self.schur, -(self.C1[:, :nd] @ Z + R2) / dt)
        self.Y = Z + dt * self.X @ self.Lam
        self.Wy = np.vstack([self.Y, np.zeros((nq - nd, self.nw))])
        self.Wy[nd:, self.w["rho"]] = np.eye(nq - nd)
        P = (self.E[2, 2][:nd] + dt * self.DF[2, "+"]) @ self.Wy
        P[:, self.w["q"]] += self.E[2, 1][:nd] + dt * self.DF[1, "+"]
        P[:, self.w["u"]] += dt * self.DuF["+"]
        self.P = P / dt

    def adjoint(self, zq: np.ndarray, zp: np.ndarray, zl: np.ndarray) -> np.ndarray:
        """(11.3), (11.4)."""
        nd, dt = self.nd, self.dt
        J2 = self.E[2, 2][:nd] / dt + self.DF[2, "+"]
        g = zq + (J2.T @ zp)[:nd]
        self.nu = np.linalg.solve(self.schur.T, -self.X.T @ g - zl / dt)
        self.mu = -dt * np.linalg.solve(self.N.T, g + self.C1[:, :nd].T @ self.nu)
        out = np.zeros(self.nw)
        out[self.w["q"]] = (self.E[2, 1][:nd] / dt + self.DF[1, "+"]).T @ zp + self.R.T @ self.mu
        out[self.w["p"]] = self.mu
        out[self.w["u"]] = self.DuF["+"].T @ zp + self.DuF["-"].T @ self.mu
        J1 = self.E[1, 2][:nd] / dt + self.DF[2, "-"]
        out[self.w["rho"]] = (J2.T @ zp + J1.T @ self.mu + self.C1.T @ self.nu)[nd:]
        return out

    def hessian(self, zq: np.ndarray, zp: np.ndarray, zl: np.ndarray) -> np.ndarray:
        """(12.1)."""
        m, nd, nq, dt = self.model, self.nd, self.nq, self.dt
        self.adjoint(zq, zp, zl)
        dx, dy = np.r_[self.mu, np.zeros(nq - nd)], np.r_[zp, np.zeros(nq - nd)]
        along = (1 - self.alpha) * dx + self.alpha * dy, (dy - dx) / dt
        third = da.lagrangian_third(m, self.q, self.v, *along)
        weight = self.minus * self.mu + self.plus * zp
        qq, qv, vv, qu, vu, uu = da.force_second(m, self.q, self.v, self.u, weight)
        # derivatives of D_iD_jLd: the blocks over dt; of the impulse dt F: dt times those of F
        T = {ij: (self.block(*ij, *third) + self.block(*ij, qq, qv, vv)) / dt for ij in self.E}
        Hu = {i: dt * (a * qu + b * vu) / dt for i, (a, b) in self.slots.items()}
        T[1, 1] = T[1, 1] - da.constraint_third(m, self.x, dx, self.lam)
        T[2, 2] = T[2, 2] + da.constraint_hessian(m, self.y, self.nu)
        K = np.array([da.constraint_hessian(m, self.x, row) @ dx for row in np.eye(self.nc)]).reshape(self.nc, nq)
        Sq, Su = np.zeros((nq, self.nw)), np.zeros((m.nu, self.nw))
        Sq[:, self.w["q"]], Su[:, self.w["u"]] = np.eye(nq), np.eye(m.nu)
        out = self.Wy.T @ T[2, 2] @ self.Wy + sym(Sq.T @ (T[1, 2] @ self.Wy - K.T @ self.Lam)) + Sq.T @ T[1, 1] @ Sq
        return out + sym((Hu[1].T @ Sq + Hu[2].T @ self.Wy).T @ Su) + dt * Su.T @ uu @ Su


CASES = [(1, 0.5, "split"), (6, 0.5, "left"), (15, 0.3, "split"), (21, 0.7, "left")]


def moving(first: int, size: int, constraints: int) -> tuple[da.Model, np.ndarray, np.ndarray, np.ndarray]:
    """(model, q, v, u) of the first random mechanism from a seed on whose constraints can be satisfied."""
    for seed in range(first, first + 20):
        model = random_model(seed, size, constraints=constraints)
        q, v, u = random_point(model, seed)
        try:
            q = da.satisfy_constraints(model, q)
        except da.ConvergenceError:
            continue
        if model.nk and model.nc == constraints and model.nu:
            return model, q, 0.3 * da.consistent_velocity(model, q, v), u
    raise AssertionError("no mechanism among twenty")


@cache
def solved(seed: int, alpha: float, forcing: str) -> tuple[Step, da.System, da.State]:
    """The step by the page, the system, and the state after the core's step; the last two arguments of calls in `args`."""
    model, q, v, u = moving(seed, 7, 2)
    vi = da.MidpointVI(model, 0.02, alpha=alpha, forcing=forcing)
    start, rho = vi.state(q=q, v=v), q[model.nd :] + 0.02 * v[model.nd :]
    step = Step(model, 0.02, start.q, start.p, u, rho, alpha, (0.5, 0.5) if forcing == "split" else (1.0, 0.0))
    step.first()
    return step, da.System(vi, steps=1), vi.step(start, u, rho)


def arguments(s: Step) -> tuple[np.ndarray, np.ndarray]:
    """(x, u) of a System."""
    return np.r_[s.x, s.p, np.zeros(s.nq - s.nd)], np.r_[s.u, s.y[s.nd :]]


@pytest.mark.parametrize("case", CASES)
def test_section_9(case):
    s, _, after = solved(*case)
    close(after.q, s.y, 1e-12)
    close(after.p, s.p_next, 1e-11)
    close(after.lam, s.lam, 1e-9)


@pytest.mark.parametrize("case", CASES)
def test_section_11(case):
    s, system, _ = solved(*case)
    exact = system.derivatives(*arguments(s), 0, with_dt=True)
    for name, page in (("q", s.Y), ("p", s.P), ("lam", s.Lam)):
        close(exact[name][:, :-1], page, 1e-8)
    # columns of q_k from those of p_k
    close(s.Y[:, s.w["q"]], s.Y[:, s.w["p"]] @ s.R, 1e-10)
    close(s.Lam[:, s.w["q"]], s.Lam[:, s.w["p"]] @ s.R, 1e-10)
    rng = np.random.default_rng(2)
    zq, zp, zl = rng.normal(size=s.nd), rng.normal(size=s.nd), rng.normal(size=s.nc)
    close(s.Y.T @ zq + s.P.T @ zp + s.Lam.T @ zl, s.adjoint(zq, zp, zl), 1e-9)


@pytest.mark.parametrize("case", CASES)
def test_section_12(case):
    s, system, _ = solved(*case)
    exact = system.second_derivatives(*arguments(s), 0)
    rng = np.random.default_rng(7)
    z = {"q": rng.normal(size=s.nd), "p": rng.normal(size=s.nd), "lam": 1e-3 * rng.normal(size=s.nc)}
    ours = sum(np.tensordot(z[name], exact[name], 1) for name in z)
    close(ours, s.hessian(z["q"], z["p"], z["lam"]), 1e-8)


@pytest.mark.parametrize("case", CASES)
def test_section_16_derivative_by_dt(case):
    s, system, _ = solved(*case)
    nd, dt, a, v = s.nd, s.dt, s.alpha, s.v
    R1 = dt * ((1 - a) * s.Lq + s.minus * s.force)
    R1 += (a * (s.E[1, 1][:nd] + dt * s.DF[1, "-"]) - (1 - a) * (s.E[1, 2][:nd] + dt * s.DF[2, "-"])) @ v
    Z = -np.linalg.solve(s.N, R1)
    lam = np.linalg.solve(s.schur, -(s.C1[:, :nd] @ Z) / dt)
    y = Z + dt * s.X @ lam
    p = dt * (a * s.Lq + s.plus * s.force)
    p += (a * (s.E[2, 1][:nd] + dt * s.DF[1, "+"]) - (1 - a) * (s.E[2, 2][:nd] + dt * s.DF[2, "+"])) @ v
    p += (s.E[2, 2][:nd] + dt * s.DF[2, "+"])[:, :nd] @ y
    exact = system.derivatives(*arguments(s), 0, with_dt=True)
    for name, page in (("q", y), ("p", p / dt), ("lam", lam)):
        close(exact[name][:, -1], page, 1e-8)


class Composed:
    """A step of order four from its parts, one of which goes back in time: (14.2), (14.3). w = (q_k, p_k, u, rho)."""

    def __init__(self, model: da.Model, dt: float, w: np.ndarray) -> None:
        nq, nd, nk = model.nq, model.nd, model.nk
        q, p, u, rho = np.split(w, np.cumsum([nq, nd, model.nu]))
        lengths = composition(4)
        c, line = np.cumsum(np.r_[0.0, lengths]), straight(q[nd:], rho[None], lengths)[0]
        self.nd, self.parts = nd, []
        self.Y = np.eye(len(w))[: nq + nd]
        for i, length in enumerate(lengths):
            s = Step(model, dt * length, q, p, u, line[i])
            s.first()
            M = np.vstack([self.Y, np.zeros((len(u) + nk, len(w)))])
            M[s.w["u"], s.w["u"]] = np.eye(len(u))
            for rows, at in ((slice(nd, nq), c[i]), (s.w["rho"], c[i + 1])):
                M[rows] = 0.0
                M[rows, nd:nq], M[rows, s.w["rho"]] = (1 - at) * np.eye(nk), at * np.eye(nk)
            self.parts.append((s, M))
            self.Y = np.vstack([s.Y @ M, np.zeros((nk, len(w))), s.P @ M])
            q, p = s.y, s.p_next
        self.q, self.p = q, p

    def second(self, zq: np.ndarray, zp: np.ndarray) -> np.ndarray:
        H, none = np.zeros((self.Y.shape[1],) * 2), np.zeros(self.parts[0][0].nc)
        for s, M in reversed(self.parts):
            H += M.T @ s.hessian(zq, zp, none) @ M
            back = s.adjoint(zq, zp, none)
            zq, zp = back[: self.nd], back[s.w["p"]]
        return H


@pytest.mark.parametrize("seed", [2, 12])
def test_section_14_composed_steps(seed):
    """The composed step is the integrator's of order four; its derivatives are those of differences."""
    m, q, v, u = moving(seed, 6, 1)
    vi = da.MidpointVI(m, 0.05, order=4)
    nd, nq = m.nd, m.nq
    start = vi.state(q=q, v=v)
    w = np.r_[start.q, start.p, u, q[nd:] + 0.05 * v[nd:]]
    after = vi.step(start, u, w[len(w) - m.nk :])
    step = Composed(m, 0.05, w)
    close(after.q, step.q, 1e-11)
    close(after.p, step.p, 1e-10)
    rng = np.random.default_rng(0)
    zq, zp, d, h = rng.normal(size=nd), rng.normal(size=nd), rng.normal(size=len(w)), 1e-5
    ends = [Composed(m, 0.05, w + sign * h * d) for sign in (1, -1)]
    close((ends[0].q - ends[1].q)[:nd] / (2 * h), step.Y[:nd] @ d, 1e-6)
    close((ends[0].p - ends[1].p) / (2 * h), step.Y[nq:] @ d, 1e-6)
    slopes = [e.Y[:nd].T @ zq + e.Y[nq:].T @ zp for e in ends]
    close((slopes[0] - slopes[1]) / (2 * h), step.second(zq, zp) @ d, 1e-6)


@pytest.mark.parametrize("seed", [1, 5, 8])
def test_section_16_accelerations(seed):
    """M a = ... and the derivatives (16.2)."""
    m = random_model(seed, 7, constraints=2)
    q, v, u = random_point(m, seed)
    nd, nc = m.nd, m.nc
    kin = np.random.default_rng(seed).normal(size=m.nk)
    found = da.acceleration(m, q, v, u, kin, derivatives=True)
    a, lam = found.ddq, -found.lam  # the page has the sign of the core
    Lq, _ = da.lagrangian_first(m, q, v)
    qq, qv, vv = da.lagrangian_second(m, q, v)
    C = da.constraint_jacobian(m, q)
    D2h = [da.constraint_hessian(m, q, row) for row in np.eye(nc)]
    close((vv @ a)[:nd], (Lq - qv.T @ v)[:nd] + da.force(m, q, v, u) + (C.T @ lam)[:nd], 1e-9)
    close(C @ a, np.array([-v @ d @ v for d in D2h]), 1e-9)
    _, tqv, tvv = da.lagrangian_third(m, q, v, v, a)
    fq, fv, fu = da.force_first(m, q, v, u)
    bent = sum((x * d for x, d in zip(lam, D2h, strict=True)), np.zeros((m.nq, m.nq)))
    Rq = (tqv.T - qq - bent)[:nd] - fq
    Rv = (tvv + qv.T - qv)[:nd] - fv
    D3 = np.array([da.constraint_third(m, q, v, row) @ v for row in np.eye(nc)])
    for da_, dl, R, row in (
        (found.ddq_q, found.lam_q, Rq, np.array([d @ a for d in D2h]) + D3),
        (found.ddq_v, found.lam_v, Rv, 2 * np.array([d @ v for d in D2h])),
        (found.ddq_u, found.lam_u, -fu, np.zeros((nc, m.nu))),
        (found.ddq_k, found.lam_k, vv[:nd, nd:], C[:, nd:]),
    ):
        close(vv[:nd, :nd] @ da_, -R - C[:, :nd].T @ dl, 1e-8)
        np.testing.assert_allclose(C[:, :nd] @ da_, -row, atol=1e-8 * max(1.0, np.abs(row).max(initial=0.0)))


# ---- section 13


def exp3(phi: np.ndarray) -> np.ndarray:
    th = max(np.sqrt(phi @ phi), 1e-12)
    K = hat(phi)
    return np.eye(3) + np.sin(th) / th * K + (1 - np.cos(th)) / th**2 * K @ K


def log3(R: np.ndarray) -> np.ndarray:
    half = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
    th = np.arctan2(np.linalg.norm(half), (np.trace(R) - 1) / 2)
    return half * (th / np.sin(th))


def coefficients(phi: np.ndarray) -> tuple[float, float, float, float, float]:
    th = np.sqrt(phi @ phi)
    h = th / 2
    t, c = np.tan(th / 4) / th, (1 - h / np.tan(h)) / th**2
    return (
        th,
        t,
        c,
        (1 / np.cos(th / 4) ** 2 / 4 - t) / th,
        (-1 / np.tan(h) / 2 + h / (2 * np.sin(h) ** 2) - 2 * th * c) / th**2,
    )


def A_of(phi: np.ndarray) -> np.ndarray:
    return (np.eye(3) + coefficients(phi)[1] * hat(phi)) / 2


def D_of(phi: np.ndarray) -> np.ndarray:
    return np.eye(3) + hat(phi) / 2 + coefficients(phi)[2] * hat(phi) @ hat(phi)


@pytest.mark.parametrize("size", [0.1, 1.0, 2.5])
def test_section_13(size):
    """(13.1) and what is said about it, by differences of the exponential."""
    rng = np.random.default_rng(0)
    phi, m = rng.normal(size=3), rng.normal(size=3)
    phi *= size / np.linalg.norm(phi)
    A, D, e = A_of(phi), D_of(phi), exp3(phi)
    np.testing.assert_allclose(A + A.T, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(exp3(phi / 2) @ A.T, A, atol=1e-14)
    np.testing.assert_allclose(D.T, D @ exp3(-phi), atol=1e-13)
    h = 1e-5
    for k in range(3):
        d = h * np.eye(3)[k]
        for x, y, dphi, psi in ((0 * d, d, D[:, k], A[:, k]), (d, 0 * d, -D.T[:, k], A.T[:, k])):
            ends = [log3(exp3(sign * x).T @ e @ exp3(sign * y)) for sign in (1, -1)]
            np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), dphi, atol=1e-8)
            middle = [exp3(sign * x) @ exp3(end / 2) for sign, end in zip((1, -1), ends, strict=True)]
            np.testing.assert_allclose(log3(middle[1].T @ middle[0]) / (2 * h), psi, atol=1e-8)
    th, t, c, dt, dc = coefficients(phi)
    dA = (-t * hat(m) + np.outer(np.cross(phi, m), phi) * dt / th) / 2
    dD = -hat(m) / 2 + c * ((phi @ m) * np.eye(3) + np.outer(phi, m) - 2 * np.outer(m, phi))
    dD += np.outer(np.cross(phi, np.cross(phi, m)), phi) * dc / th
    for k in range(3):
        d = h * np.eye(3)[k]
        np.testing.assert_allclose((A_of(phi + d) @ m - A_of(phi - d) @ m) / (2 * h), dA[:, k], atol=1e-9)
        np.testing.assert_allclose((D_of(phi + d) @ m - D_of(phi - d) @ m) / (2 * h), dD[:, k], atol=1e-9)
