"""A motion of a multibody system in time, and what one reads off it: coordinates, energy, momenta, conditioning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...text import Brief
from .kernels import _slide_axes, dense, flat, geometry, kernels
from .system import MultibodySystem


@dataclass(frozen=True, repr=False)
class Motion(Brief):
    """Nodes of a discrete motion: `t` (N+1,), `q` (N+1, n), joint coordinates `u` (N+1, nd), inputs `tau` (N, nu),
    reduced momenta `p` (N+1, nd) in the basis of P(q), multipliers `lam` (N+1 or N, m) of the multiplier form or None.

    `motion["elbow"]` is one coordinate over time.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody, simulate
    >>> disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2))], [Joint("R", "ground", "disk")])
    >>> motion = simulate(disk, dt=0.1, steps=10, velocity=[1.0])
    >>> motion["disk"].shape, motion.angular_momentum()[-1].round(9).tolist()
    ((11,), [0.0, 0.0, 2.0])
    """

    system: MultibodySystem
    t: np.ndarray
    q: np.ndarray
    u: np.ndarray
    tau: np.ndarray
    p: np.ndarray
    lam: np.ndarray | None = None
    iterations: np.ndarray | None = None

    def __getitem__(self, coordinate: str) -> np.ndarray:
        if coordinate not in self.system.coordinates:
            raise KeyError(f"{coordinate!r}; coordinates are {', '.join(self.system.coordinates)}")
        return self.u[:, self.system.coordinates.index(coordinate)]

    @property
    def steps(self) -> int:
        """Number of steps N."""
        return len(self.t) - 1

    def position(self, body: str, point: object = (0.0, 0.0, 0.0)) -> np.ndarray:
        """World positions (N+1, 3) of a point fixed in a body (body axes, from its centre of mass)."""
        i = 12 * self.system.body_index[body]
        directors = self.q[:, i + 3 : i + 12].reshape(-1, 3, 3)
        return self.q[:, i : i + 3] + np.einsum("k,tkx->tx", np.asarray(point, dtype=float), directors)

    def rotation(self, body: str) -> np.ndarray:
        """Rotation matrices (N+1, 3, 3), directors as columns."""
        i = 12 * self.system.body_index[body]
        return self.q[:, i + 3 : i + 12].reshape(-1, 3, 3).transpose(0, 2, 1)

    def velocity(self) -> np.ndarray:
        """Velocities (N+1, n) of q at the nodes that belong to the momenta: P (P'MP)^-1 p."""
        k = kernels(self.system)
        out = np.empty_like(self.q)
        for i, (q, p) in enumerate(zip(self.q, self.p, strict=True)):
            out[i] = dense(k.nullspace(q)) @ np.linalg.solve(dense(k.reduced_mass(q)), p)
        return out

    def kinetic_energy(self) -> np.ndarray:
        """Kinetic energy at the nodes (N+1,), J."""
        v = self.velocity()
        return 0.5 * np.einsum("ti,ij,tj->t", v, self.system.mass_matrix, v)

    def potential_energy(self) -> np.ndarray:
        """Potential energy at the nodes (N+1,), J."""
        k = kernels(self.system)
        return np.array([float(k.potential(q)) for q in self.q])

    def energy(self) -> np.ndarray:
        """Total energy at the nodes (N+1,), J."""
        return self.kinetic_energy() + self.potential_energy()

    def legendre(self) -> tuple[np.ndarray, np.ndarray]:
        """Redundant momenta of every step without constraint forces (14): p_n- (N, n) and p_{n+1}+ (N, n)."""
        k, h = kernels(self.system), np.diff(self.t)
        pairs = [k.legendre(self.q[i], self.q[i + 1], self.tau[i], h[i]) for i in range(self.steps)]
        return np.array([flat(a) for a, _ in pairs]), np.array([flat(b) for _, b in pairs])

    def angular_momentum(self) -> np.ndarray:
        """Total angular momentum about the origin at the nodes (N+1, 3), eq. (25), N m s.

        Reactions of the ground enter except about axes that the ground joints leave free.
        """
        minus, plus = self.legendre()
        momenta = np.vstack([minus, plus[-1:]])
        return moment(self.q, momenta)

    def linear_momentum(self) -> np.ndarray:
        """Total linear momentum at the nodes (N+1, 3), N s."""
        minus, plus = self.legendre()
        return np.vstack([minus, plus[-1:]]).reshape(self.steps + 1, -1, 12)[:, :, :3].sum(axis=1)

    def angular_momentum_defect(self) -> np.ndarray:
        """Change of angular momentum per step minus applied torques and gravity's (34), (N, 3).

        Zero to rounding about every axis that the ground joints leave free; the rest is the ground's reaction.
        """
        minus, plus = self.legendre()
        k, h = kernels(self.system), np.diff(self.t)[:, None]
        left = np.array([dense(k.actuation(q)) @ f for q, f in zip(self.q[:-1], self.tau, strict=True)])
        right = np.array([dense(k.actuation(q)) @ f for q, f in zip(self.q[1:], self.tau, strict=True)])
        load = -np.array([flat(k.potential_gradient(0.5 * (a + b))) for a, b in zip(self.q, self.q[1:], strict=False)])
        applied = moment(self.q[:-1], 0.5 * h * (left + load)) + moment(self.q[1:], 0.5 * h * (right + load))
        return moment(self.q[1:], plus) - moment(self.q[:-1], minus) - applied

    def constraint_violation(self) -> np.ndarray:
        """Largest violated constraint at every node (N+1,)."""
        k = kernels(self.system)
        return np.array([np.abs(dense(k.constraints(q)[0])).max() for q in self.q])


def moment(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Sum over bodies of phi x p_phi + d_I x p_I (25): (T, n), (T, n) -> (T, 3)."""
    return np.cross(q.reshape(len(q), -1, 3), p.reshape(len(p), -1, 3)).sum(axis=1)


def _log(r: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(r).as_rotvec()


def coordinates(system: MultibodySystem, q: object, *, near: object = None) -> np.ndarray:
    """Joint coordinates (nd,) or (T, nd) of configurations q (n,) or (T, n): the inverse of `configuration`.

    Turns are followed continuously in time, starting next to `near` (nd,) when given.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1, 1)); hinge = MultibodySystem([rod], [Joint("R", "ground", "rod")])
    >>> coordinates(hinge, configuration(hinge, [0.3])).round(12).tolist()
    [0.3]
    """
    q = np.asarray(q, dtype=float)
    rows = np.atleast_2d(q)
    if rows.shape[1] != system.n:
        raise ValueError(f"q needs {system.n} columns, got shape {q.shape}")
    out = np.empty((len(rows), system.nd))
    before = None if near is None else np.asarray(near, dtype=float)
    for t, row in enumerate(rows):
        parts = [
            (row[12 * i : 12 * i + 3], row[12 * i + 3 : 12 * i + 12].reshape(3, 3).T) for i in range(len(system.bodies))
        ]
        for i, (joint, where) in enumerate(zip(system.joints, system.joint_slices(), strict=True)):
            x2, r2 = parts[i]
            old = None if before is None else before[where]
            if joint.kind == "free":
                body = system.bodies[i]
                spin = _unwrap(_log(r2 @ np.array(body.rotation).T), None if old is None else old[3:])
                out[t, where] = np.concatenate([x2 - body.position, spin])
                continue
            geo, p = geometry(system, i), system.parents[i]
            x1, r1 = parts[p] if p >= 0 else (np.zeros(3), np.eye(3))
            values: list[Any] = []
            if joint.slides:
                gap = r1.T @ (x2 + r2 @ geo.rho2 - x1) - geo.rho1
                values.append(_slide_axes(joint, geo.triad1).T @ gap)
            rel = r1.T @ r2 @ geo.relative.T
            if joint.turns == "xyz":
                values.append(_unwrap(_log(rel), old))
            elif joint.turns == "n":
                m1, m2 = geo.triad1[:, 0], geo.triad1[:, 1]
                angle = np.arctan2(m2 @ rel @ m1, m1 @ rel @ m1)
                if old is not None:
                    angle += 2 * np.pi * np.round((old[-1] - angle) / (2 * np.pi))
                values.append([angle])
            out[t, where] = np.concatenate(values)
        before = out[t]
    return out[0] if q.ndim == 1 else out


def _unwrap(vector: np.ndarray, old: np.ndarray | None) -> np.ndarray:
    """The rotation vector of the same rotation nearest to the old one."""
    if old is None:
        return vector
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        size = float(np.linalg.norm(old))
        turns = np.round(size / (2 * np.pi))
        return vector if turns == 0 else old / size * turns * 2 * np.pi
    axis = vector / angle
    return axis * (angle + 2 * np.pi * np.round((float(axis @ old) - angle) / (2 * np.pi)))


def configuration(system: MultibodySystem, u: object = None) -> np.ndarray:
    """Configuration q (n,) of joint coordinates u (nd,), an array or a dict by name (others zero).

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1, 1), position=(0.5, 0, 0))
    >>> hinge = MultibodySystem([rod], [Joint("R", "ground", "rod")])
    >>> configuration(hinge, [np.pi / 2])[:3].round(12).tolist()
    [0.0, 0.5, 0.0]
    """
    return flat(kernels(system).place(system.vector(u)))


def condition_numbers(system: MultibodySystem, h: float, u: object = None) -> tuple[float, float]:
    """Condition numbers of the Newton matrices of one step of size h from rest at u: reduced (13), multipliers (10).

    The first does not depend on h, the second grows as 1/h^3.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0.1, 1, 1), position=(0.5, 0, 0))
    >>> hinge = MultibodySystem([rod], [Joint("S", "ground", "rod")])
    >>> (a, b), (c, d) = condition_numbers(hinge, 1e-2), condition_numbers(hinge, 1e-4)
    >>> abs(a / c - 1) < 1e-6, d / b > 1e3
    (True, True)
    """
    k = kernels(system)
    q = configuration(system, u)
    tau = np.zeros(system.nu)
    _, reduced = k.newton(np.zeros(system.nd), q, np.zeros(system.nd), tau, h)
    start = np.concatenate([q, np.zeros(system.m)])
    _, full = k.newton_multiplier(start, q, np.zeros(system.n), tau, h)
    return float(np.linalg.cond(dense(reduced))), float(np.linalg.cond(dense(full)))
