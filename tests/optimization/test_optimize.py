"""The optimizer on the papers' problems, its result, and what happens when something is wrong."""

import time

import numpy as np
import pytest

import dalembert as da
from dalembert.optimization import ExpressionCost, Search, TerminalCost, TrackingCost, optimize
from dalembert.optimization.result import Iteration
from dalembert.optimization.solve import _progress

from . import problems


@pytest.fixture(scope="module")
def swing():
    reference, Q, R, start = problems.swing_up()
    system = problems.left_system(problems.pendulum(), 0.1, 100)
    return system, TrackingCost(reference, Q, R), start


FINAL = 13297.378894617857


@pytest.mark.parametrize("method", ["auto", "projection", "newton"])
def test_swing_up(swing, method):
    result = optimize(*swing, method=method)
    assert result.converged
    assert abs(result.slope) < 1e-6
    assert result.iterations <= 15
    assert result.cost == pytest.approx(FINAL, abs=1e-6)
    expected = problems.reference("pend_opt.json")["newton"]
    np.testing.assert_allclose(result.X, expected["X"], atol=1e-5)
    np.testing.assert_allclose(result.U, expected["U"], atol=1e-5)


def test_first_iterations_are_treps(swing):
    """Costs and slopes of the first Gauss-Newton iterations agree with the reference implementation."""
    history = optimize(*swing, method="quasi", max_iterations=4).history
    for row, (_, _, cost, slope, shortened) in zip(
        history, problems.reference("pend_opt.json")["newton"]["history"][:4], strict=False
    ):
        assert row.cost == pytest.approx(cost, rel=1e-7)
        assert row.slope == pytest.approx(slope, rel=1e-6)
        assert row.trials == shortened + 1


def test_steepest_descent_needs_hundreds(swing):
    result = optimize(*swing, method=["quasi", "steepest"], max_iterations=1000)
    assert result.converged
    assert 300 < result.iterations < 1000
    assert result.cost == pytest.approx(FINAL, abs=1e-5)


@pytest.mark.bench
def test_swing_up_time(swing):
    optimize(*swing)
    begun = time.perf_counter()
    optimize(*swing)
    assert time.perf_counter() - begun < 0.015


def test_cart_pendulum_tipping():
    r = problems.reference("cart_pend.json")
    system = problems.left_system(problems.cart_pendulum(), 0.1, 100)
    cost = TrackingCost((np.array(r["Xref"]), np.array(r["Uref"])), r["Q"], r["R"])
    for method in ("auto", "projection", "newton", "quasi"):
        result = optimize(system, cost, (np.array(r["Xinit"]), np.array(r["Uinit"])), method=method)
        assert result.converged
        assert result.cost == pytest.approx(r["cost"], abs=1e-6)
        np.testing.assert_allclose(result.X, r["X"], atol=1e-4)


def test_lq_gains_save_a_sweep():
    """With gains="lq" one Riccati sweep gives the projection's gains and the Gauss-Newton direction."""
    r = problems.reference("cart_pend.json")
    system = problems.left_system(problems.cart_pendulum(), 0.1, 100)
    cost = TrackingCost((np.array(r["Xref"]), np.array(r["Uref"])), r["Q"], r["R"])
    start = (np.array(r["Xinit"]), np.array(r["Uinit"]))
    two, one = (optimize(system, cost, start, method="quasi", gains=g) for g in ("lqr", "lq"))
    assert one.converged
    assert one.cost == pytest.approx(two.cost, abs=1e-5)
    # one more if the start, an unstable equilibrium, had to be projected
    assert two.problem.sweeps - 2 * len(two.history) in (0, 1)
    assert one.problem.sweeps - len(one.history) in (0, 1)


# ---- the result


