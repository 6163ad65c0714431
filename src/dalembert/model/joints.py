"""Joints (Scalable variational integrators, section III-A), composed of elementary frames: each is one nested frame.

Children and options (name, mass, ...) belong to the last, moving frame. Names of several variables derive from a
prefix: `planar("puck")` has puck.tx, puck.ty, puck.rz.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ModelError
from .frames import Frame, Kinematic, ball, rx, ry, rz, tx, ty, tz

_ROTATE = {"x": rx, "y": ry, "z": rz}
_SLIDE = {"x": tx, "y": ty, "z": tz}


def _pick(table: dict[str, Any], axis: str) -> Any:
    if axis not in table:
        raise ModelError(f"axis must be 'x', 'y' or 'z', not {axis!r}", culprit=str(axis))
    return table[axis]


def _chain(
    parts: list[tuple[Callable[..., Frame], Any]], children: tuple[Frame, ...], options: dict[str, Any]
) -> Frame:
    make, value = parts[-1]
    frame = make(value, *children, **options)
    for make, value in reversed(parts[:-1]):
        frame = make(value, frame)
    return frame


def revolute(axis: str, variable: float | str | Kinematic, *children: Frame, **options: Any) -> Frame:
    """Hinge about one `axis` ("x", "y", "z") by `variable` (rad; value as for `rx`).

    >>> revolute("z", "theta", name="arm").transform
    'rz'
    """
    return _pick(_ROTATE, axis)(variable, *children, **options)


def prismatic(axis: str, variable: float | str | Kinematic, *children: Frame, **options: Any) -> Frame:
    """Slider along one `axis` ("x", "y", "z") by `variable` (m; value as for `tx`).

    >>> prismatic("x", "s").transform
    'tx'
    """
    return _pick(_SLIDE, axis)(variable, *children, **options)


def cylindrical(
    axis: str, slide: float | str | Kinematic, turn: float | str | Kinematic, *children: Frame, **options: Any
) -> Frame:
    """Slides along and turns about one `axis`, independently, by `slide` (m) and `turn` (rad); values as for `tx`.

    >>> cylindrical("z", "s", "phi").children[0].transform
    'rz'
    """
    return _chain([(_pick(_SLIDE, axis), slide), (_pick(_ROTATE, axis), turn)], children, options)


def helical(axis: str, variable: float | str | Kinematic, pitch: float, *children: Frame, **options: Any) -> Frame:
    """Screw: turns about `axis` by `variable` (rad; value as for `rx`) and advances `pitch` metres per radian.

    >>> helical("z", "phi", 0.01).pitch
    0.01
    """
    return _pick(_ROTATE, axis)(variable, *children, pitch=pitch, **options)


def spherical_euler(prefix: str, *children: Frame, **options: Any) -> Frame:
    """Ball joint by three Euler angles: prefix.rz, prefix.ry, prefix.rx (singular at ry = +-pi/2; `ball` is not).

    >>> spherical_euler("hip").variable
    'hip.rz'
    """
    return _chain([(rz, f"{prefix}.rz"), (ry, f"{prefix}.ry"), (rx, f"{prefix}.rx")], children, options)


def planar(prefix: str, *children: Frame, **options: Any) -> Frame:
    """Motion in the xy plane: prefix.tx, prefix.ty, prefix.rz.

    >>> planar("puck").variable
    'puck.tx'
    """
    return _chain([(tx, f"{prefix}.tx"), (ty, f"{prefix}.ty"), (rz, f"{prefix}.rz")], children, options)


def free_euler(prefix: str, *children: Frame, **options: Any) -> Frame:
    """Free body, six variables: prefix.tx, .ty, .tz, .rz, .ry, .rx (singular at ry = +-pi/2; `floating` is not).

    >>> free_euler("body").variable
    'body.tx'
    """
    slides: list[tuple[Callable[..., Frame], Any]] = [
        (tx, f"{prefix}.tx"),
        (ty, f"{prefix}.ty"),
        (tz, f"{prefix}.tz"),
    ]
    return _chain([*slides, (rz, f"{prefix}.rz"), (ry, f"{prefix}.ry"), (rx, f"{prefix}.rx")], children, options)


def floating(prefix: str | Kinematic, *children: Frame, **options: Any) -> Frame:
    """Floating body: a position in world axes and any rotation, without a singular configuration.

    Seven coordinates, prefix.x, .y, .z and the unit quaternion prefix.qw, .qx, .qy, .qz; six velocities, prefix.vx, .vy, .vz in the parent's
    axes and prefix.wx, .wy, .wz along body axes. `Kinematic(name)` prescribes all of them.

    >>> floating("base").children[0].children[0].children[0].coordinates
    ('base.qw', 'base.qx', 'base.qy', 'base.qz')
    """
    text = prefix.name if isinstance(prefix, Kinematic) else prefix
    if not isinstance(text, str) or not text:
        raise ModelError(f"floating needs a name, not {prefix!r}", culprit="floating")
    names = [f"{text}.{axis}" for axis in "xyz"]
    places: list[Any] = [Kinematic(n) for n in names] if isinstance(prefix, Kinematic) else list(names)
    return _chain([*zip((tx, ty, tz), places, strict=True), (ball, prefix)], children, options)


spherical, free = ball, floating  # by other names
