"""Exported steps and linearizations against the library."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.export import ExportError, export_c
from tests.export.compiled import Compiled, some_inputs, some_state

pytestmark = pytest.mark.filterwarnings("ignore::dalembert.errors.AccuracyWarning")


def planar_model(seed: int) -> da.Model:
    """A mechanism that moves in a tilted plane, with every element on frames: bodies beside the plane, frames turned in all directions."""
    rng = np.random.default_rng(seed)

    def link(i: int, *children: da.Frame) -> da.Frame:
        flip = da.se3(
            np.diag([1.0, -1.0, -1.0, 1.0]),
            da.rz(f"a{i}", da.tx(0.2, mass=0.4), da.rx(np.pi / 2, da.ry(f"b{i}", da.rx(-np.pi / 2, *children)))),
        )
        body = da.tx(0.5, name=f"c{i}", mass=1.0, inertia=rng.uniform(0.1, 1, 3), com=rng.uniform(-0.3, 0.3, 3))
        return da.tx(0.3, da.tx(f"s{i}", body, da.rx(1.0, name=f"f{i}"), flip), name=f"r{i}")

    tip = da.tx(0.4, name="tip", mass=0.5, inertia=(0.1, 0.2, 0.3))
    tilt = da.rx(0.4, link(0, link(1, tip)), da.ty(2.0, name="hook"))
    return da.Model(
        [tilt],
        [
            da.Gravity((1.0, -9.0, -3.0)),
            da.Gravity((0.5, 0.3, 1.0), masses=("c1",)),
            da.LinearSpring("hook", "tip", 3.0, 0.5),
            da.LinearDamper("hook", "r1", 0.7),
            da.PointGravity("hook", "f1", 0.4),
            da.Damping(0.1),
            da.Wrench("f0", ("u_a", 0.3, 0.2), (0.1, "u_b", 0.4), "body"),
            da.Wrench("f1", ("u_c", 0.3, "u_a"), (0.1, 0.2, "u_b"), "mixed", -0.6),
            da.Wrench("tip", (0.2, "u_c", 0.1), (0.1, "u_b", 0.4), "world"),
            da.PointOnPlane("hook", (1.0, 2.0, 0.5), "tip"),
        ],
        name="planar",
    )


@pytest.mark.parametrize("fold", [True, False])
def test_a_mechanism_in_a_plane_is_folded(fold, tmp_path):
    vi = da.MidpointVI(planar_model(0), 0.01)
    x = some_state(vi, 0)
    assert x is not None
    c = Compiled(vi, tmp_path, start=x, vectors=1, fold=fold)
    assert ("GRAVITY_X" in (tmp_path / "planar.c").read_text()) == fold
    rng = np.random.default_rng(0)
    for _ in range(10):
        w = some_inputs(vi, x, rng)
        new, A, B = vi.advance(x, w)
        c.start(x)
        assert c.step(w) == 0
        assert np.abs(c.x - new).max() < 1e-12 * (1 + np.abs(x).max())
        status, a, b = c.linearize()
        assert status == 0
        assert np.abs(a - A).max() < 1e-12 * (1 + np.abs(A).max())
        assert np.abs(b - B).max() < 1e-12 * (1 + np.abs(B).max())
        x = new


@pytest.mark.parametrize("plane", [True, False])
def test_a_loop_that_ends_where_it_begins(plane, tmp_path):
    """Both points of its constraint are at the origin, where no position says how large rounding is."""
    tree = None
    for i in reversed(range(4)):
        body = da.tz(-0.2, *([] if tree is None else [tree]), name=f"t{i}", mass=0.1, inertia=(1e-3, 1e-3, 1e-3))
        tree = da.rx(f"j{i}", body) if plane or i else da.rx("j0", da.ry("side", body, inertia=(1e-3, 1e-3, 1e-3)))
    assert tree is not None
    ends = [da.PointOnPlane("t3", (0, 1, 0), "world"), da.PointOnPlane("t3", (0, 0, 1), "world")]
    model = da.Model([tree], [da.Gravity(), *ends], name="ring")
    vi = da.MidpointVI(model, 0.01)
    state = vi.state(q=da.satisfy_constraints(model, {"j0": 0.3, "j1": 1.2, "j2": 1.6, "j3": 1.5}))
    x = np.concatenate([state.q, state.p])
    c = Compiled(vi, tmp_path, start=x, vectors=1)
    for _ in range(30):
        new = vi.f(x, [])
        c.start(x)
        assert c.step([]) == 0
        assert np.abs(c.x - new).max() < 1e-12
        assert c.lib.shim_iterations(c.m) <= 6
        x = new


def test_what_cannot_be_written_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ExportError, match="lengths"):
        export_c(da.MidpointVI(da.models.pendulum(), [0.01, 0.02]), tmp_path)
    with pytest.raises(TypeError, match="MidpointVI"):
        export_c(da.EulerModel(da.models.pendulum(), 0.01), tmp_path)
    with pytest.raises(ValueError, match="real"):
        export_c(da.MidpointVI(da.models.pendulum(), 0.01), tmp_path, real="half")


def test_bad_numbers_give_a_status_and_leave_the_state_alone(tmp_path):
    vi = da.MidpointVI(da.models.cart_pole(), 0.01)
    c = Compiled(vi, tmp_path)
    x = np.array([0.1, 0.5, 0.0, 0.0])
    c.start(x)
    assert c.step([np.nan]) == 3
    assert c.step([np.inf]) == 3
    assert c.step([0.0], dt=0.0) == 5
    assert c.step([0.0], dt=np.nan) == 5
    np.testing.assert_array_equal(c.x, x)
    assert c.step([0.0]) == 0
    c.start([0.0, 0.0, 0.0, np.nan])
    assert c.step([0.0]) == 3
    c.start([0.0, 0.0, 0.0, 1e3])  # more than half a turn in a step
    assert c.step([0.0]) in (1, 4)


def test_a_folder_that_exists(tmp_path):
    """What was exported before is written over, files of others are not; a filter that is no longer asked for goes."""
    vi = da.MidpointVI(da.models.pendulum(), 0.01)
    ekf = da.ExtendedKalmanFilter(vi, da.measure(vi, "theta"), Q=1e-6, R=1e-4)
    export_c(vi, tmp_path, ekf=ekf)
    assert (tmp_path / "pendulum_control.c").exists()
    (tmp_path / "notes.txt").write_text("mine")
    export_c(vi, tmp_path)
    assert not (tmp_path / "pendulum_control.c").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    (tmp_path / "pendulum.c").unlink()
    with pytest.raises(ExportError, match=r"main\.c was not written"):
        export_c(vi, tmp_path)
    assert not (tmp_path / "pendulum.c").exists()  # nothing is half done
    with pytest.raises(ExportError, match="is a file"):
        export_c(vi, tmp_path / "notes.txt")


def test_a_loop_released_from_rest_stays_closed(tmp_path):
    """The first step does not know the multipliers yet; what it leaves must not be judged by how fast they were found."""
    link = da.tx(1.0, name="end", mass=0.5)
    for i in (2, 1):
        link = da.tx(1.0, da.ry(f"q{i}", link), mass=1.0)
    base = da.ry("q0", link, mass=0.2, inertia=(0.1, 0.1, 0.1))
    triangle = da.Model([base], [da.Gravity(), da.PointToPoint("end", "world", "xz")])
    vi = da.MidpointVI(triangle, 0.01)
    state = vi.state(q=da.satisfy_constraints(triangle, np.array([-2.0, 2.0, 2.0])))
    x = np.concatenate([state.q, state.p])
    c = Compiled(vi, tmp_path, linearize=False, start=x, vectors=1)
    c.start(x)
    for _ in range(3):
        assert c.step(np.zeros(0)) == 0
        x = vi.f(x, np.zeros(0))
        assert np.abs(c.x - x).max() < 1e-12 * (1 + np.abs(x).max())
        assert np.abs(da.constraints(triangle, c.x[:3])).max() < 1e-14