def test_result(swing, tmp_path):
    system, cost, start = swing
    rows = []
    result = optimize(system, cost, start, callback=lambda row, X, U: rows.append((row, X.shape, U.shape)))
    assert [r for r, _, _ in rows] == list(result.history)
    assert result.X.shape == (101, 2)
    assert result.gains.shape == (100, 1, 2)
    assert result.trajectory.q.shape == (101, 1)
    text = result.summary()
    assert "converged" in text
    assert "newton" in text
    assert len(text.splitlines()) == len(result.history) + 2
    assert all(a.cost > b.cost for a, b in zip(result.history, result.history[1:], strict=False))
    # the gains keep the system on the motion
    X = result.X[0] + [0.1, 0.1]
    for k in range(100):
        X = system.f(X, result.U[k] - result.gains[k] @ (X - result.X[k]), k)
    assert np.abs(X - result.X[-1]).max() < 1e-2


def test_figures(swing):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    result = optimize(*swing)
    assert len(result.plot_convergence().axes) == 2
    figure = result.descent_plot("quasi", X=swing[2][0], U=swing[2][1], points=8)
    assert len(figure.axes[0].lines) == 5  # the first step is taken: four curves and its mark
    plt.close("all")


def test_descent_plot_draws_the_search_that_was_used(swing):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from dalembert.optimization import Search

    system, cost, start = swing
    used = Search(shrink=0.5, fraction=0.3, trials=12)
    result = optimize(system, cost, start, method="steepest", search=used, max_iterations=1)
    row = result.history[0]
    assert result.search == used
    assert row.trials > 1
    axes = result.descent_plot("steepest", X=start[0], U=start[1], points=6).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert [label for label in lines if "0.3" in label] == ["decrease asked for, α = 0.3"]
    refused, taken = lines[f"refused ({row.trials - 1}), λ = 0.5ᵐ"], lines[f"taken, λ = {row.step:.3g}"]
    assert np.allclose(refused.get_xdata(), 0.5 ** np.arange(row.trials - 1))
    assert taken.get_xdata() == [row.step]
    assert np.allclose(taken.get_ydata(), result.history[1].cost)
    slope = lines["decrease asked for, α = 0.3"]
    assert np.allclose(np.diff(slope.get_ydata()) / np.diff(slope.get_xdata()), 0.3 * row.slope)
    other = result.descent_plot("steepest", X=start[0], U=start[1], points=6, search=Search(fraction=0.4)).axes[0]
    assert any("α = 0.4" in line.get_label() for line in other.lines)
    plt.close("all")


def test_checkpoint_and_resume(swing, tmp_path):
    system, cost, start = swing
    file = tmp_path / "run.npz"
    for method in ("auto", "projection"):
        whole = optimize(system, cost, start, method=method)
        first = optimize(system, cost, start, max_iterations=5, checkpoint=file, method=method)
        assert first.status == "iterations"
        again = optimize(system, cost, file, method=method)
        assert again.converged
        assert again.cost == pytest.approx(whole.cost, abs=1e-9)
        assert [r.index for r in again.history] == list(range(len(again.history)))
        if method == "projection":  # of the default the regularization is not kept
            assert [r.method for r in again.history] == [r.method for r in whole.history]
        result_file = tmp_path / "result.npz"
        whole.save(result_file)
        assert optimize(system, cost, result_file, method=method).iterations == whole.iterations
    with np.load(file, allow_pickle=False) as z:
        assert z["X"].shape == (101, 2)
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a checkpoint"):
        optimize(system, cost, tmp_path / "bad.npz")


def test_interrupt_keeps_the_best(swing):
    def stop(row, X, U):
        if row.index == 6:
            raise KeyboardInterrupt

    result = optimize(*swing, callback=stop)
    assert result.status == "interrupted"
    assert "iteration 6" in result.reason
    assert result.cost < result.history[6].cost
    assert result.cost == pytest.approx(result.problem.value(result.X, result.U))


def test_the_log_has_every_iteration(caplog, capsys):
    row = Iteration(3, "newton", 1.5, -2e-4, 1.0, 1, 0, 0.01)
    with caplog.at_level("INFO", logger="dalembert"), _progress(True) as show:
        show(row)
    (record,) = caplog.records
    assert record.getMessage() == "iteration 3 (newton): cost 1.5, |Dg| 2.00e-04"
    assert capsys.readouterr() == ("", "")  # no terminal, no notebook


# ---- free start, user costs, bounds


