"""Costs: values and derivatives against finite differences, and what users get wrong."""

from types import SimpleNamespace

import numpy as np
import pytest

import dalembert as da
from dalembert.optimization import BoxCost, ExpressionCost, TerminalCost, TrackingCost

from .problems import cart_pendulum

N, NX, NU = 7, 4, 1


@pytest.fixture
def system():
    return da.System(da.MidpointVI(cart_pendulum(), 0.1), steps=N)


def full(n, seed):
    a = np.random.default_rng(seed).normal(size=(n, n))
    return a @ a.T


def expression():
    return ExpressionCost(
        stage=lambda s: (s.position("bob")[1] - s["height"]) ** 2 * s["force"] + (s["p.x"] * s.t) ** 2 * s["theta"],
        terminal=lambda s: s["theta"] ** 4 + s["x"] * s["p.theta"],
        parameters={"height": np.linspace(0, 1, N)},
    )


def box(kind):
    inf = np.inf
    cost = BoxCost(np.array([-1, -inf, -inf, -inf, -0.5]), np.array([0.5, 1, inf, inf, inf]), NX, kind, N)
    cost.eps, cost.delta, cost.weight = 0.7, 0.3, 3.0
    cost.multipliers = np.abs(np.random.default_rng(5).normal(size=cost.multipliers.shape))
    return SimpleNamespace(bind=lambda system: cost)


COSTS = {
    "diagonal": lambda: TrackingCost((np.ones((N + 1, NX)), np.zeros((N, NU))), [1, 2, 3, 4], 0.5),
    "matrices": lambda: TrackingCost((np.ones((N + 1, NX)), np.zeros((N, NU))), full(NX, 1), full(NU, 2), full(NX, 3)),
    "mixed": lambda: TrackingCost({"theta": 1.0}, full(NX, 1), {"force": 2.0}, Qf={"x": 3.0}),
    "per step": lambda: TrackingCost(
        {"theta": np.linspace(0, 1, N + 1)}, np.array([full(NX, i) for i in range(N)]), 1.0
    ),
    "names": lambda: TrackingCost({"theta": 1.0, "force": 0.3}, {"theta": np.arange(N + 1.0), "*": 0.1}, {"force": 2}),
    "terminal": lambda: TerminalCost({"theta": 1.0}, full(NX, 4)),
    "expression": expression,
    "sum": lambda: 2.0 * expression() + TrackingCost({}, 1.0, 1.0) + TerminalCost(np.ones(4), 3.0),
    "barrier": lambda: box("barrier"),
    "lagrangian": lambda: box("lagrangian"),
}


@pytest.mark.parametrize("name", COSTS)
def test_derivatives(name, system):
    cost = COSTS[name]().bind(system)
    rng = np.random.default_rng(0)
    X, U, dX, dU = (rng.normal(size=s) for s in ((N + 1, NX), (N, NU)) * 2)
    h = 1e-6

    def along(s):
        return X + s * dX, U + s * dU

    lx, lu = cost.gradient(X, U)
    slope = (cost.values(*along(h)).sum() - cost.values(*along(-h)).sum()) / (2 * h)
    assert (lx * dX).sum() + (lu * dU).sum() == pytest.approx(slope, rel=1e-6, abs=1e-6)
    Q, S, R = cost.hessian(X, U)
    S = np.zeros((N, NX, NU)) if S is None else S
    (ax, au), (bx, bu) = cost.gradient(*along(h)), cost.gradient(*along(-h))
    np.testing.assert_allclose(
        np.einsum("kij,kj->ki", Q, dX)[:-1] + np.einsum("kij,kj->ki", S, dU),
        ((ax - bx) / (2 * h))[:-1],
        rtol=1e-5,
        atol=1e-5,
    )
    np.testing.assert_allclose(Q[-1] @ dX[-1], ((ax - bx) / (2 * h))[-1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        np.einsum("kij,kj->ki", R, dU) + np.einsum("kji,kj->ki", S, dX[:-1]), (au - bu) / (2 * h), rtol=1e-5, atol=1e-5
    )


def test_tracking_value_is_the_papers(system):
    rng = np.random.default_rng(1)
    Xd, Ud, X, U = (rng.normal(size=s) for s in ((N + 1, NX), (N, NU)) * 2)
    Q, R = full(NX, 1), full(NU, 2)
    expected = sum(0.5 * (x - d) @ Q @ (x - d) for x, d in zip(X, Xd, strict=True))
    expected += sum(0.5 * (u - d) @ R @ (u - d) for u, d in zip(U, Ud, strict=True))
    assert TrackingCost((Xd, Ud), Q, R).bind(system).values(X, U).sum() == pytest.approx(expected, rel=1e-12)


def test_expression_equals_tracking(system):
    rng = np.random.default_rng(2)
    X, U = rng.normal(size=(N + 1, NX)), rng.normal(size=(N, NU))
    one = TrackingCost({"theta": 1.0}, {"theta": 5.0}, 2.0).bind(system)
    two = ExpressionCost(
        lambda s: 2.5 * (s["theta"] - 1) ** 2 + s.input("force") ** 2, lambda s: 2.5 * (s["theta"] - 1) ** 2
    ).bind(system)
    np.testing.assert_allclose(one.values(X, U), two.values(X, U), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TrackingCost({"thetta": 1.0}, 1.0, 1.0), "unknown name 'thetta'"),
        (lambda: TrackingCost({}, {"y": 1.0}, 1.0), "unknown name 'y'"),
        (lambda: TrackingCost({}, np.eye(3), 1.0), "Q has shape"),
        (lambda: TrackingCost({}, np.triu(np.ones((4, 4))), 1.0), "symmetric"),
        (lambda: TrackingCost({}, np.nan, 1.0), "finite"),
        (lambda: TrackingCost((np.full((N + 1, NX), np.nan), np.zeros((N, NU))), 1.0, 1.0), "step 0, 'x'"),
        (lambda: TrackingCost((np.zeros((N, NX)), np.zeros((N, NU))), 1.0, 1.0), "reference Xd has shape"),
        (lambda: TrackingCost({"theta": np.zeros(3)}, 1.0, 1.0), "'theta' must be a number or have"),
        (lambda: ExpressionCost(), "needs a stage or a terminal"),
        (lambda: ExpressionCost(lambda s: s["nothing"]), "unknown name 'nothing'"),
        (lambda: ExpressionCost(lambda s: s.x), "must return a scalar"),
        (lambda: ExpressionCost(lambda s: s["a"], parameters={"a": [1.0, 2.0]}), "parameter 'a'"),
    ],
)
def test_mistakes(make, words, system):
    with pytest.raises(ValueError, match=words):
        make().bind(system)


