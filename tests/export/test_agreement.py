"""Exported code against the library, model by model: steps, A and B, a thousand steps, the filter, single precision.

Every packaged model, 30 random ones, 12 with balls, 7 that roll; a sample of them runs always, all of them with `-m slow`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import dalembert as da
from dalembert.export import export_c
from dalembert.export.vectors import vector_inputs
from tests.balls import random_mechanism, start
from tests.export.compiled import Compiled, reached, some_inputs, some_state
from tests.export.test_quality import build_and_run
from tests.integrate import test_rolling
from tests.random_models import random_model

pytestmark = pytest.mark.filterwarnings("ignore::dalembert.errors.AccuracyWarning")

PACKAGED = (*da.models.names(), "bicycle")
RANDOM = tuple(f"random{seed}" for seed in range(30))
BALLS = tuple(f"balls{seed}" for seed in range(12))
ROLLING = tuple(test_rolling.MODELS)
OPTIONS = ({}, {"order": 4}, {}, {"order": 6}, {"alpha": 0.4, "forcing": "left"})
ALWAYS = {
    "cart_pole",
    "closed_chain",
    "crane",
    "random0",
    "random1",
    "random3",
    "random4",
    "random7",
    "balls0",
    "balls1",
    "balls2",
}


def cases() -> list:
    names = (*PACKAGED, *RANDOM, *BALLS, *ROLLING)
    return [pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.slow]) for name in names]


def packaged(name: str) -> tuple[da.Model, np.ndarray | None]:
    if name in da.models.names():
        model, places = da.models.load_with_configurations(name)
        return model, places.get("q0")
    model = getattr(da.models, name)()
    return model, model.neutral()


def case(name: str, dt: float, options: bool = True) -> tuple[da.MidpointVI, np.ndarray]:
    """The integrator of a model and a moving state on its constraints; random ones with another scheme each."""
    if name in PACKAGED:
        model, q0 = packaged(name)
        vi = da.MidpointVI(model, dt)
        x = some_state(vi, 0, q0)
        assert x is not None
        return vi, x
    if name in BALLS:
        seed = int(name.removeprefix("balls"))
        vi = da.MidpointVI(random_mechanism(seed), dt, order=4 if options and seed % 3 == 2 else 2)
        state = start(vi, seed)
        return vi, np.concatenate([state.q, state.p])
    if name in ROLLING:
        vi = da.MidpointVI(test_rolling.MODELS[name](), dt, order=4 if options and len(name) % 2 else 2)
        x = test_rolling.start(vi)[0]
        x[len(x) - vi.model.nkv :] = 0.0  # prescribed variables stand still
        return vi, x
    seed = int(name.removeprefix("random"))
    for constraints in (None, 1, 0):
        model = random_model(seed, constraints=constraints)
        vi = da.MidpointVI(model, dt, **(OPTIONS[seed % 5] if options else {}))
        x = some_state(vi, seed)
        if x is not None:
            return vi, x
    raise AssertionError(name)


def sensors(vi: da.MidpointVI, seed: int = 0) -> object:
    """Three of the coordinates, a momentum, and where a frame is."""
    rng = np.random.default_rng(seed)
    names = [*rng.permutation(vi.x_names[: vi.model.nq])[:3], vi.x_names[vi.model.nq]]
    linear = da.measure(vi, *map(str, names))
    return linear + da.measure_frame(vi, vi.model.frame_names[-1]) if vi.model.nd % 2 else linear


def close(a: np.ndarray, b: np.ndarray, tolerance: float, size: float = 0.0, rounding: float = 0.0) -> None:
    """Within `tolerance` of the size of the numbers and of one, or within ten times what rounding is known to do to them."""
    assert a.shape == b.shape
    bound = max(tolerance * (1 + max(size, np.abs(b).max(initial=0.0))), 10 * rounding)
    assert np.abs(a - b).max(initial=0.0) <= bound


def rounded(vi: da.MidpointVI, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The state x, moved by 1e-15 of its size: what the library makes of that, no code can do better."""
    return vi.retract(x, 1e-15 * rng.normal(size=vi.ndx) * (1 + np.abs(x).max()))


@pytest.mark.parametrize("name", cases())
def test_double_precision(name, tmp_path):
    """1e-12 per step (states relative to what rounding of where it starts amounts to), A and B too, and a cycle of the filter; 30 of them 1e-10."""
    vi, x = case(name, 0.01)
    ekf = da.ExtendedKalmanFilter(vi, sensors(vi), Q=1e-6, R=1e-4)
    c = Compiled(vi, tmp_path, start=x, vectors=1, ekf=ekf)
    rng = np.random.default_rng(0)
    at = x
    for _ in range(10):
        w = some_inputs(vi, at, rng)
        new, A, B = vi.advance(at, w)
        _, A2, B2 = vi.advance(rounded(vi, at, rng), w)
        c.start(at)
        assert c.step(w) == 0
        close(c.x, new, 1e-12, reached(A, at))
        status, a, b = c.linearize()
        assert status == 0
        close(a, A, 1e-12, rounding=np.abs(A2 - A).max())
        close(b, B, 1e-12, rounding=np.abs(B2 - B).max(initial=0.0))
        at = new
    follow_filter(c, vi, ekf, x, rng)
    repeat_cycles(c, vi, ekf, x, rng)


