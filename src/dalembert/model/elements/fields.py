"""What the fields of elements hold. A field checks a given value, and reads and writes it in files, so that an element needs
no code for either and files need no list of elements.

The annotation of a dataclass field says which one it is::

    stiffness: Number
    axis: Axis = (0.0, 0.0, 1.0)

Files give and take plain data: numbers, texts, lists, tables. `layout` says how a text writes such data: "one" value, a
"row" of values, "rows" (a list of rows, or one text), or named "parts".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from ...arrays import number
from ...errors import ModelError
from ..frames import Kinematic
from ..spline import Spline
from ..tape import Tape


class Unsuited(Exception):
    """A value does not suit its field: `subject` `reason`, as "coefficient of 'x'" "is not finite (nan)".

    Without a subject (None) the complaint is about the field itself; "" says that `reason` is the whole sentence. `path`
    leads to the wrong part inside the value.
    """

    def __init__(self, reason: str, *path: str | int, subject: str | None = None, culprit: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.path, self.subject, self.culprit = reason, path, subject, culprit

    def about(self, field: str) -> str:
        """The complaint as a sentence, where the field is called so."""
        return f"{field if self.subject is None else self.subject} {self.reason}".strip()


class Field:
    """Base of all fields: any value, one name or number in files."""

    layout: ClassVar[str] = "one"
    in_label: ClassVar[bool] = False  # messages name the element by this field

    def check(self, value: object) -> Any:
        """The value as the element keeps it; raises `Unsuited`."""
        return value

    def read(self, plain: object) -> Any:
        """The value that a file gives as plain data; raises `Unsuited`."""
        return self.check(plain)

    def write(self, value: object) -> Any:
        """A value as plain data."""
        return value

    # what a value mentions

    def frames(self, value: object) -> tuple[str, ...]:
        """Names of frames."""
        return ()

    def variables(self, value: object) -> tuple[str, ...]:
        """Names of variables."""
        return ()

    def inputs(self, value: object) -> tuple[str, ...]:
        """Names of inputs."""
        return ()

    def kinematic(self, value: object) -> tuple[str, ...]:
        """Names of kinematic variables that exist because this value mentions them."""
        return ()


def shown(value: object) -> str:
    """A value in a message, cut to a readable length.

    >>> shown("x" * 100)[-4:]
    'x...'
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits has no repr
        text = type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."


# ---- names


