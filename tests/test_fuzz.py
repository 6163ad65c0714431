"""The public API called with wrong arguments (tests/tools/fuzz.py): no crash, no hang, no NaN, no error that is not typed."""

from __future__ import annotations

import pytest

from tests.tools import fuzz


def attack(calls: int, seed: int) -> None:
    total, _, wrong, slowest = fuzz.run(calls, seed)
    assert not wrong, "\n".join(str(row[1:6]) for row in wrong[:20])
    assert sum(total.values()) == calls
    assert min(total["ok"], total["refused"]) > calls / 10  # good calls are good, spoilt ones are refused
    assert slowest < fuzz.LIMIT


def test_300_calls() -> None:
    attack(300, seed=1)


@pytest.mark.slow
def test_10000_calls() -> None:
    attack(10_000, seed=2)
