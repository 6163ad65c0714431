"""What a transcription needs of a model: CasADi functions, and the quantities that costs and conditions may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ModelError
from ..model.model import Model
from ..symbolic import Quantities, Symbolic


class Mechanics:
    """Derivatives of the Lagrangian, forces and constraints as CasADi functions of q (nq), v (nv) and u (nu).

    `lq(q, v)`, `lv(q, v)` (dynamic rows, nd), `momentum(q, v)` (nd), `force(q, v, u)` (nd), `h(q)` (nh), `dh(q)`
    (nh, nv), `mass(q)` (nd, nv), `curvature(q, v)` (nd, nq): d2L/dv dq. A ball has its unit quaternion in q, and in v, `lq`, `lv`, `dh`
    the components along its body axes.
    """

    def __init__(self, model: Model) -> None:
        import casadi as ca

        model.require_no_contacts("dmoc", limits=True)
        model.require_holonomic("dmoc", "optimize")
        self.balls = model.configuration.places
        for ball in self.balls:
            if ball.v.start >= model.nd:
                raise ModelError(
                    f"ball '{ball.name}' is prescribed, which dmoc cannot; optimize() can, or use Euler angles "
                    "(spherical_euler, free_euler)",
                    culprit=ball.name,
                )
        s = self.symbolic = Symbolic(model)
        d = slice(0, model.nd)
        lagrangian = s.lagrangian()
        lv = ca.gradient(s.kinetic_energy(), s.v)[d]
        self.model = model
        along = (
            ca.gradient(lagrangian, s.q) if not self.balls else ca.jtimes(s.dq, s.v, ca.gradient(lagrangian, s.q), True)
        )
        self.lq = ca.Function("lq", [s.q, s.v], [along[d]])
        self.lv = ca.Function("lv", [s.q, s.v], [lv])
        self.mass = ca.Function("mass", [s.q], [ca.jacobian(lv, s.v)])
        self.curvature = ca.Function("curvature", [s.q, s.v], [ca.jacobian(lv, s.q)])
        self.force = ca.Function("force", [s.q, s.v, s.u], [s.force()[d]])
        self.h = ca.Function("h", [s.q], [s.h()])
        self.dh = ca.Function("dh", [s.q], [s.constraint_jacobian()])

    def middle(self, q0: Any, q1: Any, h: Any, alpha: float) -> tuple[Any, Any]:
        """Configuration and velocity in the middle of a step; balls turn along the geodesic (docs/kernels.md 13)."""
        q, v = (1 - alpha) * q0 + alpha * q1, (q1 - q0) / h
        if not self.balls:
            return q, v
        import casadi as ca

        at, to = self.model.configuration.numbers
        rates = ca.SX.zeros(self.model.nv)
        rates[to.tolist()] = v[at.tolist()]
        for ball in self.balls:
            between = q0[ball.q] + q1[ball.q]
            q[ball.q] = between / ca.norm_2(between)
            rates[ball.v] = turn(ca, q0[ball.q], q1[ball.q]) / h
        return q, rates

    def shares(self, v: Any, h: Any, force: Any, momentum: Any) -> tuple[Any, Any]:
        """D1 Ld + F- and D2 Ld + F+ (nd) of the impulse h (L_q + F) and of L_v in the middle of a step; balls by (13.2)."""
        import casadi as ca

        minus, plus = force / 2 - momentum, force / 2 + momentum
        for ball in self.balls:
            phi, Q, L = h * v[ball.v], force[ball.v], momentum[ball.v]
            s = ca.sumsqr(phi)
            P, one = ca.skew(phi), ca.SX.eye(3)
            A = (one + _tangent(ca, s) * P) / 2
            D = one + P / 2 + _cotangent(ca, s) * P @ P
            minus[ball.v] = A @ Q - D @ L
            plus[ball.v] = A.T @ Q + D.T @ L
        return minus, plus

    def expression(self, function: Callable[..., Any], label: str, *, moving: bool) -> tuple[Any, Moment]:
        """Call a user's function once; returns what it returned and the symbols that it saw."""
        seen = Moment(self.symbolic, label, moving=moving)
        return function(seen), seen


# Functions of the square of an angle: as they are, but for small angles by their series, whose next terms are below rounding. Both
# branches are evaluated, so that the first sees a harmless angle where the second is taken.
_SMALL = 1e-2


def _either(ca: Any, s: Any, exact: Callable[[Any], Any], series: tuple[float, ...]) -> Any:
    small = s < _SMALL
    value: Any = 0.0
    for c in reversed(series):
        value = value * s + c
    return ca.if_else(small, value, exact(ca.if_else(small, 1.0, s)))


def _tangent(ca: Any, s: Any) -> Any:
    """tan(|phi|/4)/|phi| of s = |phi|^2."""
    series = (1 / 4, 1 / 192, 1 / 7680, 17 / 5160960, 31 / 371589120, 691 / 326998425600)
    return _either(ca, s, lambda x: ca.tan(ca.sqrt(x) / 4) / ca.sqrt(x), series)


def _cotangent(ca: Any, s: Any) -> Any:
    """(1 - h cot h)/s of s = |phi|^2, h = |phi|/2."""
    series = (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000)
    return _either(ca, s, lambda x: (1 - ca.sqrt(x) / 2 / ca.tan(ca.sqrt(x) / 2)) / x, series)


def apart(ca: Any, q0: Any, q1: Any) -> Any:
    """The quaternion from one to the other, q0^-1 q1."""
    w = ca.dot(q0, q1)
    return ca.vertcat(w, q0[0] * q1[1:] - q1[0] * q0[1:] - ca.cross(q0[1:], q1[1:]))


def turn(ca: Any, q0: Any, q1: Any) -> Any:
    """Rotation vector (3, in the body) from one unit quaternion to another less than half a turn away: 2 atan(n/w)/n times their vector."""
    d = apart(ca, q0, q1)
    s = ca.sumsqr(d[1:]) / d[0] ** 2  # tan^2 of half the angle
    series = tuple((-1) ** i / (2 * i + 1) for i in range(8))
    return 2 * d[1:] / d[0] * _either(ca, s, lambda x: ca.atan(ca.sqrt(x)) / ca.sqrt(x), series)


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
        i = self._named(model.velocity_index, variable)
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
