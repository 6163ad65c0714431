"""Names in and out of a simulation: inputs by name, quantities by name, tables."""

import numpy as np
import pytest

import dalembert as da


def cart(steps: int = 20, **options):
    vi = da.MidpointVI(da.models.cart_pole(), dt=0.05)
    return vi.simulate(vi.state(q={"theta": 0.3}), steps=steps, **options)


@pytest.mark.parametrize(
    "u", [{"push": 1.5}, {"push": np.full(20, 1.5)}, {"push": lambda t: 1.5}, lambda t: {"push": 1.5}]
)
def test_inputs_by_name(u):
    assert np.array_equal(cart(u=u).q, cart(u=[1.5]).q)


def test_inputs_that_are_not_named_are_zero():
    assert np.array_equal(cart(u={}).q, cart().q)


@pytest.mark.parametrize(
    ("u", "message"),
    [
        ({"psh": 1.0}, "unknown name 'psh' .did you mean 'push'"),
        ({"push": np.zeros(3)}, r"u\['push'\] has shape \(3,\)"),
        ({"push": lambda t: [1, 2]}, r"u\['push'\]\(t\) has shape"),
        ({"push": np.nan}, "not finite"),
        ({"push": lambda t: np.nan}, "not finite"),
    ],
)
def test_wrong_inputs_by_name(u, message):
    with pytest.raises(ValueError, match=message):
        cart(u=u)


@pytest.mark.parametrize("order", [2, 4])
def test_kinematic_by_name_moves_that_one_alone(order):
    model = da.load(da.models.path("crane"))
    vi = da.MidpointVI(model, dt=0.02, order=order)
    start = vi.state(q={"y": -1.0, "r": 1.0})

    def both(t):
        return [0.1 * t * t, 1.0]

    named = vi.simulate(start, steps=30, kinematic={"x_r": lambda t: 0.1 * t * t})
    plain = vi.simulate(start, steps=30, kinematic=both)
    assert model.kinematic == ("x_r", "r")
    assert np.array_equal(named.q, plain.q)
    held = vi.simulate(start, steps=30, kinematic={"x_r": 0.1 * (0.02 * np.arange(1, 31)) ** 2})
    assert np.allclose(held.rho, named.rho)
    with pytest.raises(ValueError, match="is an array and"):
        vi.simulate(start, steps=30, kinematic={"x_r": np.zeros(30), "r": lambda t: 1.0})


def test_every_quantity_has_its_numbers():
    model, found = da.models.load_with_configurations("closed_chain")
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(vi.state(found["q0"]), steps=10)
    sizes = {name: motion[name].shape for name in motion.quantities}
    assert sizes["J"] == (11,)
    assert {sizes[f"lam.{name}"] for name in model.constraints} == {(10,)}
    frame = model.frame_names[-1]
    assert sizes[frame] == (11, 3)
    assert np.array_equal(motion[f"{frame}.z"], da.positions(model, motion.q)[:, model.frame_index(frame), 2])
    assert np.array_equal(motion["v.J"], motion.v[:, 0])
    assert np.array_equal(motion["p.J"], motion.p[:, 0])
    with pytest.raises(KeyError, match="quantities"):
        motion["nothing"]


def test_motors_called_as_their_joints_are_found():
    """`load(..., inputs=True)` names motors so: the bare name is the joint's."""
    model = da.Model([da.rz("hinge", da.tx(1.0, mass=1.0))], [da.ConfigForce("hinge", input="hinge")])
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(vi.state(), steps=5, u=[2.0])
    assert np.array_equal(motion["hinge"], motion.q[:, 0])
    assert np.array_equal(motion["u.hinge"], np.full(5, 2.0))
    assert "u.hinge" in motion.quantities
    pytest.importorskip("pandas")
    assert motion.to_frame()["u.hinge"][:0.04].tolist() == [2.0] * 5
    push = cart(u={"push": 2.0})
    assert np.array_equal(push["u.push"], push["push"])
    assert "u.push" not in push.quantities


def test_pandas():
    pytest.importorskip("pandas")
    motion = cart(u={"push": 2.0})
    table = motion.to_frame()
    assert table.index.name == "t"
    assert np.array_equal(table["theta"], motion["theta"])
    assert table["push"].isna().tolist() == [False] * 20 + [True]
    assert np.array_equal(table.loc[0.5], table.iloc[10])


def test_xarray():
    pytest.importorskip("xarray")
    motion = cart(u={"push": 2.0})
    data = motion.to_xarray()
    assert np.array_equal(data.positions.sel(frame="bob", axis="x"), motion["bob.x"])
    assert data.u.sizes == {"step": 20, "input": 1}


def test_the_log_tells_what_was_done(caplog):
    with caplog.at_level("DEBUG", logger="dalembert"):
        cart()
    (record,) = caplog.records
    assert record.name == "dalembert.integrate"
    assert "20 steps" in record.getMessage()
