"""Reading and writing models: s-expressions (Scalable variational integrators), TOML, JSON, URDF, and a subset of MJCF.

The first three hold everything that a `Model` holds and round trips are lossless. URDF and MJCF are read into the same
`Model`; they are written where the model can be said in them. What is wrong with a file is a `ModelError` with file,
line and column.

Reading takes time and memory in proportion to the text, whatever it says: at most 16 MB, 100 000 frames and 100 000
elements; XML with at most 200 000 elements of 200 attributes; TOML with at most 2 000 000 keys, values and lines;
1 000 000 expressions in parentheses; 64 levels of brackets and parts of a key. That is some ten seconds and a gigabyte.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import needed
from ..errors import ModelError
from ..files import replacing
from ..model.model import Model
from .document import Configurations, Fault, Path, from_document, shown, to_document

MAX_BYTES = 16_000_000

_SUFFIXES = {
    ".sexp": "sexp",
    ".lisp": "sexp",
    ".toml": "toml",
    ".json": "json",
    ".urdf": "urdf",
    ".xml": "mjcf",
    ".mjcf": "mjcf",
}
FORMATS = ("sexp", "toml", "json", "urdf", "mjcf")


def load(path: str | os.PathLike[str], *, format: str | None = None, **options: Any) -> Model:
    """Read a model from the file at `path`; the suffix (.sexp .toml .json .urdf .xml .mjcf) or `format` says how.

    A file that does not name its model is named after the file. What a robot file says and the model does not represent is told in a
    `ModelWarning` with lines; `strict=True` refuses it. Ranges of joints become `Limit` elements, which `simulate` heeds; `limits=False` leaves
    them out. More options for URDF and MJCF: see `dalembert.formats.urdf.read` and
    `dalembert.formats.mjcf.read`.

    >>> import tempfile, dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, mass=1.0))], [da.Gravity()])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pendulum, f"{folder}/pendulum.toml")
    ...     load(f"{folder}/pendulum.toml") == pendulum
    True
    """
    return load_with_configurations(path, format=format, **options)[0]


def load_with_configurations(
    path: str | os.PathLike[str], *, format: str | None = None, **options: Any
) -> tuple[Model, dict[str, NDArray[np.float64]]]:
    """Read a model and the named configurations that its file carries: {name: q (nq,)}; `path`, `format` as for `load`.

    >>> import tempfile, dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, mass=1.0))], [da.Gravity()])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pendulum, f"{folder}/pendulum.sexp", configurations={"up": {"theta": 3.0}})
    ...     load_with_configurations(f"{folder}/pendulum.sexp")[1]
    {'up': array([3.])}
    """
    kind = _format(path, format)
    name = os.fspath(path)
    try:
        with open(name, "rb") as stream:
            raw = stream.read(MAX_BYTES + 1)  # never more, whatever the file claims to be
    except OSError as error:
        raise ModelError(f"cannot read the file: {error.strerror or error}", file=name) from error
    return _parse(raw, kind, name, options)


def loads(text: str | bytes, format: str, **options: Any) -> Model:
    """Read a model from a text in the given format ("sexp", "toml", "json", "urdf", "mjcf").

    >>> loads('(system (tx "x" (mass 1)))', "sexp").variables
    ('x',)
    """
    return loads_with_configurations(text, format, **options)[0]


def loads_with_configurations(
    text: str | bytes, format: str, **options: Any
) -> tuple[Model, dict[str, NDArray[np.float64]]]:
    """Like `load_with_configurations`, from a text.

    >>> loads_with_configurations('(system (tx "x" (mass 1)) (configuration "a" ("x" 2)))', "sexp")[1]
    {'a': array([2.])}
    """
    return _parse(
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, _known(format), None, options
    )


def save(
    model: Model,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    configurations: Mapping[str, Any] | None = None,
) -> None:
    """Write a model to the file `path`; the suffix or `format` says how.

    `configurations` are named values of q, each an array (nq,) or {variable: number}.

    >>> import tempfile, dalembert as da
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(da.Model([da.tx("x", mass=1.0)]), f"{folder}/slider.json")
    """
    text = dumps(model, _format(path, format), configurations=configurations)
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8", newline="\n")


def dumps(model: Model, format: str, *, configurations: Mapping[str, Any] | None = None) -> str:
    """The text of a model in the given `format`; `configurations` as in `save`.

    >>> import dalembert as da
    >>> print(dumps(da.Model([da.tx("x", mass=1.0)], name="slider"), "sexp"), end="")
    (mechanical-system (name "slider")
      (tx "x" (mass 1.0)))
    """
    kind = _known(format)
    needed(model, Model)
    if kind == "urdf":
        from . import urdf

        return urdf.write(model)
    if kind == "mjcf":
        from . import mjcf

        return mjcf.write(model, configurations)
    data = to_document(model, configurations)
    if kind == "sexp":
        from . import sexp

        if model.parameters:
            raise ModelError("s-expressions hold no parameters: write TOML or JSON, or give the parameters' values")
        text = sexp.write(data)
    else:
        from . import plain

        text = plain.write_toml(data) if kind == "toml" else plain.write_json(data)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ModelError(f"a name cannot be written as text: {error.object[error.start : error.end]!r}") from None
    return text


# ---- inside --------------------------------------------------------------------------------------------------------


def _format(path: str | os.PathLike[str], format: str | None) -> str:
    if format is not None:
        return _known(format)
    suffix = FilePath(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ModelError(
            f"unknown suffix {suffix!r}: use {', '.join(_SUFFIXES)}, or say format=...", file=os.fspath(path)
        )
    return _SUFFIXES[suffix]


def _known(format: str) -> str:
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    return format


def _parse(
    raw: bytes, kind: str, file: str | None, options: dict[str, Any]
) -> tuple[Model, dict[str, NDArray[np.float64]]]:
    if len(raw) > MAX_BYTES:
        raise ModelError(f"larger than {MAX_BYTES // 1_000_000} MB", file=file, line=1, column=1)
    if kind in ("urdf", "mjcf"):
        if kind == "urdf":
            from . import urdf as reader
        else:
            from . import mjcf as reader  # type: ignore[no-redef]
        model, named = reader.read(raw, file, **options)
    else:
        options.pop("strict", None)  # these say all that a model holds
        if options:
            raise TypeError(f"unknown options for {kind}: {', '.join(options)}")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            column = error.start - raw.rfind(b"\n", 0, error.start)
            raise ModelError("the text is not UTF-8", file=file, line=line, column=column) from None
        model, named = _parse_text(text, kind, file)
    arrays = {name: model.configuration.point(table) for name, table in named.items()}
    return model, arrays


def _parse_text(text: str, kind: str, file: str | None) -> tuple[Model, Configurations]:
    from . import plain, sexp

    places: dict[Path, tuple[int, int]] = {}
    try:
        if kind == "sexp":
            data, places = sexp.read(text)
        else:
            data = plain.read_json(text) if kind == "json" else plain.read_toml(text)
        return from_document(data, FilePath(file).stem if file else "model")
    except sexp.Wrong as wrong:
        line, column = wrong.place
        raise ModelError(wrong.reason, culprit=wrong.culprit, file=file, line=line, column=column) from None
    except Fault as fault:
        if kind == "sexp":
            path = fault.path
            while path and path not in places:
                path = path[:-1]
            line, column = places.get(path, (1, 1))
        else:
            line, column = plain.json_place(text, fault.path) if kind == "json" else plain.toml_place(text, fault.path)
        where = shown(fault.path)
        reason = fault.reason if kind == "sexp" or not where or where in fault.reason else f"{where}: {fault.reason}"
        raise ModelError(reason, culprit=fault.culprit, file=file, line=line, column=column) from None


__all__ = [
    "FORMATS",
    "dumps",
    "load",
    "load_with_configurations",
    "loads",
    "loads_with_configurations",
    "save",
]
