"""What elements between two frames have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...errors import ModelError
from .base import Element

if TYPE_CHECKING:
    from ..model import Model
    from .base import PoseOf


def apart(e: Element, frame1: str, frame2: str) -> None:
    """Refuse an element from a frame to itself."""
    if frame1 == frame2:
        raise ModelError(f"{e.label}: needs two different frames", culprit=e.label)


def between(model: Model, frame1: str, frame2: str) -> set[str]:
    """Variables that move one frame against the other: common ancestors move both alike."""
    return set(model.path(frame1)) ^ set(model.path(frame2))


def turning(model: Model) -> set[str]:
    """Variables that turn frames; the others only shift them."""
    frames = (entry.frame for entry in model.frame_entries[1:])
    return {f.variable for f in frames if f is not None and f.variable is not None and f.transform[0] == "r"}


def coincide(pose: PoseOf, frame1: str, frame2: str) -> str:
    """Why the direction from one frame to the other is not defined here, or ""."""
    gap = pose(frame1)[:3, 3] - pose(frame2)[:3, 3]
    return "its frames coincide" if float(np.linalg.norm(gap)) < 1e-12 else ""
