"""The compiled functions of a multibody system: built once per system as CasADi expressions, reused at every node.

Contract (Leyendecker et al., DMOCC): q (n) stacks centre of mass and directors of all bodies, u (nd) the joint
coordinates, nu (nd) the reduced velocities with dq/dt = P(q) nu, tau (nu) the joint forces.

    place(u) -> q            absolute reparameterization from q_00; a joint coordinate is relative to the parent body
    advance(du, q) -> q      incremental reparameterization (27), (50), (54)
    nullspace(q) -> P        (26), (36), (48), (53), composed outward along the tree
    actuation(q) -> B^T      (29), (42), (59)
    constraints(q) -> g, G   internal and joint constraints and their Jacobian
    legendre(q0, q1, tau, h) -> p0-, p1+   without multipliers: -D1Ld - f-, D2Ld + f+ (14)
    reduced(q0, q1, tau, h)  -> P'p0-, P'p1+ (16)

Two formulas differ from the print. (50), (54): the parent's displacement is taken off along the axis after the
parent's rotation, otherwise joints that slide leave the constraint manifold when the parent moves and turns in one
step; the linearization, and so (48), (53), is the same. Absolute joint coordinates measure the child relative to its
parent (46) rather than to the parent without its turn about the axis (47), so that a bound on a joint is a bound on
that joint; the null space matrix and the increments follow (47).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .system import Joint, MultibodySystem

SX = Any  # casadi.SX; casadi is imported on use


def dense(x: Any) -> np.ndarray:
    """A CasADi number matrix as a 2-D array."""
    return x.full()


def flat(x: Any) -> np.ndarray:
    """A CasADi number column as a 1-D array."""
    return x.full().ravel()


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


def turn(angle: SX, axis: Any) -> SX:
    """Rotation by an angle about a unit axis: no square root needed."""
    import casadi as ca

    k = ca.skew(axis)
    return ca.SX.eye(3) + ca.sin(angle) * k + (1 - ca.cos(angle)) * (k @ k)


@dataclass(frozen=True)
class Geometry:
    """Body-fixed constants of a joint: points in parent and child axes, triad in parent and in child axes, turn."""

    rho1: np.ndarray
    rho2: np.ndarray
    triad1: np.ndarray
    triad2: np.ndarray
    relative: np.ndarray


def geometry(system: MultibodySystem, i: int) -> Geometry:
    """Constants of the joint above body i, from the reference configuration."""
    j, child, p = system.joints[i], system.bodies[i], system.parents[i]
    r1, x1 = (np.eye(3), np.zeros(3)) if p < 0 else (np.array(system.bodies[p].rotation), system.bodies[p].position)
    r2, x2 = np.array(child.rotation), np.array(child.position)
    point, triad = np.array(j.point), j.triad
    return Geometry(r1.T @ (point - x1), r2.T @ (point - x2), r1.T @ triad, r2.T @ triad, r1.T @ r2)


def _split(system: MultibodySystem, q: SX, i: int) -> tuple[SX, SX]:
    """Centre of mass and rotation (directors as columns) of body i; the ground for -1."""
    import casadi as ca

    if i < 0:
        return ca.SX(3, 1), ca.SX.eye(3)
    return q[12 * i : 12 * i + 3], ca.reshape(q[12 * i + 3 : 12 * i + 12], 3, 3)


def _join(parts: list[tuple[SX, SX]]) -> SX:
    import casadi as ca

    return ca.vertcat(*[ca.vertcat(x, ca.vec(r)) for x, r in parts])


def place(system: MultibodySystem, u: SX) -> SX:
    """Absolute reparameterization q = F(u, q_00)."""
    import casadi as ca

    parts: list[tuple[SX, SX]] = []
    for i, (joint, where) in enumerate(zip(system.joints, system.joint_slices(), strict=True)):
        geo, c = geometry(system, i), u[where]
        if joint.kind == "free":
            body = system.bodies[i]
            parts.append((ca.DM(body.position) + c[:3], expm(c[3:]) @ ca.DM(np.array(body.rotation))))
            continue
        x1, r1 = parts[system.parents[i]] if system.parents[i] >= 0 else (ca.SX(3, 1), ca.SX.eye(3))
        slide, rest = c[: joint.slides], c[joint.slides :]
        local = ca.DM(geo.rho1) + ca.DM(_slide_axes(joint, geo.triad1)) @ slide if joint.slides else ca.DM(geo.rho1)
        if joint.turns == "xyz":
            rel = expm(rest)
        elif joint.turns == "n":
            rel = turn(rest, ca.DM(geo.triad1[:, 2]))
        else:
            rel = ca.SX.eye(3)
        r2 = r1 @ rel @ ca.DM(geo.relative)
        parts.append((x1 + r1 @ local - r2 @ ca.DM(geo.rho2), r2))
    return _join(parts)


def _slide_axes(joint: Joint, triad: np.ndarray) -> np.ndarray:
    """Directions of translation as columns: the axis for C and P, the plane for E."""
    return triad[:, :2] if joint.kind == "E" else triad[:, 2:] if joint.slides else np.zeros((3, 0))


def advance(system: MultibodySystem, du: SX, q: SX) -> SX:
    """Incremental reparameterization q_{n+1} = F(du, q_n)."""
    import casadi as ca

    parts: list[tuple[SX, SX]] = []
    moves: list[tuple[SX, SX]] = []  # incremental displacement of the centre of mass and incremental rotation matrix
    twists: list[SX] = []  # rotation vector of the increment, to take the part about n off (49)
    for i, (joint, where) in enumerate(zip(system.joints, system.joint_slices(), strict=True)):
        geo, c, p = geometry(system, i), du[where], system.parents[i]
        x2, r2 = _split(system, q, i)
        if joint.kind == "free":
            rot = expm(c[3:])
            parts.append((x2 + c[:3], rot @ r2))
            moves.append((c[:3], rot))
            twists.append(c[3:])
            continue
        x1, r1 = _split(system, q, p)
        move1, rot1, theta1 = (
            (moves[p][0], moves[p][1], twists[p]) if p >= 0 else (ca.SX(3, 1), ca.SX.eye(3), ca.SX(3, 1))
        )
        n = r1 @ ca.DM(geo.triad1[:, 2])
        rho1, rho2 = r1 @ ca.DM(geo.rho1), r2 @ ca.DM(geo.rho2)
        local = rho1
        if joint.slides:
            axes = r1 @ ca.DM(_slide_axes(joint, geo.triad1))
            before = axes.T @ (x2 + rho2 - x1 - rho1)
            local = rho1 + axes @ (before + c[: joint.slides] - axes.T @ move1)
        rest = c[joint.slides :]
        if joint.turns == "xyz":
            rot2, theta2 = expm(rest), rest
        elif joint.turns == "n":
            # R^{1,2} exp(theta n): the parent's increment without its turn about n, then the joint's own turn
            own = rest - ca.dot(n, theta1)
            rot2, theta2 = rot1 @ turn(own, n), None
        else:
            rot2, theta2 = rot1, theta1
        if theta2 is None:
            theta2 = log_vector(rot2) if _needs_log(system, i) else ca.SX(3, 1)
        x_next = x1 + move1 + rot1 @ local - rot2 @ rho2
        parts.append((x_next, rot2 @ r2))
        moves.append((x_next - x2, rot2))
        twists.append(theta2)
    return _join(parts)


def _needs_log(system: MultibodySystem, i: int) -> bool:
    """Whether a child joint turns about one axis, and so asks for the rotation vector of this body's increment."""
    for k, p in enumerate(system.parents):
        if p == i and (system.joints[k].turns == "n" or (system.joints[k].kind == "P" and _needs_log(system, k))):
            return True
    return False


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


