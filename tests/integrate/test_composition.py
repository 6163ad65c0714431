"""Steps of order four and six composed of midpoint steps (Suzuki; Kahan and Li): orders, and what every part keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.integrate.composition import composition
from dalembert.models import crane, load_with_configurations, n_link, scissor_lift, scissor_lift_configuration


@pytest.mark.parametrize(("order", "stages"), [(2, 1), (4, 5), (6, 9)])
def test_parts_are_symmetric_and_meet_their_conditions(order: int, stages: int) -> None:
    w = composition(order)
    assert len(w) == stages
    np.testing.assert_array_equal(w, w[::-1])
    assert w.sum() == pytest.approx(1, abs=1e-15)
    for power in range(3, order, 2):
        assert (w**power).sum() == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("order", [0, 1, 3, 5, 8, True, "4", None, [4]])
def test_other_orders_are_refused(order: object) -> None:
    with pytest.raises(ValueError, match="order must be 2, 4 or 6"):
        da.MidpointVI(n_link(1), 0.1, order=order)  # type: ignore[arg-type]


def test_the_order_belongs_to_the_integrator() -> None:
    vi = da.MidpointVI(n_link(1), 0.1)
    start = vi.state(q=[0.1])
    for call in (lambda: vi.simulate(start, 2, order=4), lambda: da.rollouts(vi, [start], 2, order=4)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"MidpointVI\(model, dt, order=4\)"):
            call()


@pytest.mark.parametrize("options", [{"alpha": 0.3}, {"forcing": "left"}])
def test_only_symmetric_steps_can_be_composed(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="symmetric"):
        da.MidpointVI(n_link(1), 0.1, order=4, **options)  # type: ignore[arg-type]


def test_two_configurations_begin_only_midpoint_motions() -> None:
    with pytest.raises(ValueError, match="give v or p"):
        da.MidpointVI(n_link(1), 0.1, order=4).state(q=[0.1], q0=[0.0])


def _case(name: str) -> tuple[da.Model, dict[str, Any], dict[str, Any], float]:
    """Model, start, options of simulate, duration."""
    if name == "chain":
        return n_link(3), {"q": [1.2, -0.3, 0.4]}, {}, 0.8
    if name == "forced":  # damped, on a spring, pushed
        cart = da.tx("x", da.rz("theta", da.ty(-1.0, mass=1.0)), mass=2.0)
        loads = [da.Gravity((0, -9.8, 0)), da.Damping(0.4), da.ConfigSpring("x", 3.0), da.ConfigForce("x", "push")]
        return da.Model([cart], loads), {"q": [0.3, 1.0], "v": [0.5, -1.0]}, {"u": [1.5]}, 0.8
    if name == "closed":
        model, configurations = load_with_configurations("closed_chain")
        return model, {"q": configurations["q0"]}, {}, 0.3
    if name == "lift":
        return scissor_lift(2), {"q": scissor_lift_configuration(0.3, segments=2)}, {}, 0.8

    def string(t: float) -> list[float]:
        return [0.3 * np.sin(2 * t), 1.0 - 0.2 * np.sin(3 * t)]

    model = crane()
    q = {"x_r": 0.0, "r": 1.0, "x": np.sin(0.4), "y": -np.cos(0.4)}
    v = da.consistent_velocity(model, _values(model, q), _values(model, {"x_r": 0.6, "r": -0.6, "x": 0.2}))
    return model, {"q": q, "v": v}, {"kinematic": string}, 0.8


def _values(model: da.Model, named: dict[str, float]) -> np.ndarray:
    return np.array([named.get(name, 0.0) for name in model.variables])


CASES = ["chain", "forced", "closed", "lift", "prescribed"]


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("name", CASES)
def test_errors_fall_with_the_order(name: str, order: int) -> None:
    """Against order six with short steps. Three of the models are constrained, one of these on a string of prescribed length."""
    model, start, options, time = _case(name)
    grid = {2: [40, 80, 160], 4: [20, 40, 80], 6: [12, 16, 24]}[order]

    def end(steps: int, order: int) -> np.ndarray:
        vi = da.MidpointVI(model, time / steps, order=order)
        out = vi.simulate(vi.state(**start), steps, **options)
        assert out.constraint_violation()[1:].max(initial=0.0) < 1e-12
        assert out.t[-1] == pytest.approx(time)
        assert len(out) == steps + 1
        return out.q[-1]

    exact = end(160, 6)
    errors = [float(np.abs(end(n, order) - exact).max()) for n in grid]
    slope = -np.polyfit(np.log(grid), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.4), errors


@pytest.mark.parametrize("order", [4, 6])
@pytest.mark.parametrize("name", ["chain", "closed"])
def test_the_way_back_is_the_way(name: str, order: int) -> None:
    """Symmetric: turned momenta lead back to the start."""
    model, start, _, time = _case(name)
    vi = da.MidpointVI(model, time / 10, order=order)
    first = vi.state(**start)
    there = vi.simulate(first, 10)
    turned = vi.state(q=there.q[-1], p=-there.p[-1])
    np.testing.assert_allclose(vi.simulate(turned, 10).q[-1], first.q, atol=1e-10)


@pytest.mark.parametrize("order", [4, 6])
def test_energy_does_not_drift_and_momenta_stay(order: int) -> None:
    """Two hinged bodies, free in the plane: linear and angular momentum to rounding; energy error bounded and far below that of the midpoint step."""
    second = da.tx(0.5, da.rz("b", da.tx(0.6, mass=1.0, inertia=(0.1, 0.2, 0.3))))
    model = da.Model([da.tx("x", da.ty("y", da.rz("a", second, mass=2.0, inertia=(0.3, 0.5, 0.9))))])
    vi, plain = da.MidpointVI(model, 0.05, order=order), da.MidpointVI(model, 0.05)
    start = vi.state(v={"x": 0.3, "y": -0.2, "a": 1.0, "b": 3.0})
    motion = vi.simulate(start, 2000)
    momentum = motion.momentum()
    np.testing.assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), atol=1e-10)
    energy = motion.energy()
    early, late = np.abs(energy[:200] - energy[0]).max(), np.abs(energy - energy[0]).max()
    assert late < 4 * early + 1e-12
    assert early < 0.02 * np.abs(plain.simulate(start, 200).energy() - energy[0]).max()


def test_thinned_and_whole_agree() -> None:
    model, start, options, _ = _case("prescribed")
    vi = da.MidpointVI(model, 0.02, order=4)
    whole = vi.simulate(vi.state(**start), 24, **options)
    thin = vi.simulate(vi.state(**start), 24, every=6, **options)
    for name in ("t", "q", "p"):
        np.testing.assert_allclose(getattr(thin, name), getattr(whole, name)[::6], atol=1e-12)
    np.testing.assert_allclose(thin.rho, whole.rho[5::6], atol=1e-14)
    np.testing.assert_allclose(whole.rho, [options["kinematic"](t) for t in whole.t[1:]], atol=1e-14)


def test_arrays_and_policies_mean_the_same() -> None:
    """A policy that gives the rows of arrays: prescribed values on straight lines, inputs held."""
    model, start, options, _ = _case("forced")
    vi = da.MidpointVI(model, 0.05, order=4)
    u = np.sin(np.arange(20.0))[:, None]
    by_rows = vi.simulate(vi.state(**start), 20, u=u)
    by_policy = vi.simulate(vi.state(**start), 20, u=lambda t, state: u[round(t / 0.05)])
    np.testing.assert_allclose(by_policy.q, by_rows.q, atol=1e-12)
    np.testing.assert_allclose(by_policy.u, by_rows.u, atol=0)
    model, start, options, _ = _case("prescribed")
    vi = da.MidpointVI(model, 0.05, order=6)
    rho = np.array([options["kinematic"](0.05 * (k + 1)) for k in range(20)])
    by_rows = vi.simulate(vi.state(**start), 20, kinematic=rho)
    by_policy = vi.simulate(vi.state(**start), 20, u=lambda t, state: (np.zeros(0), rho[round(t / 0.05)]))
    np.testing.assert_allclose(by_policy.q, by_rows.q, atol=1e-12)
    np.testing.assert_allclose(by_policy.lam, by_rows.lam, atol=1e-9)


def test_a_policy_of_forces_leaves_prescribed_motion_to_its_function() -> None:
    model, start, options, _ = _case("prescribed")
    vi = da.MidpointVI(model, 0.05, order=4)
    plain = vi.simulate(vi.state(**start), 20, **options)
    by_policy = vi.simulate(vi.state(**start), 20, u=lambda t, state: np.zeros(0), **options)
    np.testing.assert_allclose(by_policy.q, plain.q, atol=1e-12)


def test_multipliers_are_those_of_whole_steps() -> None:
    """The string of a hanging mass carries its weight, whatever the order: lambda is weight times dt over the constraint's gradient."""
    model = crane()
    start = da.MidpointVI(model, 0.01).state(q={"r": 1.0, "y": -1.0})
    two, four = (da.MidpointVI(model, 0.01, order=n).simulate(start, 5).lam for n in (2, 4))
    np.testing.assert_allclose(four[1:], two[1:], rtol=1e-10)  # a first midpoint step has only half of it
    assert np.abs(two).min() > 0


