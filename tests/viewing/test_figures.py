"""Figures: labels with units, one style, several trajectories, honest errors."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from view_samples import cart_pole, closed_chain, everything, pendulum, swinging, tumbling

import dalembert as da
from dalembert.errors import ModelError
from dalembert.viewing.figures import plot_constraints, plot_energy, plot_momentum, plot_trajectory, plot_variables


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def labels(figure) -> list[str]:
    return [ax.get_ylabel().replace("\n", " ") for ax in figure.axes]


def test_a_trajectory_shows_variables_energy_and_constraints() -> None:
    figure = plot_trajectory(swinging(closed_chain()), title="Device")
    assert labels(figure) == ["angles (rad)", "energy − start (J)", "constraint violation"]
    assert figure.axes[-1].get_xlabel() == "time (s)"
    assert figure.axes[2].get_yscale() == "log"
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == list(closed_chain().variables)


def test_energy_is_the_error_against_the_start() -> None:
    motion = swinging(pendulum())
    (line,) = plot_energy(motion).axes[0].get_lines()
    np.testing.assert_allclose(line.get_ydata(), motion.energy() - motion.energy()[0])


def test_angles_and_lengths_have_their_own_axes() -> None:
    assert labels(plot_variables(swinging(cart_pole()))) == ["x (m)", "theta (rad)"]
    assert labels(plot_variables(swinging(everything()), variables=["body.tx", "body.rz", "rope"])) == [
        "lengths (m)",
        "body.rz (rad)",
    ]


def test_several_trajectories_share_panels_and_one_legend() -> None:
    runs = [swinging(cart_pole(), phase=p) for p in (0.0, 0.2, 0.4)]
    names = ["reference", "open loop", "closed loop"]
    figure = plot_trajectory(*runs, names=names, show=["variables", "energy"])
    assert labels(figure) == ["x (m)", "theta (rad)", "energy − start (J)"]
    assert [len(ax.get_lines()) for ax in figure.axes] == [3, 3, 3]
    legends = [ax.get_legend() for ax in figure.axes]
    assert [t.get_text() for t in legends[0].get_texts()] == names
    assert legends[1:] == [None, None]


def test_momentum_and_inputs() -> None:
    motion = swinging(cart_pole())
    assert labels(plot_momentum(motion)) == ["angular momentum (kg m²/s)", "linear momentum (kg m/s)"]
    assert labels(plot_trajectory(motion, show=["p"])) == ["p (kg m/s)", "p (kg m²/s)"]
    assert "push" in labels(plot_trajectory(motion, show="inputs"))[0]


def test_words_choose_variables_and_parts() -> None:
    motion = swinging(cart_pole())
    assert labels(plot_trajectory(motion, "theta", "energy")) == ["theta (rad)", "energy − start (J)"]
    assert labels(plot_trajectory(motion, "x")) == ["x (m)"]
    assert labels(plot_trajectory(motion, "push", "theta")) == ["theta (rad)", "push"]
    with pytest.raises(ValueError, match="did you mean 'theta'"):
        plot_trajectory(motion, "teta")


def test_a_real_trajectory_plots_itself() -> None:
    vi = da.MidpointVI(closed_chain(), dt=0.01)
    q0 = da.satisfy_constraints(vi.model, [-0.62, 1.35, 0.1, -1.34, 0.04, 1.28, 0.93])
    motion = vi.simulate(vi.state(q=q0), steps=50)
    assert labels(motion.plot()) == ["angles (rad)", "energy − start (J)", "constraint violation"]
    assert labels(motion.plot("J", "momentum"))[0] == "J (rad)"


def test_every_name_of_a_motion_is_plotted() -> None:
    vi = da.MidpointVI(closed_chain(), dt=0.01)
    q0 = da.satisfy_constraints(vi.model, [-0.62, 1.35, 0.1, -1.34, 0.04, 1.28, 0.93])
    motion = vi.simulate(vi.state(q=q0), steps=20)
    for name in motion.quantities:
        figure = motion.plot(name)
        assert len(figure.axes) == 1
        matplotlib.pyplot.close(figure)
    frame, speed, force = motion.plot("G", "v.J", f"lam.{vi.model.constraints[0]}").axes
    assert [line.get_label() for line in frame.get_lines()] == ["x", "y", "z"]
    assert speed.get_ylabel() == "v.J (rad/s)"
    assert len(force.patches) == 1  # stairs: it holds over a step


def test_a_notebook_shows_a_figure_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib.pyplot as plt

    plt.close("all")
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    assert plot_trajectory(swinging(pendulum())).axes
    assert not plt.get_fignums()


def test_the_style_stays_inside() -> None:
    before = dict(matplotlib.rcParams)
    plot_trajectory(swinging(pendulum()))
    assert dict(matplotlib.rcParams) == before


def test_long_motions_are_thinned_for_print() -> None:
    (line,) = plot_energy(swinging(pendulum(), steps=50_000)).axes[0].get_lines()
    assert len(line.get_xdata()) <= 4000


def test_wrong_requests_are_named() -> None:
    with pytest.raises(ValueError, match="parts are variables"):
        plot_trajectory(swinging(pendulum()), show=["colour"])
    with pytest.raises(ModelError, match="unknown variable"):
        plot_variables(swinging(pendulum()), variables=["thet"])
    with pytest.raises(ValueError, match="nothing to plot"):
        plot_constraints(swinging(pendulum()))


def test_balls_are_plotted_as_rotation_vectors() -> None:
    motion = tumbling()
    figure = plot_trajectory(motion, "base.ry", "base.wy", "p.tail.wx")
    assert labels(figure) == ["base.ry (rad)", "base.wy (rad/s)", "p.tail.wx (kg m²/s)"]
    shown = figure.axes[0].get_lines()[0].get_ydata()
    np.testing.assert_array_equal(shown, motion["base.ry"])
    assert shown.max() > np.pi  # goes on where the turn passes pi
    model = motion.model
    turn = da.rotation.exponential(model.configuration.read(motion.q)[:, 3:6])
    box = da.poses(model, motion.q)[:, model.frame_index("box"), :3, :3]
    np.testing.assert_allclose(da.rotation.matrix(turn), box, atol=1e-12)
    assert labels(plot_trajectory(motion, show=["variables", "p"]))[:2] == ["lengths (m)", "angles (rad)"]


def test_named_inputs_share_a_panel() -> None:
    body = da.floating("base", name="body", mass=1.5, inertia=(0.02, 0.025, 0.04))
    drone = da.Model([body], [da.Wrench("body", force=(0, 0, "thrust"), torque=("roll", "pitch", 0))])
    vi = da.MidpointVI(drone, dt=0.05)
    motion = vi.simulate(vi.state(), steps=20, u={"thrust": 1.0, "pitch": np.sin})
    figure = motion.plot("base.x", "thrust", "pitch", "energy")
    assert labels(figure) == ["base.x (m)", "inputs (N, N m)", "energy − start (J)"]
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == ["thrust", "pitch"]
    assert labels(motion.plot("pitch")) == ["pitch"]
    assert labels(motion.plot("v.base.v?")) == [f"v.base.v{axis} (m/s)" for axis in "xyz"]
    assert '"chosen":["base.x","base.y","base.z","thrust"]' in motion.show(variables=["base.[xyz]", "thr*"]).text
    with pytest.raises(ValueError, match=r"nothing to plot is called 'w\.\*'"):
        motion.plot("w.*")


def test_rolling_alone_has_no_violation_to_show() -> None:
    blade = da.tx("x", da.ty("y", da.rz("heading", name="sled", mass=1.0, inertia=(0.0, 0.0, 0.1))))
    sleigh = da.Model([blade], [da.KnifeEdge("sled")])
    motion = (vi := da.MidpointVI(sleigh, dt=0.05)).simulate(vi.state(), steps=5)
    assert "constraint violation" not in labels(motion.plot())
