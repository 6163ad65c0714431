"""System: a mutable mechanical system with a current state, as trep has it.

Frames, variables and elements are plain objects (structure.py) with a current state (state.py); the immutable dalembert
Model behind them is built when a number is asked for, and again after anything changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ConvergenceError
from ..model.model import Model
from .config import Config
from .dynamics import Derivatives, Dynamics
from .frame import Frame
from .state import Array, State
from .trajectory import load_trajectory, save_trajectory  # trep has them here too
from .translation import Kinematics, Translation, translate

__all__ = ["System", "load_trajectory", "save_trajectory"]


class System(State):
    """A mechanical system: frames, variables, potentials, forces, constraints, and a state (t, q, dq, ddq, u).

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.rz("theta"), [trep.ty(-1.0, name="bob", mass=1.0)]])
    >>> gravity = trep.potentials.Gravity(system, (0, -9.8, 0))
    >>> system.q = {"theta": 0.5}
    >>> system.f().round(6)
    array([-4.69837])
    """

    def __init__(self) -> None:
        super().__init__()
        self._world = Frame._world(self)

    def __repr__(self) -> str:
        return f"<System {self.nQd} dynamic, {self.nQk} kinematic, {self.nu} inputs, {self.nc} constraints>"

    # ---- the model behind it

    @property
    def model(self) -> Model:
        """The dalembert Model of the system as it is now, for everything that dalembert offers beyond trep."""
        dynamics = self._dynamics()
        if dynamics.user:
            raise NotImplementedError(
                "elements written in Python have no dalembert Model; use da.Potential, da.Force, ..."
            )
        return dynamics.model

    def _dynamics(self) -> Dynamics:
        found = self._points.get("dynamics")
        if found is None:
            found = self._points["dynamics"] = Dynamics(self)
        return found  # type: ignore[no-any-return]

    def _forget_tolerances(self) -> None:
        if "dynamics" in self._points:
            self._points["dynamics"].forget_tolerances()

    def _point(self, element: Any = None) -> Translation:
        """The model with all variables dynamic and one element, or none."""
        key = ("point", id(element))
        if key not in self._points:
            self._points[key] = translate(self, [] if element is None else [element], point=True)
        return self._points[key]  # type: ignore[no-any-return]

    def _symbolic(self, translation: Translation) -> Derivatives:
        key = ("symbolic", id(translation))
        if key not in self._points:
            self._points[key] = Derivatives(translation)
        return self._points[key]  # type: ignore[no-any-return]

    def _kinematics(self) -> Kinematics:
        found = self._memo.get("kinematics")
        if found is None:
            found = self._memo["kinematics"] = Kinematics(self._point(), self._q)
        return found  # type: ignore[no-any-return]

    def _keep(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    # ---- constraints and equilibria

    def _held_names(self, keep_kinematic: bool, constant: Any) -> list[Config]:
        held = [self.get_config(q) for q in (constant or ())]
        return held + [q for q in self._kinematic if keep_kinematic and q not in held]

    def satisfy_constraints(
        self,
        tolerance: float = 1e-10,
        verbose: bool = False,
        keep_kinematic: bool = False,
        constant_q_list: object = None,
    ) -> Array:
        """Move q to a near configuration with h(q) = 0 and return it; `constant_q_list` and, with keep_kinematic, the
        kinematic variables stay. Raises ConvergenceError and leaves q as it was when there is none."""
        held = self._held_names(keep_kinematic, constant_q_list)
        dynamics = self._dynamics()
        if not dynamics.user:
            from ..mechanics import satisfy_constraints

            names = [dynamics.map.names.config(c) for c in held]
            x = satisfy_constraints(dynamics.model, self._q[dynamics.q], fixed=names, keep_kinematic=False)
            self.q = x[dynamics.inverse]
            return self.q
        free = [c.index for c in self.configs if c not in held]
        x = self._q.copy()
        for _ in range(100):
            h, slope = dynamics.constraints(x)
            if not h.size or np.abs(h).max() < 1e-12 * (1 + np.abs(slope).max()):
                self.q = x
                return self.q
            x[free] -= np.linalg.lstsq(slope[:, free], h, rcond=1e-12)[0]
        if np.abs(h).max() < tolerance:
            self.q = x
            return self.q
        raise ConvergenceError("no configuration satisfies the constraints", residual=float(np.abs(h).max()), state=x)

    def minimize_potential_energy(
        self,
        tolerance: float = 1e-10,
        verbose: bool = False,
        keep_kinematic: bool = False,
        constant_q_list: object = None,
    ) -> Array:
        """Move q to a near minimum of the potential energy under the constraints, with dq = 0, and return it."""
        held = self._held_names(keep_kinematic, constant_q_list)
        dynamics = self._dynamics()
        if not dynamics.user:
            from ..mechanics import equilibrium

            point = translate(self, [*self._potentials, *self._constraints], point=True)
            names = [point.names.config(c) for c in held]
            x = np.empty(self.nQ)
            x[point.q] = equilibrium(point.model, self._q[point.q], fixed=names, tolerance=tolerance)
        else:
            x = self._minimize(dynamics, held, tolerance)
        self.q, self.dq = x, 0.0
        return self.q

    def _minimize(self, dynamics: Dynamics, held: list[Config], tolerance: float) -> Array:
        from scipy.optimize import minimize

        free = [c.index for c in self.configs if c not in held]
        start, rest = self._q.copy(), np.zeros(self.nQ)

        def full(y: Array) -> Array:
            x = start.copy()
            x[free] = y
            return x

        conditions = {
            "type": "eq",
            "fun": lambda y: dynamics.constraints(full(y))[0],
            "jac": lambda y: dynamics.constraints(full(y))[1][:, free],
        }
        found = minimize(
            lambda y: dynamics.energy(full(y), rest)[1],
            start[free],
            jac=lambda y: -dynamics.first(full(y), rest)[0][free],
            method="SLSQP",
            constraints=[conditions] if self.nc else [],
            options={"ftol": tolerance * 1e-3, "maxiter": 1000},
        )
        if not found.success:
            raise ConvergenceError(f"no minimum of the potential energy found: {found.message}", state=full(found.x))
        return full(found.x)

    # ---- the Lagrangian

    def total_energy(self) -> float:
        """Kinetic plus potential energy."""
        return sum(self._keep("energy", lambda: self._dynamics().energy(self._q, self._dq)))

    def L(self) -> float:
        """Kinetic minus potential energy."""
        t, v = self._keep("energy", lambda: self._dynamics().energy(self._q, self._dq))
        return float(t - v)

    def _index(self, q: Any) -> Any:
        return slice(None) if q is None else self._config_index(q)

    def _first(self) -> Any:
        return self._keep("L1", lambda: self._dynamics().first(self._q, self._dq))

    def _second(self) -> Any:
        return self._keep("L2", lambda: self._dynamics().second(self._q, self._dq))

    def _third(self, q: Any) -> Any:
        """Derivatives of `_second` by variable q."""
        i = self._config_index(q)
        return self._keep(("L3", i), lambda: self._dynamics().third(self._q, self._dq, i))

    def L_dq(self, q1: object = None) -> Any:
        """dL/dq1."""
        return _plain(self._first()[0][self._index(q1)])

    def L_ddq(self, dq1: object = None) -> Any:
        """dL/ddq1."""
        return _plain(self._first()[1][self._index(dq1)])

    def L_dqdq(self, q1: object = None, q2: object = None) -> Any:
        """d2L/dq1 dq2."""
        return _plain(self._second()[0][self._index(q1), self._index(q2)])

    def L_ddqdq(self, dq1: object = None, q2: object = None) -> Any:
        """d2L/ddq1 dq2."""
        return _plain(self._second()[1].T[self._index(dq1), self._index(q2)])

    def L_ddqddq(self, dq1: object = None, dq2: object = None) -> Any:
        """d2L/ddq1 ddq2."""
        return _plain(self._second()[2][self._index(dq1), self._index(dq2)])

    def L_dqdqdq(self, q1: object, q2: object = None, q3: object = None) -> Any:
        """d3L/dq1 dq2 dq3."""
        return _plain(self._third(q1)[0][self._index(q2), self._index(q3)])

    def L_ddqdqdq(self, dq1: object, q2: object, q3: object = None) -> Any:
        """d3L/ddq1 dq2 dq3."""
        return _plain(self._third(q2)[1].T[self._index(dq1), self._index(q3)])

    def L_ddqddqdq(self, dq1: object, dq2: object, q3: object) -> Any:
        """d3L/ddq1 ddq2 dq3."""
        return _plain(self._third(q3)[2][self._index(dq1), self._index(dq2)])

    def _fourth(self, velocities: Sequence[Any], variables: Sequence[Any]) -> float:
        # a user potential has no velocity in it: the core's model is all that these derivatives see
        translation = self._dynamics().map
        name = [[translation.names.config(self.get_config(q)) for q in part] for part in (variables, velocities)]
        return self._symbolic(translation).derivative("L", *name)

    def L_ddqdqdqdq(self, dq1: object, q2: object, q3: object, q4: object) -> float:
        """d4L/ddq1 dq2 dq3 dq4."""
        return self._fourth([dq1], [q2, q3, q4])

    def L_ddqddqdqdq(self, dq1: object, dq2: object, q3: object, q4: object) -> float:
        """d4L/ddq1 ddq2 dq3 dq4."""
        return self._fourth([dq1, dq2], [q3, q4])

    # ---- continuous dynamics: (ddq of dynamic variables; lambda) and derivatives by (q, dq, u, ddqk)

    def _rates(self, order: int) -> Any:
        def make() -> Any:
            k = self._ddq[self.nQd :]
            found = self._dynamics().acceleration(self._q, self._dq, self._u, k, self._t, order)
            self._ddq[: self.nQd] = found[0][: self.nQd]
            return found

        for higher in range(order, 3):
            if ("f", higher) in self._memo:
                return self._memo["f", higher]
        return self._keep(("f", order), make)

    def _rows(self, kind: str, part: Any) -> Any:
        """Rows of (ddq; lambda): of a variable or constraint, or all of a kind."""
        nd = self.nQd
        if kind == "f":
            if part is None:
                return slice(0, nd)
            q = self.get_config(part)
            if q.kinematic:
                raise ValueError(f"{q.name!r} is kinematic: its acceleration is given, not computed")
            return q._index
        if part is None:
            return slice(nd, None)
        return nd + self.get_constraint(part).index

    def _columns(self, kind: str, part: Any) -> Any:
        nq, nu = self.nQ, self.nu
        if kind == "u":
            start, count = 2 * nq, nu
            at = None if part is None else self._input_index(part)
        elif kind == "k":
            start, count = 2 * nq + nu, self.nQk
            at = None if part is None else self.get_config(part).k_index
            if at == -1:
                raise ValueError(f"{self.get_config(part).name!r} is no kinematic variable")
        else:
            start, count = (0 if kind == "q" else nq), nq
            at = None if part is None else self._config_index(part)
        return slice(start, start + count) if at is None else start + at

    def _d1(self, kind: str, row: Any, by: str, part: Any) -> Any:
        return _plain(self._rates(1)[1][self._rows(kind, row), self._columns(by, part)])

    def _d2(self, kind: str, row: Any, by1: str, part1: Any, by2: str, part2: Any) -> Any:
        # [in1, in2, out], as trep has it
        table = self._rates(2)[2].transpose(1, 2, 0)
        return _plain(table[self._columns(by1, part1)][..., self._columns(by2, part2), :][..., self._rows(kind, row)])

    def f(self, q: object = None) -> Any:
        """Accelerations of the dynamic variables (or of one), also written to `ddqd`."""
        return _plain(self._rates(0)[0][self._rows("f", q)])

    def f_dq(self, q: object = None, q1: object = None) -> Any:
        """df/dq1, [out, in]."""
        return self._d1("f", q, "q", q1)

    def f_ddq(self, q: object = None, dq1: object = None) -> Any:
        """df/ddq1."""
        return self._d1("f", q, "v", dq1)

    def f_dddk(self, q: object = None, k1: object = None) -> Any:
        """df by the acceleration of a kinematic variable."""
        return self._d1("f", q, "k", k1)

    def f_du(self, q: object = None, u1: object = None) -> Any:
        """df/du1."""
        return self._d1("f", q, "u", u1)

    def f_dqdq(self, q: object = None, q1: object = None, q2: object = None) -> Any:
        """d2f/dq1 dq2, [in1, in2, out]."""
        return self._d2("f", q, "q", q1, "q", q2)

    def f_ddqdq(self, q: object = None, dq1: object = None, q2: object = None) -> Any:
        """d2f/ddq1 dq2."""
        return self._d2("f", q, "v", dq1, "q", q2)

    def f_ddqddq(self, q: object = None, dq1: object = None, dq2: object = None) -> Any:
        """d2f/ddq1 ddq2."""
        return self._d2("f", q, "v", dq1, "v", dq2)

    def f_dddkdq(self, q: object = None, k1: object = None, q2: object = None) -> Any:
        """d2f by a kinematic acceleration and q2."""
        return self._d2("f", q, "k", k1, "q", q2)

    def f_dudq(self, q: object = None, u1: object = None, q2: object = None) -> Any:
        """d2f/du1 dq2."""
        return self._d2("f", q, "u", u1, "q", q2)

    def f_duddq(self, q: object = None, u1: object = None, dq2: object = None) -> Any:
        """d2f/du1 ddq2."""
        return self._d2("f", q, "u", u1, "v", dq2)

    def f_dudu(self, q: object = None, u1: object = None, u2: object = None) -> Any:
        """d2f/du1 du2."""
        return self._d2("f", q, "u", u1, "u", u2)

    def lambda_(self, constraint: object = None) -> Any:
        """Constraint forces: d/dt L_dq - L_q = F + Dh^T lambda."""
        return _plain(self._rates(0)[0][self._rows("lambda", constraint)])

    def lambda_dq(self, constraint: object = None, q1: object = None) -> Any:
        """dlambda/dq1."""
        return self._d1("lambda", constraint, "q", q1)

    def lambda_ddq(self, constraint: object = None, dq1: object = None) -> Any:
        """dlambda/ddq1."""
        return self._d1("lambda", constraint, "v", dq1)

    def lambda_dddk(self, constraint: object = None, k1: object = None) -> Any:
        """dlambda by a kinematic acceleration."""
        return self._d1("lambda", constraint, "k", k1)

    def lambda_du(self, constraint: object = None, u1: object = None) -> Any:
        """dlambda/du1."""
        return self._d1("lambda", constraint, "u", u1)

    def lambda_dqdq(self, constraint: object = None, q1: object = None, q2: object = None) -> Any:
        """d2lambda/dq1 dq2."""
        return self._d2("lambda", constraint, "q", q1, "q", q2)

    def lambda_ddqdq(self, constraint: object = None, dq1: object = None, q2: object = None) -> Any:
        """d2lambda/ddq1 dq2."""
        return self._d2("lambda", constraint, "v", dq1, "q", q2)

    def lambda_ddqddq(self, constraint: object = None, dq1: object = None, dq2: object = None) -> Any:
        """d2lambda/ddq1 ddq2."""
        return self._d2("lambda", constraint, "v", dq1, "v", dq2)

    def lambda_dddkdq(self, constraint: object = None, k1: object = None, q2: object = None) -> Any:
        """d2lambda by a kinematic acceleration and q2."""
        return self._d2("lambda", constraint, "k", k1, "q", q2)

    def lambda_dudq(self, constraint: object = None, u1: object = None, q2: object = None) -> Any:
        """d2lambda/du1 dq2."""
        return self._d2("lambda", constraint, "u", u1, "q", q2)

    def lambda_duddq(self, constraint: object = None, u1: object = None, dq2: object = None) -> Any:
        """d2lambda/du1 ddq2."""
        return self._d2("lambda", constraint, "u", u1, "v", dq2)

    def lambda_dudu(self, constraint: object = None, u1: object = None, u2: object = None) -> Any:
        """d2lambda/du1 du2."""
        return self._d2("lambda", constraint, "u", u1, "u", u2)

    # ---- checks of derivatives

    def _test(
        self, what: str, func: Any, derivative: Any, delta: float, tolerance: float, verbose: bool, test_name: str
    ) -> bool:
        kept = getattr(self, what)
        failed = []
        try:
            for q in self.configs:
                x = kept.copy()
                x[q.index] = kept[q.index] + delta
                setattr(self, what, x)
                above = np.array(func())
                x[q.index] = kept[q.index] - delta
                setattr(self, what, x)
                below = np.array(func())
                setattr(self, what, kept)
                error = float(np.linalg.norm(np.array(derivative(q)) - (above - below) / (2 * delta)))
                if not error <= tolerance:
                    failed.append((q.name, error))
        finally:
            setattr(self, what, kept)
        if verbose:
            for name, error in failed:
                print(f"Test '{test_name}' failed for the derivative by {name!r}: error {error:g} > {tolerance:g}")
            print(f"{len(failed)} of {self.nQ} tests failed" if failed else f"{self.nQ} tests passing")
        return not failed

    def test_derivative_dq(
        self,
        func: Callable[[], Any],
        func_dq: Callable[[Config], Any],
        delta: float = 1e-6,
        tolerance: float = 1e-7,
        verbose: bool = False,
        test_name: str = "<unnamed>",
    ) -> bool:
        """Check func_dq(q) against central differences of func() in q; the state is as before afterwards."""
        return self._test("q", func, func_dq, delta, tolerance, verbose, test_name)

    def test_derivative_ddq(
        self,
        func: Callable[[], Any],
        func_ddq: Callable[[Config], Any],
        delta: float = 1e-6,
        tolerance: float = 1e-7,
        verbose: bool = False,
        test_name: str = "<unnamed>",
    ) -> bool:
        """Check func_ddq(q) against central differences of func() in dq."""
        return self._test("dq", func, func_ddq, delta, tolerance, verbose, test_name)


def _plain(value: Any) -> Any:
    """A float for one number, else an array of the caller's own."""
    return float(value) if np.ndim(value) == 0 else np.array(value)
