"""Batches of motions in coordinates: roll is what the system does, push its slope, pull the transpose of push, kick the slope of pull."""

import pickle

import numpy as np
import pytest

import dalembert as da

from .systems import ALL, cart, floating, inputs


@pytest.fixture(params=list(ALL))
def case(request):
    system, x0 = ALL[request.param]()
    return (system, *inputs(system, x0))


def test_roll_is_the_system(case):
    system, x0, U = case
    X = system.motions.roll(x0, U)
    for i in range(len(x0)):
        assert np.abs(X[i] - system.simulate(x0[i], U[i])).max() < 1e-11
    part = system.motions.roll(X[:, 2], U[:, 2:4], 2)
    assert np.abs(part - X[:, 2:5]).max() < 1e-11


def slope(f, h=1e-4):
    """Derivative of f at 0 by differences of fourth order."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def test_push_is_the_slope(case):
    system, x0, U = case
    rng = np.random.default_rng(5)
    m = system.motions
    dx, dU = rng.normal(size=x0.shape), rng.normal(size=U.shape)
    X = m.roll(x0, U)
    S = np.zeros(X.shape)
    S[:, 0] = dx
    dX = m.push(X, U, S, dU)
    wanted = slope(lambda h: m.roll(x0 + h * dx, U + h * dU))
    assert np.abs(dX - wanted).max() < 1e-7 * max(1, np.abs(wanted).max())


def test_pull_is_the_transpose_of_push(case):
    system, x0, U = case
    rng = np.random.default_rng(6)
    m = system.motions
    X = m.roll(x0, U)
    S, dU, G = rng.normal(size=X.shape), rng.normal(size=U.shape), rng.normal(size=X.shape)
    dX = m.push(X, U, S, dU)
    Z, gU = m.pull(X, U, G)
    left, right = (G * dX).sum((1, 2)), (Z * S).sum((1, 2)) + (gU * dU).sum((1, 2))
    assert np.abs(left - right).max() < 1e-10 * np.abs(dX).max() * np.abs(G).max()


def test_kick_is_the_slope_of_one_pull(case):
    system, x0, U = case
    rng = np.random.default_rng(7)
    m = system.motions
    U = U[:, :1]
    X = m.roll(x0, U)
    G = np.zeros(X.shape)
    G[:, 1] = rng.normal(size=x0.shape)
    dx, dU = rng.normal(size=x0.shape), rng.normal(size=U.shape)

    def gradient(h):
        Y = m.roll(x0 + h * dx, U + h * dU)
        Z, gU = m.pull(Y, U + h * dU, G)
        return np.hstack([Z[:, 0], gU[:, 0]])

    dX = np.zeros(X.shape)
    dX[:, 0] = dx
    hX, hU = m.kick(X, U, G, dX, dU)
    wanted = slope(gradient)
    assert np.abs(np.hstack([hX[:, 0], hU[:, 0]]) - wanted).max() < 1e-6 * max(1, np.abs(wanted).max())
    assert not hX[:, 1].any()


def test_many_motions_are_the_same_as_one(case):
    """Threads and lanes do not change what a motion is."""
    system, x0, U = case
    m = system.motions
    many = np.repeat(x0, 11, axis=0), np.repeat(U, 11, axis=0)
    X = m.roll(*many)
    assert np.abs(X[::11] - np.concatenate([m.roll(x0[i : i + 1], U[i : i + 1]) for i in range(len(x0))])).max() < 1e-11
    G = np.ones(X.shape)
    Z, gU = m.pull(X, many[1], G)
    z, g = m.pull(X[::11], U, G[::11])
    assert (Z[::11] == z).all()
    assert (gU[::11] == g).all()


def test_a_step_without_solution_says_so():
    system, x0 = cart()
    starts, U = inputs(system, x0)
    U[1, 3] = 1e300
    with pytest.raises(da.ConvergenceError) as caught:
        system.motions.roll(starts, U)
    assert caught.value.step == 3


def test_motions_travel():
    system, x0 = floating()
    starts, U = inputs(system, x0)
    X = system.motions.roll(starts, U)
    again = pickle.loads(pickle.dumps(system))
    assert (again.motions.roll(starts, U) == X).all()
