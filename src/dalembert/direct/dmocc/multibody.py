"""The mechanics of a multibody system as CasADi expressions (Leyendecker et al., DMOCC, sections 4-6).

Contract: q (n) stacks centre of mass and directors of all bodies, u (nd) the joint
coordinates, nu (nd) the reduced velocities with dq/dt = P(q) nu, tau (nu) the joint forces.

    place(u, ref) -> q         absolute reparameterization from q_00; a joint coordinate is relative to the parent body
    advance(du, q) -> q        incremental reparameterization (27), (50), (54)
    nullspace(q) -> P          (26), (36), (48), (53), composed outward along the tree
    project(q, x, load)        P'x, and the effect of wrenches on the bodies, by one inward sweep
    loads(q0, q1, tau, h)      wrenches on the bodies at both nodes: joint forces (42), damping
    constraints(q) -> g        internal constraints and those of the tree's joints
    closures(q, near) -> c     constraints of the joints that close loops, and the user's
    difference(q0, q1)         change of the joint coordinates, zero exactly where they agree

Two formulas differ from the print. (50), (54): the parent's displacement is taken off along the axis after the
parent's rotation, otherwise joints that slide leave the constraint manifold when the parent moves and turns in one
step; the linearization, and so (48), (53), is the same. Absolute joint coordinates measure the child relative to its
parent (46) rather than to the parent without its turn about the axis (47), so that a bound on a joint is a bound on
that joint; the null space matrix and the increments follow (47). Universal joints and screws, which the paper does not
have, follow (46) in all: the child is carried along with its parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .system import Joint, MultibodySystem
from .view import View

SX = Any  # casadi.SX; casadi is imported on use


# ---- rotations -----------------------------------------------------------------------------------------------------


def expm(theta: SX) -> SX:
    """exp of a rotation vector (3) by Rodrigues' formula, smooth at zero with all derivatives."""
    import casadi as ca

    s = ca.dot(theta, theta)
    small = s < 0.5  # Taylor series below: sqrt has no derivative at 0; 9 terms are exact to 1e-17 here
    safe = ca.if_else(small, 1.0, s)
    root = ca.sqrt(safe)
    series1: Any = 0.0
    series2: Any = 0.0
    c1, c2 = 1.0, 0.5
    power: Any = 1.0
    for k in range(9):
        series1 += c1 * power
        series2 += c2 * power
        power = power * s
        c1 /= -(2 * k + 2) * (2 * k + 3)
        c2 /= -(2 * k + 3) * (2 * k + 4)
    a = ca.if_else(small, series1, ca.sin(root) / root)
    b = ca.if_else(small, series2, (1 - ca.cos(root)) / safe)
    k_ = ca.skew(theta)
    return ca.SX.eye(3) + a * k_ + b * (k_ @ k_)


def turn(angle: SX, axis: SX) -> SX:
    """Rotation by an angle about a unit axis: no square root needed."""
    import casadi as ca

    k = ca.skew(axis)
    return ca.SX.eye(3) + ca.sin(angle) * k + (1 - ca.cos(angle)) * (k @ k)


def log_vector(r: SX) -> SX:
    """Rotation vector of a rotation of less than half a turn, smooth at the identity."""
    import casadi as ca

    w = 0.5 * ca.vertcat(r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1])  # sin(angle) axis
    s = ca.dot(w, w)
    c = 0.5 * (r[0, 0] + r[1, 1] + r[2, 2] - 1)
    small = ca.logic_and(s < 0.01, c > 0)
    safe = ca.if_else(small, 0.25, s)
    root = ca.sqrt(safe)
    series: Any = 0.0  # asin(x)/x in x^2
    coefficient = 1.0
    power: Any = 1.0
    for k in range(9):
        series += coefficient / (2 * k + 1) * power
        coefficient *= (2 * k + 1) / (2 * k + 2)
        power = power * s
    return ca.if_else(small, series, ca.atan2(root, c) / root) * w


# ---- joints --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Geometry:
    """Body-fixed constants of a joint: points in parent and child axes, triad in parent and in child axes, turn."""

    rho1: np.ndarray
    rho2: np.ndarray
    triad1: np.ndarray
    triad2: np.ndarray
    relative: np.ndarray

    @property
    def axis(self) -> np.ndarray:
        """n in parent axes."""
        return self.triad1[:, 2]


