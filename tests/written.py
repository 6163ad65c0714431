"""A step of a model written out in CasADi with symbols in the place of parameters: what derivatives by them are checked against."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np

from dalembert import Model, PointToPoint, Spline
from dalembert.model.parameter import Parameter, Quantity
from dalembert.symbolic import Symbolic, spline_integral, spline_value

_OPERATIONS = {
    **{"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b},
    **{"**": lambda a, b: a**b, "neg": lambda a: -a, "sin": ca.sin, "cos": ca.cos, "sqrt": ca.sqrt},
}


class _Symbol(ca.SX):
    """A symbol that counts as a number that is not zero."""

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return False

    __hash__ = None  # type: ignore[assignment]


class Written(Symbolic):
    """`Symbolic` where these parameters are symbols, `theta` (n)."""

    def __init__(self, model: Model, names: list[str]) -> None:
        self.theta = ca.SX.sym("theta", len(names))
        self._symbols = dict(zip(names, ca.vertsplit(self.theta), strict=True))
        super().__init__(_View(model, self._put))  # type: ignore[arg-type]
        # constants of definitions are matrices of numbers, here of expressions
        self.ca = SimpleNamespace(**{name: getattr(ca, name) for name in dir(ca)})
        self.ca.DM = _matrix

    def _put(self, x: Any) -> Any:
        """The same with expressions in the place of quantities."""
        if isinstance(x, Parameter):
            return _Symbol(self._symbols[x.name]) if x.name in self._symbols else float(x)
        if isinstance(x, Quantity):
            found = _OPERATIONS[x.operation](*map(self._put, x.operands))
            return _Symbol(found) if isinstance(found, ca.SX) else found
        if isinstance(x, Spline):
            table = [self._put(row) for row in x.points]
            return x if all(isinstance(y, float) for row in table for y in row) else _Curve(x, table)
        if isinstance(x, (tuple, list)):
            return type(x)(map(self._put, x))
        if is_dataclass(x) and not isinstance(x, type):
            other = copy.copy(x)
            for f in fields(x):
                object.__setattr__(other, f.name, self._put(getattr(x, f.name)))
            if isinstance(x, PointToPoint):  # it looks at its directions again
                directions = self._put(x._vectors())
                object.__setattr__(other, "_vectors", lambda: directions)
            return other
        return x

    def spline(self, spline: Any, x: object) -> Any:
        return spline.over(lambda s: spline_value(s, x)) if isinstance(spline, _Curve) else super().spline(spline, x)

    def spline_integral(self, spline: Any, x: object) -> Any:
        if isinstance(spline, _Curve):
            return spline.over(lambda s: spline_integral(s, x))
        return super().spline_integral(spline, x)

    def step(self, x: Any, p: Any, u: Any, y: Any, lam: Any, dt: float) -> tuple[Any, Any]:
        """(r, c; p') of the midpoint rule (docs/kernels.md 9 and 19) between configurations x and y: its equations, and what follows."""
        nd = self.model.nd
        rates = self.velocity_constraints()
        L = ca.Function("L", [self.q, self.v, self.theta], [self.lagrangian()])
        F = ca.Function("F", [self.q, self.v, self.u, self.theta], [self.force()])
        C = ca.Function("C", [self.q, self.theta], [ca.vertcat(self.constraint_jacobian(), ca.jacobian(rates, self.v))])
        h = ca.Function("h", [self.q, self.theta], [self.h()])
        c = ca.Function("c", [self.q, self.v, self.theta], [rates])
        middle, rate = (x + y) / 2, (y - x) / dt
        discrete = dt * L(middle, rate, self.theta)
        force = dt / 2 * F(middle, rate, u, self.theta)[:nd]
        push = C(x, self.theta)[:, :nd].T @ lam
        r = p + ca.gradient(discrete, x)[:nd] + force - push
        after = ca.gradient(discrete, y)[:nd] + force
        end = ca.vertcat(h(y, self.theta), dt * c(middle, rate, self.theta))
        return ca.vertcat(r, end), after


class _View:
    """A model with other numbers in its frames and elements."""

    def __init__(self, model: Model, put: Any) -> None:
        self._model = model
        entries = []
        for e in model.frame_entries:
            other = copy.copy(e)
            object.__setattr__(other, "frame", _shallow(e.frame, put))
            entries.append(other)
        self.frame_entries = tuple(entries)
        self.elements = tuple(map(put, model.elements))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _shallow(frame: Any, put: Any) -> Any:
    """A frame with other numbers; its children are entries of their own."""
    if frame is None:
        return None
    other = copy.copy(frame)
    for name in ("value", "mass", "inertia", "com", "pitch"):
        object.__setattr__(other, name, put(getattr(frame, name)))
    return other


class _Curve:
    """A spline whose ordinates are expressions: it is linear in them."""

    def __init__(self, spline: Spline, table: list[Any]) -> None:
        self.spline, self.table = spline, table

    def over(self, function: Any) -> Any:
        total: Any = 0.0
        for i, row in enumerate(self.table):
            for j in range(1, len(row)):
                unit = [[r[0], *([0.0] * (len(r) - 1))] for r in self.spline.points]
                unit[i][j] = 1.0
                total = total + row[j] * function(Spline(unit))
        return total


def _matrix(values: Any) -> Any:
    rows = values if isinstance(values, list) else np.asarray(values).tolist()
    if rows and isinstance(rows[0], list):
        return ca.vertcat(*(ca.horzcat(*map(ca.SX, row)) for row in rows))
    return ca.vertcat(*map(ca.SX, rows))


_matrix.eye = ca.DM.eye  # type: ignore[attr-defined]


def step_by_parameters(model: Model, x: Any, u: Any, q: Any, lam: Any, dt: float, names: list[str]) -> dict[str, Any]:
    """What `da.step_by_parameters` gives for the midpoint rule, from its written equations at a solved step x -> q; hinges and sliders."""
    s, nq, nd = Written(model, names), model.nq, model.nd
    X, Y, P, U, lam_ = (ca.SX.sym(c, n) for c, n in (("x", nq), ("y", nq), ("p", nd), ("u", model.nu), ("l", model.nc)))
    equations, after = s.step(X, P, U, Y, lam_, dt)
    unknown = ca.vertcat(Y[:nd], lam_)
    every = [X, P, U, Y, lam_, s.theta]
    values = [float(model.parameters[name]) for name in names]
    at = (x[:nq], x[nq : nq + nd], u[: model.nu], q, lam, values)
    f = ca.Function(
        "f",
        every,
        [*(ca.jacobian(f, x) for f in (equations, after) for x in (unknown, s.theta)), equations],
    )
    K, by, after_z, after_by, left = (np.array(m) for m in f(*at))
    assert np.abs(left).max(initial=0.0) < 1e-11 * (10 + np.abs(x[nq:]).max(initial=0.0)), (
        "this is no step of the model"
    )
    z = -np.linalg.solve(K, by)
    return {"q": z[:nd], "p": after_z @ z + after_by, "lam": z[nd:]}
