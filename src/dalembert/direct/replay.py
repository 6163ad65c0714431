"""What is said of a plan whose steps are too long, and the rule by which a mesh is refined."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..errors import AccuracyWarning

ENOUGH = 0.03  # replay error and defect of a plan that is a motion
LEVELS = 4
TURNS = (0.6, 0.3, 0.15)  # largest turn per step on the first mesh, the second, the others


def accurate(plan: Any) -> bool:
    """Whether the replay of a plan stays with it."""
    return plan.success and max(plan.replay_error, plan.defect) <= ENOUGH


def judge(plan: Any) -> Any:
    """The plan with the result of its replay in its message; warns where the plan is not a motion."""
    if plan.replay_error is None:
        return plan
    said = f"; replayed with 8 times as many steps: error {plan.replay_error:.2g}, defect of its steps {plan.defect:.2g}"
    if not accurate(plan) and plan.success:
        said += ": not a motion of the system, take more steps or refine='auto'"
        warnings.warn(AccuracyWarning(f"plan{said[1:]}"), stacklevel=3)
    return replace(plan, message=plan.message.split("; replayed with")[0] + said)


def refined(solve: Callable[[int, float, Any], Any], steps: int, turn: float | None) -> tuple[Any, tuple[Any, ...]]:
    """Solve on finer and finer meshes until a plan is accurate: the plan, and what was found on each mesh.

    `solve(steps, turn, guess)` returns a plan; `guess` is None at first and after failures. The turn per step is limited
    so that no mesh lets a step alias: the energy does not show it, the turn does.
    """
    listed: list[tuple[int, float, float | None, float | None]] = []
    plan: Any = None
    for level in range(LEVELS):
        limit = TURNS[min(level, len(TURNS) - 1)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            found = solve(steps * 2**level, limit if turn is None else min(turn, limit), plan)
        listed.append((steps * 2**level, found.objective, found.replay_error, found.defect))
        plan = found if found.success or plan is None else plan
        if accurate(plan):
            break
        plan = plan if plan.success else None
    return found if plan is None else plan, tuple(listed)
