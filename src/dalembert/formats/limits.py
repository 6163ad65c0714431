"""Ranges of the joints of a robot file as limits of a model.

Readers `add` the ranges and `tie` joints that follow others; `found` then gives one `Limit` for each joint that moves by itself: the range of a
joint that follows another one (mimic, equality) narrows the range of that one, because two stops that are hit at once would be one constraint twice.
"""

from __future__ import annotations

from collections.abc import Collection

from ..model import Element, Limit, Model
from .markup import Tag
from .unsaid import Unsaid

NO_LIMIT = 1e6  # rad or m: what writers say where a format demands a limit


class Ranges:
    """Ranges (rad or m) of joints while they are found, each with the XML element behind it."""

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[Tag, float, float]] = {}
        self._ties: dict[str, tuple[str | None, float, float]] = {}

    def add(self, tag: Tag, joint: str, low: float, high: float) -> None:
        """The range of a joint; what is beyond NO_LIMIT is none."""
        if low > -NO_LIMIT or high < NO_LIMIT:
            self._ranges[joint] = (tag, low, high)

    def tie(self, joint: str, other: str | None, factor: float, offset: float) -> None:
        """joint = factor * other + offset (other None: joint = offset)."""
        if joint not in self._ties:
            self._ties[joint] = (other if factor else None, factor, offset)

    def found(self, movable: Collection[str], unsaid: Unsaid) -> list[tuple[Tag, str, float | None, float | None]]:
        """(element, joint, low, high): the fields of a `Limit` for each of the `movable` joints. Ranges that leave nothing, and those of others,
        are told."""
        low: dict[str, float] = {}
        high: dict[str, float] = {}
        tags: dict[str, Tag] = {}
        for joint, (tag, least, most) in self._ranges.items():
            target, factor, offset = self._root(joint)
            if target is None:
                if not least <= offset <= most:
                    _tell(unsaid, tag, joint, least, most, f", though it stays at {offset:.6g}")
                continue
            ends = sorted((end - offset) / factor for end in (least, most)) if least <= most else (1.0, 0.0)
            bottom, top = max(low.get(target, -NO_LIMIT), ends[0]), min(high.get(target, NO_LIMIT), ends[1])
            if target not in movable or not bottom < top:
                _tell(unsaid, tag, joint, least, most, "")
                continue
            low[target], high[target] = bottom, top
            if target not in tags or target == joint:
                tags[target] = tag
        sides = {joint: (_side(low[joint]), _side(high[joint])) for joint in tags}
        return [(tag, joint, *sides[joint]) for joint, tag in tags.items() if sides[joint] != (None, None)]

    def _root(self, joint: str) -> tuple[str | None, float, float]:
        """The joint that this one follows in the end, with factor and offset; itself if it follows none, or in a circle."""
        at: str | None = joint
        factor, offset = 1.0, 0.0
        for _ in range(len(self._ties)):
            if at is None or at not in self._ties:
                break
            at, k, c = self._ties[at]
            factor, offset = factor * k, offset + factor * c
            if at == joint:
                return joint, 1.0, 0.0
        return at, factor, offset


def written(e: Element, model: Model, limits: dict[str, tuple[float, float]]) -> bool:
    """Whether an element is a limit that robot files can say, hinge or slider without restitution; its range goes into `limits`."""
    if not isinstance(e, Limit) or e.restitution or e.variable not in model.velocities:
        return False
    low, high = limits.get(e.variable, (-NO_LIMIT, NO_LIMIT))
    low, high = low if e.low is None else max(low, e.low), high if e.high is None else min(high, e.high)
    limits[e.variable] = (low, high)
    return low < high


def _side(value: float) -> float | None:
    return value if abs(value) < NO_LIMIT else None


def _tell(unsaid: Unsaid, tag: Tag, joint: str, low: float, high: float, why: str) -> None:
    unsaid.add(tag, f"joint '{joint}': range {low:.6g} to {high:.6g}{why}", joint)