def test_barrier_is_smooth_and_decreasing():
    cost = box("barrier").bind(None)
    c = np.linspace(-1, 2, 3001)[:, None]
    c[1000:2000] = c[1000:2000]
    v, g, h = cost._phi(c)
    assert np.isfinite(v).all()
    assert (np.diff(v[:, 0])[:1500] < 0).all()
    assert np.abs(np.diff(g[:, 0])).max() < 0.05
    assert (h > 0).all()


@pytest.mark.parametrize("name", ["cart_pole", "closed_chain"])
def test_velocities_in_expressions_are_those_of_the_motion(name):
    model, found = da.models.load_with_configurations(name)
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(
        vi.state(found["q0"] + (name == "cart_pole") * np.array([0.0, 0.5] + [0.0] * (model.nq - 2))), steps=30
    )
    system = da.System(vi, steps=30)
    X, U = system.from_trajectory(motion)
    frame = model.frame_names[-1]
    cost = ExpressionCost(
        terminal=lambda s: s.velocity(model.variables[0]) + 10 * s.velocity(frame)[0] + 100 * s.velocity(frame)[2]
    )
    step = 1e-6 * motion.v[-1]
    i = model.frame_index(frame)
    w = (da.positions(model, motion.q[-1] + step)[i] - da.positions(model, motion.q[-1] - step)[i]) / 2e-6
    got = cost.bind(system).values(X, U)[-1]
    assert got == pytest.approx(motion.v[-1, 0] + 10 * w[0] + 100 * w[2], rel=1e-7)


def test_patterns_and_states_alone():
    """Names with wildcards, positions and turns of a floating body as motions show them; a reference of states only."""
    body = da.floating("base", name="body", mass=1.5, inertia=(0.02, 0.025, 0.04))
    drone = da.Model([body], [da.Gravity(), da.Wrench("body", force=(0, 0, "lift"), torque=("l", "m", "n"))])
    system = da.System(da.MidpointVI(drone, dt=0.02), steps=5)
    rng = np.random.default_rng(2)
    Xd = np.stack([system.retract(system.neutral(), 0.3 * rng.normal(size=12)) for _ in range(6)])
    X = np.stack([system.retract(x, 0.3 * rng.normal(size=12)) for x in Xd])
    U = rng.normal(size=(5, 4))
    plain = TrackingCost((Xd, np.zeros((5, 4))), [5.0] * 3 + [2.0] * 3 + [0.1] * 6, [1.0, 2.0, 2.0, 2.0])
    named = TrackingCost(Xd, {"base.?": 5.0, "base.r?": 2.0, "p.*": 0.1}, {"lift": 1.0, "?": 2.0})
    assert named.bind(system).values(X, U) == pytest.approx(plain.bind(system).values(X, U))
