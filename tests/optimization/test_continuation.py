"""Sequences of problems, conversion between systems, fictitious inputs."""

import numpy as np
import pytest

from dalembert.optimization import (
    Stage,
    TrackingCost,
    blend_references,
    continuation,
    convert,
    fictitious_stages,
    with_inputs,
)

from . import problems


def test_with_inputs_and_convert():
    model = with_inputs(problems.cart_pendulum(), {"theta": "helper"})
    assert model.inputs == ("force", "helper")
    a, b = (problems.left_system(m, 0.1, 3) for m in (model, problems.cart_pendulum()))
    X, U = np.arange(16.0).reshape(4, 4), np.arange(6.0).reshape(3, 2)
    X2, U2 = convert(a, X, U, b)
    np.testing.assert_array_equal(X2, X)
    np.testing.assert_array_equal(U2, U[:, :1])
    _, U3 = convert(b, X2, U2, a)
    np.testing.assert_array_equal(U3, np.column_stack([U[:, 0], np.zeros(3)]))


def inversion_stages(weights):
    """Schultz, Johnson, Murphey, section 5.1, as in the reference data."""
    t = np.arange(0, 10, 0.01)
    theta = np.where((t >= 3) & (t <= 7), (1 - np.cos(2 * np.pi / 4 * (t - 3))) * np.deg2rad(130) / 2, 0.0)
    cost = TrackingCost({"theta": theta}, {"theta": 100.0, "*": 0.01}, {"force": 0.01})
    model = problems.cart_pendulum(cart=10.0, damping=0.01)
    return fictitious_stages(model, lambda m: problems.left_system(m, 0.01, 999), {"theta": "torque"}, weights, cost)


def test_inversion():
    """Every stage converges, to the cost of the reference or below; the last one needs no torque."""
    stages = inversion_stages([0.01, 100.0, 1e6])
    results = continuation(stages, (np.zeros((1000, 4)), np.zeros((999, 2))))
    reference = problems.reference("cart_pend_inversion.json")
    assert len(results) == 4
    for result, row in zip(results, reference["stages"], strict=True):
        assert result.converged
        assert abs(result.slope) < 1e-6
        assert result.cost <= row["cost"] * (1 + 1e-9)
    assert results[-1].U.shape[1] == 1
    np.testing.assert_allclose(results[-1].X[::10], reference["X_every_10"], atol=2e-3)


def test_sequence_of_references():
    system = problems.left_system(problems.pendulum(), 0.1, 40)
    easy = (np.zeros((41, 2)), np.zeros((40, 1)))
    hard = (np.column_stack([np.where(np.arange(41) < 20, 0.0, 2.5), np.zeros(41)]), np.zeros((40, 1)))
    stages = [
        Stage(f"{i}", system, TrackingCost(r, [100.0, 1.0], 1.0)) for i, r in enumerate(blend_references(easy, hard, 4))
    ]
    results = continuation(stages, easy)
    assert [r.status for r in results] == ["converged"] * 4
    assert np.abs(results[-1].X[-1, 0] - 2.5) < 0.3


def test_stops_after_a_stage_that_fails():
    system = problems.left_system(problems.pendulum(), 0.1, 10)
    start = (np.zeros((11, 2)), np.zeros((10, 1)))
    stages = [
        Stage(str(i), system, TrackingCost({"theta": 2.0 + i}, 100.0, 1.0), {"max_iterations": 1}) for i in range(3)
    ]
    assert len(continuation(stages, start)) == 1
    assert len(continuation(stages, start, keep_going=True)) == 3


def test_mistakes():
    with pytest.raises(ValueError, match="at least one input"):
        fictitious_stages(problems.pendulum(), None, {}, [1.0], None)
    with pytest.raises(ValueError, match="count"):
        blend_references(([[0.0]], [[0.0]]), ([[0.0]], [[0.0]]), 0)