def _reach(system: MultibodySystem, q: SX) -> SX:
    """P_ext: body velocities (centre of mass, angular; 6 per body) as a linear map of nu, (6 nb, nd)."""
    import casadi as ca

    rows: list[SX] = []
    eye = ca.SX.eye(3)
    for i, (joint, where) in enumerate(zip(system.joints, system.joint_slices(), strict=True)):
        geo, p = geometry(system, i), system.parents[i]
        own = ca.SX(6, system.nd)
        if joint.kind == "free":
            own[:, where] = ca.SX.eye(6)
            rows.append(own)
            continue
        x2, r2 = _split(system, q, i)
        x1, r1 = _split(system, q, p)
        n, rho2 = r1 @ ca.DM(geo.triad1[:, 2]), r2 @ ca.DM(geo.rho2)
        axes = r1 @ ca.DM(_slide_axes(joint, geo.triad1))
        if joint.turns == "xyz":
            keep, spin = ca.SX(3, 3), eye
        elif joint.turns == "n":
            keep, spin = eye - n @ n.T, n
        else:
            keep, spin = eye, ca.SX(3, 0)
        if p >= 0:  # what the parent's motion carries along, (48) and (53) in one
            arm = x2 + rho2 - x1  # rho^1 + u n^1
            carry = eye - axes @ axes.T
            couple = ca.skew(rho2) @ keep - ca.skew(arm)
            own += ca.vertcat(ca.horzcat(carry, couple), ca.horzcat(ca.SX(3, 3), keep)) @ rows[p]
        columns = ca.vertcat(ca.horzcat(axes, ca.skew(rho2) @ spin), ca.horzcat(ca.SX(3, joint.slides), spin))
        own[:, where] = columns
        rows.append(own)
    return ca.vertcat(*rows)


