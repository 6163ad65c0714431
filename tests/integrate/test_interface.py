"""States, trajectories, inputs, batches, errors."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dalembert as da


@pytest.fixture
def cart_pole() -> da.Model:
    return da.Model(
        [da.tx("x", da.rz("theta", da.ty(-1.0, name="bob", mass=1.0)), name="cart", mass=1.0)],
        [da.Gravity((0, -9.8, 0)), da.ConfigForce("x", input="push"), da.Damping(0.1)],
    )


def test_states(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 0.01)
    by_name, by_array = vi.state(q={"theta": 0.3}, v={"x": 1.0}), vi.state(q=[0, 0.3], v=[1, 0])
    np.testing.assert_array_equal(by_name.q, by_array.q)
    np.testing.assert_allclose(by_name.p, da.mass_matrix(cart_pole, by_name.q) @ [1, 0])
    for bad in (
        {"q": [0, np.nan]},
        {"q": [0]},
        {"q": {"thet": 1}},
        {"q": [0, 0], "v": [0, 0], "p": [0, 0]},
        {"q": [0, 0], "t": np.inf},
    ):
        with pytest.raises(ValueError):
            vi.state(**bad)
    with pytest.raises(ValueError, match="did you mean 'theta'"):
        vi.state(q={"thet": 1})


def test_inconsistent_state_says_by_how_much() -> None:
    model = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
    vi = da.MidpointVI(model, 0.01)
    with pytest.raises(ValueError, match=r"violates Distance\(world, p\) by 0.44"):
        vi.state(q=[1.2, 0.0])
    with pytest.raises(ValueError, match="rate"):
        vi.state(q=[1.0, 0.0], v=[1.0, 0.0])


def test_two_configurations_start_between_them(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 0.01, forcing="left")
    first = vi.step(vi.state(q=[0, 0.3]))
    again = vi.state(q=first.q, q0=[0, 0.3])
    np.testing.assert_allclose(again.p, first.p, atol=1e-12)


def test_inputs_as_array_row_function_policy(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 0.01)
    s = vi.state(q=[0, 0.3])
    row = vi.simulate(s, 50, u=[0.5])
    array = vi.simulate(s, 50, u=np.full((50, 1), 0.5))
    function = vi.simulate(s, 50, u=lambda t: [0.5])
    calls = []

    def policy(t: float, state: da.State) -> list[float]:
        calls.append(t)
        return [0.5]

    by_policy = vi.simulate(s, 50, u=policy)
    assert len(calls) == 50
    for other in (array, function):
        np.testing.assert_array_equal(row.q, other.q)
    np.testing.assert_allclose(row.q, by_policy.q, atol=1e-13)
    np.testing.assert_array_equal(row.u, by_policy.u)
    with pytest.raises(ValueError, match=r"u has shape \(49, 1\)"):
        vi.simulate(s, 50, u=np.zeros((49, 1)))
    with pytest.raises(ValueError, match="not finite"):
        vi.simulate(s, 50, u=np.full((50, 1), np.nan))
    with pytest.raises(ValueError):
        vi.simulate(s)


def test_varying_steps(cart_pole: da.Model) -> None:
    dt = 0.01 * (1 + 0.5 * np.sin(np.arange(40)))
    vi = da.MidpointVI(cart_pole, dt)
    traj = vi.simulate(vi.state(q=[0, 0.3]))
    np.testing.assert_allclose(traj.dt, dt)
    one = da.MidpointVI(cart_pole, 0.01)
    state = one.state(q=[0, 0.3])
    for h in dt:
        state = one.step(state, dt=h)
    np.testing.assert_allclose(traj.q[-1], state.q, atol=1e-12)


def test_trajectory_is_convenient(cart_pole: da.Model, tmp_path: Path) -> None:
    vi = da.MidpointVI(cart_pole, 0.01)
    traj = vi.simulate(vi.state(q=[0, 0.3]), 100, u=[0.1])
    np.testing.assert_array_equal(traj["theta"], traj.q[:, 1])
    np.testing.assert_array_equal(traj["push"], traj.u[:, 0])
    with pytest.raises(KeyError, match="theta"):
        traj["tetha"]
    part = traj[10:21]
    assert part.steps == 10
    assert part.t[0] == traj.t[10]
    assert traj[-1].t == traj.t[-1]
    assert "theta" in repr(traj)
    np.testing.assert_allclose(traj.at(traj.t[7]), traj.q[7])
    assert traj.at([0.101, 0.305]).shape == (2, 2)
    with pytest.raises(ValueError, match="outside"):
        traj.at(5.0)
    for suffix in (".npz", ".csv"):
        path = tmp_path / f"motion{suffix}"
        traj.save(path)
        back = da.Trajectory.load(path, model=cart_pole if suffix == ".csv" else None)
        np.testing.assert_array_equal(back.q, traj.q)
        np.testing.assert_array_equal(back.p, traj.p)
        np.testing.assert_array_equal(back.u, traj.u)
        assert back.model == cart_pole
    copy = pickle.loads(pickle.dumps(traj))
    np.testing.assert_array_equal(copy.q, traj.q)


def test_every_stores_the_same_states(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 0.01)
    s = vi.state(q=[0, 0.3])
    full, thin = vi.simulate(s, 3000), vi.simulate(s, 3000, every=30)
    np.testing.assert_array_equal(thin.q, full.q[::30])
    np.testing.assert_array_equal(thin.p, full.p[::30])
    np.testing.assert_allclose(thin.t, full.t[::30])


def test_failed_step_keeps_what_was_computed() -> None:
    model = da.Model(
        [da.tx(da.Kinematic("x"), da.rz("a", da.tx(1.0, name="end", mass=1.0)))],
        [da.PointOnPlane("world", (1, 0, 0), "end")],
    )
    vi = da.MidpointVI(model, 0.01)
    s = vi.state(q={"x": -0.5, "a": np.arccos(0.5)})
    with pytest.raises(da.ConvergenceError) as caught:
        vi.simulate(s, 100, kinematic=lambda t: [-0.5 - 0.6 * t])  # the arm cannot reach the plane after 0.83 s
    error = caught.value
    assert error.trajectory.steps == error.step
    assert 70 < error.step < 90
    assert error.time == pytest.approx(error.step * 0.01)
    assert "dt" in str(error) or "singular" in str(error)
    assert error.trajectory.constraint_violation().max() < 1e-9


def test_bad_arguments(cart_pole: da.Model) -> None:
    for bad in (
        {"dt": 0.0},
        {"dt": -1.0},
        {"dt": np.nan},
        {"dt": 0.1, "alpha": 1.5},
        {"dt": 0.1, "forcing": "right"},
        {"dt": []},
    ):
        with pytest.raises(ValueError):
            da.MidpointVI(cart_pole, **bad)
    with pytest.raises(TypeError):
        da.MidpointVI("cart", 0.1)
    vi = da.MidpointVI(cart_pole, 0.1)
    with pytest.raises(ValueError):
        vi.simulate(vi.state(), time=-1)
    with pytest.raises(ValueError):
        vi.simulate(vi.state(), 10, time=1)


def test_rollouts_equal_single_simulations(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 0.01)
    rng = np.random.default_rng(0)
    starts = [vi.state(q=rng.uniform(-1, 1, 2)) for _ in range(13)]
    u = rng.normal(size=(13, 60, 1))
    batch = da.rollouts(vi, starts, 60, u=u, threads=2)
    scalar = da.rollouts(vi, starts, 60, u=u, threads=1, lanes=False)
    last = da.rollouts(vi, starts, 60, u=u, keep=False)
    for i in (0, 5, 12):
        alone = vi.simulate(starts[i], 60, u=u[i])
        np.testing.assert_array_equal(scalar.q[i], alone.q)
        np.testing.assert_allclose(batch.q[i], alone.q, atol=1e-11)
        np.testing.assert_allclose(last.q[i, 0], alone.q[-1], atol=1e-11)
    # a lane does not see its neighbours
    shuffled = da.rollouts(vi, starts[::-1], 60, u=u[::-1])
    np.testing.assert_array_equal(shuffled.q[::-1], batch.q)
    assert batch[3].steps == 60
    assert not len(batch.failed)


def test_one_bad_rollout_does_not_stop_the_others() -> None:
    model = da.Model(
        [da.tx(da.Kinematic("x"), da.rz("a", da.tx(1.0, name="end", mass=1.0)))],
        [da.PointOnPlane("world", (1, 0, 0), "end")],
    )
    vi = da.MidpointVI(model, 0.01)
    s = vi.state(q={"x": -0.5, "a": np.arccos(0.5)})
    good, bad = np.full((100, 1), -0.5), -0.5 - 0.6 * 0.01 * np.arange(1, 101)[:, None]
    batch = da.rollouts(vi, [s] * 5, 100, kinematic=np.stack([good, bad, good, bad, good]))
    assert list(batch.failed) == [1, 3]
    assert 70 < batch.completed[1] < 90
    np.testing.assert_array_equal(batch.q[0], batch.q[4])
    assert batch[1].steps == batch.completed[1]
    for x in (batch.q, batch.p):  # nothing that was not computed looks like a result
        assert np.isfinite(x[1, : batch.completed[1] + 1]).all()
        assert np.isnan(x[1, batch.completed[1] + 1 :]).all()
    assert np.isnan(batch.lam[1, batch.completed[1] :]).all()
    assert np.isfinite(batch.q[[0, 2, 4]]).all()


def run(case: tuple[da.MidpointVI, float]) -> np.ndarray:
    vi, angle = case
    return vi.simulate(vi.state(q={"theta": angle}), 50).q


def test_ensemble_on_executors(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 0.01)
    cases = [(vi, 0.1 * i) for i in range(4)]
    plain = [run(c) for c in cases]
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_array_equal(da.ensemble(run, cases, pool), plain)


def test_ensemble_through_dask_is_identical(cart_pole: da.Model) -> None:
    distributed = pytest.importorskip("distributed", reason="dask's distributed is not installed")
    vi = da.MidpointVI(cart_pole, 0.01)
    cases = [(vi, 0.1 * i) for i in range(4)]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        far = da.ensemble(run, cases, client.get_executor())
    np.testing.assert_array_equal(far, [run(c) for c in cases])


def test_ctrl_c_returns_what_was_computed() -> None:
    vi = da.MidpointVI(da.models.n_link(32), 1e-3)  # long steps, so that no time goes into preparing arrays
    timer = threading.Timer(0.8, lambda: os.kill(os.getpid(), signal.SIGINT))
    start = vi.state(q=np.full(32, 0.1))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    timer.start()
    began = time.monotonic()
    try:
        traj = vi.simulate(start, 500_000, every=1000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert traj.interrupted
    assert time.monotonic() - began < 5
    assert 0 < traj.steps < 500
    assert np.isfinite(traj.q).all()


@pytest.mark.slow
def test_ten_million_steps_without_memory_growth(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 1e-3)
    s = vi.state(q=[0, 0.3])
    vi.simulate(s, 10_000, every=1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    state = s
    for _ in range(10):
        traj = vi.simulate(state, 1_000_000, every=100_000)
        state = traj[-1]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40_000, f"{grown} kB"  # the arrays of one call's dt, nothing per step


def test_continuous_simulation_agrees(cart_pole: da.Model) -> None:
    vi = da.MidpointVI(cart_pole, 1e-3)
    traj = vi.simulate(vi.state(q=[0, 1.0]), 1000, u=[0.3])
    exact = da.simulate_continuous(cart_pole, [0, 1.0], [0, 0], [0, 0.5, 1.0], u=[0.3])
    np.testing.assert_allclose(traj.q[-1], exact.q[-1], atol=2e-6)


def test_states_are_values() -> None:
    """A state keeps no array of the caller, and cannot be written to; nor can a motion through its states."""
    vi = da.MidpointVI(da.models.n_link(2), 0.01)
    q, p = np.array([0.1, 0.2]), np.array([0.0, 1.0])
    start = vi.state(q, p=p)
    q[0], p[0] = 7.0, 7.0
    assert start.q[0] == 0.1
    assert start.p[0] == 0.0
    motion = vi.simulate(start, 5)
    for state in (start, motion[1], motion[-1]):
        for values in (state.q, state.p):
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 5.0
    again = vi.simulate(motion[1], 4)
    np.testing.assert_allclose(again.q[-1], motion.q[-1], rtol=1e-12)


def test_every_bounds_memory(monkeypatch) -> None:
    """Where not every state is kept, steps are taken in pieces: the same motion, with memory for what is kept."""
    import tracemalloc

    from dalembert.integrate import midpoint

    vi = da.MidpointVI(da.models.crane(), 0.01)
    start = vi.state({"y": -1.0, "r": 1.0})
    table = np.tile(start.q[vi.model.nqd :], (600, 1)) + np.linspace(0, 0.1, 600)[:, None]
    whole = vi.simulate(start, 600, kinematic=table, every=20)
    monkeypatch.setattr(midpoint, "PIECE", 100)
    pieces = vi.simulate(start, 600, kinematic=table, every=20)
    for name in ("t", "q", "p", "u", "rho", "lam"):
        a, b = getattr(whole, name), getattr(pieces, name)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-9 * (1 + np.abs(a).max(initial=0.0)))
    with pytest.raises(ValueError, match="rows"):
        vi.simulate(start, 600, kinematic=table[:-1], every=20)
    monkeypatch.setattr(midpoint, "PIECE", 10_000)
    free = da.MidpointVI(da.models.n_link(1), 1e-3)
    tracemalloc.start()
    free.simulate(free.state(q=[0.5]), 1_000_000, every=10_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6  # a million steps would be 8 MB for their lengths alone


def test_energy_is_linear_in_the_number_of_states() -> None:
    from time import process_time

    vi = da.MidpointVI(da.models.n_link(3), 1e-3)
    motion = vi.simulate(vi.state(q=[0.5, 0.1, 0.2]), 40_000)

    def seconds(n: int) -> float:
        times = []
        for _ in range(5):
            begun = process_time()
            motion[:n].energy()
            times.append(process_time() - begun)
        return min(times)

    assert seconds(40_001) < 12 * max(seconds(8_001), 1e-4)  # five times as many


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("events", [None, da.Event("link-0", below=-9.0)])
def test_a_start_that_is_not_finite_is_refused(steps: int, events: da.Event | None) -> None:
    vi = da.MidpointVI(da.models.n_link(2), 0.01)
    bad = da.State(0.0, np.array([0.1, np.nan]), np.zeros(2), np.zeros(0), np.zeros(0), vi.model)
    with pytest.raises(ValueError, match=r"state\.q is not finite at 'link-1'"):
        vi.simulate(bad, steps, events=events)
    with pytest.raises(ValueError, match=r"state\.q is not finite at 'link-1'"):
        vi.linearize(bad)
