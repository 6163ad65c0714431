"""What is asked by name of models with balls, and what they cannot do."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.errors import ModelError
from dalembert.optimization.continuous import ContinuousSystem


def drone() -> da.Model:
    body = da.floating("base", name="body", mass=1.5, inertia=(0.02, 0.025, 0.04))
    return da.Model([body], [da.Gravity(), da.Wrench("body", force=(0.0, 0.0, "f"), torque=("a", "b", "c"))])


def test_trim_takes_balls_by_name():
    """Thrust carries the weight; about a spin the torque is w x I w."""
    model = drone()
    np.testing.assert_allclose(da.trim(model, {"base.z": 2.0}), [1.5 * 9.81, 0, 0, 0], atol=1e-9)
    w = np.array([1.0, 2.0, 3.0])
    found = da.trim(model, {"base": [0.0, 0.0, 0.3]}, v={"base": w})
    np.testing.assert_allclose(found[1:], np.cross(w, np.array([0.02, 0.025, 0.04]) * w), atol=1e-9)


def test_what_needs_numbers_refuses_balls():
    model = drone()
    with pytest.raises(ModelError, match="ball 'base'"):
        ContinuousSystem(model, np.linspace(0, 1, 11))
    with pytest.raises(ModelError, match="ball 'base'"):
        da.simulate_continuous(model, model.neutral(), np.zeros(6), [0.0, 1.0])
    with pytest.raises(ModelError, match="ball"):
        da.dmoc(model, start={"q": model.neutral()}, goal={"q": model.neutral()}, steps=4, time=1.0)