def _internal(system: MultibodySystem, q: SX) -> SX:
    """Blocks P_int of (26), (n, 6 nb)."""
    import casadi as ca

    blocks = []
    for i in range(len(system.bodies)):
        _, r = _split(system, q, i)
        top = ca.horzcat(ca.SX.eye(3), ca.SX(3, 3))
        blocks.append(ca.vertcat(top, *[ca.horzcat(ca.SX(3, 3), -ca.skew(r[:, k])) for k in range(3)]))
    return ca.diagcat(*blocks)


def nullspace(system: MultibodySystem, q: SX) -> SX:
    """Null space matrix P(q), (n, nd)."""
    return _internal(system, q) @ _reach(system, q)


def project(system: MultibodySystem, q: SX, x: SX, load: SX = None) -> SX:
    """P(q)^T x, (nd,), plus the effect of wrenches `load` (6 nb,) on the bodies, by one inward sweep.

    The same as with the matrix, in a number of operations that grows with the number of bodies and not with its square;
    the derivatives of the transcription are short because of it.
    """
    import casadi as ca

    forces, torques = [], []
    for i in range(len(system.bodies)):
        _, r = _split(system, q, i)
        part = ca.reshape(x[12 * i : 12 * i + 12], 3, 4)
        forces.append(part[:, 0] + (load[6 * i : 6 * i + 3] if load is not None else 0))
        spin = sum(ca.cross(r[:, k], part[:, k + 1]) for k in range(3))
        torques.append(spin + (load[6 * i + 3 : 6 * i + 6] if load is not None else 0))
    out = ca.SX(system.nd, 1)
    slices = system.joint_slices()
    for i in reversed(range(len(system.bodies))):
        joint, where, p = system.joints[i], slices[i], system.parents[i]
        if joint.kind == "free":
            out[where] = ca.vertcat(forces[i], torques[i])
            continue
        geo = geometry(system, i)
        x2, r2 = _split(system, q, i)
        x1, r1 = _split(system, q, p)
        rho2 = r2 @ ca.DM(geo.rho2)
        about = torques[i] - ca.cross(rho2, forces[i])  # moment about the joint
        parts, carried, kept = [], forces[i], about
        if joint.slides:
            axes = r1 @ ca.DM(_slide_axes(joint, geo.triad1))
            parts.append(axes.T @ forces[i])
            carried = forces[i] - axes @ parts[0]
        if joint.turns == "xyz":
            parts.append(about)
            kept = ca.SX(3, 1)
        elif joint.turns == "n":
            n = r1 @ ca.DM(geo.triad1[:, 2])
            parts.append(ca.dot(n, about))
            kept = about - n * parts[-1]
        out[where] = ca.vertcat(*parts)
        if p >= 0:
            torques[p] = torques[p] + kept + ca.cross(x2 + rho2 - x1, forces[i])
            forces[p] = forces[p] + carried
    return out