def test_a_failure_keeps_what_came_before() -> None:
    """Steps too long for a whip: the error counts whole steps, not their parts."""
    vi = da.MidpointVI(n_link(8), 0.15, order=4)
    with pytest.raises(da.ConvergenceError) as caught:
        vi.simulate(vi.state(q=[2.2, *[0.0] * 7]), time=60)
    motion = caught.value.trajectory
    assert len(motion) == caught.value.step + 1
    assert caught.value.time == pytest.approx(motion.t[-1])
    assert f"step {caught.value.step} " in str(caught.value)
    again = vi.simulate(vi.state(q=[2.2, *[0.0] * 7]), len(motion) - 1)
    np.testing.assert_array_equal(again.q, motion.q)


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("name", ["forced", "closed", "prescribed"])
def test_batches_agree_with_single_motions(name: str, lanes: bool) -> None:
    model, start, options, _ = _case(name)
    vi = da.MidpointVI(model, 0.02, order=4)
    first = vi.state(**start)
    starts = [first, vi.state(q=first.q, p=1.1 * first.p), vi.state(q=first.q, p=0.9 * first.p)]
    given: dict[str, Any] = {}
    if name == "forced":
        given["u"] = np.cos(np.arange(12.0))[:, None]
    if name == "prescribed":
        given["kinematic"] = np.array([options["kinematic"](0.02 * (k + 1)) for k in range(12)])
    batch = da.rollouts(vi, starts, 12, lanes=lanes, **given)
    last = da.rollouts(vi, starts, 12, lanes=lanes, keep=False, **given)
    assert batch.q.shape == (3, 13, model.nq)
    assert (batch.completed == 12).all()
    for i, state in enumerate(starts):
        single = vi.simulate(state, 12, **given)
        np.testing.assert_allclose(batch.q[i], single.q, atol=1e-11)
        np.testing.assert_allclose(batch.p[i], single.p, atol=1e-10)
        np.testing.assert_allclose(batch.lam[i], single.lam, atol=1e-8)
        np.testing.assert_allclose(last.q[i, -1], single.q[-1], atol=1e-11)
    np.testing.assert_array_equal(batch[1].t, vi.simulate(first, 12).t)


