"""Motions of much information."""

import numpy as np
import pytest

import dalembert as da
from tests.identification.test_identify import rod


def plan(criterion="D", **options):
    vi = da.MidpointVI(rod(), dt=0.02)
    options = {"limit": 2.0, "noise": 1e-3, "tries": 4, "max_iterations": 12, **options}
    return vi, da.excite(vi, vi.state(), 100, criterion=criterion, **options)


def test_more_is_known_than_from_random_inputs():
    vi, best = plan()
    assert best.value > best.first + 0.5
    assert list(best.history) == sorted(best.history)
    assert np.abs(best.motion.u).max() <= 2.0
    # the criterion is that of the information which identifiability finds
    again = da.identifiability(vi, best.motion, noise=1e-3)
    np.testing.assert_allclose(again.singular, best.identifiability.singular, rtol=1e-6)
    assert best.value == pytest.approx(np.log1p(again.singular**2).sum(), rel=1e-6)


def test_the_worst_direction_gets_better():
    _, best = plan("E")
    _, other = plan("D")
    assert best.identifiability.singular[-1] > other.identifiability.singular[-1] * 0.999
    assert best.value == pytest.approx(2 * np.log(best.identifiability.singular[-1]), rel=1e-6)


def test_fits_are_as_much_better_as_it_says():
    """Deviations after a fit of the planned motion against those after one under random inputs of the same size."""
    vi, best = plan()
    rng = np.random.default_rng(5)
    u = 2.0 * np.tanh(rng.normal(size=(10, 1))).repeat(10, axis=0)
    other = vi.simulate(vi.state(), steps=100, u=u)
    fits = [
        da.identify(
            rod(0.15, 1.2, 0.75),
            da.Record.of(m, ["theta"], noise=1e-3),
            ["m", "l", "c"],
            ["theta"],
            noise=1e-3,
            segment=None,
        )
        for m in (best.motion, other)
    ]
    assert np.linalg.det(fits[0].covariance) < 0.5 * np.linalg.det(fits[1].covariance)


def test_ranges_are_kept():
    _, free = plan()
    _, kept = plan(stay={"theta": (-0.3, 0.3)})
    assert np.abs(free.motion.q).max() > 0.4
    assert np.abs(kept.motion.q).max() < 0.33
    assert kept.excess == pytest.approx(max(0.0, np.abs(kept.motion.q).max() - 0.3), abs=1e-9)


def test_wrong_arguments_are_named():
    vi = da.MidpointVI(rod(), dt=0.02)
    for options, text in (
        ({"limit": 0.0}, "positive"),
        ({"limit": {"taw": 1.0}}, "did you mean"),
        ({"limit": 1.0, "criterion": "A"}, "criterion"),
        ({"limit": 1.0, "stay": {"theta": (1, 0)}}, "below"),
        ({"limit": 1.0, "stay": {"thta": (0, 1)}}, "did you mean"),
        ({"limit": 1.0, "waves": 0}, "at least 1"),
    ):
        with pytest.raises(ValueError, match=text):
            da.excite(vi, vi.state(), 10, **options)
    still = da.MidpointVI(da.name_parameters(da.models.n_link(2), "*.mass"), dt=0.02)
    with pytest.raises(da.ModelError, match="none of"):
        da.excite(still, still.state(), 10, limit=1.0)