def test_free_start():
    """A pendulum without torque that must be upright at the end: only its initial momentum can do it."""
    system = problems.left_system(problems.pendulum(), 0.05, 20)
    cost = (
        TrackingCost({}, 0.0, 1e3)
        + TerminalCost({"theta": 1.0}, {"theta": 1e4})
        + TrackingCost({}, {"p.theta": 1e-3}, 0.0)
    )
    start = (np.zeros((21, 2)), np.zeros((20, 1)))
    result = optimize(system, cost, start, free_start=["p.theta"])
    assert result.converged
    assert result.X[0, 0] == 0.0
    assert result.X[-1, 0] == pytest.approx(1.0, abs=1e-3)
    assert np.abs(result.U).max() < 1e-2
    with pytest.raises(ValueError, match="unknown state 'speed'"):
        optimize(system, cost, start, free_start=["speed"])


def test_expression_of_a_frame_position():
    """Bring the bob to a height by torque: the optimum is the pose with that height."""
    system = problems.left_system(problems.pendulum(), 0.05, 40)
    cost = ExpressionCost(
        stage=lambda s: 1e-5 * s["torque"] ** 2,
        terminal=lambda s: 100 * (s.position("bob")[1] - s["height"]) ** 2 + s["p.theta"] ** 2,
        parameters={"height": 0.5},
    )
    theta = 0.2 * np.ones((40, 1))
    start = (system.simulate([0.0, 0.0], theta), theta)
    result = optimize(system, cost, start)
    assert result.converged
    assert -np.cos(result.X[-1, 0]) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("bound_method", ["barrier", "lagrangian"])
def test_input_bounds(bound_method):
    r = problems.reference("cart_pend.json")
    system = problems.left_system(problems.cart_pendulum(), 0.1, 100)
    cost = TrackingCost((np.array(r["Xref"]), np.array(r["Uref"])), r["Q"], r["R"])
    start = (np.array(r["Xinit"]), np.array(r["Uinit"]))
    free = optimize(system, cost, start)
    limit = 0.6 * np.abs(free.U).max()
    result = optimize(
        system, cost, start, bounds={"force": (-limit, limit)}, bound_method=bound_method, max_iterations=500
    )
    assert result.converged, result.reason
    assert np.abs(result.U).max() <= limit * (1 + 1e-6)
    assert np.abs(result.U).max() > 0.99 * limit
    assert result.cost > free.cost


def test_bounds_agree_and_state_bounds():
    system = problems.left_system(problems.pendulum(), 0.1, 30)
    cost = TrackingCost({"theta": 1.0}, {"theta": 10.0, "p.theta": 0.1}, 1.0)
    start = (np.zeros((31, 2)), np.zeros((30, 1)))
    free = optimize(system, cost, start)
    high = 0.8 * free.X[:, 0].max()
    results = [
        optimize(system, cost, start, bounds={"theta": (None, high)}, bound_method=m, max_iterations=500)
        for m in ("barrier", "lagrangian")
    ]
    for r in results:
        assert r.converged, r.reason
        assert r.X[:, 0].max() <= high * (1 + 2e-6)
    assert results[0].cost == pytest.approx(results[1].cost, rel=1e-3)
    with pytest.raises(ValueError, match="unknown name 'speed'"):
        optimize(system, cost, start, bounds={"speed": (0, 1)})
    with pytest.raises(ValueError, match="unknown name 1"):
        optimize(system, cost, start, bounds={1: (0, 1)})
    with pytest.raises(ValueError, match="is not below"):
        optimize(system, cost, start, bounds={"torque": (1, 0)})


# ---- wrong input


def test_mistakes(swing):
    system, cost, (X, U) = swing
    with pytest.raises(ValueError, match="unknown method 'fast'"):
        optimize(system, cost, (X, U), method="fast")
    with pytest.raises(ValueError, match="start X has shape"):
        optimize(system, cost, (X[1:], U))
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"start X is not finite at step 7, 'p\.theta'"):
        optimize(system, cost, (bad, U))
    with pytest.raises(ValueError, match="reference Xd is not finite at step 7"):
        optimize(system, TrackingCost((bad, U), 1.0, 1.0), (X, U))
    with pytest.raises(ValueError, match="gains must be"):
        optimize(system, cost, (X, U), gains="none")
    for tolerance in (0.0, "a", float("nan"), True):
        with pytest.raises(ValueError, match="tolerance must be a positive number"):
            optimize(system, cost, (X, U), tolerance=tolerance)
    for limit in (1.5, -1, "3", True):
        with pytest.raises(ValueError, match="max_iterations must be a whole number"):
            optimize(system, cost, (X, U), max_iterations=limit)
    with pytest.raises(ValueError, match="Search needs"):
        Search(shrink=1.5)


