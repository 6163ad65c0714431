"""Parameters: numbers of a model that have a name, and numbers computed from them.

A `Parameter` is a float, so it stands wherever a model takes a number. Sums, products, quotients and powers of parameters are again
such floats: `m * l**2 / 12` knows its value, the parameters it depends on (`by`: derivatives by name), and how to compute itself for
other values (`revalue`). The compiler calculates with them as with plain numbers; what arrives in the compiled description says by itself where
each parameter went, and with which derivative.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import number
from ..errors import ModelError

__all__ = ["Parameter", "Quantity"]

Operation = tuple[Callable[..., float], Callable[..., tuple[float, ...]]]  # value, and derivatives by the operands

_OPERATIONS: dict[str, Operation] = {
    "+": (lambda a, b: a + b, lambda a, b: (1.0, 1.0)),
    "-": (lambda a, b: a - b, lambda a, b: (1.0, -1.0)),
    "*": (lambda a, b: a * b, lambda a, b: (b, a)),
    "/": (lambda a, b: a / b, lambda a, b: (1.0 / b, -a / (b * b))),
    "**": (lambda a, b: a**b, lambda a, b: (b * a ** (b - 1.0), a**b * math.log(a) if a > 0 else 0.0)),
    "neg": (lambda a: -a, lambda a: (-1.0,)),
    "sin": (math.sin, lambda a: (math.cos(a),)),
    "cos": (math.cos, lambda a: (-math.sin(a),)),
    "sqrt": (math.sqrt, lambda a: (0.5 / math.sqrt(a),)),
}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
_UFUNCS = {np.add, np.subtract, np.multiply, np.divide, np.power, np.negative, np.sin, np.cos, np.sqrt, np.matmul}


class Quantity(float):
    """A number that depends on parameters. Made by arithmetic (+ - * / **, numpy's sin, cos, sqrt), not by hand.

    `by`: derivative by each parameter, by its name. Any other function of it (`math.exp`, `float`, `np.array`) gives a plain number.

    >>> length = Parameter("l", 2.0)
    >>> half = length / 2
    >>> half, float(half), half.by
    (l/2, 1.0, {'l': 0.5})
    """

    __slots__ = ("by", "operands", "operation")
    by: dict[str, float]
    operation: str
    operands: tuple[float, ...]

    def __repr__(self) -> str:
        return formula(self)

    def __reduce__(self) -> Any:
        return (_apply, (self.operation, *self.operands))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # numpy would take the value and forget where it came from
        kind = object if ufunc in _UFUNCS and method == "__call__" else float
        arrays = [np.asarray(x, dtype=kind) if isinstance(x, Quantity) else np.asarray(x) for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    # arithmetic; numpy calls sin, cos and sqrt of the entries of object arrays
    def __add__(self, other: Any) -> Any:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("/", other, self)

    def __pow__(self, other: Any, modulo: None = None) -> Any:
        return _binary("**", self, other)

    def __rpow__(self, other: Any, modulo: None = None) -> Any:
        return _binary("**", other, self)

    def __neg__(self) -> Any:
        return _apply("neg", self)

    def __pos__(self) -> Any:
        return self

    def sin(self) -> Any:
        """Sine."""
        return _apply("sin", self)

    def cos(self) -> Any:
        """Cosine."""
        return _apply("cos", self)

    def sqrt(self) -> Any:
        """Square root."""
        return _apply("sqrt", self)


class Parameter(Quantity):
    """A named number of a model: a mass, a length, a stiffness, whatever a model takes as a number.

    `bounds` (lower, upper; None: unlimited) are kept by `Model.with_parameters` and `identify`; `unit` is a text for reports. Places that share a
    parameter share its name and value; arithmetic with it stays tied to it (see `Quantity`).

    >>> from dalembert import Gravity, Model, Parameter, rx, tz
    >>> l = Parameter("l", 0.5, bounds=(0.1, None), unit="m")
    >>> rod = Model([rx("theta", tz(-l / 2, mass=1.0, inertia=(l**2 / 12, l**2 / 12, 0)))], [Gravity()])
    >>> rod.parameters
    {'l': Parameter('l', 0.5, bounds=(0.1, None), unit='m')}
    >>> rod.with_parameters({"l": 0.8}).frames[0].children[0].value
    -l/2
    """

    __slots__ = ("bounds", "name", "unit")
    name: str
    bounds: tuple[float | None, float | None]
    unit: str

    def __new__(
        cls,
        name: str,
        value: float,
        *,
        bounds: tuple[float | None, float | None] = (None, None),
        unit: str = "",
    ) -> Parameter:
        if not isinstance(name, str) or not name:
            raise ModelError(f"a parameter needs a non-empty name, not {name!r}", culprit="parameter")
        label = f"parameter '{name}'"
        try:
            self = super().__new__(cls, float(number(value, label)))
            low, high = (None if b is None else float(number(b, f"{label}: bound")) for b in bounds)
        except ValueError as error:
            raise ModelError(str(error), culprit=name) from None
        except TypeError:
            raise ModelError(f"{label}: bounds are (lower, upper), not {bounds!r}", culprit=name) from None
        if not isinstance(unit, str):
            raise ModelError(f"{label}: unit must be a text, not {unit!r}", culprit=name)
        self.name, self.bounds, self.unit, self.by = name, (low, high), unit, {name: 1.0}
        self.operation, self.operands = "", ()
        if not self.allows(float(self)):
            raise ModelError(f"{label}: {float(self):g} is outside of its bounds {self.bounds}", culprit=name)
        return self

    def allows(self, value: float) -> bool:
        """Is a value within the bounds?

        >>> Parameter("m", 1.0, bounds=(0, None)).allows(-1.0)
        False
        """
        low, high = self.bounds
        return (low is None or value >= low) and (high is None or value <= high)

    def with_value(self, value: float, *, check: bool = True) -> Parameter:
        """The same parameter with another value; outside of its bounds only where `check` is False.

        >>> Parameter("m", 1.0, unit="kg").with_value(2.0)
        Parameter('m', 2.0, unit='kg')
        """
        if check:
            return Parameter(self.name, value, bounds=self.bounds, unit=self.unit)
        new = Parameter(self.name, value, unit=self.unit)
        new.bounds = self.bounds
        return new

    def __repr__(self) -> str:
        more = f", bounds={self.bounds}" if self.bounds != (None, None) else ""
        more += f", unit={self.unit!r}" if self.unit else ""
        return f"Parameter({self.name!r}, {float(self)!r}{more})"

    def __reduce__(self) -> Any:
        return (_parameter, (self.name, float(self), self.bounds, self.unit))


def _parameter(name: str, value: float, bounds: Any, unit: str) -> Parameter:
    return Parameter(name, value, bounds=bounds, unit=unit)


def _apply(operation: str, *operands: float) -> Quantity:
    value, slopes = _OPERATIONS[operation]
    plain = [float(x) for x in operands]
    self = Quantity.__new__(Quantity, value(*plain))
    self.operation, self.operands = operation, operands
    self.by = {}
    for x, slope in zip(operands, slopes(*plain), strict=True):
        if isinstance(x, Quantity):
            for name, d in x.by.items():
                self.by[name] = self.by.get(name, 0.0) + slope * d
    return self


def _binary(operation: str, a: Any, b: Any) -> Any:
    for x in (a, b):
        if not isinstance(x, (float, int)) or isinstance(x, bool):
            if isinstance(x, np.ndarray):  # entry by entry
                first, second = (np.asarray(y, dtype=object) for y in (a, b))
                ufunc = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power}[operation]
                return ufunc(first, second)
            return NotImplemented
    # what changes nothing is left away: sparse rotations would make long formulas
    if operation == "*" and (_is(a, 0.0) or _is(b, 0.0)):
        return 0.0
    if (operation in "+-" and _is(b, 0.0)) or (operation in ("*", "/", "**") and _is(b, 1.0)):
        return a
    if (operation == "+" and _is(a, 0.0)) or (operation == "*" and _is(a, 1.0)):
        return b
    if (operation == "*" and _is(a, -1.0)) or (operation == "-" and _is(a, 0.0)):
        return -b
    return _apply(operation, a, b)


def _is(x: Any, value: float) -> bool:
    return not isinstance(x, Quantity) and x == value


def parameters_in(value: Any) -> Iterator[Parameter]:
    """The parameters that a number, or a nest of tuples and lists, depends on; each object once, in the order of appearance.

    >>> m, l = Parameter("m", 1.0), Parameter("l", 2.0)
    >>> [p.name for p in parameters_in((m * l**2, 3.0, m))]
    ['m', 'l']
    """
    seen: set[int] = set()
    stack = [value]
    while stack:
        x = stack.pop()
        if isinstance(x, (tuple, list)):
            stack += reversed(x)
        elif isinstance(x, Quantity) and id(x) not in seen:
            seen.add(id(x))
            if isinstance(x, Parameter):
                yield x
            stack += reversed(x.operands)


class Revalued:
    """Calculates quantities again, for other values of their parameters; what they share is calculated once.

    >>> l = Parameter("l", 2.0)
    >>> float(Revalued({"l": Parameter("l", 3.0)})(l**2 / 12))
    0.75
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self.parameters = parameters
        self._done: dict[int, tuple[Quantity, float]] = {}  # the old one is kept, so that its id stays its own

    def __call__(self, value: Any) -> Any:
        """The value with every quantity in it calculated again; tuples and lists as they are."""
        if isinstance(value, (tuple, list)):
            return type(value)(map(self, value))
        if not isinstance(value, Quantity):
            return value
        stack: list[Quantity] = [value]  # formulas may be deep
        while stack:
            x = stack[-1]
            if id(x) in self._done:
                stack.pop()
                continue
            waiting = [y for y in x.operands if isinstance(y, Quantity) and id(y) not in self._done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if isinstance(x, Parameter):
                self._done[id(x)] = (x, self.parameters.get(x.name, x))
            else:
                operands = [self._done[id(y)][1] if isinstance(y, Quantity) else y for y in x.operands]
                self._done[id(x)] = (x, _apply(x.operation, *operands))
        return self._done[id(value)][1]


class Formulas:
    """Many quantities as one list of operations on plain numbers, for their values at other parameters: what they share is calculated once.

    >>> l = Parameter("l", 2.0)
    >>> Formulas([l**2 / 12, l + 1])({"l": Parameter("l", 3.0)})
    [0.75, 4.0]
    """

    def __init__(self, quantities: Sequence[Quantity]) -> None:
        self._start: list[float] = []  # constants and values as they were, one place for everything
        self._names: list[tuple[int, str]] = []
        self._steps: list[tuple[int, Callable[..., float], tuple[int, ...]]] = []
        place: dict[int, int] = {}
        for quantity in quantities:
            stack: list[float] = [quantity]  # formulas may be deep
            while stack:
                x = stack[-1]
                waiting = [y for y in x.operands if id(y) not in place] if isinstance(x, Quantity) else []
                if id(x) not in place and waiting:
                    stack += waiting
                    continue
                stack.pop()
                if id(x) in place:
                    continue
                place[id(x)] = len(self._start)
                self._start.append(float(x))
                if isinstance(x, Parameter):
                    self._names.append((place[id(x)], x.name))
                elif isinstance(x, Quantity):
                    value = _OPERATIONS[x.operation][0]
                    self._steps.append((place[id(x)], value, tuple(place[id(y)] for y in x.operands)))
        self._found = [place[id(x)] for x in quantities]
        self._kept = tuple(quantities)  # their parts keep their ids

    def __call__(self, parameters: Mapping[str, float]) -> list[float]:
        """The values of the quantities."""
        at = self._start.copy()
        for i, name in self._names:
            if name in parameters:
                at[i] = float(parameters[name])
        for i, value, operands in self._steps:
            at[i] = value(*[at[k] for k in operands])
        return [at[i] for i in self._found]


def present(x: float) -> bool:
    """Is a number not zero, or may it become so?

    >>> present(0.0), present(Parameter("k", 0.0))
    (False, True)
    """
    return bool(x) or isinstance(x, Quantity)


def array(values: Any) -> NDArray[Any]:
    """An array of numbers: of floats, or of objects where one depends on parameters.

    >>> array([1, 2]).dtype, array([1, Parameter("m", 2.0)]).dtype
    (dtype('float64'), dtype('O'))
    """
    objects = np.array(values, dtype=object)
    return objects if any(isinstance(x, Quantity) for x in objects.ravel()) else objects.astype(np.float64)


# ---- formulas as text, for files


def formula(value: float) -> str:
    """A quantity as text that `parse` reads.

    >>> m, l = Parameter("m", 1.0), Parameter("l", 2.0)
    >>> formula(m * (l + 1) ** 2 / -12)
    'm*(l + 1)**2/(-12)'
    """
    if isinstance(value, Parameter):
        return value.name if value.name.isidentifier() else f'"{value.name}"'
    if not isinstance(value, Quantity):
        text = f"{float(value):.17g}" if float(value) != float(f"{value:g}") else f"{value:g}"
        return f"({text})" if text.startswith("-") else text
    parts = []
    for i, x in enumerate(value.operands):
        text = formula(x)
        mine, its = _PRECEDENCE.get(value.operation), _PRECEDENCE.get(getattr(x, "operation", ""))
        if mine and its and (its < mine or (its == mine and (i == 1) != (value.operation == "**"))):
            text = f"({text})"
        parts.append(text)
    if value.operation in ("+", "-"):
        return f" {value.operation} ".join(parts)
    if len(parts) == 2:
        return value.operation.join(parts)
    return f"-{parts[0]}" if value.operation == "neg" else f"{value.operation}({parts[0]})"


_SYNTAX: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


def parse(text: str, parameters: Mapping[str, Parameter]) -> float:
    """The number that a formula gives, tied to its parameters; ValueError if it is none.

    >>> parse("l/2 + 1", {"l": Parameter("l", 2.0)}).by
    {'l': 0.5}
    """

    def walk(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return float(node.value)
        name = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str):
            if name not in parameters:
                raise ValueError(f"unknown parameter {name!r} in formula {text!r}")
            return parameters[name]
        if isinstance(node, ast.BinOp) and type(node.op) in _SYNTAX:
            return _OPERATIONS[_SYNTAX[type(node.op)]][0](walk(node.left), walk(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return -walk(node.operand) if isinstance(node.op, ast.USub) else walk(node.operand)
        call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1
        if call and not node.keywords and node.func.id in ("sin", "cos", "sqrt"):  # type: ignore[attr-defined]
            what, x = node.func.id, walk(node.args[0])  # type: ignore[attr-defined]
            return _apply(what, x) if isinstance(x, Quantity) else getattr(math, what)(x)
        raise ValueError(f"{text!r} is not a formula of parameters (+ - * / **, sin, cos, sqrt)")

    if len(text) > 10_000:
        raise ValueError("a formula of parameters is too long")
    try:
        value = walk(ast.parse(text, mode="eval").body)
        if math.isfinite(value):
            return float(value) if not isinstance(value, Quantity) else value
    except (SyntaxError, RecursionError, ArithmeticError, TypeError, MemoryError):
        pass
    raise ValueError(f"{text!r} is not a formula of parameters (+ - * / **, sin, cos, sqrt)")


def collect(values: Iterable[Any]) -> dict[str, Parameter]:
    """Parameters by name; `ModelError` where one name has two values, bounds or units.

    >>> list(collect([Parameter("m", 1.0), (2.0, Parameter("l", 1.0) / 2)]))
    ['m', 'l']
    """
    found: dict[str, Parameter] = {}
    for p in parameters_in(list(values)):
        other = found.setdefault(p.name, p)
        if (float(other), other.bounds, other.unit) != (float(p), p.bounds, p.unit):
            raise ModelError(f"parameter '{p.name}' is given twice and differently: {other} and {p}", culprit=p.name)
    return found