def wrenches(system: MultibodySystem, q: SX) -> SX:
    """Last matrix of (42): force at the centre of mass and torque on every body per joint force, (6 nb, nu)."""
    import casadi as ca

    columns = []
    zero = ca.SX(3, 1)
    for i, joint in enumerate(system.joints):
        geo, p = geometry(system, i), system.parents[i]
        x2, r2 = _split(system, q, i)
        x1, r1 = _split(system, q, p)
        pairs: list[tuple[SX, SX]] = []  # force and torque on the child
        if joint.kind == "free":
            arm = r2 @ ca.DM(geo.rho2)
            pairs += [(ca.SX.eye(3)[:, k], ca.skew(arm)[:, k]) for k in range(3)]
        elif joint.slides:
            axes = r1 @ ca.DM(_slide_axes(joint, geo.triad1))
            pairs += [(axes[:, k], zero) for k in range(joint.slides)]
        if joint.turns == "xyz":
            pairs += [(zero, ca.SX.eye(3)[:, k]) for k in range(3)]
        elif joint.turns == "n":
            pairs.append((zero, r1 @ ca.DM(geo.triad1[:, 2])))
        for (force, torque), on in zip(pairs, joint.actuated, strict=True):  # type: ignore[arg-type]
            if not on:
                continue
            column = ca.SX(6 * len(system.bodies), 1)
            column[6 * i : 6 * i + 6] = ca.vertcat(force, torque)
            if p >= 0:  # action equals reaction, with the moment of the force's line through the child's centre (51)
                column[6 * p : 6 * p + 6] = ca.vertcat(-force, ca.cross(x1 - x2, force) - torque)
            columns.append(column)
    return ca.horzcat(*columns) if columns else ca.SX(6 * len(system.bodies), 0)


def actuation(system: MultibodySystem, q: SX) -> SX:
    """Input transformation B^T(q), (n, nu), eq. (42)."""
    import casadi as ca

    halves = ca.DM(np.diag(np.tile([1.0, 1, 1, 0.5, 0.5, 0.5], len(system.bodies))))
    return _internal(system, q) @ halves @ wrenches(system, q)


def constraints(system: MultibodySystem, q: SX) -> SX:
    """Internal constraints of every body, then those of its joint, (m,)."""
    import casadi as ca

    rows: list[SX] = []
    for i, joint in enumerate(system.joints):
        x2, r2 = _split(system, q, i)
        d = [r2[:, k] for k in range(3)]
        rows += [0.5 * (ca.dot(d[k], d[k]) - 1) for k in range(3)]
        rows += [ca.dot(d[0], d[1]), ca.dot(d[0], d[2]), ca.dot(d[1], d[2])]
        if joint.kind == "free":
            continue
        geo = geometry(system, i)
        x1, r1 = _split(system, q, system.parents[i])
        gap = x2 + r2 @ ca.DM(geo.rho2) - x1 - r1 @ ca.DM(geo.rho1)
        m1, m2, n = (r1 @ ca.DM(geo.triad1[:, k]) for k in range(3))
        a1, a2 = (r2 @ ca.DM(geo.triad2[:, k]) for k in range(2))
        if joint.slides == 0:
            rows += [gap[0], gap[1], gap[2]]
        elif joint.slides == 1:
            rows += [ca.dot(m1, gap), ca.dot(m2, gap)]
        else:
            rows += [ca.dot(n, gap)]
        if joint.turns != "xyz":
            rows += [ca.dot(n, a1), ca.dot(n, a2)]
        if joint.turns == "":
            rows += [ca.dot(m1, a2)]
    return ca.vertcat(*rows)