def geometry(system: MultibodySystem, joint: Joint) -> Geometry:
    """Constants of a joint, from the reference configuration."""
    child, p = system.bodies[system.body_index[joint.child]], system.body_index[joint.parent]
    r1, x1 = (np.eye(3), np.zeros(3)) if p < 0 else (np.array(system.bodies[p].rotation), system.bodies[p].position)
    r2, x2 = np.array(child.rotation), np.array(child.position)
    point, triad = np.array(joint.point), joint.triad
    return Geometry(r1.T @ (point - x1), r2.T @ (point - x2), r1.T @ triad, r2.T @ triad, r1.T @ r2)


def slide_axes(joint: Joint, triad: np.ndarray) -> np.ndarray:
    """Directions of translation as columns: the axis for C and P, the plane for E."""
    return triad[:, :2] if joint.kind == "E" else triad[:, 2:] if joint.slides == 1 else np.zeros((3, 0))


class Pair:
    """A joint at a configuration: places of both bodies, axes and points in world axes."""

    def __init__(self, joint: Joint, geo: Geometry, first: tuple[SX, SX], second: tuple[SX, SX]) -> None:
        import casadi as ca

        self.joint, self.geo = joint, geo
        self.x1, self.r1 = first
        self.x2, self.r2 = second
        self.rho2 = self.r2 @ ca.DM(geo.rho2)
        self.n = self.r1 @ ca.DM(geo.axis)
        self.axes = self.r1 @ ca.DM(slide_axes(joint, geo.triad1)) if joint.slides in (1, 2) else ca.SX(3, 0)

    @property
    def arm(self) -> SX:
        """From the parent's centre to the joint's point on the child."""
        return self.x2 + self.rho2 - self.x1

    @property
    def spin(self) -> SX:
        """Axes of the relative turns as columns, (3, turns)."""
        import casadi as ca

        if self.joint.turns == 3:
            return ca.SX.eye(3)
        if self.joint.turns == 2:
            return ca.horzcat(self.n, self.r2 @ ca.DM(self.geo.triad2[:, 0]))
        return self.n if self.joint.turns else ca.SX(3, 0)

    @property
    def decoupled(self) -> bool:
        """Whether the child stays where it is when the parent turns about the joint's axis, (47)."""
        return self.joint.kind in ("R", "C", "E")

    @property
    def turned(self) -> list[tuple[SX, SX]]:
        """(sine, cosine) of the relative turns about the joint's axes."""
        import casadi as ca

        if self.joint.turns not in (1, 2):
            return []
        triad = ca.DM(self.geo.triad1)
        a = triad.T @ (self.r1.T @ self.r2 @ ca.DM(self.geo.relative.T)) @ triad
        pairs = [(a[1, 0], a[0, 0])]
        return [*pairs, (a[2, 1], a[2, 2])] if self.joint.turns == 2 else pairs

    @property
    def relative(self) -> SX:
        """Rotation of the child relative to the parent, identity in the reference, in parent axes (3, 3)."""
        import casadi as ca

        return self.r1.T @ self.r2 @ ca.DM(self.geo.relative.T)

    @property
    def slid(self) -> SX:
        """Coordinates of relative translation, (slides,)."""
        import casadi as ca

        return ca.DM(slide_axes(self.joint, self.geo.triad1)).T @ (self.r1.T @ self.arm - ca.DM(self.geo.rho1))

    def rows(self) -> list[SX]:
        """The constraints that the joint puts on its two bodies, 6 - dof."""
        import casadi as ca

        joint, geo = self.joint, self.geo
        gap = self.arm - self.r1 @ ca.DM(geo.rho1)
        m1, m2, n = (self.r1 @ ca.DM(geo.triad1[:, k]) for k in range(3))
        a1, a2 = (self.r2 @ ca.DM(geo.triad2[:, k]) for k in range(2))
        rows: list[SX]
        if joint.kind == "free":
            return []
        if joint.kind == "H":  # along the axis: the sine, since the turn is known up to full turns only
            (s, c) = self.turned[0]
            along = ca.dot(n, gap) / joint.pitch
            rows = [ca.dot(m1, gap), ca.dot(m2, gap), joint.pitch * (ca.sin(along) * c - ca.cos(along) * s)]
        elif joint.slides == 0:
            rows = [gap[0], gap[1], gap[2]]
        else:
            rows = [ca.dot(m1, gap), ca.dot(m2, gap)] if joint.slides == 1 else [ca.dot(n, gap)]
        if joint.turns < 3:
            rows.append(ca.dot(n, a1))
        if joint.turns < 2:
            rows.append(ca.dot(n, a2))
        if joint.turns < 1:
            rows.append(ca.dot(m1, a2))
        return rows

    def effort(self) -> list[tuple[SX, SX]]:
        """Force and torque on the child per unit of every joint force, world axes, at the centre of mass (43)-(55)."""
        import casadi as ca

        zero = ca.SX(3, 1)
        if self.joint.kind == "free":
            pairs = [(ca.SX.eye(3)[:, k], ca.skew(self.rho2)[:, k]) for k in range(3)]
        else:
            pairs = [(self.axes[:, k], zero) for k in range(self.joint.slides)]
        return pairs + [(zero, self.spin[:, k]) for k in range(self.joint.turns)]


