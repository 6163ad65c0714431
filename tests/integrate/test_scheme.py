"""What made a motion: every Trajectory says it, files keep it, and a System of other equations refuses it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.integrate import Scheme


def motion(dt: float = 0.05, steps: int = 20, **options: object) -> da.Trajectory:
    vi = da.MidpointVI(models.cart_pole(), dt, **options)  # type: ignore[arg-type]
    return vi.simulate(vi.state(q=[0.0, 0.4]), steps)


@pytest.mark.parametrize("options", [{}, {"order": 4}, {"alpha": 0.3}, {"forcing": "left"}])
def test_a_motion_says_what_made_it(options: dict[str, object], tmp_path: Path) -> None:
    out = motion(**options)  # type: ignore[arg-type]
    wanted = Scheme(**{"dt": 0.05, **options})  # type: ignore[arg-type]
    assert out.scheme == wanted
    assert str(wanted) in repr(out)
    assert out[3:9].scheme == wanted
    out.save(tmp_path / "motion.npz")
    assert da.Trajectory.load(tmp_path / "motion.npz").scheme == wanted
    vi = da.MidpointVI(models.cart_pole(), 0.05, **options)  # type: ignore[arg-type]
    by_policy = vi.simulate(vi.state(q=[0.0, 0.4]), 3, u=lambda t, state: [0.0])
    batch = da.rollouts(vi, [vi.state(q=[0.0, 0.4])], 3)
    assert by_policy.scheme == batch[0].scheme == wanted


def test_varying_steps_have_no_common_length() -> None:
    vi = da.MidpointVI(models.cart_pole(), [0.1, 0.05, 0.2, 0.1])
    start = vi.state(q=[0.0, 0.4])
    assert vi.simulate(start).scheme == Scheme()
    assert vi.simulate(start, every=2).scheme is None


def test_files_of_the_first_version_load(tmp_path: Path) -> None:
    out = motion()
    out.save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as data:
        arrays = dict(data)
    for alpha, scheme in ((0.5, None), (0.3, Scheme(2, 0.3, None))):
        arrays["meta"] = np.array(json.dumps({"alpha": alpha, "interrupted": False}))
        np.savez(tmp_path / "old.npz", **arrays)
        old = da.Trajectory.load(tmp_path / "old.npz")
        assert old.scheme == scheme
        np.testing.assert_array_equal(old.q, out.q)
        np.testing.assert_array_equal(old.step_energy(), replace(out, scheme=scheme).step_energy())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.3}, "alpha = 0.3"),
        ({"forcing": "left"}, "forcing 'left'"),
        ({"order": 4}, "order 4"),
        ({"dt": 0.1}, "other lengths"),
    ],
)
def test_a_system_refuses_motions_of_other_equations(options: dict[str, object], words: str) -> None:
    system = da.System(da.MidpointVI(models.cart_pole(), 0.05), steps=20)
    other = motion(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        system.from_trajectory(other)
    with pytest.raises(ValueError, match="project=True"):
        da.lqr(system, other, Q=1.0, R=1.0)
    # told to project it gives a motion of its own, near the other one
    X, U = system.from_trajectory(other, project=True)
    np.testing.assert_allclose(system.simulate(X[0], U), X, atol=1e-9)
    if "dt" not in options:
        assert np.abs(X - system.curve(other)[0]).max() < 0.05


def test_a_thinned_motion_is_no_motion() -> None:
    vi = da.MidpointVI(models.cart_pole(), 0.05)
    thin = vi.simulate(vi.state(q=[0.0, 0.4]), 20, every=2)
    with pytest.raises(ValueError, match="not every state was kept"):
        da.System(da.MidpointVI(models.cart_pole(), 0.1), steps=10).from_trajectory(thin)
    with pytest.raises(ValueError, match="not every state was kept"):
        da.lqr(vi, thin, Q=1.0, R=1.0)


def test_what_does_not_say_is_checked_step_by_step() -> None:
    system = da.System(da.MidpointVI(models.cart_pole(), 0.05), steps=20)
    own = replace(motion(), scheme=None)
    np.testing.assert_array_equal(system.from_trajectory(own)[0], system.curve(own)[0])
    left = replace(motion(alpha=0.3), scheme=None)
    with pytest.raises(ValueError, match="step 0 misses its next state"):
        system.from_trajectory(left)
    exact = da.simulate_continuous(models.cart_pole(), [0.0, 0.4], [0.0, 0.0], own.t)
    assert exact.scheme is None
    with pytest.raises(ValueError, match="misses"):
        system.from_trajectory(exact)


def test_pieces_at_a_later_time_are_motions_too() -> None:
    vi = da.MidpointVI(models.cart_pole(), 0.05)
    out = vi.simulate(vi.state(q=[0.0, 0.4], t=1000.0), 40)[15:]
    law = da.lqr(vi, out, Q=1.0, R=1.0)
    assert law.steps == 25
