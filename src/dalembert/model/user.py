"""User elements: functions that return CasADi expressions become tapes, plain immutable data.

`resolve` calls the function of a `Potential`, `Force` or `Constraint` once and keeps the list of elementary operations
of its result: a `Tape`. Tapes hash, compare and pickle as values; the expression is rebuilt from the list, never from
code. `derivative_tapes` writes the exact derivatives that the compiled core needs as flat numeric programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import TAPE_OPS
from ..errors import ModelError
from . import elements as el
from .elements import Element

if TYPE_CHECKING:
    from ..symbolic import Symbolic
    from .model import Model


# Operations of tapes and programs: {name: number of operands}, numbered in this order; their meaning is in cpp/elements/tape.hpp.
OPERATIONS: dict[str, int] = dict(TAPE_OPS)
_NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}


@dataclass(frozen=True)
class Tape:
    """A function as a list of elementary operations.

    `variables` and `inputs` are the names it depends on, `rows` the variables that a `Force` acts on. The arguments are
    one flat list: q of `variables`, then v of `variables`, then u of `inputs`. Each line of `code` is
    (operation, out, in1, in2, constant), see `OPERATIONS`; unused entries are 0.

    >>> import casadi as ca
    >>> square = Tape(("x",), (), (), (("INPUT", 0, 0, 0, 0.0), ("SQ", 0, 0, 0, 0.0), ("OUTPUT", 0, 0, 0, 0.0)))
    >>> square.expression([ca.SX.sym("x")])
    [SX(sq(x))]
    """

    variables: tuple[str, ...]
    inputs: tuple[str, ...]
    rows: tuple[str, ...]
    code: tuple[tuple[str, int, int, int, float], ...]

    def __post_init__(self) -> None:
        names = [tuple(str(s) for s in getattr(self, part)) for part in ("variables", "inputs", "rows")]
        code = tuple((str(op), int(o), int(a), int(b), float(c)) for op, o, a, b, c in self.code)
        for key, value in zip(("variables", "inputs", "rows", "code"), (*names, code), strict=True):
            object.__setattr__(self, key, value)
        self._check()

    def _check(self) -> None:
        """A tape may come from a file: every line must be known and read only what was written before."""
        written: set[int] = set()
        outputs: set[int] = set()
        n_in = 2 * len(self.variables) + len(self.inputs)
        for line, (op, out, a, b, constant) in enumerate(self.code):
            good = op in OPERATIONS and out >= 0 and math.isfinite(constant)
            good &= op != "INPUT" or 0 <= a < n_in
            good &= all(place in written for place in (a, b)[: OPERATIONS.get(op, 0)])
            if not good:
                raise ModelError(f"tape, line {line}: bad instruction {self.code[line]}", culprit="tape")
            (outputs if op == "OUTPUT" else written).add(out)
        if outputs != set(range(max(1, len(self.rows)))):
            raise ModelError("tape: outputs are missing or too many", culprit="tape")

    def expression(self, q: Sequence[Any], v: Sequence[Any] = (), u: Sequence[Any] = ()) -> list[Any]:
        """The values, as CasADi expressions of the given ones (or numbers of given `DM`)."""
        import casadi as ca

        m = len(self.variables)
        if len(q) != m or len(v) not in (0, m) or len(u) not in (0, len(self.inputs)):
            raise ValueError(f"expected {m} variables and {len(self.inputs)} inputs, got {len(q)}, {len(v)}, {len(u)}")
        arguments = [*q, *(v if len(v) else [0.0] * m), *(u if len(u) else [0.0] * len(self.inputs))]
        work: dict[int, Any] = {}
        outputs: dict[int, Any] = {}
        table = _builders(ca)
        for op, out, a, b, constant in self.code:
            if op == "CONST":
                work[out] = ca.SX(constant)
            elif op == "INPUT":
                work[out] = arguments[a]
            elif op == "OUTPUT":
                outputs[out] = work[a]
            else:
                work[out] = table[op](*(work[place] for place in (a, b)[: OPERATIONS[op]]))
        return [outputs[i] for i in range(len(outputs))]


def _builders(ca: Any) -> dict[str, Callable[..., Any]]:
    """How each operation is written in CasADi."""
    same = {name: getattr(ca, name.lower(), None) for name in OPERATIONS}
    return same | {
        "ASSIGN": lambda a: a,
        "ADD": lambda a, b: a + b,
        "SUB": lambda a, b: a - b,
        "MUL": lambda a, b: a * b,
        "DIV": lambda a, b: a / b,
        "NEG": lambda a: -a,
        "INV": lambda a: 1 / a,
        "SQ": lambda a: a * a,
        "TWICE": lambda a: 2 * a,
        "POW": lambda a, b: a**b,
        "LT": lambda a, b: a < b,
        "LE": lambda a, b: a <= b,
        "EQ": lambda a, b: a == b,
        "NE": lambda a, b: a != b,
        "NOT": ca.logic_not,
        "AND": ca.logic_and,
        "OR": ca.logic_or,
        "IF_ELSE_ZERO": lambda a, b: ca.if_else(a, b, 0.0),
    }


class Quantities:
    """What a user's function sees of a model: `m["theta"]`, `m.velocity("theta")`, `m.input("u")`, `m.position("bob")`,
    `m.pose("bob")`. Wrong names raise `ModelError`."""

    def __init__(self, symbolic: Symbolic, label: str, *, moving: bool = True, inputs: Sequence[str] | None = None):
        self._symbolic = symbolic
        self._label = label
        self._moving = moving
        self._inputs = inputs

    def __getitem__(self, variable: str) -> Any:
        """A configuration variable."""
        return self._named(self._symbolic.variable, variable)

    def velocity(self, variable: str) -> Any:
        """Velocity of a variable."""
        self._only_if(self._moving, "velocities")
        return self._named(self._symbolic.velocity, variable)

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
            return get(name)
        except ModelError as error:
            raise ModelError(f"{self._label}: {error.reason}", culprit=error.culprit) from None

    def _only_if(self, allowed: bool, what: str) -> None:
        if not allowed:
            raise ModelError(f"{self._label}: may depend on the configuration only, not on {what}", culprit=self._label)


def resolve(element: Element, model: Model) -> Element:
    """The element with its function turned into a `Tape`; other and already resolved elements pass through.

    >>> from dalembert import Model, Potential, tx
    >>> model = Model([tx("x", mass=1.0)])
    >>> resolve(Potential(lambda m: m["x"] ** 2), model).energy.variables
    ('x',)
    """
    field = _field(element)
    if field is None:
        return element
    given = getattr(element, field)
    if isinstance(given, Tape):
        for names, table, kind in (
            (given.variables, model.variables, "variable"),
            (given.rows, model.dynamic, "dynamic variable"),
            (given.inputs, element.inputs, "input"),
        ):
            for name in names:
                if name not in table:
                    raise ModelError(f"{element.label}: unknown {kind} {name!r}", culprit=name)
        if given.variables == tuple(v for v in model.variables if v in given.variables):
            return element
        given = _as_function(given)  # made for a model with another order
    if not callable(given):
        raise ModelError(f"{element.label}: needs a function of m, not {type(given).__name__}", culprit=element.label)
    return replace(element, **{field: _record(element, given, model)})


def _field(element: Element) -> str | None:
    for kind, field in ((el.Potential, "energy"), (el.Force, "force"), (el.Constraint, "h")):
        if isinstance(element, kind):
            return field
    return None


def _as_function(tape: Tape) -> Callable[[Quantities], Any]:
    def function(m: Quantities) -> Any:
        values = tape.expression(
            [m[v] for v in tape.variables],
            [m.velocity(v) for v in tape.variables] if tape.rows else (),
            [m.input(u) for u in tape.inputs],
        )
        return dict(zip(tape.rows, values, strict=True)) if tape.rows else values[0]

    return function


def _record(element: Element, function: Callable[[Quantities], Any], model: Model) -> Tape:
    """Call the function with symbols and write down what it computed."""
    import casadi as ca

    from ..symbolic import Symbolic

    label = element.label
    symbolic = Symbolic(model)
    moving = isinstance(element, el.Force)
    try:
        value = function(Quantities(symbolic, label, moving=moving, inputs=element.inputs))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{label}: its function failed: {type(error).__name__}: {error}", culprit=label) from error
    rows: tuple[str, ...] = ()
    values = [value]
    if moving:
        if not isinstance(value, Mapping) or not value:
            raise ModelError(f"{label}: must return {{variable: expression}}, not {_shown(value)}", culprit=label)
        for name in value:
            if name not in model.dynamic:
                why = "is kinematic, no force acts on it" if name in model.kinematic else "is not a variable"
                raise ModelError(f"{label}: {name!r} {why}", culprit=str(name))
        rows = tuple(name for name in model.dynamic if name in value)
        values = [value[name] for name in rows]
    outputs = ca.vertcat(*(_scalar(ca, x, label) for x in values))
    arguments = ca.vertcat(symbolic.q, symbolic.v, symbolic.u)
    code = _instructions(ca, [arguments], outputs, label)
    nq, used = model.nq, {a for op, _, a, _, _ in code if op == "INPUT"}
    columns = [i for i in range(nq) if i in used or i + nq in used]
    inputs = [i for i in range(model.nu) if i + 2 * nq in used]
    m = len(columns)
    place = {i: k for k, i in enumerate(columns)} | {nq + i: m + k for k, i in enumerate(columns)}
    place |= {2 * nq + i: 2 * m + k for k, i in enumerate(inputs)}
    return Tape(
        tuple(model.variables[i] for i in columns),
        tuple(model.inputs[i] for i in inputs),
        rows,
        tuple((op, out, place[a] if op == "INPUT" else a, b, c) for op, out, a, b, c in code),
    )


def _shown(value: Any) -> str:
    return type(value).__name__


def _scalar(ca: Any, value: Any, label: str) -> Any:
    if isinstance(value, (bool, str, ca.MX)) or value is None:
        raise ModelError(f"{label}: must return a CasADi SX expression, not {_shown(value)}", culprit=label)
    try:
        expression = ca.SX(value)
    except Exception:
        raise ModelError(f"{label}: must return a CasADi SX expression, not {_shown(value)}", culprit=label) from None
    if expression.shape != (1, 1):
        raise ModelError(f"{label}: must return a scalar, not shape {expression.shape}", culprit=label)
    return ca.densify(expression)


def _instructions(ca: Any, arguments: list[Any], outputs: Any, label: str) -> list[tuple[str, int, int, int, float]]:
    """The operations of an SX expression, in order; `a` of INPUT is the index into all arguments one after another."""
    f = ca.Function("f", arguments, [ca.densify(ca.cse(ca.vec(outputs)))], {"allow_free": True})
    if f.has_free():
        raise ModelError(f"{label}: contains symbols that are not of this model: {f.get_free()}", culprit=label)
    names = {getattr(ca, f"OP_{name}"): name for name in OPERATIONS} | {ca.OP_CONSTPOW: "POW"}
    start = np.concatenate([[0], np.cumsum([a.numel() for a in arguments])])
    code = []
    for k in range(f.n_instructions()):
        number = f.instruction_id(k)
        if number not in names:
            raise ModelError(f"{label}: uses an operation that is not supported (CasADi no. {number})", culprit=label)
        op, out, read = names[number], f.instruction_output(k), f.instruction_input(k)
        if op == "CONST":
            constant = float(f.instruction_constant(k))
            if not math.isfinite(constant):
                raise ModelError(f"{label}: contains the constant {constant}", culprit=label)
            code.append((op, out[0], 0, 0, constant))
        elif op == "INPUT":
            code.append((op, out[0], int(start[read[0]]) + read[1], 0, 0.0))
        elif op == "OUTPUT":
            code.append((op, out[1], read[0], 0, 0.0))
        else:
            code.append((op, out[0], read[0], read[1] if len(read) > 1 else 0, 0.0))
    return code


# ---- programs for the core -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Program:
    """Numeric form of a function: `code` int32 (n, 4) rows (number in `OPERATIONS`, out, in1, in2), `constants` float64.

    `n_work`, `n_in`, `n_out`: sizes of the work array, of all inputs together and of the outputs.
    """

    code: NDArray[np.int32]
    constants: NDArray[np.float64]
    n_work: int
    n_in: int
    n_out: int


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Programs of a user element on its local variables (m of them: `variables`), all matrices row-major.

    Potential, Constraint: `value`: x -> value, gradient (m); `first`: x -> value, gradient, Hessian (m, m);
    `second`: x, d (m) -> third derivative contracted with d (m, m).

    Force (r `rows`, k `inputs`, x = (q, v, u) of size 2m + k): `value`: x -> F (r); `first`: x -> F, F_q (r, m), F_v
    (r, m), F_u (r, k); `second`: x, mu (r) -> Hessian of mu.F with respect to x (2m + k, 2m + k).
    """

    variables: tuple[str, ...]
    rows: tuple[str, ...]
    inputs: tuple[str, ...]
    value: Program
    first: Program
    second: Program