class TextField(Field):
    """A text that is not empty."""

    def check(self, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise Unsuited(f"must be a non-empty string, not {shown(value)}")
        return value


class NameField(TextField):
    """Name of a part of the model: whether there is one is for the Model to say, so any value will do until then."""

    in_label = True

    def check(self, value: object) -> Any:
        return value

    def read(self, plain: object) -> str:
        return super().check(plain)


class FrameField(NameField):
    """Name of a frame."""

    def frames(self, value: Any) -> tuple[str, ...]:
        return (value,)


class VariableField(NameField):
    """Name of a variable."""

    def variables(self, value: Any) -> tuple[str, ...]:
        return (value,)


class InputField(NameField):
    """Name of an input."""

    in_label = False

    def inputs(self, value: Any) -> tuple[str, ...]:
        return (value,)


class ChoiceField(TextField):
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def check(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.words:
            *most, last = map(repr, self.words)
            raise Unsuited(f"must be {', '.join(most)} or {last}, not {shown(value)}")
        return value


class NamesField(Field):
    """Several names."""

    layout = "row"
    what: ClassVar[str] = "names"

    def check(self, value: object) -> tuple[str, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise Unsuited(f"must be a list of {self.what}, not {shown(value)}")
        for i, name in enumerate(value):
            if name in value[:i]:
                raise Unsuited(f"must be a list of different {self.what}: {shown(name)} appears twice", i)
        return tuple(value)

    def read(self, plain: object) -> tuple[str, ...]:
        names = self.check(plain)
        for i, name in enumerate(names):
            if not isinstance(name, str) or not name:
                raise Unsuited(f"must be a non-empty string, not {shown(name)}", i)
        return names

    def write(self, value: Any) -> Any:
        return list(value)


class FramesField(NamesField):
    """Names of frames, or None: all of them."""

    what = "frame names"

    def check(self, value: object) -> Any:
        return None if value is None else super().check(value)

    def read(self, plain: object) -> tuple[str, ...]:
        if plain is None:
            raise Unsuited("must be a list of frame names")
        return super().read(plain)

    def frames(self, value: Any) -> tuple[str, ...]:
        return value or ()


class InputsField(NamesField):
    """Names of inputs."""

    what = "input names"

    def inputs(self, value: Any) -> tuple[str, ...]:
        return tuple(value)


# ---- numbers


class NumberField(Field):
    """A finite number. All numbers of elements pass here on their way in, and `Table` on their way to the core."""

    def check(self, value: object) -> float:
        try:
            return number(value, "it")
        except ValueError as error:
            raise Unsuited(str(error).removeprefix("it ")) from None


class SizeField(NumberField):
    """A number that is not negative."""

    def check(self, value: object) -> float:
        x = super().check(value)
        if x < 0:
            raise Unsuited(f"must not be negative ({x:g})")
        return x


class ShareField(NumberField):
    """A number from 0 to 1."""

    def check(self, value: object) -> float:
        x = super().check(value)
        if not 0 <= x <= 1:
            raise Unsuited(f"must be between 0 and 1, not {x:g}")
        return x


class BoundField(NumberField):
    """The lower or the upper end of a range: a finite number, or None where it has none."""

    def __init__(self, upper: bool) -> None:
        self.upper = upper

    def check(self, value: object) -> Any:
        return None if value is None else super().check(value)

    def read(self, plain: object) -> float:
        return super().check(plain)


_NUMBER = NumberField()
_LETTERS = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def _inside(path: str | int, check: Callable[[Any], Any], value: Any, subject: str | None = None) -> Any:
    """Check a part of a value; complaints get its place."""
    try:
        return check(value)
    except Unsuited as bad:
        subject = subject if bad.subject is None else bad.subject
        raise Unsuited(bad.reason, path, *bad.path, subject=subject, culprit=bad.culprit) from None


class VectorField(Field):
    """Three numbers."""

    layout = "row"

    def check(self, value: Any) -> tuple[float, float, float]:
        try:
            if isinstance(value, (str, bytes, Mapping)):
                raise TypeError
            x, y, z = value
        except (TypeError, ValueError):
            raise Unsuited(f"needs three numbers, not {shown(value)}") from None
        return (_inside(0, _NUMBER.check, x), _inside(1, _NUMBER.check, y), _inside(2, _NUMBER.check, z))

    def write(self, value: Any) -> Any:
        return list(value)


def _direction(vector: tuple[float, float, float]) -> tuple[float, float, float]:
    """The vector, or a multiple of it where the square of its length would not be a number."""
    size = max(map(abs, vector))
    if 1e-100 < size < 1e100:
        return vector
    x, y, z = (v / size for v in vector)
    return x, y, z


class AxisField(VectorField):
    """A direction: three numbers that are not all zero, or one of the letters x, y, z."""

    def check(self, value: object) -> tuple[float, float, float]:
        if isinstance(value, str) and value in _LETTERS:
            return _LETTERS[value]
        vector = super().check(value)
        if not any(vector):
            raise Unsuited("is zero")
        return _direction(vector)

    def read(self, plain: object) -> tuple[float, float, float]:
        return self.check(plain[0] if isinstance(plain, list) and len(plain) == 1 else plain)  # a row of one letter


class AxesField(Field):
    """Directions: vectors, or letters as "xz"."""

    layout = "rows"

    def check(self, value: object) -> tuple[tuple[float, float, float], ...]:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, str):
            if not value or any(letter not in _LETTERS for letter in value):
                raise Unsuited(f"must be letters of 'xyz' or vectors, not {shown(value)}")
            return tuple(_LETTERS[letter] for letter in value)
        if not isinstance(value, Sequence):
            raise Unsuited(f"must be letters of 'xyz' or vectors, not {shown(value)}")
        vectors = tuple(_inside(i, VectorField().check, v, "direction") for i, v in enumerate(value))
        if not vectors or any(not any(v) for v in vectors):
            raise Unsuited("must be non-zero vectors")
        return tuple(map(_direction, vectors))

    def write(self, value: Any) -> Any:
        return [list(v) for v in value]


class ComponentsField(Field):
    """Three components; each is a number or the name of an input."""

    layout = "row"

    def check(self, value: object) -> tuple[float | str, ...]:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != 3:
            raise Unsuited(f"needs three components, not {shown(value)}")
        return tuple(c if isinstance(c, str) else _inside(i, _NUMBER.check, c) for i, c in enumerate(value))

    def write(self, value: Any) -> Any:
        return list(value)

    def inputs(self, value: Any) -> tuple[str, ...]:
        return tuple(c for c in value if isinstance(c, str))


class LengthField(Field):
    """A positive number, the name of a variable, or a new `Kinematic(name)`."""

    def check(self, value: object) -> float | str | Kinematic:
        if isinstance(value, Kinematic):
            if not isinstance(value.name, str) or not value.name:
                raise Unsuited("must be a non-empty string", subject="the name of a Kinematic")
            return value
        if isinstance(value, str):
            return value
        length = _NUMBER.check(value)
        if length <= 0:
            raise Unsuited("must be positive (for 0 use PointToPoint)")
        return length

    def read(self, plain: object) -> float | str | Kinematic:
        if isinstance(plain, Mapping):
            if set(plain) != {"kinematic"}:
                raise Unsuited('must be a number, a name or {"kinematic": name}')
            return Kinematic(_inside("kinematic", TextField().check, plain["kinematic"]))
        return TextField().check(plain) if isinstance(plain, str) else self.check(plain)

    def write(self, value: object) -> Any:
        return {"kinematic": value.name} if isinstance(value, Kinematic) else value

    def variables(self, value: Any) -> tuple[str, ...]:
        return () if isinstance(value, float) else (value.name if isinstance(value, Kinematic) else value,)

    def kinematic(self, value: object) -> tuple[str, ...]:
        return (value.name,) if isinstance(value, Kinematic) else ()


class CoefficientsField(Field):
    """{variable: number}, kept as pairs; every variable at most once."""

    layout = "rows"

    def check(self, value: Any) -> tuple[tuple[str, float], ...]:
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            pairs = [(k, v) for k, v in (value.items() if isinstance(value, Mapping) else value)]
        except (TypeError, ValueError):
            raise Unsuited("must be {variable: number}") from None
        terms: dict[str, float] = {}
        for i, (name, x) in enumerate(pairs):
            at = name if isinstance(value, Mapping) else i
            if not isinstance(name, str) or not name:
                raise Unsuited(f"needs the name of a variable, not {shown(name)}", at, subject="a coefficient")
            if name in terms:
                raise Unsuited("has two coefficients", at, subject=f"variable '{name}'", culprit=name)
            terms[name] = _inside(at, _NUMBER.check, x, f"coefficient of '{name}'")
        return tuple(terms.items())

    def write(self, value: Any) -> Any:
        return dict(value)

    def variables(self, value: Any) -> tuple[str, ...]:
        return tuple(name for name, _ in value)


class SplineField(Field):
    """A `Spline`, or the table of its points."""

    layout = "rows"

    def check(self, value: Any) -> Spline:
        if isinstance(value, Spline):
            return value
        try:
            return Spline(value)
        except ModelError as error:
            raise Unsuited(error.reason, subject="", culprit=error.culprit) from None

    def read(self, plain: object) -> Spline:
        return self.check(
            [[_inside(i, _NUMBER.check, x) for x in _listed(row, i)] for i, row in enumerate(_listed(plain))]
        )

    def write(self, value: Any) -> Any:
        return [list(point) for point in value.points]


_TAPE_NAMES = ("variables", "inputs", "rows", "balls")  # what a tape lists besides its code


class FunctionField(Field):
    """A function of m; in files, and once a Model is built, its `Tape`."""

    layout = "parts"

    def read(self, plain: object) -> Tape:
        """{"variables": [...], "inputs": [...], "rows": [...], "balls": [...], "code": [[operation, out, in1, in2, constant], ...]}."""
        if not isinstance(plain, Mapping):
            raise Unsuited(f"must be a table, not {shown(plain)}")
        for key in plain:
            if key not in (*_TAPE_NAMES, "code"):
                raise Unsuited(f"has an unknown part {shown(key)}", key, culprit=str(key))
        names = {key: _inside(key, NamesField().read, plain.get(key, [])) for key in _TAPE_NAMES}
        code = [_inside("code", _instruction, line) for line in _listed(plain.get("code"), "code")]
        try:
            return Tape(code=tuple(code), **names)
        except ModelError as error:
            raise Unsuited(error.reason, subject="", culprit=error.culprit) from None

    def write(self, value: Any) -> Any:
        parts = {key: list(getattr(value, key)) for key in _TAPE_NAMES}
        parts["code"] = [list(line) for line in value.code]
        return {key: part for key, part in parts.items() if part}


def _listed(plain: Any, *path: str | int) -> list[Any]:
    if not isinstance(plain, list):
        raise Unsuited(f"must be a list, not {shown(plain)}", *path)
    return plain


def _instruction(line: Any) -> tuple[str, int, int, int, float]:
    if not isinstance(line, list) or len(line) != 5 or not isinstance(line[0], str):
        raise Unsuited("an instruction is [operation, out, in1, in2, constant]", subject="")
    places = []
    for place in line[1:4]:
        x = _NUMBER.check(place)
        if x != int(x) or not 0 <= x < 2**31:
            raise Unsuited(f"bad place {shown(place)} in an instruction", subject="")
        places.append(int(x))
    return (line[0], places[0], places[1], places[2], _NUMBER.check(line[4]))


FrameName = Annotated[str, FrameField()]
FrameNames = Annotated[tuple[str, ...] | None, FramesField()]
VariableName = Annotated[str, VariableField()]
InputName = Annotated[str, InputField()]
InputNames = Annotated[tuple[str, ...], InputsField()]
Text = Annotated[str, TextField()]
Number = Annotated[float, NumberField()]
Size = Annotated[float, SizeField()]
Share = Annotated[float, ShareField()]
LowerBound = Annotated[float | None, BoundField(upper=False)]
UpperBound = Annotated[float | None, BoundField(upper=True)]
Vector = Annotated[tuple[float, float, float], VectorField()]
Axis = Annotated[tuple[float, float, float], AxisField()]
Direction = Annotated[tuple[float, float, float] | str, AxisField()]  # an Axis that pages give as a letter: x, y, z
Axes = Annotated[str | Sequence[Sequence[float]], AxesField()]
Components = Annotated[tuple[float | str, ...], ComponentsField()]
Length = Annotated[float | str | Kinematic, LengthField()]
Coefficients = Annotated[tuple[tuple[str, float], ...], CoefficientsField()]
Curve = Annotated[Spline, SplineField()]
Function = Annotated[Callable[..., Any] | Tape, FunctionField()]


def vector_of(direction: tuple[float, float, float] | str) -> tuple[float, float, float]:
    """The three numbers of a `Direction`.

    >>> vector_of("y")
    (0.0, 1.0, 0.0)
    """
    return _LETTERS[direction] if isinstance(direction, str) else direction