def difference(system: MultibodySystem, q: SX, goal: SX) -> SX:
    """D(q, goal), (nd,): zero exactly where the joint coordinates agree (near the goal); one row per coordinate.

    Relative turns enter as sines, so that the rows are polynomials of the directors.
    """
    import casadi as ca

    rows: list[SX] = []
    for i, joint in enumerate(system.joints):
        geo = geometry(system, i)
        x2, r2 = _split(system, q, i)
        y2, s2 = _split(system, goal, i)
        if joint.kind == "free":
            spin = 0.5 * sum(ca.cross(s2[:, k], r2[:, k]) for k in range(3))
            rows += [x2 - y2, spin]
            continue
        x1, r1 = _split(system, q, system.parents[i])
        y1, s1 = _split(system, goal, system.parents[i])
        rel, aim = r1.T @ r2, s1.T @ s2
        if joint.slides:
            axes = ca.DM(_slide_axes(joint, geo.triad1))
            gap = r1.T @ (x2 + r2 @ ca.DM(geo.rho2) - x1)
            wish = s1.T @ (y2 + s2 @ ca.DM(geo.rho2) - y1)
            rows.append(axes.T @ (gap - wish))
        spin = 0.5 * sum(ca.cross(aim[:, k], rel[:, k]) for k in range(3))
        if joint.turns == "xyz":
            rows.append(spin)
        elif joint.turns == "n":
            rows.append(ca.dot(ca.DM(geo.triad1[:, 2]), spin))
    return ca.vertcat(*rows)


class View:
    """Named quantities of one instant for costs, conditions and potentials, as CasADi expressions.

    `q` (n), `v` (n) its velocity, `u` (nd) joint coordinates, `tau` (nu); what is not known is None. Points are in
    body axes from the centre of mass (m), positions and velocities in world axes (m, m/s).

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1, 1), position=(0.5, 0, 0))
    >>> hinge = MultibodySystem([rod], [Joint("R", "ground", "rod")])
    >>> View(hinge, kernels(hinge).place([0.0])).position("rod", (0.5, 0, 0)).full().ravel().tolist()
    [1.0, 0.0, 0.0]
    """

    def __init__(self, system: MultibodySystem, q: SX, *, v: SX = None, u: SX = None, tau: SX = None) -> None:
        self.system, self.q, self.v, self.u, self.tau = system, q, v, u, tau

    def __getitem__(self, coordinate: str) -> SX:
        """A joint coordinate by name."""
        return self.u[self.system.coordinates.index(coordinate)]

    def input(self, name: str) -> SX:
        """A joint force by name."""
        return self.tau[self.system.inputs.index(name)]

    def _at(self, q: SX, body: str, point: Any) -> SX:
        import casadi as ca

        x, r = _split(self.system, q, self.system.body_index[body])
        return x + r @ ca.DM(np.asarray(point, dtype=float))

    def position(self, body: str, point: object = (0.0, 0.0, 0.0)) -> SX:
        """World position (3) of a point fixed in a body (body axes, from its centre of mass)."""
        return self._at(self.q, body, point)

    def velocity(self, body: str, point: object = (0.0, 0.0, 0.0)) -> SX:
        """World velocity (3) of that point."""
        return self._at(self.v, body, point)


def potential(system: MultibodySystem, q: SX) -> SX:
    """Potential energy V(q)."""
    import casadi as ca

    g = ca.DM(system.gravity)
    total = sum(-b.mass * ca.dot(g, q[12 * i : 12 * i + 3]) for i, b in enumerate(system.bodies))
    if system.potential is not None:
        total = total + system.potential(View(system, q))
    return total


