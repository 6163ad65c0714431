"""Programs of user elements (`dalembert.model.tape`) as C functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.tape import OPERATIONS, Program

if TYPE_CHECKING:
    from .tables import Writer

_NAMES = list(OPERATIONS)

# how an operation is written; {f} is the suffix of functions in single precision
_OPERATORS = {
    "ASSIGN": "{a}",
    "ADD": "{a} + {b}",
    "SUB": "{a} - {b}",
    "MUL": "{a} * {b}",
    "DIV": "{a} / {b}",
    "NEG": "-{a}",
    "INV": "R(1.0) / {a}",
    "SQ": "{a} * {a}",
    "TWICE": "{a} + {a}",
    "SIGN": "{a} > 0 ? R(1.0) : {a} < 0 ? R(-1.0) : {a}",
    "FMIN": "{a} < {b} ? {a} : {b}",
    "FMAX": "{a} > {b} ? {a} : {b}",
    "LT": "{a} < {b} ? R(1.0) : 0",
    "LE": "{a} <= {b} ? R(1.0) : 0",
    "EQ": "{a} == {b} ? R(1.0) : 0",
    "NE": "{a} != {b} ? R(1.0) : 0",
    "NOT": "{a} == 0 ? R(1.0) : 0",
    "AND": "{a} != 0 && {b} != 0 ? R(1.0) : 0",
    "OR": "{a} != 0 || {b} != 0 ? R(1.0) : 0",
    "IF_ELSE_ZERO": "{a} != 0 ? {b} : 0",
}


def tape_functions(tapes: Sequence[dict[str, Any]], used: Sequence[int], write: Writer) -> str:
    """A function per program, and `run_tape`, which chooses between them by number."""
    parts = [_function(number, tapes[number], write) for number in used]
    cases = "".join(f"    case {n}: tape_{n}(x, y); break;\n" for n in used)
    head = "static void run_tape(int number_of_tape, const real *x, real *y) {\n  switch (number_of_tape) {\n"
    return "\n".join([*parts, f"{head}{cases}    default: break;\n  }}\n}}\n"])


def program_function(name: str, program: Program, write: Writer) -> str:
    """A program as a C function of this name."""
    tape = {"code": np.asarray(program.code).ravel().tolist(), "constants": program.constants.tolist()}
    return _function(0, tape | {"n_work": program.n_work}, write).replace("tape_0", name, 1)


def _function(number: int, tape: dict[str, Any], write: Writer) -> str:
    suffix = "f" if write.real == "float" else ""
    code, constants = tape["code"], tape["constants"]
    lines = []
    for k in range(0, len(code), 4):
        name, out, a, b = _NAMES[code[k]], code[k + 1], code[k + 2], code[k + 3]
        if name == "CONST":
            lines.append(f"  w[{out}] = {write.number(constants[a])};")
        elif name == "INPUT":
            lines.append(f"  w[{out}] = x[{a}];")
        elif name == "OUTPUT":
            lines.append(f"  y[{out}] = w[{a}];")
        elif name in _OPERATORS:
            lines.append(f"  w[{out}] = {_OPERATORS[name].format(a=f'w[{a}]', b=f'w[{b}]')};")
        else:
            both = f"w[{a}], w[{b}]" if OPERATIONS[name] == 2 else f"w[{a}]"
            lines.append(f"  w[{out}] = {name.lower()}{suffix}({both});")
    unused = "" if any("x[" in line for line in lines) else "  (void)x;\n"
    body = "\n".join(lines)
    return f"static void tape_{number}(const real *x, real *y) {{\n  real w[{max(1, tape['n_work'])}];\n{unused}{body}\n}}\n"