class Multibody:
    """Expressions of a multibody system; see the head of this file. Sizes n, nd, nu as there, nc rows of closures,
    `nref` numbers that refer the rotations of balls and free bodies to another orientation than that of q_00."""

    def __init__(self, system: MultibodySystem) -> None:
        import casadi as ca

        self.system = system
        self.n, self.nd, self.nu, self.m = system.n, system.nd, system.nu, system.m
        self.mass = ca.sparsify(ca.DM(system.mass_matrix))
        self.geo = [geometry(system, j) for j in system.joints]
        self.balls = [i for i, j in enumerate(system.joints) if j.turns == 3]
        self.nref = 9 * len(self.balls)
        self.unreferred = np.tile(np.eye(3).ravel(), len(self.balls))
        q, u = ca.SX.sym("q", self.n), ca.SX.sym("u", self.nd)
        self.nc = int(self.closures(q, u).numel())
        self.winding = (
            bool(ca.depends_on(ca.vertcat(self.potential(q, u), self.closures(q, u)), u)) if self.nd else False
        )

    # ---- configurations

    def split(self, q: SX, i: int) -> tuple[SX, SX]:
        """Centre of mass and rotation (directors as columns) of body i; the ground for -1."""
        import casadi as ca

        if i < 0:
            return ca.SX(3, 1), ca.SX.eye(3)
        return q[12 * i : 12 * i + 3], ca.reshape(q[12 * i + 3 : 12 * i + 12], 3, 3)

    def pair(self, q: SX, i: int) -> Pair:
        """The joint above body i."""
        first, second = self.split(q, self.system.parents[i]), self.split(q, i)
        return Pair(self.system.joints[i], self.geo[i], first, second)

    def loops(self, q: SX) -> list[Pair]:
        """The joints that close loops."""
        index = self.system.body_index
        return [
            Pair(j, geometry(self.system, j), self.split(q, index[j.parent]), self.split(q, index[j.child]))
            for j in self.system.closures
        ]

    def place(self, u: SX, ref: SX = None) -> SX:
        """Absolute reparameterization q = F(u, q_00); `ref` (nref) are rotations that follow those of u in balls."""
        import casadi as ca

        system = self.system
        parts: list[tuple[SX, SX]] = []
        for i, (joint, where) in enumerate(zip(system.joints, system.slices, strict=True)):
            geo, c = self.geo[i], u[where]
            after = ca.SX.eye(3)
            if joint.turns == 3 and ref is not None:
                k = 9 * self.balls.index(i)
                after = ca.reshape(ref[k : k + 9], 3, 3)
            if joint.kind == "free":
                body = system.bodies[i]
                parts.append((ca.DM(body.position) + c[:3], expm(c[3:]) @ after @ ca.DM(np.array(body.rotation))))
                continue
            x1, r1 = parts[system.parents[i]] if system.parents[i] >= 0 else (ca.SX(3, 1), ca.SX.eye(3))
            slide, rest, local = c[: joint.slides], c[joint.slides :], ca.DM(geo.rho1)
            if joint.slides:
                local = local + ca.DM(slide_axes(joint, geo.triad1)) @ slide
            if joint.kind == "H":
                local = local + ca.DM(geo.axis) * (joint.pitch * rest)
            if joint.turns == 3:
                rel = expm(rest) @ after
            elif joint.turns == 2:
                rel = turn(rest[0], ca.DM(geo.axis)) @ turn(rest[1], ca.DM(geo.triad1[:, 0]))
            else:
                rel = turn(rest, ca.DM(geo.axis)) if joint.turns else ca.SX.eye(3)
            r2 = r1 @ rel @ ca.DM(geo.relative)
            parts.append((x1 + r1 @ local - r2 @ ca.DM(geo.rho2), r2))
        return _join(parts)

    def advance(self, du: SX, q: SX) -> SX:
        """Incremental reparameterization q_{n+1} = F(du, q_n)."""
        import casadi as ca

        system = self.system
        parts: list[tuple[SX, SX]] = []
        moves: list[tuple[SX, SX]] = []  # incremental displacement of the centre of mass, incremental rotation matrix
        twists: list[SX] = []  # rotation vector of the increment, to take the part about n off (49)
        for i, (joint, where) in enumerate(zip(system.joints, system.slices, strict=True)):
            c, p = du[where], system.parents[i]
            x2, r2 = self.split(q, i)
            if joint.kind == "free":
                rot = expm(c[3:])
                parts.append((x2 + c[:3], rot @ r2))
                moves.append((c[:3], rot))
                twists.append(c[3:])
                continue
            pair = self.pair(q, i)
            still = (ca.SX(3, 1), ca.SX.eye(3), ca.SX(3, 1))
            move1, rot1, theta1 = (*moves[p], twists[p]) if p >= 0 else still
            rho1, rest = pair.r1 @ ca.DM(self.geo[i].rho1), c[joint.slides :]
            local = rho1
            if joint.slides:
                axes = pair.axes
                local = rho1 + axes @ (axes.T @ (pair.arm - rho1 - move1) + c[: joint.slides])
            if joint.kind == "H":
                local = rho1 + pair.n * (ca.dot(pair.n, pair.arm - rho1) + joint.pitch * rest)
            if joint.turns == 3:
                rot2 = expm(rest)
            elif joint.turns == 2:
                rot2 = rot1 @ turn(rest[0], pair.spin[:, 0]) @ turn(rest[1], pair.spin[:, 1])
            elif joint.turns == 1:
                # R^{1,2} exp(theta n): the parent's increment without its turn about n, then the joint's own turn
                own = rest - ca.dot(pair.n, theta1) if pair.decoupled else rest
                rot2 = rot1 @ turn(own, pair.n)
            else:
                rot2 = rot1
            if joint.turns == 3 or joint.turns == 0:
                theta2 = rest if joint.turns else theta1
            else:
                theta2 = log_vector(rot2) if self._needs_log(i) else ca.SX(3, 1)
            x_next = pair.x1 + move1 + rot1 @ local - rot2 @ pair.rho2
            parts.append((x_next, rot2 @ r2))
            moves.append((x_next - x2, rot2))
            twists.append(theta2)
        return _join(parts)

    def orthonormal(self, q: SX) -> SX:
        """q with directors that are orthonormal again: one iteration towards the nearest rotation, exact to second order.

        Products of many rotations drift. What a slider reads off a director that is too long by e moves it by e with
        every increment, and no iteration then comes below e times its momentum.
        """
        import casadi as ca

        parts = [self.split(q, i) for i in range(len(self.system.joints))]
        return _join([(x, r @ (1.5 * ca.SX.eye(3) - 0.5 * r.T @ r)) for x, r in parts])

    def _needs_log(self, i: int) -> bool:
        """Whether a child joint follows (47), and so asks for the rotation vector of this body's increment."""
        for k, p in enumerate(self.system.parents):
            joint = self.system.joints[k]
            if p == i and (joint.kind in ("R", "C", "E") or (joint.turns == 0 and self._needs_log(k))):
                return True
        return False

    # ---- the null space

    def reach(self, q: SX) -> SX:
        """P_ext: body velocities (centre of mass, angular; 6 per body) as a linear map of nu, (6 nb, nd)."""
        import casadi as ca

        rows: list[SX] = []
        eye, system = ca.SX.eye(3), self.system
        for i, (joint, where) in enumerate(zip(system.joints, system.slices, strict=True)):
            own = ca.SX(6, system.nd)
            if joint.kind == "free":
                own[:, where] = ca.SX.eye(6)
                rows.append(own)
                continue
            pair, p, rho = self.pair(q, i), system.parents[i], None
            rho, spin, axes = ca.skew(pair.rho2), pair.spin, pair.axes
            if p >= 0:  # what the parent's motion carries along, (48) and (53) in one
                keep = ca.SX(3, 3) if joint.turns == 3 else eye - pair.n @ pair.n.T if pair.decoupled else eye
                carry, couple = eye - axes @ axes.T, rho @ keep - ca.skew(pair.arm)
                own += ca.vertcat(ca.horzcat(carry, couple), ca.horzcat(ca.SX(3, 3), keep)) @ rows[p]
            if joint.dof:
                linear = rho @ spin + (joint.pitch * pair.n if joint.kind == "H" else 0)
                upper = ca.horzcat(axes, linear) if joint.turns else axes
                own[:, where] = ca.vertcat(upper, ca.horzcat(ca.SX(3, joint.slides), spin))
            rows.append(own)
        return ca.vertcat(*rows)

    def _internal(self, q: SX) -> SX:
        """Blocks P_int of (26), (n, 6 nb)."""
        import casadi as ca

        blocks = []
        for i in range(len(self.system.bodies)):
            _, r = self.split(q, i)
            top = ca.horzcat(ca.SX.eye(3), ca.SX(3, 3))
            blocks.append(ca.vertcat(top, *[ca.horzcat(ca.SX(3, 3), -ca.skew(r[:, k])) for k in range(3)]))
        return ca.diagcat(*blocks)

    def nullspace(self, q: SX) -> SX:
        """Null space matrix P(q), (n, nd)."""
        return self._internal(q) @ self.reach(q)

    def inertia(self, q0: SX, q1: SX) -> SX:
        """P_int(q0)' M P_int(q1), blocks of (6, 6) per body."""
        import casadi as ca

        blocks = []
        for i, body in enumerate(self.system.bodies):
            (_, r0), (_, r1) = self.split(q0, i), self.split(q1, i)
            spin = ca.SX(3, 3)
            for a in range(3):
                spin -= ca.skew(r0[:, a]) @ ca.skew(r1 @ ca.sparsify(ca.DM(body.euler_tensor[:, a])))
            blocks += [body.mass * ca.SX.eye(3), spin]
        return ca.diagcat(*blocks)

    def tangent(self, q: SX) -> SX:
        """Derivative of advance(du, q) by du at zero: P(q)."""
        return self.nullspace(q)

    def project(self, q: SX, x: SX, load: SX = None) -> SX:
        """P(q)^T x, (nd,), plus the effect of wrenches `load` (6 nb,) on the bodies, by one inward sweep.

        The same as with the matrix, in a number of operations that grows with the number of bodies and not with its
        square; the derivatives of the transcription are short because of it.
        """
        import casadi as ca

        system = self.system
        forces, torques = [], []
        for i in range(len(system.bodies)):
            _, r = self.split(q, i)
            part = ca.reshape(x[12 * i : 12 * i + 12], 3, 4)
            forces.append(part[:, 0] + (load[6 * i : 6 * i + 3] if load is not None else 0))
            spin = sum(ca.cross(r[:, k], part[:, k + 1]) for k in range(3))
            torques.append(spin + (load[6 * i + 3 : 6 * i + 6] if load is not None else 0))
        out = ca.SX(system.nd, 1)
        for i in reversed(range(len(system.bodies))):
            joint, where, p = system.joints[i], system.slices[i], system.parents[i]
            if joint.kind == "free":
                out[where] = ca.vertcat(forces[i], torques[i])
                continue
            pair = self.pair(q, i)
            about = torques[i] - ca.cross(pair.rho2, forces[i])  # moment about the joint
            parts, carried, kept = [], forces[i], about
            if joint.slides:
                parts.append(pair.axes.T @ forces[i])
                carried = forces[i] - pair.axes @ parts[0]
            if joint.turns:
                parts.append(pair.spin.T @ about + (joint.pitch * ca.dot(pair.n, forces[i]) if joint.pitch else 0))
            if joint.turns == 3:
                kept = ca.SX(3, 1)
            elif pair.decoupled:
                kept = about - pair.n * parts[-1]
            out[where] = ca.vertcat(*parts) if parts else ca.SX(0, 1)
            if p >= 0:
                torques[p] = torques[p] + kept + ca.cross(pair.arm, forces[i])
                forces[p] = forces[p] + carried
        return out

    # ---- forces

    def _wrench(self, pair: Pair, force: SX, torque: SX) -> SX:
        """Force and torque on the child, and their reaction on the parent, as loads on all bodies (6 nb,)."""
        import casadi as ca

        index = self.system.body_index
        i, p = index[pair.joint.child], index[pair.joint.parent]
        out = ca.SX(6 * len(self.system.bodies), 1)
        out[6 * i : 6 * i + 6] = ca.vertcat(force, torque)
        if p >= 0:  # action equals reaction, with the moment of the force's line through the child's centre (51)
            out[6 * p : 6 * p + 6] = ca.vertcat(-force, ca.cross(pair.x1 - pair.x2, force) - torque)
        return out

    def wrenches(self, q: SX) -> SX:
        """Last matrix of (42): force at the centre of mass and torque on every body per joint force, (6 nb, nu)."""
        import casadi as ca

        columns = []
        for pair in [*(self.pair(q, i) for i in range(len(self.system.joints))), *self.loops(q)]:
            flags: Any = pair.joint.actuated
            columns += [self._wrench(pair, *e) for e, on in zip(pair.effort(), flags, strict=True) if on]
        return ca.horzcat(*columns) if columns else ca.SX(6 * len(self.system.bodies), 0)

    def loads(self, q0: SX, q1: SX, tau: SX, h: SX) -> tuple[SX, SX]:
        """Wrenches (6 nb,) at both nodes of a step: joint forces, and damping from the mean rates of the step."""
        first, second = self.wrenches(q0) @ tau, self.wrenches(q1) @ tau
        damping = dict(self.system.damping)
        if not damping:
            return first, second
        rates = self.difference(q0, q1) / h
        for i, (joint, where) in enumerate(zip(self.system.joints, self.system.slices, strict=True)):
            pairs, own = (self.pair(q0, i), self.pair(q1, i)), rates[where]
            efforts = pairs[0].effort(), pairs[1].effort()
            for k, name in enumerate(joint.coordinates[: joint.slides if joint.turns == 3 else None]):
                if name in damping:
                    first = first - damping[name] * own[k] * self._wrench(pairs[0], *efforts[0][k])
                    second = second - damping[name] * own[k] * self._wrench(pairs[1], *efforts[1][k])
            if joint.turns == 3 and joint.name in damping:
                for pair, sign in zip(pairs, (0, 1), strict=True):
                    torque = -damping[joint.name] * (pair.r1 @ own[joint.slides :])  # the turn is in parent axes
                    extra = self._wrench(pair, 0 * torque, torque)
                    first, second = (first, second + extra) if sign else (first + extra, second)
        return first, second

    def lift(self, q: SX, load: SX) -> SX:
        """Redundant forces (n,) of wrenches on the bodies (6 nb,), the first two matrices of (42)."""
        import casadi as ca

        halves = ca.DM(np.diag(np.tile([1.0, 1, 1, 0.5, 0.5, 0.5], len(self.system.bodies))))
        return self._internal(q) @ (halves @ load)

    def potential(self, q: SX, near: SX) -> SX:
        """Potential energy V(q); joint coordinates that it names are those nearest to `near` (nd)."""
        import casadi as ca

        system = self.system
        g = ca.DM(system.gravity)
        total = sum(-b.mass * ca.dot(g, q[12 * i : 12 * i + 3]) for i, b in enumerate(system.bodies))
        if system.potential is not None:
            total = total + system.potential(View(self, q, u=self.coordinates(q, near)))
        return ca.SX(total)

    # ---- constraints and coordinates

    def constraints(self, q: SX) -> SX:
        """Internal constraints of every body, then those of its joint, (m,)."""
        import casadi as ca

        rows: list[SX] = []
        for i in range(len(self.system.joints)):
            _, r = self.split(q, i)
            d = [r[:, k] for k in range(3)]
            rows += [0.5 * (ca.dot(d[k], d[k]) - 1) for k in range(3)]
            rows += [ca.dot(d[0], d[1]), ca.dot(d[0], d[2]), ca.dot(d[1], d[2])]
            rows += self.pair(q, i).rows()
        return ca.vertcat(*rows)

    def closures(self, q: SX, near: SX) -> SX:
        """Rows of the joints that close loops, then the user's, (nc,)."""
        import casadi as ca

        rows = [row for pair in self.loops(q) for row in pair.rows()]
        if self.system.constraints is not None:
            given = self.system.constraints(View(self, q, u=self.coordinates(q, near)))
            rows.append(ca.vertcat(*given) if isinstance(given, (list, tuple)) else ca.vec(given))
        return ca.vertcat(ca.SX(0, 1), *rows)

    def coordinates(self, q: SX, near: SX) -> SX:
        """Joint coordinates (nd,): turns about axes within half a turn of `near`, rotation vectors of less than that."""
        import casadi as ca

        parts: list[SX] = []
        for i, (joint, where) in enumerate(zip(self.system.joints, self.system.slices, strict=True)):
            pair = self.pair(q, i)
            if joint.kind == "free":
                body = self.system.bodies[i]
                parts += [pair.x2 - ca.DM(body.position), log_vector(pair.r2 @ ca.DM(np.array(body.rotation)).T)]
                continue
            if joint.slides:
                parts.append(pair.slid)
            if joint.turns == 3:
                parts.append(log_vector(pair.relative))
            for k, (s, c) in enumerate(pair.turned):
                a = near[where][joint.slides + k]
                parts.append(a + ca.atan2(s * ca.cos(a) - c * ca.sin(a), c * ca.cos(a) + s * ca.sin(a)))
        return ca.vertcat(ca.SX(0, 1), *parts)

    def difference(self, q0: SX, q1: SX) -> SX:
        """Change (nd,) of the joint coordinates from q0 to q1; of a ball the turn vector in parent axes."""
        import casadi as ca

        parts: list[SX] = []
        for i, joint in enumerate(self.system.joints):
            a, b = self.pair(q0, i), self.pair(q1, i)
            if joint.kind == "free":
                parts += [b.x2 - a.x2, log_vector(b.r2 @ a.r2.T)]
                continue
            if joint.slides:
                parts.append(b.slid - a.slid)
            if joint.turns == 3:
                parts.append(log_vector(b.relative @ a.relative.T))
            for (s0, c0), (s1, c1) in zip(a.turned, b.turned, strict=True):
                parts.append(ca.atan2(s1 * c0 - c1 * s0, c1 * c0 + s1 * s0))
        return ca.vertcat(ca.SX(0, 1), *parts)

    # ---- what the transcription limits and weighs

    @cached_property
    def turning(self) -> list[int]:
        """Indices of the bodies that can turn."""
        free: list[int] = []
        for i, (joint, p) in enumerate(zip(self.system.joints, self.system.parents, strict=True)):
            if joint.turns or p in free:
                free.append(i)
        return free

    def turn_cosines(self, q0: SX, q1: SX) -> SX:
        """Cosine of the angle by which every body that can turn has turned from q0 to q1."""
        import casadi as ca

        rows = []
        for i in self.turning:
            s = slice(12 * i + 3, 12 * i + 12)
            rows.append(0.5 * (ca.dot(q0[s], q1[s]) - 1))
        return ca.vertcat(ca.SX(0, 1), *rows)

    def spin(self, v: SX) -> SX:
        """Sum over the bodies of the squared angular velocity, from the velocities of the directors."""
        import casadi as ca

        total = ca.SX(0)
        for i in self.turning:
            total += 0.5 * ca.sumsqr(v[12 * i + 3 : 12 * i + 12])
        return total


def _join(parts: list[tuple[SX, SX]]) -> SX:
    import casadi as ca

    return ca.vertcat(*[ca.vertcat(x, ca.vec(r)) for x, r in parts])
