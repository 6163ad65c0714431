"""`MidpointVI.tolerance` and `Constraint.tolerance` have trep's meaning, in single steps and whole trajectories."""

import numpy as np
import pytest

import dalembert.trep as trep
from dalembert.trep import discopt

from .systems import closed_chain, links, marionette, pendulum, read, scissor, walk
from .test_user import start, written

TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)


def swing(system, tolerance, steps=50):
    """Iterations of each step, norms of its momentum balance, largest |h| after it."""
    mvi = trep.MidpointVI(system, tolerance=tolerance)
    q0 = system.q
    mvi.initialize_from_configs(0.0, q0, 0.01, q0)
    iterations, residuals, violations = [], [], []
    for k in range(steps):
        strings = walk(system, q0[22:], mvi.t1) if system.nQk else ()
        iterations.append(mvi.step(0.01 * (k + 2), (), strings))
        f = mvi.calc_f()
        residuals.append(np.linalg.norm(f[: mvi.nd]))
        violations.append(np.abs(f[mvi.nd :]).max(initial=0.0))
    return np.array(iterations), np.array(residuals), np.array(violations)


def hung_chain():
    system = closed_chain()
    system.q = read("closed_chain.json")["q0"]
    return system


def bent_links():
    system = links(4)
    system.q = {"link-0": np.pi / 4}
    return system


@pytest.mark.parametrize("make", [bent_links, hung_chain, marionette])
def test_a_tighter_tolerance_leaves_less_for_more_iterations(make):
    spent, left = [], []
    for tolerance in TOLERANCES:
        system = make()
        for constraint in system.constraints:
            constraint.tolerance = tolerance
        iterations, residuals, violations = swing(system, tolerance)
        assert residuals.max() < 1.01 * tolerance  # as computed here, not in the core
        assert violations.max() < tolerance
        spent.append(iterations.sum())
        left.append(residuals.max())
    assert spent == sorted(spent)
    assert left == sorted(left, reverse=True)
    assert spent[0] < 0.7 * spent[-1]
    # no more is done than asked for: a tenth of the tolerance is missed in some step
    assert sum(r > 0.1 * t for r, t in zip(left, TOLERANCES, strict=True)) >= 2


@pytest.mark.parametrize("make", [bent_links, hung_chain, marionette])
def test_a_tolerance_below_rounding_ends_at_rounding(make):
    system = make()
    for constraint in system.constraints:
        constraint.tolerance = 1e-300
    iterations, residuals, violations = swing(system, 1e-300)
    assert residuals.max() < 2e-12
    assert violations.max() < 1e-14
    assert iterations.max() <= 8
    assert np.abs(residuals).max() <= 10 * swing(make(), 1e-13)[1].max()


def test_long_chains_cannot_meet_it():
    """The rounding of 64 links is above 1e-10: trep stalled there."""
    system = links(64)
    system.q = {"link-0": np.pi / 4}
    _, residuals, _ = swing(system, 1e-10, 30)
    assert 1e-10 < residuals.max() < 1e-8


def test_constraints_have_their_own():
    names = ["left_leg", "right_leg", "left_arm", "right_arm"]  # the strings that move

    def worst(**tolerances):
        system = marionette()
        for constraint in system.constraints:
            constraint.tolerance = 1e3
        rows = {name: next(c for c in system.constraints if name in c.name) for name in names}
        for name, value in tolerances.items():
            rows[name].tolerance = value
        mvi, q0 = trep.MidpointVI(system, tolerance=1e3), system.q  # only the constraints end a step
        mvi.initialize_from_configs(0.0, q0, 0.01, q0)
        total, h = 0, []
        for k in range(50):
            total += mvi.step(0.01 * (k + 2), (), walk(system, q0[22:], mvi.t1))
            h.append(np.abs(mvi.calc_f()[mvi.nd :]))
        found = np.max(h, axis=0)
        return total, {name: found[rows[name].index] for name in names}

    none, one, two = worst(), worst(left_leg=1e-3), worst(left_leg=1e-3, right_arm=1e-11)
    assert none[0] == 0
    assert min(none[1].values()) > 1e-2
    assert 1e-9 < one[1]["left_leg"] < 1e-3
    assert two[1]["right_arm"] < 1e-11
    assert 0 < one[0] < two[0]


def test_new_tolerances_hold_from_the_next_step_on():
    system = hung_chain()
    mvi = trep.MidpointVI(system)
    mvi.initialize_from_configs(0.0, system.q, 0.01, system.q)

    def step():
        state = mvi.t2, mvi.q2, mvi.p2
        mvi.step(mvi.t2 + 0.01)
        f = mvi.calc_f()
        mvi.initialize_from_state(*state)
        return np.linalg.norm(f[:7]), np.abs(f[7:]).max()

    for _ in range(20):
        mvi.step(mvi.t2 + 0.01)
    step()  # from now on from the same state and multipliers
    first = step()
    mvi.tolerance = 1e-2
    for constraint in system.constraints:
        constraint.tolerance = 1e-2
    second = step()
    assert first[0] < 1e-10
    assert second[0] > 1e-8
    system.constraints[0].tolerance = 1e-13
    assert step()[1] < second[1]
    mvi.tolerance = 1e-10
    for constraint in system.constraints:
        constraint.tolerance = 1e-10
    assert step() == first


