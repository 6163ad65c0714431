"""Conditions that a user's function returns, for both direct methods."""

from __future__ import annotations

from math import isnan
from typing import Any


def conditions(listed: Any, label: str) -> list[tuple[float, Any, float]]:
    """Checked (low, expression, high) of every condition; an expression may be a column, all of which is between low and high."""
    try:
        triples = [(float(low), expression, float(high)) for low, expression, high in listed]
    except (TypeError, ValueError):
        raise ValueError(f"{label} must return a list of (low, expression, high), low and high numbers") from None
    for i, (low, _, high) in enumerate(triples, start=1):
        if isnan(low) or isnan(high):
            raise ValueError(f"condition {i} of {label}: low and high must be numbers")
        if low > high:
            raise ValueError(f"condition {i} of {label}: nothing is at least {low:g} and at most {high:g}")
    return triples
