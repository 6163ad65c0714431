"""The Riccati kernel against plain numpy and against the KKT system of the whole problem."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.control import solve_lq

from . import oracle


def problem(rng, N, n, m):
    A, B = rng.normal(size=(N, n, n)) / np.sqrt(n), rng.normal(size=(N, n, m))
    M = rng.normal(size=(N, n + m, n + m))
    M = M @ M.transpose(0, 2, 1) / (n + m) + 0.1 * np.eye(n + m)
    return {
        "A": A,
        "B": B,
        "Q": M[:, :n, :n],
        "S": M[:, :n, n:],
        "R": M[:, n:, n:],
        "Qf": M[0, :n, :n],
        "q": rng.normal(size=(N, n)),
        "r": rng.normal(size=(N, m)),
        "qf": rng.normal(size=n),
        "c": rng.normal(size=(N, n)),
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 20), st.integers(1, 14), st.floats(0, 10))
def test_agrees_with_plain_recursion(seed, N, n, m, regularization):
    p = problem(np.random.default_rng(seed), N, n, m)
    s = solve_lq(**p, regularization=regularization)
    K, k, P, pl, constant = oracle.riccati(**p, regularization=regularization)
    for mine, plain in ((s.K, K), (s.k, k), (s.P, P), (s.p, pl), (s.constant, constant)):
        np.testing.assert_allclose(mine, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("N", "n", "m"), [(4, 80, 18), (3, 33, 40), (2, 130, 7), (2, 300, 3), (1, 1, 1)])
def test_sizes_around_the_blocks_of_the_kernel(N, n, m):
    p = problem(np.random.default_rng(n), N, n, m)
    s = solve_lq(**p)
    K, k, P, _, _ = oracle.riccati(**p)
    np.testing.assert_allclose(s.K, K, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(s.P, P, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(s.k, k, rtol=1e-8, atol=1e-9)


def test_minimizes_the_whole_problem():
    rng = np.random.default_rng(3)
    p = problem(rng, 6, 4, 2)
    x0 = rng.normal(size=4)
    s = solve_lq(**p)
    X, U = s.rollout(x0)
    Xs, Us, cost = oracle.stationary(**p, x0=x0)
    np.testing.assert_allclose(X, Xs, atol=1e-10)
    np.testing.assert_allclose(U, Us, atol=1e-10)
    assert x0 @ s.P[0] @ x0 / 2 + s.p[0] @ x0 + s.constant == pytest.approx(cost, rel=1e-10)


def test_arrays_without_time_axis_are_constant():
    rng = np.random.default_rng(4)
    A, B = rng.normal(size=(3, 3)), rng.normal(size=(3, 2))
    a = solve_lq(A, B, Q=2.0, R=[1.0, 3.0], Qf=np.eye(3), steps=7, q=np.ones(3), c=np.arange(3.0))
    b = solve_lq(
        np.tile(A, (7, 1, 1)),
        np.tile(B, (7, 1, 1)),
        Q=np.tile(2 * np.eye(3), (7, 1, 1)),
        R=np.diag([1.0, 3.0]),
        Qf=1.0,
        q=np.ones((7, 3)),
        c=np.tile(np.arange(3.0), (7, 1)),
    )
    np.testing.assert_array_equal(a.K, b.K)
    np.testing.assert_array_equal(a.p, b.p)


def test_without_cost_to_go_only_the_gains_are_kept():
    p = problem(np.random.default_rng(5), 3, 4, 2)
    s = solve_lq(**p, cost_to_go=False)
    assert s.P is None
    np.testing.assert_array_equal(s.K, solve_lq(**p).K)


def test_indefinite_problem_reports_its_step():
    rng = np.random.default_rng(6)
    p = problem(rng, 9, 3, 2)
    p["R"] = p["R"].copy()
    p["R"][4] = -1e3 * np.eye(2)
    with pytest.raises(da.SingularityError) as caught:
        solve_lq(**p)
    error = caught.value
    assert error.step == 4
    assert error.matrix == "R + B'PB"
    assert error.residual < 0
    # the later steps are computed and kept
    K, *_ = oracle.riccati(**{key: (a if key in ("Qf", "qf") else a[5:]) for key, a in p.items()})
    np.testing.assert_allclose(error.state.K[5:], K, atol=1e-10)
    assert solve_lq(**p, regularization=2e3).min_pivot > 0


def test_singular_input_weight_is_an_error_not_a_division_by_zero():
    with pytest.raises(da.SingularityError) as caught:
        solve_lq(np.eye(2), np.zeros((2, 1)), Q=1.0, R=0.0, Qf=1.0, steps=3)
    assert caught.value.step == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Q": np.eye(3)}, "Q has shape"),
        ({"A": np.full((2, 2), np.nan)}, "A is not finite"),
        ({"steps": None}, "number of steps"),
        ({"q": np.ones(3)}, "q has shape"),
        ({"Q": np.array([[1.0, 0.5], [0.0, 1.0]])}, "not symmetric"),
        ({"R": np.inf}, "R is not finite"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    good = {"A": np.eye(2), "B": np.ones((2, 1)), "Q": 1.0, "R": 1.0, "Qf": 1.0, "steps": 3}
    with pytest.raises(ValueError, match=message):
        solve_lq(**{**good, **change})


@pytest.mark.bench
def test_marionette_size_in_time():
    import time

    p = problem(np.random.default_rng(0), 1000, 80, 18)
    keep = {k: np.ascontiguousarray(p[k]) for k in ("A", "B")}
    times = []
    for _ in range(5):
        start = time.process_time()  # one thread; the machine may be shared
        solve_lq(**keep, Q=1.0, R=1.0, Qf=1.0, cost_to_go=False)
        times.append(time.process_time() - start)
    assert sorted(times)[2] < 0.15
