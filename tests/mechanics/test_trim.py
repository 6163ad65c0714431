"""Trim: inputs that hold a point or follow a motion, against the core's accelerations and simulations."""

import numpy as np
import pytest

import dalembert as da


def arm() -> da.Model:
    """Two links in a vertical plane with a motor each."""
    second = da.ry("elbow", da.tx(0.8, mass=0.5, name="hand"))
    return da.Model(
        [da.ry("shoulder", da.tx(1.0, second, mass=2.0))],
        [da.Gravity(), da.ConfigForce("shoulder", "m1"), da.ConfigForce("elbow", "m2"), da.Damping({"elbow": 0.3})],
    )


def test_a_held_arm_stays():
    model, q = arm(), [0.3, -0.7]
    u = da.trim(model, q)
    assert np.abs(da.acceleration(model, q, u=u).ddq).max() < 1e-10
    vi = da.MidpointVI(model, dt=0.05)
    motion = vi.simulate(vi.state(q), steps=40, u=u)
    assert np.abs(motion.q - q).max() < 1e-10


def test_the_feedforward_of_a_motion():
    model, rng = arm(), np.random.default_rng(1)
    q, v, a = rng.normal(size=(3, 6, 2))
    u = da.trim(model, q, v, a)
    assert u.shape == (6, 2)
    for k in range(6):
        assert da.acceleration(model, q[k], v[k], u[k]).ddq == pytest.approx(a[k], abs=1e-8)
    assert da.trim(model, q, v[0])[0] == pytest.approx(da.trim(model, q[0], v[0]))


def test_closed_chains_and_more_inputs_than_needed():
    """A bead on a circle, pushed by two forces: the smallest inputs are those along the circle."""
    model = da.Model(
        [da.tx("x", da.tz("z", name="bead", mass=2.0))],
        [
            da.Gravity((0, 0, -9.8)),
            da.Distance("world", "bead", 1.0),
            da.Wrench("bead", force=("fx", 0, "fz"), axes="mixed"),
        ],
    )
    angle = 0.4
    u = da.trim(model, {"x": np.sin(angle), "z": -np.cos(angle)})
    along = np.array([np.cos(angle), np.sin(angle)])
    assert u == pytest.approx(2 * 9.8 * np.sin(angle) * along, abs=1e-9)


def test_rows_of_constraints_that_say_nothing():
    """A loop in a plane that is closed along all three axes: nothing moves along the third."""

    def four_bar(axes: str) -> da.Model:
        rocker = da.tx(0.5, da.rz("rocker", da.tx(0.3, name="end", mass=1.0)))
        crank = da.rz("crank", da.tx(0.3, da.rz("rod", da.tx(0.5, name="tip", mass=0.5)), mass=1.0))
        elements = [da.Gravity((0, -9.8, 0)), da.PointToPoint("tip", "end", axes), da.ConfigForce("crank", "motor")]
        return da.Model([crank, rocker], elements)

    q = da.satisfy_constraints(four_bar("xy"), {"crank": 1.0, "rod": -1.0, "rocker": 1.0}, fixed=["crank"])
    u = da.trim(four_bar("xyz"), q)
    assert u == pytest.approx(da.trim(four_bar("xy"), q), abs=1e-9)
    assert abs(u[0]) > 0.1


def test_forces_that_are_not_linear_in_the_inputs():
    model = da.Model(
        [da.tz("z", mass=1.0)],
        [da.Gravity((0, 0, -9.8)), da.Force(lambda m: {"z": m.input("s") + 0.1 * m.input("s") ** 3}, uses=("s",))],
    )
    (s,) = da.trim(model, [0.0])
    assert s + 0.1 * s**3 == pytest.approx(9.8, abs=1e-7)


def test_what_cannot_be_held_is_named():
    with pytest.raises(da.ConvergenceError, match="'theta'"):
        da.trim(da.models.cart_pole(), {"theta": 1.0})
    with pytest.raises(ValueError, match="no inputs"):
        da.trim(da.models.n_link(2), [0.0, 0.0])
    with pytest.raises(ValueError, match="did you mean 'elbow'"):
        da.trim(arm(), {"elbw": 1.0})
