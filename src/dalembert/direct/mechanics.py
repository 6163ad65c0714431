"""What a transcription needs of a model: CasADi functions, and the quantities that costs and conditions may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ModelError
from ..model.model import Model
from ..symbolic import Quantities, Symbolic


class Mechanics:
    """Derivatives of the Lagrangian, forces and constraints as CasADi functions of q, v (nq) and u (nu).

    `lq(q, v)`, `lv(q, v)` (dynamic rows, nd), `momentum(q, v)` (nd), `force(q, v, u)` (nd), `h(q)` (nh), `dh(q)`
    (nh, nq), `mass(q)` (nd, nq), `curvature(q, v)` (nd, nq): d2L/dv dq.
    """

    def __init__(self, model: Model) -> None:
        import casadi as ca

        model.require_no_contacts("dmoc", limits=True)
        model.require_holonomic("dmoc", "optimize")
        for ball in model.configuration.places:
            raise ModelError(
                f"ball '{ball.name}': dmoc needs coordinates that are numbers; optimize() takes balls, or use Euler angles here "
                "(spherical_euler, free_euler)",
                culprit=ball.name,
            )
        s = self.symbolic = Symbolic(model)
        d = slice(0, model.nd)
        lagrangian = s.lagrangian()
        lv = ca.gradient(s.kinetic_energy(), s.v)[d]
        self.model = model
        self.lq = ca.Function("lq", [s.q, s.v], [ca.gradient(lagrangian, s.q)[d]])
        self.lv = ca.Function("lv", [s.q, s.v], [lv])
        self.mass = ca.Function("mass", [s.q], [ca.jacobian(lv, s.v)])
        self.curvature = ca.Function("curvature", [s.q, s.v], [ca.jacobian(lv, s.q)])
        self.force = ca.Function("force", [s.q, s.v, s.u], [s.force()[d]])
        self.h = ca.Function("h", [s.q], [s.h()])
        self.dh = ca.Function("dh", [s.q], [s.constraint_jacobian()])

    def expression(self, function: Callable[..., Any], label: str, *, moving: bool) -> tuple[Any, Moment]:
        """Call a user's function once; returns what it returned and the symbols that it saw."""
        seen = Moment(self.symbolic, label, moving=moving)
        return function(seen), seen


class Moment(Quantities):
    """What a cost or condition sees: `m["theta"]`, `m.velocity("theta")`, `m.input("u")`, `m.position("bob")`,
    `m.pose("bob")`, `m.momentum("theta")`, `m.time`, `m.duration`.

    Running costs and conditions with velocities or inputs are taken at the middle of each step; final costs, and
    conditions on configuration and momentum alone, at the nodes.
    """

    def __init__(self, symbolic: Symbolic, label: str, *, moving: bool) -> None:
        import casadi as ca

        super().__init__(symbolic, label, moving=moving)
        self._p = ca.SX.sym("p", symbolic.model.nd)
        self._time = ca.SX.sym("time")
        self._duration = ca.SX.sym("duration")

    @property
    def time(self) -> Any:
        """The time (s)."""
        return self._time

    @property
    def duration(self) -> Any:
        """The final time (s), an unknown if it is free."""
        return self._duration

    def momentum(self, variable: str) -> Any:
        """Momentum of a dynamic variable."""
        model = self._symbolic.model
        i = self._named(model.index, variable)
        if i >= model.nd:
            raise ModelError(f"{self._label}: '{variable}' is kinematic and has no momentum", culprit=variable)
        return self._p[i]

    def function(self, expression: Any) -> Any:
        """CasADi function (q, v, u, p, time, duration) -> expression."""
        import casadi as ca

        s = self._symbolic
        symbols = [s.q, s.v, s.u, self._p, self._time, self._duration]
        f = ca.Function("f", symbols, [ca.densify(ca.vec(ca.SX(expression)))], {"allow_free": True})
        if f.has_free():
            raise ModelError(f"{self._label}: contains symbols that are not of this model: {f.get_free()}")
        return f

    def uses(self, expression: Any, *what: str) -> bool:
        """Whether an expression depends on any of "velocity", "input", "momentum", "time"."""
        import casadi as ca

        s = self._symbolic
        table = {"velocity": s.v, "input": s.u, "momentum": self._p, "time": self._time}
        return any(bool(ca.depends_on(ca.SX(expression), table[w])) for w in what if table[w].numel())


def final_momentum(weights: dict[str, float]) -> Callable[[Any], Any]:
    """A final cost that maximizes the weighted sum of momenta of named variables; `weights` is {variable: weight}.

    >>> import dalembert as da
    >>> slider = da.Model([da.tx("x", mass=2.0)], [da.ConfigForce("x", "push")])
    >>> plan = da.dmoc(slider, start={"q": [0], "v": [0]}, steps=4, time=1.0, effort=1.0,
    ...                final=final_momentum({"x": 1.0}))
    >>> plan.p[-1].round(6)
    array([1.])
    """

    def cost(m: Any) -> Any:
        return -sum(w * m.momentum(name) for name, w in weights.items())

    return cost
