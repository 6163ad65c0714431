"""Recorded motion as a reference: read joint angles (CSV, BVH), map their columns to variables, resample, filter."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Array, nearest

Column = Any  # a column's name, or (name, scale, offset)


def read_motion(
    path: str | os.PathLike[str],
    columns: Mapping[str, Column],
    t: object,
    *,
    time: str | float = "t",
    degrees: bool = False,
    unwrap: bool = True,
    cutoff: float | None = None,
    max_gap: float = 0.25,
    hold: bool = False,
) -> dict[str, Array]:
    """Read recorded angles from a CSV or BVH file as a reference for `TrackingCost`: {variable: values at the times `t`}.

    path: CSV with a header line (lines that begin with # are comments, empty cells and "nan" are missing samples), or BVH
    (Biovision hierarchy), whose columns are called "LeftLeg.Xrotation", "Hips.Yposition", ...
    columns: {variable: column}, or {variable: (column, scale, offset)} for scale * value + offset.
    t: (N+1,) times in s at which the reference is wanted, measured from the first sample.
    time: the column of times in s, or the sampling rate in Hz if there is none (a BVH file knows its rate).
    degrees: values are degrees (rotations of a BVH file always are). unwrap: remove jumps by full turns (of a BVH file's
    rotations, not of its positions).
    cutoff: frequency in Hz of a low-pass filter without phase lag (Butterworth, 4th order in total), None for no
    filter.
    max_gap: missing samples are interpolated over gaps up to this length in s; longer ones are an error.
    hold: keep the last value after the recording ends, instead of an error.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "walk.csv"
    >>> _ = file.write_text("t,knee\\n0,0\\n0.1,10\\n0.2,20\\n0.3,30\\n")
    >>> read_motion(file, {"right_knee": "knee"}, [0.0, 0.15, 0.3], degrees=True)["right_knee"].round(4)
    array([0.    , 0.2618, 0.5236])
    """
    from scipy.interpolate import PchipInterpolator

    name = os.fspath(path)
    bvh = name.lower().endswith(".bvh")
    if bvh:
        header, table, rate = _read_bvh(name)
        times = np.arange(len(table)) / rate
    else:
        header, table = _read(name)
        times = _times(name, header, table, time)
    wanted = np.asarray(t, dtype=float)
    if wanted.ndim != 1 or not np.isfinite(wanted).all():
        raise ValueError("t must be a vector of finite times")
    if wanted.min() < 0 or (wanted.max() > times[-1] + 1e-9 and not hold):
        raise ValueError(
            f"{name}: the recording lasts {times[-1]:.3f} s, but times from {wanted.min():g} to "
            f"{wanted.max():g} s are wanted"
        )
    out = {}
    for variable, column in columns.items():
        label, scale, offset = (column, 1.0, 0.0) if isinstance(column, str) else column
        if label not in header:
            raise ValueError(f"{name}: no column {label!r}{nearest(label, header)}; there are {', '.join(header)}")
        if header.count(label) > 1:
            raise ValueError(f"{name}: {header.count(label)} columns are called {label!r}")
        values = table[:, header.index(label)]
        good = np.isfinite(values)
        if good.sum() < 2:
            raise ValueError(f"{name}: column {label!r} has fewer than two samples")
        _check_gaps(name, label, times, good, max_gap)
        x, y = times[good], values[good]
        turns = not bvh or label.lower().endswith("rotation")
        if turns and (bvh or degrees):
            y = np.deg2rad(y)
        if turns and unwrap:
            y = np.unwrap(y)
        y = scale * y + offset
        if cutoff is not None:
            x, y = _filter(x, y, cutoff)
        out[variable] = PchipInterpolator(x, y)(np.clip(wanted, x[0], x[-1]))
    return out


def _read(name: str) -> tuple[list[str], Array]:
    text = (line for line in _text(name).splitlines(keepends=True) if not line.lstrip().startswith("#"))
    lines = [row for row in csv.reader(text) if row]
    if len(lines) < 3:
        raise ValueError(f"{name}: needs a header and at least two samples")
    header = [c.strip() for c in lines[0]]
    rows = []
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != len(header):
            raise ValueError(f"{name}: row {number} has {len(row)} cells, the header {len(header)}")
        try:
            rows.append([float(c) if c.strip() else np.nan for c in row])
        except ValueError:
            raise ValueError(f"{name}: row {number} contains something that is not a number: {row}") from None
    return header, np.array(rows)


def _text(name: str) -> str:
    try:
        with open(name, newline="", encoding="utf-8-sig") as f:
            return f.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: is not UTF-8 ({error.reason} at byte {error.start})") from None


def _read_bvh(name: str) -> tuple[list[str], Array, float]:
    """(channels as "joint.channel", samples (N, channels), samples per second) of a BVH file."""
    lines = [line.strip() for line in _text(name).splitlines() if line.strip()]
    if lines[:1] != ["HIERARCHY"] or "MOTION" not in lines:
        raise ValueError(f"{name}: a BVH file begins with HIERARCHY and has a part MOTION")
    start = lines.index("MOTION")
    columns: list[str] = []
    joint = ""
    for line in lines[:start]:
        word, rest = (*line.rstrip("{ \t").split(maxsplit=1), "", "")[:2]
        if word in ("ROOT", "JOINT"):
            joint = rest  # names may have blanks
        elif word == "CHANNELS":
            count, *channels = rest.split()
            if count != str(len(channels)):
                raise ValueError(f"{name}: {joint} announces {count} channels and names {len(channels)}")
            columns += [f"{joint}.{channel}" for channel in channels]
    rows = [line.split() for line in lines[start + 1 :]]
    try:
        (frames,) = (int(w[1]) for w in rows if w[0] == "Frames:")
        (step,) = (float(w[2]) for w in rows if w[:2] == ["Frame", "Time:"])
        table = np.array([[float(x) for x in w] for w in rows if w[0] not in ("Frames:", "Frame")])
    except (ValueError, IndexError):
        raise ValueError(
            f"{name}: MOTION needs 'Frames: n', 'Frame Time: dt' and rows of numbers of one length"
        ) from None
    if table.shape != (frames, len(columns)) or frames < 2:
        shape = f"{len(table)} rows of {table.shape[1] if table.ndim == 2 else 0} numbers"
        raise ValueError(f"{name}: {frames} frames of {len(columns)} channels are announced, but there are {shape}")
    if not 1e-9 < step < np.inf:
        raise ValueError(f"{name}: the frame time must be positive, not {step:g} s")
    return columns, table, 1 / step


def _times(name: str, header: list[str], table: Array, time: str | float) -> Array:
    if not isinstance(time, str):
        if not time > 0:
            raise ValueError("the sampling rate must be positive")
        return np.arange(len(table)) / float(time)
    if time not in header:
        raise ValueError(f"{name}: no column {time!r} of times; there are {', '.join(header)}")
    times = table[:, header.index(time)]
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise ValueError(f"{name}: the times in column {time!r} must increase and must not be missing")
    shifted: Array = times - times[0]
    return shifted


def _check_gaps(name: str, label: str, times: Array, good: Any, max_gap: float) -> None:
    kept = np.concatenate([times[:1], times[good], times[-1:]])  # gaps at both ends count too
    gaps = np.diff(kept)
    missing = not good.all()
    if missing and gaps.max() > max_gap:
        at = kept[int(gaps.argmax())]
        raise ValueError(
            f"{name}: column {label!r} misses {gaps.max():.3f} s of samples at {at:.3f} s (max_gap {max_gap:g} s)"
        )


def _filter(x: Array, y: Array, cutoff: float) -> tuple[Array, Array]:
    """Even sampling, then a Butterworth low-pass forward and backward."""
    from scipy.signal import butter, sosfiltfilt

    step = float(np.median(np.diff(x)))
    even = np.linspace(x[0], x[-1], max(2, round((x[-1] - x[0]) / step) + 1))
    rate = (len(even) - 1) / (even[-1] - even[0])
    if not 0 < cutoff < rate / 2:
        raise ValueError(f"cutoff must lie between 0 and half the sampling rate ({rate / 2:g} Hz), not {cutoff}")
    sections = butter(2, cutoff, fs=rate, output="sos")
    samples = np.interp(even, x, y)
    pad = min(len(even) - 1, max(15, int(rate / cutoff)))
    return even, sosfiltfilt(sections, samples, padlen=pad)
