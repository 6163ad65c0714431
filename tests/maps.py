"""One-steps written in Python, for tests that must not depend on the core: an RK4 map, a map with no more than the protocol, a rotating body."""

from __future__ import annotations

import numpy as np

import dalembert as da
from dalembert.integrate.onestep import slopes


class RK4(da.OneStepMap):
    """The classical Runge-Kutta step of x = (q, v) with the forces held; A, B by the chain rule through the stages, second order by default."""

    def __init__(self, model: da.Model, dt: float) -> None:
        self.model, self.dt = model, dt
        self.nx, self.nu = 2 * model.nq, model.nu
        self.x_names = (*model.variables, *(f"v.{name}" for name in model.variables))
        self.u_names = model.inputs
        self._rate = da.EulerModel(model, 1.0)

    def _stages(self, x, u):
        """(weight, derivatives of the slope by (x, u)) of the four stages."""
        n = self.nx
        slope, by = np.zeros(n), np.zeros((n, n + self.nu))
        for at, weight in ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6)):
            here = x + at * self.dt * slope
            A, B = self._rate.linearize(here, u)
            inner = at * self.dt * by
            inner[:, :n] += np.eye(n)
            by = (A - np.eye(n)) @ inner
            by[:, n:] += B
            slope = self._rate.f(here, u) - here
            yield weight, by

    def f(self, x, u, k=0):
        rate = lambda y: self._rate.f(y, u) - y  # noqa: E731
        h = self.dt
        k1 = rate(x)
        k2 = rate(x + h / 2 * k1)
        k3 = rate(x + h / 2 * k2)
        return x + h / 6 * (k1 + 2 * (k2 + k3) + rate(x + h * k3))

    def linearize(self, x, u, k=0):
        D = self.dt * sum(weight * by for weight, by in self._stages(x, u))
        return np.eye(self.nx) + D[:, : self.nx], D[:, self.nx :]


class Bare:
    """A damped pendulum by a semi-explicit Euler step: every member that `OneStep` names, and nothing inherited."""

    nx = ndx = 2
    nu = 1
    dt = 0.1
    x_names = dx_names = ("theta", "omega")
    u_names = ("torque",)

    def f(self, x, u, k=0):
        omega = x[1] + self.dt * (u[0] - 9.8 * np.sin(x[0]) - 0.1 * x[1])
        return np.array([x[0] + self.dt * omega, omega])

    def linearize(self, x, u, k=0):
        h = self.dt
        row = np.array([-9.8 * h * np.cos(x[0]), 1 - 0.1 * h])
        return np.array([np.array([1.0, 0.0]) + h * row, row]), np.array([[h * h], [h]])

    def adjoint(self, x, u, k, z):
        A, B = self.linearize(x, u, k)
        return A.T @ z, B.T @ z

    def second_order(self, x, u, k, z):
        bend = 9.8 * self.dt * np.sin(x[0]) * (self.dt * z[0] + z[1])
        return np.array([[bend, 0.0], [0.0, 0.0]]), np.zeros((2, 1)), np.zeros((1, 1))

    def difference(self, x0, x1):
        return x1 - x0

    def retract(self, x, dx):
        return x + dx

    def f_batch(self, X, u, k=0):
        return np.stack([self.f(x, u, k) for x in X])


# ---- rotations: unit quaternions (w, x, y, z)


def multiply(a, b):
    (aw, ax, ay, az), (bw, bx, by, bz) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def exponential(r):
    """The quaternion of a rotation vector (..., 3)."""
    half = np.linalg.norm(r, axis=-1, keepdims=True) / 2
    return np.concatenate([np.cos(half), np.sinc(half / np.pi) * r / 2], axis=-1)


def logarithm(q):
    """The shortest rotation vector of a quaternion (..., 4)."""
    q = np.where(q[..., :1] < 0, -q, q)
    sine = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, q[..., :1])
    small = sine < 1e-8
    return np.where(small, 2.0, angle / np.where(small, 1.0, sine)) * q[..., 1:]


def conjugate(q):
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def turn(q, v):
    """The vector v turned by q."""
    zero = np.zeros((*np.broadcast_shapes(q.shape[:-1], np.shape(v)[:-1]), 1))
    return multiply(multiply(q, np.concatenate([zero, np.broadcast_to(v, (*zero.shape[:-1], 3))], -1)), conjugate(q))[
        ..., 1:
    ]


