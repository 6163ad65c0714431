"""Tapes: functions as lists of elementary operations, plain immutable data.

`record` keeps the operations of CasADi expressions. Tapes hash, compare and pickle as values; the expression is rebuilt
from the list, never from code. `derivatives` writes the exact derivatives that the compiled core needs as flat numeric
programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import TAPE_OPS
from ..errors import ModelError

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

    @property
    def moving(self) -> bool:
        """Does it read velocities or inputs?"""
        return bool(self.inputs) or any(op == "INPUT" and a >= len(self.variables) for op, _, a, _, _ in self.code)

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


def record(symbolic: Symbolic, values: Sequence[Any], rows: tuple[str, ...], label: str) -> Tape:
    """The tape of scalar SX expressions of a model's symbols; `rows` are the variables that they act on, if they are forces.

    >>> from dalembert import Model, tx
    >>> from dalembert.symbolic import Symbolic
    >>> s = Symbolic(Model([tx("x", mass=1.0)]))
    >>> record(s, [s.variable("x") ** 2], (), "square").variables
    ('x',)
    """
    ca, model = symbolic.ca, symbolic.model
    outputs = ca.vertcat(*(_scalar(ca, x, label) for x in values))
    arguments = ca.vertcat(symbolic.q, symbolic.v, symbolic.u)
    code = _instructions(ca, [arguments], outputs, label)
    nq, nv, used = model.nq, model.nv, {a for op, _, a, _, _ in code if op == "INPUT"}
    names = (*model.variables, *model.velocities)
    refuse_balls(model, [names[i] for i in used if i < nq + nv], label)
    rate = {int(q): nq + int(v) for q, v in zip(*model.configuration.numbers, strict=True)}  # where its velocity is
    columns = [i for i in range(nq) if i in used or rate.get(i) in used]
    inputs = [i for i in range(model.nu) if i + nq + nv in used]
    m = len(columns)
    place = {i: k for k, i in enumerate(columns)} | {rate[i]: m + k for k, i in enumerate(columns)}
    place |= {nq + nv + i: 2 * m + k for k, i in enumerate(inputs)}
    return Tape(
        tuple(model.variables[i] for i in columns),
        tuple(model.inputs[i] for i in inputs),
        rows,
        tuple((op, out, place[a] if op == "INPUT" else a, b, c) for op, out, a, b, c in code),
    )


def refuse_balls(model: Model, names: Iterable[str], label: str) -> None:
    """ModelError if one of the coordinates or velocities is a ball's: derivatives of tapes are by coordinates, and those of a quaternion
    are not free."""
    for ball in model.configuration.places:
        if {*names} & {ball.name, *model.variables[ball.q], *model.velocities[ball.v]}:
            raise ModelError(
                f"{label}: elements of your own cannot see what the ball '{ball.name}' moves; Wrench, springs and dampers can, and "
                "spherical_euler, free_euler have plain angles",
                culprit=ball.name,
            )


def _scalar(ca: Any, value: Any, label: str) -> Any:
    if isinstance(value, (bool, str, ca.MX)) or value is None:
        raise ModelError(f"{label}: must return a CasADi SX expression, not {type(value).__name__}", culprit=label)
    try:
        expression = ca.SX(value)
    except Exception:
        raise ModelError(
            f"{label}: must return a CasADi SX expression, not {type(value).__name__}", culprit=label
        ) from None
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


def derivatives(tape: Tape, label: str = "tape") -> Derivatives:
    """Exact derivatives of a tape, ready for the compiled core. See `Derivatives`; `label` is for messages.

    >>> from dalembert import Model, Potential, tx
    >>> model = Model([tx("x", mass=1.0)], [Potential(lambda m: m["x"] ** 4)])
    >>> derivatives(model.elements[0].tape).first.n_out
    3
    """
    import casadi as ca

    m, k, r = len(tape.variables), len(tape.inputs), len(tape.rows)
    q, v, u = ca.SX.sym("q", m), ca.SX.sym("v", m), ca.SX.sym("u", k)
    values = ca.vertcat(*tape.expression(ca.vertsplit(q), ca.vertsplit(v), ca.vertsplit(u)))

    def program(arguments: list[Any], *outputs: Any) -> Program:
        stacked = ca.vertcat(*(ca.vec(ca.densify(x).T) for x in outputs))  # vec is column-major
        return program_of(arguments, stacked, label)

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


def rate_derivatives(tape: Tape, label: str = "tape") -> Derivatives:
    """Programs of a velocity constraint a(q) v + b(q): `value`: q -> b, a (m); `first` (and `second`, which the core does not run): q -> b, a,
    db/dq (m), da/dq (m, m). ValueError where the tape is not linear in velocities, depends on none, or on inputs.

    >>> from dalembert import Model, VelocityConstraint, tx, ty
    >>> cart = Model([tx("x", ty("y", mass=1.0))], [VelocityConstraint(lambda m: m.velocity("y") - m["x"] * m.velocity("x"))])
    >>> rate_derivatives(cart.elements[0].tape).first.n_out
    9
    """
    import casadi as ca

    if tape.inputs:
        raise ValueError(f"depends on the input '{tape.inputs[0]}': only configuration and velocities may enter")
    m = len(tape.variables)
    q, v = ca.SX.sym("q", m), ca.SX.sym("v", m)
    (rate,) = tape.expression(ca.vertsplit(q), ca.vertsplit(v))
    if not ca.depends_on(rate, v):
        raise ValueError("contains no velocity: a Constraint holds functions of the configuration")
    if not ca.is_linear(rate, v):
        raise ValueError("must be linear in velocities, a(q) v + b(q)")
    a = ca.jacobian(rate, v).T
    b = ca.substitute(rate, v, ca.SX.zeros(m))

    def program(*outputs: Any) -> Program:
        return program_of([q], ca.vertcat(*(ca.vec(ca.densify(x).T) for x in outputs)), label)

    first = program(b, a, ca.jacobian(b, q), ca.jacobian(a, q))
    return Derivatives(tape.variables, (), (), program(b, a), first, first)


def program_of(arguments: list[Any], outputs: Any, label: str) -> Program:
    """The program of CasADi `outputs` (a column) as functions of the symbols `arguments`, one after another; `label` is for messages."""
    import casadi as ca

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
