"""Poses, Jacobians and their derivatives against CasADi on random trees."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.symbolic import Symbolic
from tests.random_models import random_model, random_point


@pytest.mark.parametrize("seed", range(8))
def test_position_derivatives(seed: int) -> None:
    model = random_model(seed, size=3 + 2 * seed)
    q, v, _ = random_point(model, seed)
    s = Symbolic(model)
    frame = model.frame_names[-2]
    p = s.position(frame)
    rate = ca.jacobian(p, s.q)
    f = ca.Function("f", [s.q], [p, ca.densify(rate), ca.densify(ca.jacobian(ca.vec(rate), s.q)), s.pose(frame)])
    position, first, second, pose = (np.array(x) for x in f(q))
    np.testing.assert_allclose(da.pose(model, q, frame), pose, atol=1e-12)
    np.testing.assert_allclose(da.positions(model, q)[model.frame_index(frame)], position.ravel(), atol=1e-12)
    jac = da.frame_jacobian(model, q, frame)
    np.testing.assert_allclose(jac[3:], first, atol=1e-11)
    hess = da.frame_hessian(model, q, frame)
    by_column = second.reshape(model.nq, 3, model.nq).transpose(1, 0, 2)  # vec stacks columns
    np.testing.assert_allclose(hess[3:], by_column, atol=1e-11)
    # angular part by differences along v
    h = 1e-6
    numeric = (da.frame_jacobian(model, q + h * v, frame) - da.frame_jacobian(model, q - h * v, frame)) / (2 * h)
    np.testing.assert_allclose(hess @ v, numeric, atol=1e-7)