class Kernels:
    """The CasADi functions of one system; get it with `kernels(system)`, which remembers it."""

    def __init__(self, system: MultibodySystem) -> None:
        import casadi as ca

        n, nd, nu = system.n, system.nd, system.nu
        q, q1, u, du = ca.SX.sym("q", n), ca.SX.sym("q1", n), ca.SX.sym("u", nd), ca.SX.sym("du", nd)
        v, tau, h, p = ca.SX.sym("v", n), ca.SX.sym("tau", nu), ca.SX.sym("h"), ca.SX.sym("p", nd)
        lam, pn = ca.SX.sym("lam", system.m), ca.SX.sym("pn", n)
        mass = ca.sparsify(ca.DM(system.mass_matrix))
        self.system, self.mass = system, mass
        P = nullspace(system, q)
        g = constraints(system, q)
        G = ca.jacobian(g, q)
        placed = place(system, u)
        self.place = ca.Function("place", [u], [placed])
        self.place_jacobian = ca.Function("place_jacobian", [u], [ca.jacobian(placed, u)])
        self.advance = ca.Function("advance", [du, q], [advance(system, du, q)])
        self.nullspace = ca.Function("nullspace", [q], [P])
        self.actuation = ca.Function("actuation", [q], [ca.densify(actuation(system, q))])
        self.wrenches = ca.Function("wrenches", [q], [ca.densify(wrenches(system, q))])
        self.constraints = ca.Function("constraints", [q], [g, G])
        self.pull = ca.Function("pull", [q, lam], [G.T @ lam])
        self.difference = ca.Function("difference", [q, q1], [difference(system, q, q1)])
        energy = potential(system, q)
        self.potential = ca.Function("potential", [q], [energy])
        self.potential_gradient = ca.Function("potential_gradient", [q], [ca.gradient(energy, q)])
        # Midpoint discrete Lagrangian (7); discrete forces (12)
        mid = 0.5 * h * self.potential_gradient(0.5 * (q + q1))
        kinetic = mass @ (q1 - q) / h
        minus = kinetic + mid - 0.5 * h * (actuation(system, q) @ tau)
        plus = kinetic - mid + 0.5 * h * (actuation(system, q1) @ tau)
        self.legendre = ca.Function("legendre", [q, q1, tau, h], [minus, plus])
        # Reduced, with the wrenches of the joint forces put straight on the bodies: P_int'f = C tau (31)
        reduced_minus = project(system, q, kinetic + mid, -0.5 * h * (wrenches(system, q) @ tau))
        reduced_plus = project(system, q1, kinetic - mid, 0.5 * h * (wrenches(system, q1) @ tau))
        self.reduced = ca.Function("reduced", [q, q1, tau, h], [reduced_minus, reduced_plus])
        # One step of (13): the momentum at the left node must equal p
        left = ca.substitute(reduced_minus, q1, advance(system, du, q)) - p
        self.newton = ca.Function("newton", [du, q, p, tau, h], [left, ca.jacobian(left, du)])
        # One step of (10) with multipliers: unknowns (q1, lam)
        full = ca.vertcat(minus + h * (G.T @ lam) - pn, ca.substitute(g, q, q1))
        unknown = ca.vertcat(q1, lam)
        self.newton_multiplier = ca.Function(
            "newton_multiplier", [unknown, q, pn, tau, h], [full, ca.jacobian(full, unknown)]
        )
        self.reduced_mass = ca.Function("reduced_mass", [q], [P.T @ mass @ P])
        self.momentum = ca.Function("momentum", [q, v], [project(system, q, mass @ v)])

    @cached_property
    def velocity(self) -> Any:
        """(q, p) -> v = P (P'MP)^-1 p: velocity that belongs to a reduced momentum, the projection (15)."""
        import casadi as ca

        q, p = ca.SX.sym("q", self.system.n), ca.SX.sym("p", self.system.nd)
        return ca.Function("velocity", [q, p], [self.nullspace(q) @ ca.solve(self.reduced_mass(q), p)])


@lru_cache(maxsize=32)
def kernels(system: MultibodySystem) -> Kernels:
    """The compiled functions of a system (remembered)."""
    return Kernels(system)
