"""Costs written as CasADi expressions of named states, inputs and frame positions; derivatives are exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array
from .costs import BoundCost, Cost, Hessian, Horizon, UserFunction, of_coordinates


class Symbols:
    """What the function of an `ExpressionCost` receives: symbols of one time point.

    `s["theta"]` a state, an input or a parameter by name; `s.position("bob")` world position of a frame (3),
    `s.rotation("bob")` its rotation matrix, `s.velocity("bob")` its velocity (3, world axes; of a variable's name a number);
    `s.x` (nx), `s.u` (nu) the vectors, `s.t` the time. Inputs that bear the
    name of a state (the next value of a kinematic variable) are reached by `s.input(name)`.
    """

    def __init__(self, system: Horizon, parameters: tuple[str, ...]) -> None:
        import casadi as ca

        from ..symbolic import Symbolic

        self._system = system
        self._symbolic = None if system.model is None else Symbolic(system.model)
        q = ca.SX(0, 1) if self._symbolic is None else self._symbolic.q
        rest = [ca.SX.sym(str(name)) for name in system.x_names[q.numel() :]]
        self.x = ca.vertcat(q, *rest)
        self.u = ca.vertcat(ca.SX(0, 1), *(ca.SX.sym(f"u_{name}") for name in system.u_names))
        self.t = ca.SX.sym("t")
        self.parameters = ca.vertcat(ca.SX(0, 1), *(ca.SX.sym(name) for name in parameters))
        self._names = parameters
        self._v: Any = None

    def __getitem__(self, name: str) -> Any:
        system = self._system
        if name in system.x_names:
            return self.x[list(system.x_names).index(name)]
        if name in system.u_names:
            return self.input(name)
        if name in self._names:
            return self.parameters[self._names.index(name)]
        known = ", ".join((*system.x_names, *system.u_names, *self._names))
        raise ValueError(f"ExpressionCost: unknown name {name!r}; known are {known}")

    def input(self, name: str) -> Any:
        """An input by name."""
        if name not in self._system.u_names:
            raise ValueError(f"ExpressionCost: unknown input {name!r}; known are {', '.join(self._system.u_names)}")
        return self.u[list(self._system.u_names).index(name)]

    def position(self, frame: str) -> Any:
        """World position of a frame, 3 (m)."""
        return self._of_model("position").position(frame)

    def rotation(self, frame: str) -> Any:
        """Rotation matrix of a frame, 3x3."""
        return self._of_model("rotation").rotation(frame)

    def velocity(self, name: str) -> Any:
        """Velocity of a variable, or of a frame's origin (3, world axes): that of the momenta, along the constraints."""
        symbolic = self._of_model("velocity")
        model = symbolic.model
        if name not in model.variables and name in model.frame_names:
            return symbolic.ca.substitute(symbolic.velocity(name), symbolic.v, self._velocities())
        return self._velocities()[model.velocity_index(name)]

    def _velocities(self) -> Any:
        """v (nv) of the state: M v = p + C' mu, C v + b = 0 in the rows of dynamic variables; v itself where x has it."""
        if self._v is None:
            s, ca = self._of_model("velocity"), self._symbolic.ca  # type: ignore[union-attr]
            n, nd, nc = s.model.nq, s.model.nd, s.model.nc
            rates, names = self.x[n:], self._system.x_names[n:]
            if all(name.startswith("v.") for name in names):
                self._v = rates
            else:
                moving = s.velocity_constraints()
                M, h = s.mass_matrix(), ca.vertcat(s.constraint_jacobian(), ca.jacobian(moving, s.v))
                offset = ca.vertcat(ca.SX.zeros(s.model.nh), ca.substitute(moving, s.v, ca.SX.zeros(s.model.nv)))
                p, rho = rates[:nd], rates[nd:]
                top, bottom = p - M[:nd, nd:] @ rho, -offset - h[:, nd:] @ rho
                zero = ca.SX(nc, nc)
                K = ca.vertcat(ca.horzcat(M[:nd, :nd], h[:, :nd].T), ca.horzcat(h[:, :nd], zero))
                self._v = ca.vertcat(ca.solve(K, ca.vertcat(top, bottom))[:nd], rho)
        return self._v

    def _of_model(self, what: str) -> Any:
        if self._symbolic is None:
            raise ValueError(f"ExpressionCost: a {what} needs a system with a model")
        return self._symbolic


@dataclass(frozen=True, eq=False)
class ExpressionCost(Cost):
    """A cost given by functions of `Symbols`, returning a CasADi scalar: `stage` at every step, `terminal` at the end.

    `parameters` are numbers or arrays over time (N or N+1 values) that the expressions use by name.

    >>> import numpy as np
    >>> reach = ExpressionCost(
    ...     stage=lambda s: 0.01 * s["push"] ** 2,
    ...     terminal=lambda s: 100 * (s.position("bob")[1] - s["height"]) ** 2,
    ...     parameters={"height": 1.0},
    ... )
    """

    stage: UserFunction | None = None
    terminal: UserFunction | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def bind(self, system: Horizon) -> BoundCost:
        """See `Cost.bind`."""
        if self.stage is None and self.terminal is None:
            raise ValueError("ExpressionCost needs a stage or a terminal function")
        return of_coordinates(system, _BoundExpression(self, system))


class _BoundExpression:
    """Derivatives are by the coordinates of x."""

    def __init__(self, cost: ExpressionCost, system: Horizon) -> None:
        N = system.steps
        names = tuple(cost.parameters)
        self._nx, self._nu, self._N = system.nx, system.nu, N
        values = np.zeros((N + 1, len(names)))
        for i, name in enumerate(names):
            v = np.asarray(cost.parameters[name], dtype=float)
            if v.ndim and v.shape not in ((N,), (N + 1,)):
                raise ValueError(f"parameter {name!r} must be a number or have {N} or {N + 1} values, not {v.shape}")
            if not np.isfinite(v).all():
                raise ValueError(f"parameter {name!r} is not finite")
            values[: len(v) if v.ndim else N + 1, i] = v
            if v.shape == (N,):
                values[N, i] = v[-1]
        self._extra = np.column_stack([system.t[: N + 1], values])
        self._stage = None if cost.stage is None else _Mapped(cost.stage, system, names, N)
        self._terminal = None if cost.terminal is None else _Mapped(cost.terminal, system, names, 1)

    def _parts(self, X: Array, U: Array) -> list[tuple[_Mapped, slice, Array]]:
        parts = []
        if self._stage is not None:
            parts.append((self._stage, slice(0, self._N), np.hstack([X[:-1], U, self._extra[:-1]])))
        if self._terminal is not None:
            last = np.hstack([X[-1:], np.zeros((1, self._nu)), self._extra[-1:]])
            parts.append((self._terminal, slice(self._N, self._N + 1), last))
        return parts

    def values(self, X: Array, U: Array) -> Array:
        out = np.zeros(self._N + 1)
        for f, where, a in self._parts(X, U):
            out[where] = f.value(a)
        return out

    def gradient(self, X: Array, U: Array) -> tuple[Array, Array]:
        g = np.zeros((self._N + 1, self._nx + self._nu))
        for f, where, a in self._parts(X, U):
            g[where] = f.gradient(a)
        return np.ascontiguousarray(g[:, : self._nx]), np.ascontiguousarray(g[:-1, self._nx :])

    def hessian(self, X: Array, U: Array) -> Hessian:
        n = self._nx
        H = np.zeros((self._N + 1, n + self._nu, n + self._nu))
        for f, where, a in self._parts(X, U):
            H[where] = f.hessian(a)
        cut = [np.ascontiguousarray(b) for b in (H[:, :n, :n], H[:-1, :n, n:], H[:-1, n:, n:])]
        return cut[0], cut[1], cut[2]


class _Mapped:
    """An expression of (x, u, t, parameters) with its gradient and Hessian, evaluated for many time points at once."""

    def __init__(self, user: UserFunction, system: Horizon, names: tuple[str, ...], count: int) -> None:
        import casadi as ca

        s = Symbols(system, names)
        value = ca.SX(user(s))
        if value.shape != (1, 1):
            raise ValueError(f"the function of an ExpressionCost must return a scalar, not {value.shape}")
        z = ca.vertcat(s.x, s.u)
        a = ca.vertcat(z, s.t, s.parameters)
        unknown = [v for v in ca.symvar(value) if not ca.depends_on(a, v)]
        if unknown:
            raise ValueError(f"ExpressionCost uses symbols that do not belong to the system: {unknown}")
        self._n, self._count = z.numel(), count
        g = ca.densify(ca.gradient(value, z))
        H = ca.densify(ca.hessian(value, z)[0])
        self._value, self._gradient, self._hessian = (
            ca.Function(n, [a], [e]).map(count) for n, e in (("v", ca.densify(value)), ("g", g), ("h", H))
        )

    def value(self, a: Array) -> Array:
        return self._call(self._value, a, (self._count,))

    def gradient(self, a: Array) -> Array:
        return self._call(self._gradient, a, (self._count, self._n))

    def hessian(self, a: Array) -> Array:
        return self._call(self._hessian, a, (self._count, self._n, self._n))

    @staticmethod
    def _call(function: Any, a: Array, shape: tuple[int, ...]) -> Array:
        # CasADi's buffers are column-major: columns are time points, exactly the rows of a C-ordered array
        a = np.ascontiguousarray(a)
        out = np.empty(shape)
        buffer, run = function.buffer()
        buffer.set_arg(0, memoryview(a))  # type: ignore[arg-type]
        buffer.set_res(0, memoryview(out))  # type: ignore[arg-type]
        run()
        return out