def hat(v):
    """The matrix (..., 3, 3) of the cross product with v (..., 3)."""
    x, y, z = np.moveaxis(v, -1, 0)
    o = np.zeros_like(x)
    return np.stack([o, -z, y, z, o, -x, -y, x, o], axis=-1).reshape(*np.shape(v), 3)


def right_jacobian(r):
    """exp(r + dr) = exp(r) exp(right_jacobian(r) dr) to first order, (..., 3, 3)."""
    angle = np.linalg.norm(r, axis=-1)[..., None, None]
    safe = np.where(angle < 1e-4, 1.0, angle)
    a = np.where(angle < 1e-4, 0.5 - angle**2 / 24, (1 - np.cos(safe)) / safe**2)
    b = np.where(angle < 1e-4, 1 / 6 - angle**2 / 120, (safe - np.sin(safe)) / safe**3)
    return np.eye(3) - a * hat(r) + b * hat(r) @ hat(r)


class Body(da.OneStepMap):
    """A rigid body turned by torques: x = (unit quaternion, momentum in the body), nx = 7, ndx = 6; an explicit step on the group,

        q' = q exp(dt J^-1 L),   L' = exp(-dt J^-1 L) L + dt torque,

    which keeps the momentum in space to rounding when there is no torque. Second order by default.
    """

    nx, ndx, nu = 7, 6, 3
    x_names = ("qw", "qx", "qy", "qz", "Lx", "Ly", "Lz")
    dx_names = ("rx", "ry", "rz", "Lx", "Ly", "Lz")
    u_names = ("tx", "ty", "tz")
    inertia = np.array([1.0, 1.5, 2.2])

    def __init__(self, dt=0.1):
        self.dt = dt

    def f(self, x, u, k=0):
        q, L = x[..., :4], x[..., 4:]
        way = exponential(self.dt * L / self.inertia)
        return np.concatenate([multiply(q, way), turn(conjugate(way), L) + self.dt * u], axis=-1)

    def f_batch(self, X, u, k=0):
        return self.f(X, u, k)

    def linearize(self, x, u, k=0):
        L = x[4:]
        r = self.dt * L / self.inertia
        back = np.stack([turn(conjugate(exponential(r)), e) for e in np.eye(3)], axis=-1)
        by_L = right_jacobian(r) * (self.dt / self.inertia)
        A = np.block([[back, by_L], [np.zeros((3, 3)), hat(back @ L) @ by_L + back]])
        return A, np.vstack([np.zeros((3, 3)), self.dt * np.eye(3)])

    def difference(self, x0, x1):
        x0, x1 = np.broadcast_arrays(x0, x1)
        return np.concatenate(
            [logarithm(multiply(conjugate(x0[..., :4]), x1[..., :4])), x1[..., 4:] - x0[..., 4:]], axis=-1
        )

    def retract(self, x, dx):
        q = multiply(x[..., :4], exponential(dx[..., :3]))
        q = q / np.linalg.norm(q, axis=-1, keepdims=True)
        rest = x[..., 4:] + dx[..., 3:]
        return np.concatenate([np.broadcast_to(q, (*rest.shape[:-1], 4)), rest], axis=-1)

    def difference_jacobian(self, x0, x1):
        e = self.difference(x0, x1)
        out = np.broadcast_to(np.eye(6), (*e.shape[:-1], 6, 6)).copy()
        out[..., :3, :3] = np.linalg.inv(right_jacobian(e[..., :3]))
        return out

    def retract_jacobian(self, x):
        out = np.zeros((*x.shape[:-1], 7, 6))
        for i in range(3):
            out[..., :4, i] = multiply(x[..., :4], np.broadcast_to(np.eye(4)[i + 1] / 2, x[..., :4].shape))
        out[..., 4:, 3:] = np.eye(3)
        return out

    def neutral(self):
        return np.array([1.0, 0, 0, 0, 0, 0, 0])


# two directions in space, seen from the body, as a star tracker sees them
STARS = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])


def stars(body: Body) -> da.Measurement:
    """The directions of two stars, seen from the body: z (6,)."""

    def h(x):
        return turn(conjugate(x[:4]), STARS).ravel()

    return da.Measurement(
        h, lambda x: slopes(lambda d: h(body.retract(x, d)), 6), names=tuple(f"{s}.{a}" for s in "ab" for a in "xyz")
    )
