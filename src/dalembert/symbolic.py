"""Symbolic: a Model written out in CasADi, straight from the definitions.

No recursion for speed, no trick: poses are products of 4x4 transforms, kinetic energy is the sum over bodies,
generalized forces are gradients of virtual power. It is the base of `direct/` and of user elements, and what the
compiled core is checked against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .arrays import whole
from .errors import ModelError
from .model.frames import TURN
from .model.parameter import parameters_in

if TYPE_CHECKING:
    from .model.model import Model
    from .model.spline import Spline
    from .model.tape import Tape


@dataclass(frozen=True)
class _Place:
    """Where a frame is: rotation, position, angular velocity (world axes).

    `turn` is (axis, angle) if the rotation is about one coordinate axis only (-1: none yet), else None.
    """

    rotation: Any
    position: Any
    spin: Any
    turn: tuple[int, Any] | None


class Symbolic:
    """The functions of a model as CasADi SX expressions of `q` (nq), `v` (nv) and `u` (nu).

    Order of q as in `Model.variables`, of v as in `Model.velocities`, of u as in `Model.inputs`. A ball has its unit quaternion in q and its
    angular velocity along body axes in v. Expressions are built on demand and kept.

    >>> from dalembert import Gravity, Model, rx, tz
    >>> pendulum = Model([rx("theta", tz(-2.0, name="bob", mass=1.0))], [Gravity((0, 0, -9.8))])
    >>> s = Symbolic(pendulum)
    >>> s.potential_energy()
    SX((-(19.6*cos(theta))))
    """

    def __init__(self, model: Model) -> None:
        import casadi as ca

        self.model = model
        self.ca = ca  # for the definitions of elements
        self.q = _symbols(ca, model.variables, "{}")
        self.v = _symbols(ca, model.velocities, "d{}")
        self.u = _symbols(ca, model.inputs, "{}")
        self.dq = self._coordinate_rates()  # (nq)
        self._places = {0: _Place(ca.SX(ca.DM.eye(3)), ca.SX.zeros(3), ca.SX.zeros(3), (-1, ca.SX(0)))}
        self._kept: dict[str, Any] = {}

    def _coordinate_rates(self) -> Any:
        """dq/dt in terms of q and v: v itself, but q (0, w)/2 for the quaternions."""
        c = self.model.configuration
        if c.flat:
            return self.v
        out = self.ca.SX.zeros(c.nq)
        for i, k in zip(*c.numbers, strict=True):
            out[int(i)] = self.v[int(k)]
        for place in c.places:
            w, x, y, z = (self.q[i] for i in range(c.nq)[place.q])
            a, b, d = (self.v[i] for i in range(c.nv)[place.v])
            rates = (-x * a - y * b - z * d, w * a + y * d - z * b, w * b + z * a - x * d, w * d + x * b - y * a)
            for i, rate in zip(range(c.nq)[place.q], rates, strict=True):
                out[i] = rate / 2
        return out

    # ---- names

    def variable(self, name: str) -> Any:
        """The symbol of the configuration variable called `name`."""
        return self.q[self.model.index(name)]

    def velocity(self, name: str) -> Any:
        """The symbol of a variable's velocity; of a frame (a name that no variable has), the velocity of its origin in world axes, 3 (m/s)."""
        model = self.model
        if name not in model.variables and name in model.frame_names:
            return self.rate(self.position(name))
        return self.v[model.velocity_index(name)]

    def push(self, frame: str, force: Any) -> Any:
        """Generalized forces of a force (3, world axes) at the origin of a frame: those with the same power for every velocity."""
        return self.ca.jtimes(self.rate(self.position(frame)), self.v, force, True)

    def input(self, name: str) -> Any:
        """The symbol of the input called `name`."""
        return self.u[self.model.input_index(name)]

    # ---- kinematics

    def rotation(self, frame: str | int) -> Any:
        """Rotation matrix of a frame in the world, 3x3."""
        return self._pose(frame)[0]

    def position(self, frame: str | int) -> Any:
        """World coordinates of a frame's origin, 3 (m)."""
        return self._pose(frame)[1]

    def pose(self, frame: str | int) -> Any:
        """World transform of a frame (name, or index in `Model.frame_entries`), 4x4."""
        ca = self.ca
        rotation, position = self._pose(frame)
        return ca.vertcat(ca.horzcat(rotation, position), ca.SX(ca.DM([[0, 0, 0, 1]])))

    def _pose(self, frame: str | int) -> tuple[Any, Any]:
        place = self._place(frame)
        return place.rotation, place.position

    def _place(self, frame: str | int) -> _Place:
        entries = self.model.frame_entries
        i = self.model.frame_index(frame) if isinstance(frame, str) else whole(frame, "the number of a frame")
        # walk up to the first known ancestor, then multiply down: a loop, so that deep chains are no problem
        path = []
        while i not in self._places:
            path.append(i)
            i = entries[i].parent
        for i in reversed(path):
            self._places[i] = self._follow(self._places[entries[i].parent], entries[i].frame)
        return self._places[i]

    def _follow(self, parent: _Place, frame: Any) -> _Place:
        """From the parent's place to the frame's."""
        ca = self.ca
        if frame.transform == "se3":
            m = ca.DM([list(row) for row in frame.value])
            rotation = parent.rotation @ m[:3, :3]
            return _Place(rotation, parent.position + parent.rotation @ m[:3, 3], parent.spin, None)
        if frame.transform == TURN:
            place = next(p for p in self.model.configuration.places if p.name == frame.variable)
            rotation = parent.rotation @ _turned(ca, *(self.q[i] for i in range(self.model.nq)[place.q]))
            return _Place(rotation, parent.position, parent.spin + rotation @ self.v[place.v], None)
        name = frame.variable
        amount = ca.SX(frame.value) if name is None else self.variable(name)
        axis = "xyz".index(frame.transform[1])
        slide = amount if frame.transform[0] == "t" else frame.pitch * amount
        position = parent.position + parent.rotation[:, axis] * slide
        if frame.transform[0] == "t":
            return _Place(parent.rotation, position, parent.spin, parent.turn)
        spin = parent.spin if name is None else parent.spin + parent.rotation[:, axis] * self.velocity(name)
        if parent.turn is not None and parent.turn[0] in (axis, -1):
            # rotations about one axis add their angles: shorter expressions for planar chains
            angle = parent.turn[1] + amount
            return _Place(_rotation(ca, axis, angle), position, spin, (axis, angle))
        return _Place(parent.rotation @ _rotation(ca, axis, amount), position, spin, None)

    def rate(self, expression: Any) -> Any:
        """Time derivative of an expression of q, along v."""
        return self.ca.jtimes(expression, self.q, self.dq)

    def angular_velocity(self, frame: str | int) -> Any:
        """Angular velocity of a frame in world axes, 3 (rad/s)."""
        return self._place(frame).spin

    # ---- energies

    def kinetic_energy(self) -> Any:
        """Sum over bodies of m/2 |velocity of com|^2 + w.I w/2 (J)."""
        return self._keep("kinetic", self._kinetic)

    def potential_energy(self) -> Any:
        """Sum of all potential elements (J)."""
        return self._keep("potential", lambda: _sum(self.ca, self._of("potentials")))

    def lagrangian(self) -> Any:
        """Kinetic minus potential energy (J)."""
        return self.kinetic_energy() - self.potential_energy()

    def mass_matrix(self) -> Any:
        """d2T/dv2, nv x nv."""
        return self._keep("mass", lambda: self.ca.hessian(self.kinetic_energy(), self.v)[0])

    def _kinetic(self) -> Any:
        ca = self.ca
        entries: Any = self.model.frame_entries[1:]  # only the world has no frame
        bodies = [e for e in entries if e.frame.mass or any(e.frame.inertia)]
        if not bodies:
            return ca.SX(0)
        # one sweep of differentiation for all centres together: they share their ancestors
        velocities = self.rate(ca.horzcat(*(self.centre_of_mass(e.index) for e in bodies)))
        energy = ca.SX(0)
        for i, e in enumerate(bodies):
            energy += e.frame.mass / 2 * ca.sumsqr(velocities[:, i])
            if any(e.frame.inertia):
                xx, yy, zz, xy, xz, yz = e.frame.inertia
                inertia = ca.DM([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
                w = self.rotation(e.index).T @ self.angular_velocity(e.index)
                energy += ca.dot(w, inertia @ w) / 2
        return energy

    # ---- forces

    def force(self) -> Any:
        """Generalized forces of all force elements, nv (rows of kinematic variables have no meaning)."""
        zero = self.ca.SX.zeros(self.model.nv)
        return self._keep("force", lambda: sum(self._of("forces"), zero))

    # ---- constraints

    def h(self) -> Any:
        """Constraint functions of the configuration in the order of `Model.constraints`, nh."""
        return self._keep("h", lambda: self._constraints(False))

    def velocity_constraints(self) -> Any:
        """Constraint functions of configuration and velocity, a(q) v + b(q), in the order of `Model.constraints`, nc - nh."""
        return self._keep("rates", lambda: self._constraints(True))

    def _constraints(self, rates: bool) -> Any:
        rows = [self.ca.SX(0, 1)]
        for e in self.model.elements:
            if e.rates if rates else e.size - e.rates:
                found, first = self.ca.vertcat(e.symbolic(self)), e.size - e.rates
                rows.append(found[first:] if rates else found[:first])
        return self.ca.vertcat(*rows)

    def constraint_jacobian(self) -> Any:
        """Derivatives of h along the velocities, nh x nv."""

        def make() -> Any:
            flat = self.model.configuration.flat
            return self.ca.jacobian(self.h(), self.q) if flat else self.ca.jacobian(self.rate(self.h()), self.v)

        return self._keep("dh", make)

    # ---- for the definitions of elements

    def _of(self, family: str) -> list[Any]:
        """The definitions of all elements of a family."""
        return [e.symbolic(self) for e in self.model.elements if family == e.FAMILY]

    def distance(self, frame1: str, frame2: str) -> Any:
        """Distance between the origins of `frame1` and `frame2` (m)."""
        return self.ca.norm_2(self.position(frame1) - self.position(frame2))

    def centre_of_mass(self, frame: str | int) -> Any:
        """World position of the centre of mass that a frame carries, 3 (m)."""
        entry = self.model.frame_entries[self.model.frame_index(frame) if isinstance(frame, str) else frame]
        rotation, position = self._pose(entry.index)
        com = entry.frame.com if entry.frame is not None else ()
        return position + rotation @ self.ca.DM(list(com)) if any(com) else position

    def on(self, forces: Mapping[str, Any]) -> Any:
        """Generalized forces nv of {variable: force}, zero on the others."""
        out = self.ca.SX.zeros(self.model.nv)
        for name, force in forces.items():
            out[self.model.velocity_index(name)] = force
        return out

    def spline(self, spline: Spline, x: object) -> Any:
        """See `spline_value`."""
        return spline_value(spline, x)

    def spline_integral(self, spline: Spline, x: object) -> Any:
        """See `spline_integral`."""
        return spline_integral(spline, x)

    def tape(self, tape: Tape) -> list[Any]:
        """The values of a tape."""
        return tape.expression(
            [self.variable(name) for name in tape.variables],
            [self.velocity(name) for name in tape.variables],
            [self.input(name) for name in tape.inputs],
            [
                [self.variable(f"{ball}.q{c}") for c in "wxyz"] + [self.velocity(f"{ball}.w{c}") for c in "xyz"]
                for ball in tape.balls
            ],
        )

    # ---- helpers

    def _keep(self, name: str, make: Any) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


class Quantities:
    """What a user's function sees of a model: `m["theta"]`, `m.velocity("theta")`, `m.input("u")`, `m.position("bob")`, `m.velocity("bob")`,
    `m.angular_velocity("bob")`, `m.pose("bob")`. Wrong names raise `ModelError`."""

    def __init__(self, symbolic: Symbolic, label: str, *, moving: bool = True, inputs: Sequence[str] | None = None):
        self._symbolic = symbolic
        self._label = label
        self._moving = moving
        self._inputs = inputs

    def __getitem__(self, variable: str) -> Any:
        """A configuration variable."""
        return self._named(self._symbolic.variable, variable)

    def velocity(self, name: str) -> Any:
        """Velocity of a variable, or of a frame's origin in world axes (3)."""
        self._only_if(self._moving, "velocities")
        return self._named(self._symbolic.velocity, name)

    def angular_velocity(self, frame: str) -> Any:
        """Angular velocity of a frame in world axes (3)."""
        self._only_if(self._moving, "velocities")
        return self._named(self._symbolic.angular_velocity, frame)

    def input(self, name: str) -> Any:
        """An input."""
        self._only_if(self._moving, "inputs")
        if self._inputs is not None and name not in self._inputs:
            raise ModelError(f"{self._label}: input {name!r} is not listed in `uses`", culprit=str(name))
        return self._named(self._symbolic.input, name)

    def position(self, frame: str) -> Any:
        """World coordinates of a frame's origin (3)."""
        return self._named(self._symbolic.position, frame)

    def pose(self, frame: str) -> Any:
        """World transform of a frame (4x4)."""
        return self._named(self._symbolic.pose, frame)

    def _named(self, get: Callable[[str], Any], name: str) -> Any:
        try:
            self._refuse_parameters(name)
            return get(name)
        except ModelError as error:
            raise ModelError(f"{self._label}: {error.reason}", culprit=error.culprit) from None

    def _refuse_parameters(self, name: str) -> None:
        """A tape is recorded once: a frame that moves with parameters would be left behind."""
        model = self._symbolic.model
        i = model.frame_index(name) if name in model.frame_names and name not in model.variables else 0
        while i > 0:
            entry = model.frame_entries[i]
            assert entry.frame is not None
            for p in parameters_in((entry.frame.value, entry.frame.pitch)):
                raise ModelError(
                    f"the place of frame '{name}' depends on parameter '{p.name}', which a function cannot follow",
                    culprit=p.name,
                )
            i = entry.parent

    def _only_if(self, allowed: bool, what: str) -> None:
        if not allowed:
            raise ModelError(f"{self._label}: may depend on the configuration only, not on {what}", culprit=self._label)


def spline_value(spline: Spline, x: object) -> Any:
    """The spline at a CasADi expression x; outside its table it continues by the parabolic ends.

    >>> import casadi as ca
    >>> from dalembert import Spline
    >>> parabola = Spline([(0, 0), (1, 1), (2, 4), (3, 9)])
    >>> round(float(spline_value(parabola, ca.DM(5))), 9)
    25.0
    """
    ends, c = spline.pieces()
    return _piecewise(x, spline.knots, ends, c)


def spline_integral(spline: Spline, x: object) -> Any:
    """Integral of the spline from its first knot to a CasADi expression x.

    >>> import casadi as ca
    >>> from dalembert import Spline
    >>> parabola = Spline([(0, 0), (1, 1), (2, 4), (3, 9)])
    >>> round(float(spline_integral(parabola, ca.DM(3))), 9)
    9.0
    """
    import numpy as np

    ends, c = spline.pieces()
    raised = np.zeros((len(c), 7))
    raised[:, 1:] = c / np.arange(1, 7)
    for i in range(2, len(c)):  # piece 0 (left end) and 1 both start from the first knot
        raised[i, 0] = np.polynomial.polynomial.polyval(ends[i] - ends[i - 1], raised[i - 1])
    return _piecewise(x, spline.knots, ends, raised)


def _piecewise(x: Any, knots: Any, ends: Any, coefficients: Any) -> Any:
    """Polynomial in x - ends[i] on the i-th interval between knots: choose the constants, evaluate one polynomial."""
    import casadi as ca

    inside = []
    for i in range(len(coefficients)):
        low = ca.SX(1) if i == 0 else x >= float(knots[i - 1])
        high = ca.SX(1) if i == len(knots) else x < float(knots[i])
        inside.append(high if i == 0 else low if i == len(knots) else ca.logic_and(low, high))

    def choose(column: Any) -> Any:
        return sum(ca.if_else(c, float(value), 0.0) for c, value in zip(inside, column, strict=True))

    d = x - choose(ends)
    value: Any = 0.0
    for j in reversed(range(coefficients.shape[1])):
        value = value * d + choose(coefficients[:, j])
    return value


def _symbols(ca: Any, names: tuple[str, ...], pattern: str) -> Any:
    return ca.vertcat(ca.SX(0, 1), *(ca.SX.sym(pattern.format(name)) for name in names))


def _rotation(ca: Any, axis: int, angle: Any) -> Any:
    """Rotation matrix about a coordinate axis."""
    a, b = (axis + 1) % 3, (axis + 2) % 3
    rotation = ca.SX(ca.DM.eye(3))
    c, s = ca.cos(angle), ca.sin(angle)
    rotation[a, a], rotation[b, b], rotation[b, a], rotation[a, b] = c, c, s, -s
    return rotation


def _turned(ca: Any, w: Any, x: Any, y: Any, z: Any) -> Any:
    """Rotation matrix of a unit quaternion."""
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return ca.vertcat(*(ca.horzcat(*row) for row in rows))


def _sum(ca: Any, terms: Any) -> Any:
    return sum(terms, ca.SX(0))
