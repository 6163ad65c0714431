"""A motion of a multibody system in time, and what one reads off it: coordinates, energy, momenta, conditioning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ...arrays import Named, finite, floats, matrix, needed, number
from ...errors import ConvergenceError
from ...text import Brief
from .general import ConstrainedSystem
from .kernels import System, dense, flat, kernels, over
from .multibody import slide_axes
from .system import MultibodySystem

if TYPE_CHECKING:
    from ...integrate import Trajectory


@dataclass(frozen=True, repr=False)
class Motion(Brief):
    """Nodes of a discrete motion: `t` (N+1,), `q` (N+1, n), joint coordinates `u` (N+1, nd), inputs `tau` (N, nu),
    reduced momenta `p` (N+1, nd) in the basis of P(q), on the constraints; `lam` (N+1 or N, rows) are the multipliers
    of the constraints that were kept (those of the closures, in the multiplier form of all), or None.

    `motion["elbow"]` is one coordinate over time.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody, simulate
    >>> disk = MultibodySystem([RigidBody("disk", 1.0, (1, 1, 2))], [Joint("R", "ground", "disk")])
    >>> motion = simulate(disk, dt=0.1, steps=10, velocity=[1.0])
    >>> motion["disk"].shape, motion.angular_momentum()[-1].round(9).tolist()
    ((11,), [0.0, 0.0, 2.0])
    """

    system: System
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

    def _body(self, body: str) -> int:
        """Where a body's 12 coordinates begin in q."""
        index = getattr(self.system, "body_index", {})
        if index.get(body, -1) < 0:
            known = ", ".join(b for b, i in index.items() if i >= 0)
            raise KeyError(f"{body!r}; bodies are {known}" if known else f"{body!r}; the system has no bodies")
        return 12 * int(index[body])

    @property
    def trajectory(self) -> Trajectory:
        """The same as a `Trajectory` of `to_model(system)`: figures, films, files, quality."""
        from .to_model import trajectory

        return trajectory(self)

    def plot(self, *names: str, **options: Any) -> Any:
        """Figure of the motion (matplotlib): variables by name, energy, constraint violation. See `da.plot_trajectory`."""
        return self.trajectory.plot(*names, **options)

    def view(self, *others: Any, **options: Any) -> Any:
        """Browser page that plays the motion; see `da.view`."""
        return self.trajectory.view(*(getattr(o, "trajectory", o) for o in others), **options)

    def save(self, path: str | Path) -> None:
        """Write the trajectory, .npz (with the model's description) or .csv."""
        self.trajectory.save(path)

    def position(self, body: str, point: ArrayLike = (0.0, 0.0, 0.0)) -> np.ndarray:
        """World positions (N+1, 3) of a point fixed in a body (body axes, from its centre of mass)."""
        i = self._body(body)
        directors = self.q[:, i + 3 : i + 12].reshape(-1, 3, 3)
        return self.q[:, i : i + 3] + np.einsum("k,tkx->tx", np.asarray(point, dtype=float), directors)

    def rotation(self, body: str) -> np.ndarray:
        """Rotation matrices (N+1, 3, 3), directors as columns."""
        i = self._body(body)
        return self.q[:, i + 3 : i + 12].reshape(-1, 3, 3).transpose(0, 2, 1)

    def velocity(self) -> np.ndarray:
        """Velocities (N+1, n) of q at the nodes that belong to the momenta: P (P'MP)^-1 p, along the closures."""
        return velocities(self.system, self.q, self.u, self.p)

    def kinetic_energy(self) -> np.ndarray:
        """Kinetic energy at the nodes (N+1,), J."""
        v = self.velocity()
        return 0.5 * (v * (v @ self.system.mass_matrix)).sum(axis=1)

    def potential_energy(self) -> np.ndarray:
        """Potential energy at the nodes (N+1,), J."""
        return over(kernels(self.system).potential, self.q, self.u)[0].ravel()

    def energy(self) -> np.ndarray:
        """Total energy at the nodes (N+1,), J."""
        return self.kinetic_energy() + self.potential_energy()

    def _steps(self) -> tuple[np.ndarray, ...]:
        """Arguments of the functions of a step, one row per step."""
        near = 0.5 * (self.u[:-1] + self.u[1:])
        return self.q[:-1], self.q[1:], near, self.tau, np.diff(self.t)[:, None]

    def legendre(self) -> tuple[np.ndarray, np.ndarray]:
        """Redundant momenta of every step without constraint forces (14): p_n- (N, n) and p_{n+1}+ (N, n)."""
        minus, plus = over(kernels(self.system).legendre, *self._steps())
        return minus[:, :, 0], plus[:, :, 0]

    def angular_momentum(self) -> np.ndarray:
        """Total angular momentum about the origin at the nodes (N+1, 3), eq. (25), N m s.

        Reactions of the ground enter except about axes that the ground joints leave free.
        """
        minus, plus = self.legendre()
        return moment(self.q, np.vstack([minus, plus[-1:]]))

    def linear_momentum(self) -> np.ndarray:
        """Total linear momentum at the nodes (N+1, 3), N s."""
        minus, plus = self.legendre()
        return np.vstack([minus, plus[-1:]]).reshape(self.steps + 1, -1, 12)[:, :, :3].sum(axis=1)

    def angular_momentum_defect(self) -> np.ndarray:
        """Change of angular momentum per step minus applied torques and gravity's (34), (N, 3).

        Zero to rounding about every axis that the ground joints leave free; the rest is the ground's reaction.
        """
        minus, plus = self.legendre()
        h = np.diff(self.t)[:, None]
        first, second = (f[:, :, 0] for f in over(kernels(self.system).forces, *self._steps()))
        applied = moment(self.q[:-1], 0.5 * h * first) + moment(self.q[1:], 0.5 * h * second)
        return moment(self.q[1:], plus) - moment(self.q[:-1], minus) - applied

    def constraint_violation(self) -> np.ndarray:
        """Largest violated constraint at every node (N+1,)."""
        k = kernels(self.system)
        rows = [over(k.constraints, self.q)[0], over(k.closures, self.q, self.u)[0]]
        return np.abs(np.concatenate(rows, axis=1)[:, :, 0]).max(axis=1, initial=0.0)


