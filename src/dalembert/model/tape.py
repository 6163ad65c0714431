"""Tapes: functions as lists of elementary operations, plain immutable data.

`record` keeps the operations of CasADi expressions. Tapes hash, compare and pickle as values; the expression is rebuilt
from the list, never from code. `derivatives` writes the exact derivatives that the compiled core needs as flat numeric
programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import TAPE_OPS
from ..errors import ModelError

if TYPE_CHECKING:
    from ..symbolic import Symbolic

# Operations of tapes and programs: {name: number of operands}, numbered in this order; their meaning is in cpp/elements/tape.hpp.
OPERATIONS: dict[str, int] = dict(TAPE_OPS)
_NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}


@dataclass(frozen=True)
class Tape:
    """A function as a list of elementary operations.

    `variables`, `inputs` and `balls` are the names it depends on, `rows` the variables (of balls: velocities, "b.wx") that a `Force` acts
    on. The arguments are one flat list: q of `variables`, then v of `variables`, then u of `inputs`, then of each ball its quaternion
    (4) and its angular velocity in body axes (3). Each line of `code` is (operation, out, in1, in2, constant), see `OPERATIONS`; unused
    entries are 0.

    >>> import casadi as ca
    >>> square = Tape(("x",), (), (), (("INPUT", 0, 0, 0, 0.0), ("SQ", 0, 0, 0, 0.0), ("OUTPUT", 0, 0, 0, 0.0)))
    >>> square.expression([ca.SX.sym("x")])
    [SX(sq(x))]
    """

    variables: tuple[str, ...]
    inputs: tuple[str, ...]
    rows: tuple[str, ...]
    code: tuple[tuple[str, int, int, int, float], ...]
    balls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lists = ("variables", "inputs", "rows", "balls")
        names = [tuple(str(s) for s in getattr(self, part)) for part in lists]
        code = tuple((str(op), int(o), int(a), int(b), float(c)) for op, o, a, b, c in self.code)
        for key, value in zip((*lists, "code"), (*names, code), strict=True):
            object.__setattr__(self, key, value)
        self._check()

    def _check(self) -> None:
        """A tape may come from a file: every line must be known and read only what was written before."""
        written: set[int] = set()
        outputs: set[int] = set()
        n_in = self._turns + 7 * len(self.balls)
        for line, (op, out, a, b, constant) in enumerate(self.code):
            good = op in OPERATIONS and out >= 0 and math.isfinite(constant)
            good &= op != "INPUT" or 0 <= a < n_in
            good &= all(place in written for place in (a, b)[: OPERATIONS.get(op, 0)])
            if not good:
                raise ModelError(f"tape, line {line}: bad instruction {self.code[line]}", culprit="tape")
            (outputs if op == "OUTPUT" else written).add(out)
        if outputs != set(range(max(1, len(self.rows)))):
            raise ModelError("tape: outputs are missing or too many", culprit="tape")
        turned = {f"{ball}.w{axis}" for ball in self.balls for axis in "xyz"}
        for row in self.rows if self.balls else ():
            if row not in turned and row not in self.variables:
                raise ModelError(f"tape: it acts on {row!r} and must list it with its variables", culprit="tape")

    @property
    def _turns(self) -> int:
        """Where the arguments of the balls begin."""
        return 2 * len(self.variables) + len(self.inputs)

    @property
    def moving(self) -> bool:
        """Does it read velocities or inputs?"""
        m, first = len(self.variables), self._turns
        read = [a for op, _, a, _, _ in self.code if op == "INPUT"]
        return bool(self.inputs) or any(m <= a < first or (a >= first and (a - first) % 7 >= 4) for a in read)

    def expression(
        self, q: Sequence[Any], v: Sequence[Any] = (), u: Sequence[Any] = (), turns: Sequence[Sequence[Any]] = ()
    ) -> list[Any]:
        """The values, as CasADi expressions of the given ones (or numbers of given `DM`); `turns`: for each of `balls` its quaternion (4)
        and its angular velocity (3, or nothing)."""
        import casadi as ca

        m = len(self.variables)
        if len(q) != m or len(v) not in (0, m) or len(u) not in (0, len(self.inputs)):
            raise ValueError(f"expected {m} variables and {len(self.inputs)} inputs, got {len(q)}, {len(v)}, {len(u)}")
        if len(turns) != len(self.balls) or any(len(x) not in (4, 7) for x in turns):
            raise ValueError(f"expected quaternion and angular velocity of {len(self.balls)} balls")
        arguments = [*q, *(v if len(v) else [0.0] * m), *(u if len(u) else [0.0] * len(self.inputs))]
        for turn in turns:
            arguments += [*turn, *([0.0] * (7 - len(turn)))]
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
    """The tape of scalar SX expressions of a model's symbols; `rows` are the variables (of balls: velocities) that they act on, if they
    are forces.

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
    rate = {int(q): nq + int(v) for q, v in zip(*model.configuration.numbers, strict=True)}  # where its velocity is
    places = {ball.name: (*range(nq)[ball.q], *range(nq, nq + nv)[ball.v]) for ball in model.configuration.places}
    forced = {nq + model.velocity_index(row) for row in rows}
    balls = [ball for ball, its in places.items() if (used | forced).intersection(its)]
    seen = used | forced if balls else used  # the core has rows of forces on balls among their variables
    columns = [i for i in range(nq) if i in rate and (i in seen or rate[i] in seen)]
    inputs = [i for i in range(model.nu) if i + nq + nv in used]
    m = len(columns)
    place = {i: k for k, i in enumerate(columns)} | {rate[i]: m + k for k, i in enumerate(columns)}
    place |= {nq + nv + i: 2 * m + k for k, i in enumerate(inputs)}
    for k, ball in enumerate(balls):
        place |= {i: 2 * m + len(inputs) + 7 * k + c for c, i in enumerate(places[ball])}
    return Tape(
        tuple(model.variables[i] for i in columns),
        tuple(model.inputs[i] for i in inputs),
        rows,
        tuple((op, out, place[a] if op == "INPUT" else a, b, c) for op, out, a, b, c in code),
        tuple(balls),
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
    """Programs of a user element on its local variables (m of them: `variables`, and three of each ball), all matrices row-major.

    Potential, Constraint: `value`: x -> value, gradient (m); `first`: x -> value, gradient, Hessian (m, m);
    `second`: x, d (m) -> third derivative contracted with d (m, m).

    Force (r `rows`, k `inputs`, x = (q, v, u) of size 2m + k): `value`: x -> F (r); `first`: x -> F, F_q (r, m), F_v
    (r, m), F_u (r, k); `second`: x, mu (r) -> Hessian of mu.F with respect to x (2m + k, 2m + k).

    Of a ball the local variables are the angles of three hinges about x, y, z, one after the other, from where the ball is (docs/kernels.md
    13): zero where a program runs, so their places in x are not read, and the velocities are those along body axes. Every program
    has the quaternions of its balls as its last arguments. The rows of a force on balls are all local variables; its `second` is
    `first`, which the core differentiates by itself.
    """

    variables: tuple[str, ...]
    rows: tuple[str, ...]
    inputs: tuple[str, ...]
    value: Program
    first: Program
    second: Program


class _Arguments:
    """Symbols of the local variables `q` (m) and their velocities `v` (m), inputs `u` and quaternions `turns` (4 per ball); `values` are the
    outputs of the tape in terms of them."""

    def __init__(self, tape: Tape, label: str) -> None:
        import casadi as ca

        self.ca, self.label, scalars = ca, label, len(tape.variables)
        components = [f"{ball}.w{axis}" for ball in tape.balls for axis in "xyz"]
        self.variables = (*tape.variables, *components)
        self.size = len(self.variables)
        self.q, self.v = ca.SX.sym("q", self.size), ca.SX.sym("v", self.size)
        self.u, self.turns = ca.SX.sym("u", len(tape.inputs)), ca.SX.sym("Q", 4 * len(tape.balls))
        self.angles = self.q[scalars:]
        self.bodies = []  # per ball: place of its first component, E with w = E(angles) velocities
        turns = []
        for i in range(len(tape.balls)):
            at = scalars + 3 * i
            quaternion, E = _from_here(ca, self.turns[4 * i : 4 * i + 4], self.q[at : at + 3])
            turns.append([*ca.vertsplit(quaternion), *ca.vertsplit(E @ self.v[at : at + 3])])
            self.bodies.append((at, E))
        q, v = ca.vertsplit(self.q)[:scalars], ca.vertsplit(self.v)[:scalars]
        self.values = ca.vertcat(*tape.expression(q, v, ca.vertsplit(self.u), turns))

    def forces(self, on: dict[str, Any]) -> Any:
        """Forces on all local variables of those on some: torques along body axes become those about the three hinges."""
        out = self.ca.vertcat(*(on.get(name, 0) for name in self.variables))
        for at, E in self.bodies:
            out[at : at + 3] = E.T @ out[at : at + 3]
        return out

    def program(self, arguments: list[Any], *outputs: Any) -> Program:
        """The outputs (rows of matrices one after another) where the angles of balls are zero."""
        ca = self.ca
        stacked = ca.vertcat(*(ca.vec(ca.densify(x).T) for x in outputs))  # vec is column-major
        if self.bodies and stacked.numel():
            stacked = ca.densify(ca.substitute(stacked, self.angles, ca.SX.zeros(*self.angles.shape)))
        return program_of([*arguments, self.turns], stacked, self.label)


def _from_here(ca: Any, turn: Any, angles: Any) -> tuple[Any, Any]:
    """Quaternion after three turns about x, y, z in the body, and E of its angular velocity E(angles) angles'."""
    c, s = ca.cos(angles / 2), ca.sin(angles / 2)
    for axis in range(3):
        w, a, b, d = (turn[i] for i in (0, 1 + axis, 1 + (axis + 1) % 3, 1 + (axis + 2) % 3))
        turned = [
            w * c[axis] - a * s[axis],
            w * s[axis] + a * c[axis],
            b * c[axis] + d * s[axis],
            d * c[axis] - b * s[axis],
        ]
        parts = {0: turned[0], 1 + axis: turned[1], 1 + (axis + 1) % 3: turned[2], 1 + (axis + 2) % 3: turned[3]}
        turn = ca.vertcat(*(parts[i] for i in range(4)))
    c, s = ca.cos(angles), ca.sin(angles)
    E = ca.vertcat(
        ca.horzcat(c[1] * c[2], s[2], 0),
        ca.horzcat(-c[1] * s[2], c[2], 0),
        ca.horzcat(s[1], 0, 1),
    )
    return turn, E


def derivatives(tape: Tape, label: str = "tape") -> Derivatives:
    """Exact derivatives of a tape, ready for the compiled core. See `Derivatives`; `label` is for messages.

    >>> from dalembert import Model, Potential, tx
    >>> model = Model([tx("x", mass=1.0)], [Potential(lambda m: m["x"] ** 4)])
    >>> derivatives(model.elements[0].tape).first.n_out
    3
    """
    import casadi as ca

    a = _Arguments(tape, label)
    q, v, u, values = a.q, a.v, a.u, a.values
    if not tape.rows:
        d = ca.SX.sym("d", a.size)
        hessian, gradient = ca.hessian(values, q)
        third = ca.jtimes(ca.densify(hessian), q, d) if a.size else ca.SX(0, 0)
        return Derivatives(
            a.variables,
            (),
            (),
            a.program([q], values, gradient),
            a.program([q], values, gradient, hessian),
            a.program([q, d], third),
        )
    rows = tape.rows
    if a.bodies:
        values, rows = a.forces(dict(zip(rows, ca.vertsplit(values), strict=True))), a.variables
    mu = ca.SX.sym("mu", len(rows))
    z = ca.vertcat(q, v, u)
    first = a.program([z], values, *(ca.jacobian(values, part) for part in (q, v, u)))
    second = first
    if not a.bodies:  # with balls the core differentiates `first`, by duals
        second = a.program([z, mu], ca.hessian(ca.dot(mu, values), z)[0] if z.numel() else ca.SX(0, 0))
    return Derivatives(a.variables, rows, tape.inputs, a.program([z], values), first, second)


def rate_derivatives(tape: Tape, label: str = "tape") -> Derivatives:
    """Programs of a velocity constraint a(q) v + b(q): `value`: q -> b, a (m); `first` (and `second`, which the core does not run): q -> b, a,
    db/dq (m), da/dq (m, m). ValueError where the tape is not linear in velocities, depends on none, or on inputs.

    >>> from dalembert import Model, VelocityConstraint, tx, ty
    >>> cart = Model([tx("x", ty("y", mass=1.0))], [VelocityConstraint(lambda m: m.velocity("y") - m["x"] * m.velocity("x"))])
    >>> rate_derivatives(cart.elements[0].tape).first.n_out
    9
    """
    if tape.inputs:
        raise ValueError(f"depends on the input '{tape.inputs[0]}': only configuration and velocities may enter")
    arguments = _Arguments(tape, label)
    ca, q, v, rate = arguments.ca, arguments.q, arguments.v, arguments.values
    if not ca.depends_on(rate, v):
        raise ValueError("contains no velocity: a Constraint holds functions of the configuration")
    if not ca.is_linear(rate, v):
        raise ValueError("must be linear in velocities, a(q) v + b(q)")
    a = ca.jacobian(rate, v).T
    b = ca.substitute(rate, v, ca.SX.zeros(arguments.size))
    first = arguments.program([q], b, a, ca.jacobian(b, q), ca.jacobian(a, q))
    return Derivatives(arguments.variables, (), (), arguments.program([q], b, a), first, first)


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