def test_infeasible_start_is_projected(swing):
    system, cost, (X, U) = swing
    curve = X + 0.3 * np.sin(np.arange(101) / 10)[:, None]
    result = optimize(system, cost, (curve, U), max_iterations=0)
    for k in range(100):
        np.testing.assert_allclose(system.f(result.X[k], result.U[k], k), result.X[k + 1], atol=1e-8)
    assert result.status == "iterations"


def test_start_that_cannot_be_projected(swing):
    system, cost, (X, U) = swing
    wild = X.copy()
    wild[0, 1] = 1e300
    with pytest.raises((da.ConvergenceError, ValueError), match="start"):
        optimize(system, cost, (wild, U))


def test_start_that_breaks_the_constraints():
    system = problems.left_system(problems.hanging(), 0.05, 10)
    X = np.zeros((11, system.nx))
    X[:, :4] = [0.0, -1.5, 0.0, 1.0]
    with pytest.raises(ValueError, match="constraints"):
        optimize(system, TrackingCost({}, 1.0, 1.0), (X, np.tile([0.0, 1.0], (10, 1))))


def test_unbounded_cost():
    """A negative weight: the cost falls until the inputs are too violent for the step; the status says so, the motion stays finite."""
    system = problems.left_system(problems.cart_pendulum(), 0.1, 20)
    U = np.full((20, 1), 0.1)
    start = (system.simulate([0.0, 0.0, 0.0, 0.0], U), U)
    result = optimize(system, TrackingCost({}, 0.0, -1.0), start, max_iterations=2000)
    assert result.status in ("unbounded", "stalled")
    assert result.cost < -1e3
    assert result.reason
    assert np.isfinite(result.X).all()


def test_gradient_that_is_not_finite():
    system = problems.left_system(problems.pendulum(), 0.1, 5)

    class Weird:
        def values(self, X, U):
            return np.zeros(len(X))

        def gradient(self, X, U):
            return np.zeros_like(X), np.full_like(U, np.nan)

        def hessian(self, X, U):
            raise AssertionError

    with pytest.raises(ValueError, match="gradient of the cost is not finite"):
        optimize(system, Weird(), (np.zeros((6, 2)), np.zeros((5, 1))))


@pytest.mark.parametrize(("steps", "status"), [(400, "converged"), (4000, "stalled")])
def test_not_stabilizable(steps, status):
    """A free inverted pendulum beside a driven cart: nothing can stabilize it. A short horizon is no problem (nothing
    disturbs the pendulum), on a long one the Riccati sweep overflows, and the result says so."""
    model = da.Model(
        [da.tx("a", name="cart", mass=1.0), da.rz("b", da.ty(1.0, name="top", mass=1.0))],
        [da.Gravity((0, -9.8, 0)), da.ConfigForce("a", "push")],
    )
    system = problems.left_system(model, 0.05, steps)
    X, U = np.zeros((steps + 1, 4)), np.zeros((steps, 1))
    result = optimize(system, TrackingCost({"a": 1.0}, 1.0, 1.0), (X, U))
    assert result.status == status, result.reason
    assert np.isfinite(result.X).all()
    if status == "stalled":
        assert "no feedback stabilizes the motion" in result.reason
        np.testing.assert_array_equal(result.X, X)  # the best motion is the start