def moment(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Sum over bodies of phi x p_phi + d_I x p_I (25): (T, n), (T, n) -> (T, 3)."""
    return np.cross(q.reshape(len(q), -1, 3), p.reshape(len(p), -1, 3)).sum(axis=1)


def velocities(system: System, q: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Velocities (T, n) of configurations q (T, n) with momenta p (T, nd), along the constraints."""
    P, mass, closing = over(kernels(system).inertia, q, u)
    try:
        inverse = np.linalg.inv(mass)
    except np.linalg.LinAlgError:  # a free body without inertia about an axis: it does not turn about it
        inverse = np.linalg.pinv(mass, hermitian=True)
    rates = inverse @ p[:, :, None]
    if closing.shape[1]:  # take off what the closures do not allow: least change in the norm of the mass
        normal = inverse @ closing.transpose(0, 2, 1)
        rates = rates - normal @ (np.linalg.pinv(closing @ normal, hermitian=True) @ (closing @ rates))
    return (P @ rates)[:, :, 0]


def node_velocities(system: System, t: np.ndarray, q: np.ndarray, u: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Velocities (N+1, n) at the nodes of a discrete motion: those of p_0- at the first, of p_n+ at the others."""
    if len(t) == 1:
        return np.zeros_like(q)
    minus, plus = over(kernels(system).reduced, q[:-1], q[1:], 0.5 * (u[:-1] + u[1:]), tau, np.diff(t)[:, None])
    return velocities(system, q, u, np.vstack([minus[:1, :, 0], plus[:, :, 0]]))


def momenta(system: System, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Reduced momenta P'Mv (T, nd) of velocities v (T, n)."""
    P = over(kernels(system).nullspace, q)[0]
    return (P.transpose(0, 2, 1) @ (v @ system.mass_matrix)[:, :, None])[:, :, 0]


def coordinates(system: System, q: ArrayLike, *, near: ArrayLike | None = None) -> np.ndarray:
    """Joint coordinates (nd,) or (T, nd) of configurations q (n,) or (T, n): the inverse of `configuration`.

    Turns are followed continuously in time, starting next to `near` (nd,) when given.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1, 1)); hinge = MultibodySystem([rod], [Joint("R", "ground", "rod")])
    >>> coordinates(hinge, configuration(hinge, [0.3])).round(12).tolist()
    [0.3]
    """
    needed(system, MultibodySystem, ConstrainedSystem)
    one = np.ndim(q) == 1
    rows = matrix(np.atleast_2d(floats(q, "q")), (-1, system.n), "q")
    first = np.zeros(system.nd) if near is None else system.vector(near, "near")
    if isinstance(system, MultibodySystem):
        out = _joint_coordinates(system, rows, None if near is None else first)
    else:
        out = _solved_coordinates(system, rows, first)
    return out[0] if one else out


def _joint_coordinates(system: MultibodySystem, q: np.ndarray, near: np.ndarray | None) -> np.ndarray:
    """Joint by joint, all instants at once."""
    out, known = np.empty((len(q), system.nd)), kernels(system).mechanics.geo
    places = q.reshape(len(q), -1, 12)
    x, r = places[:, :, :3], places[:, :, 3:].reshape(len(q), -1, 3, 3).transpose(0, 1, 3, 2)
    for i, (joint, where) in enumerate(zip(system.joints, system.slices, strict=True)):
        geo, p, old = known[i], system.parents[i], None if near is None else near[where]
        values: list[np.ndarray] = []
        if joint.kind == "free":
            body = system.bodies[i]
            spin = _rotation_vectors(r[:, i] @ np.array(body.rotation).T, None if old is None else old[3:])
            out[:, where] = np.hstack([x[:, i] - body.position, spin])
            continue
        x1, r1 = (x[:, p], r[:, p]) if p >= 0 else (np.zeros(3), np.eye(3))
        back = np.swapaxes(r1, -1, -2)
        if joint.slides:
            arm = x[:, i] + r[:, i] @ geo.rho2 - x1
            gap = (back @ arm[:, :, None])[:, :, 0] - geo.rho1
            values.append(gap @ slide_axes(joint, geo.triad1))
        rel = back @ r[:, i] @ geo.relative.T
        if joint.turns == 3:
            values.append(_rotation_vectors(rel, old))
        elif joint.turns:
            a = geo.triad1.T @ rel @ geo.triad1
            angles = [np.arctan2(a[:, 1, 0], a[:, 0, 0])]
            angles += [np.arctan2(a[:, 2, 1], a[:, 2, 2])] if joint.turns == 2 else []
            for k, angle in enumerate(angles):
                follow = np.unwrap(angle)
                if old is not None:
                    follow = follow + 2 * np.pi * np.round((old[joint.slides + k] - follow[0]) / (2 * np.pi))
                values.append(follow[:, None])
        out[:, where] = np.hstack(values) if values else 0.0
    return out


def _rotation_vectors(r: np.ndarray, old: np.ndarray | None) -> np.ndarray:
    """Rotation vectors (T, 3) of rotations (T, 3, 3), continuous in time, the first one next to `old`."""
    from scipy.spatial.transform import Rotation

    out = Rotation.from_matrix(r).as_rotvec()
    jumps = np.linalg.norm(np.diff(out, axis=0), axis=1) > 1.0
    if old is None and not jumps.any():
        return out
    if old is not None and not jumps.any() and np.linalg.norm(out[0] - old) < np.pi:
        return out
    first = 0 if old is not None else int(np.argmax(jumps)) + 1
    before = out[first - 1].tolist() if old is None else old.tolist()
    rows = out.tolist()
    for k in range(first, len(rows)):
        rows[k] = before = _unwrap(rows[k], before)
    return np.array(rows)


def _unwrap(vector: list[float], old: list[float]) -> list[float]:
    """The rotation vector of the same rotation nearest to the old one."""
    angle = math.sqrt(vector[0] ** 2 + vector[1] ** 2 + vector[2] ** 2)
    if angle < 1e-12:
        size = math.sqrt(old[0] ** 2 + old[1] ** 2 + old[2] ** 2)
        turns = round(size / (2 * math.pi))
        return vector if turns == 0 else [x / size * turns * 2 * math.pi for x in old]
    along = (vector[0] * old[0] + vector[1] * old[1] + vector[2] * old[2]) / angle
    factor = 1 + 2 * math.pi * round((along - angle) / (2 * math.pi)) / angle
    return [factor * x for x in vector]


def _solved_coordinates(system: System, q: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Coordinates of a user's reparameterization by the Gauss-Newton method, each from the one before."""
    k = kernels(system)
    out = np.empty((len(q), system.nd))
    u = near.copy()
    for t, row in enumerate(q):
        for _ in range(50):
            gap = row - flat(k.place(u))
            fix = np.linalg.lstsq(dense(k.place_jacobian(u)), gap, rcond=None)[0]
            u = u + fix
            if np.abs(fix).max(initial=0.0) < 1e-13 * (1 + np.abs(u).max(initial=0.0)):
                break
        if np.abs(row - flat(k.place(u))).max() > 1e-6 * (1 + np.abs(row).max()):
            raise ConvergenceError(f"no coordinates u with reparameterization(u) = q found at row {t} of q", step=t)
        out[t] = u
    return out


def configuration(system: System, u: Named | None = None) -> np.ndarray:
    """Configuration q (n,) of joint coordinates u (nd,), an array or a dict by name (others zero).

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> rod = RigidBody("rod", 1.0, (0, 1, 1), position=(0.5, 0, 0))
    >>> hinge = MultibodySystem([rod], [Joint("R", "ground", "rod")])
    >>> configuration(hinge, [np.pi / 2])[:3].round(12).tolist()
    [0.0, 0.5, 0.0]
    """
    return finite(flat(kernels(system).place(system.vector(u))), "configuration")


def assemble(system: System, u: Named | None = None, *, fixed: Sequence[str] | None = None) -> np.ndarray:
    """Coordinates (nd,) that close the loops, near u (an array, or a dict by name, others zero).

    `fixed` coordinates keep their value; by default those that a dict names. Raises `ConvergenceError` where the loops
    cannot be closed.

    >>> from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody
    >>> crank = RigidBody("crank", 1.0, (1, 1, 1), position=(0.5, 0, 0))
    >>> rod = RigidBody("rod", 1.0, (1, 1, 1), position=(1.5, 0, 0))
    >>> slider = MultibodySystem([crank, rod], [Joint("R", "ground", "crank"), Joint("R", "crank", "rod", point=(1, 0, 0))],
    ...                          constraints=lambda view: view.position("rod", (0.5, 0, 0))[1])  # its end stays on y = 0
    >>> assemble(slider, {"crank": 0.5}).round(9).tolist()
    [0.5, -1.0]
    """
    k = kernels(system)
    found = system.vector(u, "u").copy()
    if not k.mechanics.nc:
        return found
    held = tuple(u) if fixed is None and isinstance(u, Mapping) else tuple(fixed or ())
    for name in held:
        if name not in system.coordinates:
            raise ValueError(f"fixed: unknown name {name!r}; known are {', '.join(system.coordinates)}")
    free = [i for i, c in enumerate(system.coordinates) if c not in held]
    size = np.inf
    for _ in range(60):
        gap, slope = (dense(x) for x in k.closing(found))
        size = float(np.abs(gap).max())
        if size < 1e-13:
            return found
        fix = np.linalg.lstsq(slope[:, free], -gap[:, 0], rcond=1e-10)[0]
        found[free] += fix * min(1.0, 0.5 / max(float(np.abs(fix).max(initial=0.0)), 1e-300))
    if size < 1e-9:
        return found
    kept = f" with {', '.join(held)} as given" if held else ""
    raise ConvergenceError(
        f"the loops cannot be closed near the given coordinates{kept}: a gap of {size:.3g} is left",
        residual=size,
        state=found,
        hint="start closer to a closed configuration, or hold fewer coordinates",
    )


def condition_numbers(system: System, h: float, u: Named | None = None) -> tuple[float, float]:
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
    start, h = system.vector(u), number(h, "h")
    if not h > 0:
        raise ValueError(f"h must be positive, not {h}")
    q, tau = flat(k.place(start)), np.zeros(system.nu)
    found = []
    for chart in (k.directors, k.redundant):
        rest = np.zeros(chart.rows), np.zeros(chart.rank)
        matrix_ = k.slope(chart, k.mechanics.nc)(q, q, start, tau, h, h, np.zeros(0), *rest)
        found.append(float(np.linalg.cond(finite(dense(matrix_), "the Newton matrix"))))
    return found[0], found[1]
