"""What a notebook shows: pages that carry all they need, tables of facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from view_samples import closed_chain, pendulum, swinging

import dalembert as da
from dalembert import models
from dalembert.viewing import Page, notebook


def cart(steps: int = 40) -> da.Trajectory:
    vi = da.MidpointVI(models.cart_pole(), dt=0.05)
    return vi.simulate(vi.state(q={"theta": 0.3}), steps=steps)


def test_a_page_is_shown_saved_and_opened(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = cart().show(title="a cart & a <pole>", height=300)
    assert "height:300px" in page._repr_html_()
    assert "a cart &amp; a &lt;pole&gt;" in page._repr_html_()
    assert page.save(tmp_path / "page.html").read_text() == page.text
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    assert page.open().as_uri() == seen[0]
    assert page.open().read_text() == page.text
    assert repr(page).startswith("Page 'a cart & a <pole>' (")


def test_nothing_is_fetched() -> None:
    shown = cart()._repr_html_()
    assert "http" not in shown.replace("http-equiv", "")
    assert 'sandbox="allow-scripts"' in shown


@pytest.mark.parametrize("steps", [0, 1, 5000])
def test_motions_of_any_length(steps: int) -> None:
    shown = cart(steps)._repr_html_()
    assert f"{steps} steps" in shown
    assert len(shown) < 200_000


def test_several_motions_on_one_page() -> None:
    page = cart().show(cart(80), names=["short", "long"])
    assert isinstance(page, Page)
    assert '"name":"long"' in page.text


def test_a_model_shows_its_tree() -> None:
    shown = closed_chain()._repr_html_()
    assert "4 constraints" in shown
    assert "ry(&#x27;J&#x27;)" in shown
    assert "<iframe" in shown


def test_names_cannot_break_out_of_the_page() -> None:
    evil = da.Model([da.tx('x"></iframe><script>', mass=1.0)], name="</script><b>")
    shown = evil._repr_html_()
    assert shown.count("</iframe>") == 1
    assert "<script>" not in shown


def test_a_huge_page_is_only_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MAX_KILOBYTES", 1)
    assert "<iframe" not in cart()._repr_html_()
    assert ".show() shows it" in cart()._repr_html_()


def test_results_of_control_and_estimation() -> None:
    vi = da.MidpointVI(models.cart_pole(), dt=0.05)
    upright = vi.state(q={"theta": np.pi})
    law = da.Feedback.at_point(upright, [0.0], da.lqr_infinite(*vi.linearize(upright), Q=1.0, R=1.0).K)
    assert "first gains" in law._repr_html_()
    system = da.System(vi, steps=20)
    X, U = system.from_trajectory(vi.simulate(upright, steps=20))
    kalman = da.ExtendedKalmanFilter(system, da.measure(system, "theta"), Q=1e-6, R=0.01)
    Z = X[:, 1:2].copy()
    Z[3] = np.nan
    shown = kalman.run(kalman.start(X[0], 0.01), U, Z)._repr_html_()
    assert "20 steps, 20 of 20 measurements used" in shown
    assert "p.theta" in shown
    cost = da.TrackingCost({"theta": np.pi}, 1.0, 1.0)
    result = da.optimize(system, cost, (X, U), max_iterations=3)
    assert "iterations" in result._repr_html_()
    assert "<iframe" in result._repr_html_()
    assert repr(result).startswith("Optimization(")


def test_a_pose_and_made_up_motions_are_shown() -> None:
    assert da.show(pendulum()).title == "pendulum"
    assert '"v":""' in da.show(swinging(pendulum())).text  # it has no velocities to plot