def test_integrator_and_trajectories_as_arguments():
    """`optimize(vi, cost, start)` takes the horizon from the start; references may be trajectories too."""
    vi = da.MidpointVI(problems.cart_pendulum(), 0.05)
    still = vi.simulate(vi.state(q={"theta": 0.3}), steps=40)
    wanted = vi.simulate(vi.state(q={"theta": 0.3}), steps=40, u=lambda t: [np.sin(3 * t)])
    result = optimize(vi, TrackingCost(wanted, 10.0, 0.1), still)
    assert result.converged
    assert result.cost < 1e-7  # the reference is a motion: it is found again
    np.testing.assert_allclose(result.trajectory.q, wanted.q, atol=1e-4)
    short = optimize(vi, TrackingCost({}, 1.0, 1.0), (np.zeros((2, 4)), np.zeros((1, 1))))
    assert short.system.steps == 1
    with pytest.raises(ValueError, match="give a System"):
        optimize(vi, TrackingCost({}, 1.0, 1.0), "checkpoint.npz")


def test_room_and_function_have_names_of_their_own():
    assert da.optimization.optimize is da.optimize is optimize
    assert da.optimization.Search is Search


def _pendulum(steps: int) -> da.System:
    rod = [da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))]
    return da.System(da.MidpointVI(da.Model(rod, [da.ConfigForce("theta", "torque")]), 0.05), steps=steps)


def test_a_maximum_is_no_minimum() -> None:
    """cos(theta) at the end: no slope at theta = 0, its maximum; the minima are half a turn away on either side."""
    pytest.importorskip("casadi")
    import casadi as ca

    system = _pendulum(20)
    cost = ExpressionCost(
        stage=lambda s: 1e-5 * s["torque"] ** 2, terminal=lambda s: ca.cos(s["theta"]) + 0.1 * s["p.theta"] ** 2
    )
    result = da.optimize(system, cost, (np.zeros((21, 2)), np.zeros((20, 1))))
    assert result.status == "converged", result.reason
    assert result.cost < 0.5  # from 1
    assert abs(abs(result.X[-1, 0]) - np.pi) < 0.3


def test_bounds_that_the_start_violates() -> None:
    system = _pendulum(20)
    cost = da.TrackingCost({"theta": 0.0}, Q=1.0, R=1e-2)
    for push in (5.0, 500.0):
        U = np.full((20, 1), push)
        X = system.simulate([0.0, 0.0], U)
        for how in ("barrier", "lagrangian"):
            result = da.optimize(system, cost, (X, U), bounds={"torque": (-2, 2)}, bound_method=how)
            assert result.status == "converged", result.reason
            assert abs(result.U).max() <= 2 + 1e-6
    U = np.zeros((20, 1))
    X = system.simulate([1.0, 0.0], U)
    result = da.optimize(system, cost, (X, U), bounds={"theta": (-0.5, 0.5), "torque": (-2, 2)})
    assert result.status == "infeasible"
    assert "violated by" in result.reason


@pytest.mark.parametrize("how", [None, "barrier"])
def test_bounds_of_a_joint_and_of_its_motor_that_have_one_name(how):
    """As `load(..., inputs=True)` names them: "hinge" is the angle, "u.hinge" the torque."""
    link = da.rz("hinge", da.tx(1.0, mass=1.0))
    model = da.Model([link], [da.Gravity((0, -9.8, 0)), da.ConfigForce("hinge", input="hinge")])
    vi = da.MidpointVI(model, dt=0.05)
    system = da.System(vi, steps=30)
    hold = da.trim(model, {"hinge": 0.3})
    X, U = start = np.tile(vi.state({"hinge": 0.3}).x, (31, 1)), np.tile(hold, (30, 1))
    assert hold[0] > 5.0
    cost = da.TrackingCost((X, U), Q=1.0, R=0.1)
    held = da.optimize(system, cost, start, bounds={"hinge": (-1.0, 1.0)}, bound_method=how)
    assert held.converged
    np.testing.assert_allclose(held.U, U, atol=1e-3)
    weak = da.optimize(system, cost, start, bounds={"hinge": (-3.0, 3.0), "u.hinge": (-5.0, 5.0)}, bound_method=how)
    assert weak.converged
    assert weak.U.max() < 5.0
    if how is None:
        assert set(weak.multipliers) == {"hinge", "u.hinge"}
    with pytest.raises(ValueError, match="to hold an input weigh it"):
        da.optimize(system, cost, start, bounds={"u.hinge": (1.0, 1.0)}, bound_method=how)