def derivative_tapes(element: Element, model: Model | None = None) -> Derivatives:
    """Exact derivatives of a resolved user element, ready for the compiled core. See `Derivatives`.

    >>> from dalembert import Model, Potential, tx
    >>> model = Model([tx("x", mass=1.0)], [Potential(lambda m: m["x"] ** 4)])
    >>> derivative_tapes(model.elements[0], model).first.n_out
    3
    """
    import casadi as ca

    field = _field(element)
    tape = getattr(element, field) if field else None
    if not isinstance(tape, Tape):
        raise ModelError(f"{element.label}: is not a resolved user element", culprit=element.label)
    m, k, r = len(tape.variables), len(tape.inputs), len(tape.rows)
    q, v, u = ca.SX.sym("q", m), ca.SX.sym("v", m), ca.SX.sym("u", k)
    values = ca.vertcat(*tape.expression(ca.vertsplit(q), ca.vertsplit(v), ca.vertsplit(u)))

    def program(arguments: list[Any], *outputs: Any) -> Program:
        stacked = ca.vertcat(*(ca.vec(ca.densify(x).T) for x in outputs))  # vec is column-major
        return _program(ca, arguments, stacked, element.label)

    if r == 0:
        d = ca.SX.sym("d", m)
        hessian, gradient = ca.hessian(values, q)
        third = ca.jtimes(ca.densify(hessian), q, d) if m else ca.SX(0, 0)
        return Derivatives(
            tape.variables,
            (),
            (),
            program([q], values, gradient),
            program([q], values, gradient, hessian),
            program([q, d], third),
        )
    mu = ca.SX.sym("mu", r)
    z = ca.vertcat(q, v, u)
    hessian = ca.hessian(ca.dot(mu, values), z)[0] if z.numel() else ca.SX(0, 0)
    blocks = [ca.jacobian(values, part) for part in (q, v, u)]
    return Derivatives(
        tape.variables,
        tape.rows,
        tape.inputs,
        program([z], values),
        program([z], values, *blocks),
        program([z, mu], hessian),
    )


def _program(ca: Any, arguments: list[Any], outputs: Any, label: str) -> Program:
    code = _instructions(ca, arguments, outputs, label) if outputs.numel() else []
    constants: dict[str, int] = {}  # by hexadecimal text: equal numbers share a place, 0.0 and -0.0 do not
    rows = []
    n_work = 0
    for op, out, a, b, constant in code:
        if op == "CONST":
            a = constants.setdefault(constant.hex(), len(constants))
        if op != "OUTPUT":
            n_work = max(n_work, out + 1)
        rows.append((_NUMBERS[op], out, a, b))
    return Program(
        np.array(rows, dtype=np.int32).reshape(-1, 4),
        np.array([float.fromhex(c) for c in constants], dtype=np.float64),
        n_work,
        sum(x.numel() for x in arguments),
        outputs.numel(),
    )