def repeat_cycles(c: Compiled, vi: da.MidpointVI, ekf: da.ExtendedKalmanFilter, x: np.ndarray, rng) -> None:
    """Ten cycles, each from the library's estimate, beside the library's from one that is moved by rounding."""
    estimate, truth, nk = ekf.start(x, 1e-4), x, vi.model.nkv
    for k in range(10):
        w = some_inputs(vi, truth, rng)
        truth = vi.f(truth, w)
        z = ekf.measurement.expected(truth) + 1e-3 * rng.normal(size=ekf.measurement.size)
        c.filter_start(estimate.mean, np.ones(vi.ndx))
        c.write("covariance", estimate.covariance)
        if nk:  # a start is at rest, and brings p to the constraints that way
            c.write("rate", estimate.mean[-nk:])
            c.write("p", estimate.mean[vi.model.nq : -nk])
        assert c.predict(w) == 0
        assert c.call("update", z) == 0
        A = vi.advance(estimate.mean, w)[1]
        reach = reached(A, estimate.mean)
        moved = replace(estimate, mean=rounded(vi, estimate.mean, rng))
        estimate, other = (ekf.update(ekf.predict(e, w, k), z) for e in (estimate, moved))
        P = c.field("covariance", vi.ndx, vi.ndx)
        close(c.x, estimate.mean, 1e-12, reach, rounding=np.abs(estimate.mean - other.mean).max())
        close(P, estimate.covariance, 1e-12, rounding=np.abs(estimate.covariance - other.covariance).max())


def follow_filter(c: Compiled, vi: da.MidpointVI, ekf: da.ExtendedKalmanFilter, x: np.ndarray, rng) -> None:
    """30 cycles with missing measurements and an irregular clock; beside them those of the library from a start moved by rounding."""
    spread = np.full(vi.ndx, 1e-4)
    guess = vi.retract(x, 1e-3 * rng.normal(size=vi.ndx) * (np.arange(vi.ndx) < vi.model.nd))
    estimate, other = ekf.start(guess, spread), ekf.start(rounded(vi, guess, rng), spread)
    c.filter_start(guess, spread)
    truth = x
    for k in range(30):
        w = some_inputs(vi, truth, rng)
        dt = vi.dt * (1.5 if k % 7 == 3 else 1.0)
        truth = vi.with_dt(np.array([dt])).f(truth, w)
        z = ekf.measurement.expected(truth) + 1e-3 * rng.normal(size=ekf.measurement.size)
        z[rng.random(len(z)) < 0.2] = np.nan
        estimate, other = (ekf.update(ekf.predict(e, w, k, dt=dt), z) for e in (estimate, other))
        assert c.predict(w, dt) == 0
        assert c.call("update", z) == 0
        close(c.x, estimate.mean, 1e-10, rounding=np.abs(estimate.mean - other.mean).max())
        P = c.field("covariance", vi.ndx, vi.ndx)
        close(P, estimate.covariance, 1e-10, rounding=np.abs(estimate.covariance - other.covariance).max())


def long_motion(vi: da.MidpointVI, x: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """(inputs, states, what the motion makes of a small change of a state on the way)."""
    m = vi.model
    t = np.arange(1, steps + 1)[:, None] * vi.dt
    lead = x[m.nqd : m.nq]
    W = np.hstack([0.3 * np.sin(5 * t + np.arange(m.nu)), lead + 0.05 * (1 - np.cos(3 * t + 0 * lead))])
    system = da.System(vi, steps=steps)
    X = system.simulate(x, W)
    A, _ = system.linearize_trajectory(X, W)
    grown, most = np.eye(vi.ndx), 1.0
    for a in A:
        grown = a @ grown
        most = max(most, np.abs(grown).max())
    return W, X, float(most)


@pytest.mark.parametrize("name", cases())
def test_a_thousand_steps(name, tmp_path):
    """1e-10, or where a motion is chaotic what it makes of a change of 1e-15 of where it starts."""
    vi, x = case(name, 1e-3, options=False)
    W, X, growth = long_motion(vi, x, 1000)
    c = Compiled(vi, tmp_path, linearize=False, start=x, vectors=1)
    c.start(x)
    for w in W:
        assert c.step(w) == 0
    close(c.x, X[-1], max(1e-10, 1e-15 * growth))


@pytest.mark.parametrize("name", cases())
def test_single_precision(name, tmp_path):
    """Within 1e-4 of the motion over a second, or within the bound that the exporter states for it."""
    vi, x = case(name, 0.01, options=False)
    c = Compiled(vi, tmp_path, linearize=False, start=x, vectors=100, real="float")
    assert f"within {c.out.bound:g} of that of dalembert" in (tmp_path / f"{c.n}.h").read_text()
    c.start(x)
    for w in vector_inputs(vi, x, 100):
        assert c.step(w) == 0
        x = vi.f(x, w)
        close(c.x[: c.n_state], x[: c.n_state], c.out.bound)


@pytest.mark.parametrize("real", ["double", "float"])
@pytest.mark.parametrize("name", cases())
def test_examples_repeat_their_vectors(name, real, tmp_path):
    """Steps, A and B, and the filter of `main.c`, each within the bound that stands in the vectors."""
    vi, x = case(name, 0.01)
    ekf = da.ExtendedKalmanFilter(vi, sensors(vi), Q=1e-6, R=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.ModelWarning)  # single precision that is not enough
        export_c(vi, tmp_path, start=x, real=real, ekf=ekf)
    assert ": ok" in build_and_run(tmp_path, "gcc", "-O1")