def test_what_is_left_is_lost():
    """p2 is D2 Ld alone, and derivatives are those at the point reached."""
    system = pendulum()
    mvi = trep.MidpointVI(system, tolerance=1e-2)
    mvi.initialize_from_state(0.0, [0.2], [0.5])
    assert mvi.step(0.1, [0.8]) == 1
    (left,), p2 = mvi.calc_f(), mvi.p2
    assert 1e-6 < abs(left) < 1e-2
    mvi.calc_p2()
    assert abs(mvi.p2 - p2).max() < 1e-15
    # implicit differentiation of the residual there, by differences
    place = {name: getattr(mvi, name)[0] for name in ("q1", "p1", "u1", "q2")}
    slopes, exact = {}, [mvi.q2_dq1()[0, 0], mvi.q2_dp1()[0, 0], mvi.q2_du1()[0, 0]]
    for name, value in place.items():
        sides = []
        for change in (1e-6, -1e-6):
            setattr(mvi, name, [value + change])
            sides.append(mvi.calc_f()[0])
        setattr(mvi, name, [value])
        slopes[name] = (sides[0] - sides[1]) / 2e-6
    for name, found in zip(("q1", "p1", "u1"), exact, strict=True):
        assert abs(found + slopes[name] / slopes["q2"]) < 1e-8


@pytest.mark.parametrize("tolerance", [1e-3, 1e-10, 1e-14])
@pytest.mark.parametrize("name", ["pendulum", "scissor", "marionette"])
def test_whole_trajectories_end_their_steps_alike(name, tolerance):
    """project, linearize_trajectory: as single steps, whatever the tolerance, also after it was changed."""
    d = read("scissor.json")
    system = {"pendulum": pendulum, "scissor": lambda: scissor(d["segments"]), "marionette": marionette}[name]()
    if name == "scissor":
        system.q = d["q0"]
    n, mvi = 30, trep.MidpointVI(system)
    dsys = discopt.DSystem(mvi, 0.01 * np.arange(n + 1))
    X, U = dsys.build_trajectory(Q=np.tile(system.q, (n + 1, 1)), rho=np.tile(system.qk, (n, 1)))
    X[0, system.nQ] = 0.3
    if system.nu:
        U[:, 0] = np.sin(np.arange(n))
    K = np.zeros((n, dsys.nU, dsys.nX))
    before, _ = dsys.project(X, U, K)
    mvi.tolerance = tolerance
    for constraint in system.constraints:
        constraint.tolerance = tolerance
    moved, _ = dsys.project(X, U, K)
    mvi.initialize_from_state(0.0, X[0, : system.nQ], X[0, system.nQ : system.nQ + system.nQd])
    single = [X[0]]
    for k in range(n):
        mvi.step(dsys.time[k + 1], U[k, : system.nu], U[k, system.nu :])
        single.append(np.concatenate([mvi.q2, mvi.p2, mvi.v2]))
    scale = 1 + np.abs(moved).max()
    assert np.abs(moved - single).max() < 1e-11 * scale
    apart = np.abs(moved - before).max()
    assert apart == 0 if tolerance == 1e-10 else 0 < apart < max(1e-8, 1e3 * tolerance) * scale
    A, B = dsys.linearize_trajectory(moved, U)
    for k in (0, 7, n - 1):
        dsys.set(moved[k], U[k], k, xk_hint=moved[k + 1])
        assert np.abs(A[k] - dsys.fdx()).max() < 1e-10 * np.abs(A[k]).max()
        assert np.abs(B[k] - dsys.fdu()).max(initial=0.0) < 1e-10 * np.abs(A[k]).max()


def test_elements_written_in_python():
    left, spent = [], []
    for tolerance in TOLERANCES:
        system = written()
        for constraint in system.constraints:
            constraint.tolerance = tolerance
        mvi = trep.MidpointVI(system, tolerance=tolerance)
        mvi.initialize_from_state(0.0, start(system), np.zeros(mvi.nd))
        total, worst = 0, 0.0
        for k in range(10):
            total += mvi.step(0.02 * (k + 1), [0.4], mvi.q2[mvi.nd :])
            f = mvi.calc_f()
            worst = max(worst, float(np.linalg.norm(f[: mvi.nd])))
            assert np.linalg.norm(f[: mvi.nd]) < 1.01 * tolerance
            assert np.abs(f[mvi.nd :]).max() < tolerance
        left.append(worst)
        spent.append(total)
    assert left[0] > 1e3 * left[-1]
    assert spent == sorted(spent)
