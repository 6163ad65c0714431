"""What every room does with wrong numbers, shapes and names: the same ValueError."""

import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dalembert.arrays import by_pattern, finite, floats, matching, nearest, number, vector, weight, whole

NOT_NUMBERS = ["1", b"1", ["1.0", 2.0], 1j, [1.0, 2j], np.array(["a"]), object(), [[1.0], [1.0, 2.0]], {1.0}, lambda: 1]


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_not_a_real_number(value):
    for check in (floats, finite, lambda x, what: vector(x, ["a", "b"], what), lambda x, what: weight(x, what, 2)):
        with pytest.raises(ValueError, match=r"^Q must be an array of real numbers, not"):
            check(value, "Q")
    with pytest.raises(ValueError, match=r"^m must be a number, not"):
        number(value, "m")
    with pytest.raises(ValueError, match=r"^N must be a whole number, not"):
        whole(value, "N")


@pytest.mark.parametrize(
    "value", [[1, 2], (1.0, 2.0), np.arange(1, 3), [Decimal(1), Fraction(2)], np.arange(1, 5)[::2]]
)
def test_what_becomes_floats(value):
    x = floats(value, "q")
    assert x.dtype == np.float64
    assert x.flags.c_contiguous
    assert x[0] == 1.0


def test_no_copy_without_need():
    x = np.arange(3.0)
    assert floats(x, "x") is x
    assert finite(x, "x", (3,)) is x


@pytest.mark.parametrize(
    ("value", "shapes", "message"),
    [
        ([1, 2], [(3,)], "A has shape (2,), but (3,) is needed"),
        ([1, 2], [(None, 2)], "A has shape (2,), but (N, 2) is needed"),
        ([[1, 2]], [(None,), (2, 2)], "A has shape (1, 2), but (N,) or (2, 2) is needed"),
        (1.0, [(2,)], "A has shape (), but (2,) is needed"),
        ([1.0], [()], "A has shape (1,), but a number is needed"),
        ([1, np.nan], [(2,)], "A is not finite at index (1,)"),
        ([[1, 2], [np.inf, 1]], [], "A is not finite at index (1, 0)"),
        (np.nan, [()], "A is not finite (nan)"),
        (None, [()], "A is not finite (nan)"),
    ],
)
def test_shapes_and_nan(value, shapes, message):
    with pytest.raises(ValueError) as caught:
        finite(value, "A", *shapes)
    assert str(caught.value) == message


def test_a_number_where_one_entry_is_needed():
    assert finite(2.0, "u", (1,)).shape == (1,)
    assert finite(2.0, "u", ()).shape == ()
    assert vector(2.0, ["theta"], "q").tolist() == [2.0]


def test_names():
    names = ["x", "theta"]
    assert vector(None, names, "q").tolist() == [0, 0]
    assert vector({"theta": np.array([2.0])}, names, "q").tolist() == [0, 2]
    for value, message in [
        ({"thet": 1.0}, "q: unknown name 'thet' (did you mean 'theta'?)"),
        ({"theta": [1.0, 2.0]}, "q['theta'] must be one number, not [1.0, 2.0]"),
        ({"theta": "1"}, "q['theta'] must be an array of real numbers, not '1'"),
        ({"theta": np.nan}, "q is not finite at 'theta'"),
        ([1.0, np.inf], "q is not finite at 'theta'"),
    ]:
        with pytest.raises(ValueError) as caught:
            vector(value, names, "q")
        assert str(caught.value) == message
    with pytest.raises(ValueError, match="X is not finite at step 1, 'theta'"):
        finite([[0, 0], [0, np.nan]], "X", (2, 2), names=names)


def test_numbers():
    assert number(np.float32(2), "m") == 2.0
    assert whole(np.int8(3), "N") == 3
    for bad in (True, None, 10**400):
        with pytest.raises(ValueError, match="m must be a number"):
            number(bad, "m")
    with pytest.raises(ValueError, match=r"m is not finite \(inf\)"):
        number(np.inf, "m")
    for bad in (True, 2.5, np.nan, np.inf):
        with pytest.raises(ValueError, match="N must be a whole number"):
            whole(bad, "N")


def test_weights():
    assert weight(2.0, "Q", 2).tolist() == [[2, 0], [0, 2]]
    assert weight(np.ones((3, 2, 2)), "Q", 2, 3).shape == (3, 2, 2)
    with pytest.raises(ValueError, match=r"Q is not symmetric \(difference 1\)"):
        weight([[1, 1], [0, 1]], "Q", 2)
    with pytest.raises(ValueError, match=r"but a number or \(2,\) or \(2, 2\) is needed"):
        weight([1, 2, 3], "Q", 2)


def test_a_misspelled_name_among_many_is_told_quickly():
    begun = time.perf_counter()
    names = [f"frame number {i} of the long, long list" for i in range(200_000)]
    assert nearest("frame number 12 of the long, long lost", names).startswith(" (did you mean 'frame number ")
    assert nearest("x" * 10_000_000, names) == ""
    assert nearest("nothing like it", []) == ""
    assert time.perf_counter() - begun < 5.0


def test_patterns_of_names():
    names = ["base.vx", "base.vy", "base.wx", "p.base.vx", "p.base.wx"]
    assert matching("p.*", names) == [3, 4]
    assert matching("base.?", names) == [0, 1]  # positions as motions show them
    assert matching("base.rx", names) == [2]
    assert matching("base.w?", names) == [2]
    assert matching("arm", names) == []
    order = by_pattern({"base.vx": 1.0, "base.*": 2.0, "*": 3.0}, names, "Q")
    assert [pattern for _, pattern, _ in order] == ["*", "base.*", "base.vx"]
    with pytest.raises(ValueError, match=r"Q: unknown name 'base.vz' .*known are base.vx"):
        by_pattern({"base.vz": 1.0}, names, "Q")