def test_a_failed_rollout_of_a_batch_counts_whole_steps() -> None:
    vi = da.MidpointVI(n_link(8), 0.15, order=4)
    calm, whip = vi.state(q=[0.1] * 8), vi.state(q=[2.2, *[0.0] * 7])
    batch = da.rollouts(vi, [calm, whip], 400)
    assert batch.completed[0] == 400
    k = int(batch.completed[1])
    assert 0 < k < 400
    assert np.isfinite(batch.q[1, : k + 1]).all()
    assert np.isnan(batch.q[1, k + 1 :]).all()
    last = da.rollouts(vi, [calm, whip], 400, keep=False)
    np.testing.assert_array_equal(last.q[1, 0], batch.q[1, k])


@pytest.mark.parametrize(("name", "order"), [("closed", 2), ("closed", 4), ("lift", 2), ("lift", 4), ("prescribed", 2)])
def test_velocities_run_along_the_constraints(name: str, order: int) -> None:
    """Momenta lack part of the constraints' impulses; velocities must not, or they would be of first order, and energies of second."""
    model, start, options, time = _case(name)

    def end(steps: int, order: int) -> tuple[np.ndarray, float]:
        vi = da.MidpointVI(model, time / steps, order=order)
        motion = vi.simulate(vi.state(**start), steps, **options)
        rate = np.einsum("kci,ki->kc", np.stack([da.constraint_jacobian(model, q) for q in motion.q]), motion.v)
        assert np.abs(rate).max() < 1e-11
        return motion.v[-1], float(motion.energy()[-1])

    grid = {2: [40, 80, 160], 4: [20, 40, 80]}[order]
    v, energy = end(1280 if options else 160, 6)  # prescribed velocities are differences
    errors = [(np.abs(a - v).max(), abs(b - energy)) for a, b in (end(n, order) for n in grid)]
    slopes = -np.polyfit(np.log(grid), np.log(errors), 1)[0]
    assert (slopes > order - 0.4).all(), (slopes, errors)


@pytest.mark.parametrize("name", ["forced", "closed", "prescribed"])
def test_a_single_step_is_that_of_a_motion(name: str) -> None:
    model, start, options, _ = _case(name)
    vi = da.MidpointVI(model, 0.02, order=4)
    first = vi.state(**start)
    rho = np.array(options["kinematic"](0.02)) if name == "prescribed" else None
    motion = vi.simulate(first, 1, u=options.get("u"), kinematic=None if rho is None else rho[None])
    after = vi.step(first, options.get("u"), rho)
    np.testing.assert_allclose(after.q, motion.q[1], atol=1e-12)
    np.testing.assert_allclose(after.p, motion.p[1], atol=1e-11)
    np.testing.assert_allclose(after.lam, motion.lam[0], atol=1e-9)
