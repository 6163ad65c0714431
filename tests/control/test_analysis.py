"""Controllability, observability, Gramians."""

import numpy as np
import pytest

import dalembert as da
from dalembert import control as dc


def test_printed_controllability_of_the_pendulum():
    # Structured linearization, section IV: rank 2
    A = np.array([[0.95333434, 0.09766672], [-0.93331323, 0.95333434]])
    B = np.array([[0.00976667], [0.09533343]])
    W = dc.controllability(A, B)
    np.testing.assert_allclose(W, [[0.00976667, 0.01862181], [0.09533343, 0.08176927]], atol=1e-8)
    assert np.linalg.matrix_rank(W) == 2
    assert dc.controllable_rank(A, B) == 2
    assert dc.observable_rank(A, [[1.0, 0.0]]) == 2


def hidden(rng, n, m, lost):
    """A random pair with `lost` uncontrollable directions, in random coordinates."""
    A, B = rng.normal(size=(n, n)), rng.normal(size=(n, m))
    A[n - lost :, : n - lost] = 0
    B[n - lost :] = 0
    V = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return V @ A @ V.T, V @ B, np.linalg.eigvals(A[n - lost :, n - lost :])


@pytest.mark.parametrize("lost", [0, 1, 3])
@pytest.mark.parametrize("n", [5, 30])
def test_ranks_and_modes_of_hidden_subspaces(n, lost):
    A, B, values = hidden(np.random.default_rng(n + lost), n, 2, lost)
    assert dc.controllable_rank(A, B) == n - lost
    assert dc.observable_rank(A.T, B.T) == n - lost
    modes = dc.uncontrollable_modes(A, B)
    assert sum(m.directions.shape[1] * (1 if m.eigenvalue.imag == 0 else 2) for m in modes) == lost
    for mode in modes:
        assert np.abs(values - mode.eigenvalue).min() < 1e-8
        W = mode.directions
        np.testing.assert_allclose(W.conj().T @ B, 0, atol=1e-7)
        np.testing.assert_allclose(W.conj().T @ A, mode.eigenvalue * W.conj().T, atol=1e-7)


def test_modes_name_their_states():
    (mode,) = dc.unobservable_modes(np.diag([0.5, 1.0, 1.0]), [[1.0, 0, 0], [0, 1, 0]], names=("a", "b", "c"))
    assert mode.states == ("c",)
    assert mode.eigenvalue == pytest.approx(1.0)


def test_gramians():
    rng = np.random.default_rng(0)
    A, B, C = 0.3 * rng.normal(size=(4, 4)), rng.normal(size=(4, 2)), rng.normal(size=(3, 4))
    powers = [np.linalg.matrix_power(A, k) for k in range(200)]
    W = sum(P @ B @ B.T @ P.T for P in powers)
    M = sum(P.T @ C.T @ C @ P for P in powers)
    np.testing.assert_allclose(dc.controllability_gramian(A, B), W, atol=1e-10)
    np.testing.assert_allclose(dc.observability_gramian(A, C), M, atol=1e-10)
    np.testing.assert_allclose(
        dc.controllability_gramian(A, B, steps=3), sum(P @ B @ B.T @ P.T for P in powers[:3]), atol=1e-12
    )
    # time-varying arrays of a constant system say the same
    np.testing.assert_allclose(
        dc.controllability_gramian(np.tile(A, (5, 1, 1)), np.tile(B, (5, 1, 1))),
        dc.controllability_gramian(A, B, steps=5),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        dc.observability_gramian(np.tile(A, (5, 1, 1)), C), dc.observability_gramian(A, C, steps=5), atol=1e-12
    )


def test_infinite_gramian_of_an_undamped_system_is_an_error():
    with pytest.raises(da.SingularityError, match="spectral radius"):
        dc.controllability_gramian(np.eye(2), np.ones((2, 1)))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="square"):
        dc.controllability(np.ones((2, 3)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="B has shape"):
        dc.uncontrollable_modes(np.eye(2), np.ones((3, 1)))
