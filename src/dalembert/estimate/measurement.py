"""What a sensor sees: z = h(x) + noise, with the exact derivative of h."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, finite, floats, matching, weight
from ..integrate import Moving, OneStep, OneStepMap, Trajectory, complete, inputs_of, program_of_configuration


@dataclass(frozen=True, eq=False)
class Measurement:
    """z = h(x): `h` maps x (nx,) to (size,), `jacobian` to (size, ndx), its derivative by tangent components; `names` of the entries.

    `angles` lists entries whose innovation is wrapped to (-pi, pi]. `matrix` (size, nx) is set if h(x) = matrix x. A sensor that feels the
    inputs (an accelerometer) has `inputs=True` and functions of (x, u), where u (nu,) are those of the step that ends in x.
    Sensors are put side by side with +.

    >>> import numpy as np
    >>> square = Measurement(lambda x: x**2, lambda x: np.diag(2 * x), names=("a", "b"))
    >>> square.size, (square + square).names
    (2, ('a', 'b', 'a', 'b'))
    """

    h: Callable[..., Any]
    jacobian: Callable[..., Any]
    names: tuple[str, ...]
    angles: tuple[int, ...] = ()
    matrix: Array | None = None
    inputs: bool = False

    def expected(self, x: Array, u: Array | None = None) -> Array:
        """h (size,) at the state x (nx,) after a step with the inputs u (nu,)."""
        return np.asarray(self.h(x, self._felt(u)) if self.inputs else self.h(x), dtype=float)

    def record(
        self,
        motion: Trajectory | tuple[ArrayLike, ArrayLike],
        R: ArrayLike = 0.0,
        *,
        seed: int | np.random.Generator = 0,
    ) -> Array:
        """What the sensor says along a `motion` (a Trajectory or a pair (X (N+1, nx), U (N, nu))): (N+1, size), with Gaussian noise of the
        covariance R (number, variances, or matrix) from the `seed`.

        Row 0 takes the inputs of the first step, row k those of the step that ends there.

        >>> import dalembert as da
        >>> vi = da.MidpointVI(da.models.pendulum(), dt=0.1)
        >>> swing = vi.simulate(vi.state([0.5]), steps=20)
        >>> da.measure(vi, "theta").record(swing, R=0.01).shape
        (21, 1)
        """
        if isinstance(motion, Trajectory):
            X, U = motion.x, inputs_of(motion)
        else:
            X, U = (floats(given, what) for given, what in zip(motion, ("X", "U"), strict=True))
        felt = [None] if not len(U) else [U[0], *U]
        exact = np.array([self.expected(x, u) for x, u in zip(X, felt, strict=True)])
        noise = weight(R, "R", self.size)
        if not noise.any():
            return exact
        values, axes = np.linalg.eigh(noise)
        if values.min() < -1e-12 * values.max():
            raise ValueError(f"R is not a covariance (least eigenvalue {values.min():.3g})")
        drawn = np.random.default_rng(seed).normal(size=exact.shape)
        return np.asarray(exact + (drawn * np.sqrt(values.clip(0.0))) @ axes.T)

    def slope(self, x: Array, u: Array | None = None) -> Array:
        """Derivative (size, ndx) of h at x, with the inputs u (nu,)."""
        return np.asarray(self.jacobian(x, self._felt(u)) if self.inputs else self.jacobian(x), dtype=float)

    def _felt(self, u: Array | None) -> Array:
        if u is None:
            raise ValueError(f"the sensor of {', '.join(self.names)} feels the inputs: update(estimate, z, u=...)")
        return u

    def compiled(self) -> tuple[Array | None, list[tuple[int, Any, Any, int, int]]]:
        """h as the core takes it: linear rows (size, nx), and programs (first row, code, constants, work, entries) of the others; (None, [])
        where it is a function in Python."""
        if self.matrix is not None:
            return self.matrix, []
        if isinstance(self.h, _Stacked):
            (C, first), (D, second) = (sensor.compiled() for sensor in (self.h.first, self.h.second))
            if C is None or D is None:
                return None, []
            return np.vstack([C, D]), first + [(row + len(C), *rest) for row, *rest in second]
        if not isinstance(self.h, _OfConfiguration) or self.h.program is None:
            return None, []
        program = self.h.program
        return np.zeros((self.size, self.h.nx)), [(0, program.code, program.constants, program.n_work, self.size)]

    def expression(self, x: Any, v: Any = None, a: Any = None) -> Any:
        """h as a CasADi expression of the symbols x (nx,), v (nv,), the velocities that belong to x, and a (nv,), their rates; None where it is
        not known as one."""
        import casadi as ca

        if self.matrix is not None:
            return ca.DM(self.matrix) @ x
        if isinstance(self.h, _Stacked):
            both = [sensor.expression(x, v, a) for sensor in (self.h.first, self.h.second)]
            return None if any(e is None for e in both) else ca.vertcat(*both)
        felt = getattr(self.h, "__self__", None)
        if v is not None and isinstance(felt, Moving) and (a is not None or not felt.accelerated):
            return felt.function(x[: felt.model.nq], v, ca.DM.zeros(felt.model.nv) if a is None else a)
        return self.h.function(x[: self.h.nq]) if isinstance(self.h, _OfConfiguration) else None

    def __add__(self, other: Measurement) -> Measurement:
        if not isinstance(other, Measurement):
            return NotImplemented
        both = self.matrix is not None and other.matrix is not None
        return Measurement(
            _Stacked(self, other, "expected"),
            _Stacked(self, other, "slope"),
            self.names + other.names,
            self.angles + tuple(self.size + i for i in other.angles),
            np.vstack([self.matrix, other.matrix]) if both else None,  # type: ignore[list-item]
            self.inputs or other.inputs,
        )

    @property
    def size(self) -> int:
        """Number of entries of z."""
        return len(self.names)

    def innovation(self, z: Array, expected: Array) -> Array:
        """z - expected, angles wrapped to (-pi, pi]."""
        e = np.asarray(z - expected, dtype=float)
        for i in self.angles:
            e[..., i] = -((-e[..., i] + np.pi) % (2 * np.pi) - np.pi)
        return e


@dataclass(frozen=True, eq=False)
class _Stacked:
    """The entries of one sensor above those of another (a class, so that measurements pickle)."""

    first: Measurement
    second: Measurement
    of: str

    def __call__(self, x: Array, u: Array | None = None) -> Array:
        return np.concatenate([getattr(sensor, self.of)(x, u) for sensor in (self.first, self.second)])


@dataclass(frozen=True, eq=False)
class _Linear:
    """x -> C x (a class, so that measurements pickle)."""

    C: Array

    def __call__(self, x: Array) -> Array:
        return np.asarray(self.C @ finite(x, "x", (self.C.shape[1],)))


@dataclass(frozen=True, eq=False)
class _Constant:
    C: Array

    def __call__(self, x: Array) -> Array:
        return self.C


@dataclass(frozen=True, eq=False)
class _InTangent:
    """A derivative by coordinates (size, nx) as one by tangent components (size, ndx)."""

    jacobian: Callable[[Array], Array]
    space: OneStepMap

    def __call__(self, x: Array) -> Array:
        by = self.space.retract_jacobian(x)
        return self.jacobian(x) if by is None else self.jacobian(x) @ by


def _in_tangent(jacobian: Callable[[Array], Array], system: OneStep) -> Callable[[Array], Array]:
    space = complete(system)
    return jacobian if space.retract_jacobian(space.neutral()) is None else _InTangent(jacobian, space)


@dataclass(frozen=True, eq=False)
class _OfConfiguration:
    """A CasADi function of q, as a function of x (nx,); `columns` > 0 makes it a Jacobian padded to that many columns. `program`: the function and
    its derivatives for the core."""

    function: Any
    nq: int
    columns: int = 0
    nx: int = 0
    program: Any = None

    def __call__(self, x: Array) -> Array:
        x = finite(x, "x")
        if x.ndim != 1 or len(x) < self.nq:
            raise ValueError(f"x has shape {x.shape}, but a state (nx,) that begins with q ({self.nq},) is needed")
        value = np.array(self.function(x[: self.nq]))
        if not self.columns:
            return value.ravel()
        wide = np.zeros((value.shape[0], self.columns))
        wide[:, : self.nq] = value
        return wide


def measure(system: OneStep, *names: str, C: ArrayLike | None = None, angles: tuple[str, ...] = ()) -> Measurement:
    """A linear sensor of a `system`: the coordinates with these names (wildcards as in a shell), or z = C x with a matrix C (nz, nx).

    Names of velocities that are no states ("base.wx", "v.theta") are those of `measure_velocity`, and then the sensor is not linear. `angles`
    names entries whose innovation is wrapped to (-pi, pi].

    >>> import dalembert as da
    >>> measure(da.MidpointVI(da.models.pendulum(), 0.1), "theta").matrix
    array([[1., 0.]])
    """
    complete(system)  # says what it lacks
    if (C is None) == (not names):
        raise ValueError("give either names of states or a matrix C")
    if strange := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"names of states are text, not {strange[0]!r:.80}")
    speeds = _velocity_names(system, names)
    if speeds:
        from .sensors import measure_velocity

        sensors = [
            measure_velocity(system, speeds[name])
            if name in speeds
            else measure(system, name, angles=tuple(a for a in angles if a == name))
            for name in names
        ]
        return reduce(lambda a, b: a + b, sensors)
    if C is not None:
        rows_of_x = finite(C, "C", (None, system.nx))
        labels = tuple(f"z[{i}]" for i in range(len(rows_of_x)))
    else:
        rows: list[int] = []
        for pattern in names:
            hits = matching(pattern, system.x_names)
            if not hits:
                raise ValueError(f"no state is called {pattern!r}; there are {', '.join(system.x_names)}")
            rows += [i for i in hits if i not in rows]
        rows_of_x = np.eye(system.nx)[rows]
        labels = tuple(system.x_names[i] for i in rows)
    wrapped = tuple(labels.index(name) for name in angles)
    slope = _in_tangent(_Constant(rows_of_x), system)
    return Measurement(_Linear(rows_of_x), slope, labels, wrapped, rows_of_x)


def _velocity_names(system: OneStep, names: Sequence[str]) -> dict[str, str]:
    """Those of the names that are velocities of the model and no states, with what the model calls them."""
    model = getattr(system, "model", None)
    if model is None:
        return {}
    plain = {name: str(name).removeprefix("v.") for name in names if name not in system.x_names}
    return {name: plain[name] for name in plain if plain[name] in model.velocities}


def measure_expression(
    system: OneStep, make: Callable[[Any], Any], *, names: tuple[str, ...] | None = None
) -> Measurement:
    """A sensor given by a CasADi expression of the configuration, or a list of them: `make` gets the model's `Symbolic`.

    `names` labels its entries.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=1)
    >>> height = measure_expression(system, lambda s: s.position("bob")[2])
    >>> height.h(np.array([0.0, 0.0])), height.jacobian(np.array([0.0, 0.0]))
    (array([-1.]), array([[0., 0.]]))
    """
    import casadi as ca

    from ..symbolic import Symbolic

    model = getattr(system, "model", None)
    if model is None:
        raise TypeError(f"{type(system).__name__} has no model whose configuration could be measured")
    symbolic = Symbolic(model)
    value = make(symbolic)
    try:
        expression = ca.vec(ca.vertcat(*value) if isinstance(value, (list, tuple)) else ca.SX(value))
    except Exception:
        raise TypeError(
            f"the sensor's function must return a CasADi expression or a list of them, not {value!r}"
        ) from None
    function = ca.Function("h", [symbolic.q], [expression])
    slope = ca.Function("H", [symbolic.q], [ca.densify(ca.jacobian(expression, symbolic.q))])
    size = int(expression.shape[0])
    labels = tuple(f"z[{i}]" for i in range(size)) if names is None else tuple(names)
    if len(labels) != size:
        raise ValueError(f"{len(labels)} names for {size} entries")
    by_x = _OfConfiguration(slope, model.nq, system.nx)
    rows = ca.densify(ca.jacobian(expression, symbolic.q))
    program = program_of_configuration(symbolic.q, ca.vertcat(expression, ca.vec(rows.T)))
    seen = _OfConfiguration(function, model.nq, nx=system.nx, program=program)
    return Measurement(seen, _in_tangent(by_x, system), labels)


def measure_frame(system: OneStep, frame: str, axes: str = "xyz") -> Measurement:
    """A sensor of world coordinates of a frame's origin (m), e.g. a camera: `axes` are letters of "xyz".

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))], [da.Gravity((0, 0, -9.8))])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=1)
    >>> measure_frame(system, "bob", "yz").names
    ('bob.y', 'bob.z')
    """
    if not axes or any(a not in "xyz" for a in axes):
        raise ValueError(f"axes must be letters of 'xyz', not {axes!r}")
    rows = ["xyz".index(a) for a in axes]
    return measure_expression(system, lambda s: s.position(frame)[rows], names=tuple(f"{frame}.{a}" for a in axes))
