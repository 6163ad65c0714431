"""Parameters: arithmetic that stays tied to them, models with other values, files."""

import pickle

import numpy as np
import pytest

import dalembert as da
from dalembert.model.parameter import Quantity, Revalued, array, formula, parse
from tests.parametrize import parametrized
from tests.random_models import random_model, random_point


def test_arithmetic_keeps_derivatives():
    m, a = da.Parameter("m", 2.0), da.Parameter("l", 3.0)
    x = (m * a**2 / 12 + 1 - a) / (2 - m / 8) ** 0.5
    h = 1e-6
    for name, value in (("m", 2.0), ("l", 3.0)):
        up, down = (float(Revalued({name: da.Parameter(name, value + s)})(x)) for s in (h, -h))
        assert x.by[name] == pytest.approx((up - down) / (2 * h), rel=1e-8)


def test_numpy_keeps_derivatives():
    a = da.Parameter("l", 0.3)
    assert (np.float64(2.0) * a).by == {"l": 2.0}
    assert np.cos(a).by["l"] == pytest.approx(-np.sin(0.3), rel=1e-15)
    assert (np.array([[0.0, 2.0]]) @ array([1.0, a]))[0].by == {"l": 2.0}
    assert (a * np.array([1.0, 3.0]))[1].by == {"l": 3.0}
    assert isinstance(np.exp(a), float)
    assert not isinstance(np.exp(a), Quantity)


def test_plain_numbers_where_a_name_is_of_no_use():
    assert type(float(da.Parameter("m", 1.0))) is float
    assert da.Parameter("m", 1.0) == 1.0


def test_formulas_come_back():
    m, a = da.Parameter("m", 2.0), da.Parameter("arm.l", 3.0)
    for x in (m, a / 2, -m * (a - 1), m - (a - m), m / (a * m), (-m) ** 2, 2.0**a, np.sin(a) + np.sqrt(m), 1 / 3 - m):
        y = parse(formula(x), {"m": m, "arm.l": a})
        assert float(y) == float(x)
        assert y.by == x.by


def test_bad_formulas_are_refused():
    for text in (
        "k",
        "__import__('os')",
        "m.real",
        "m +",
        "m if m else 1",
        "'m' * 3 'x'",
        "m ** m ** 9e9",
        "[m]",
        "10**10**10",
    ):
        with pytest.raises(ValueError):
            parse(text, {"m": da.Parameter("m", 2.0)})


def test_bad_parameters():
    for make in (
        lambda: da.Parameter("", 1.0),
        lambda: da.Parameter("m", float("nan")),
        lambda: da.Parameter("m", "1"),
        lambda: da.Parameter("m", 1.0, bounds=(2, 3)),
        lambda: da.Parameter("m", 1.0, bounds=1),
        lambda: da.Parameter("m", 1.0, unit=3),
    ):
        with pytest.raises(da.ModelError):
            make()


def rod(a=0.5):
    a, m = da.Parameter("l", a, bounds=(0.1, None), unit="m"), da.Parameter("m", 2.0, unit="kg")
    own = m * a**2 / 12
    link = da.tz(-a / 2, name="rod", mass=m, inertia=(own, own, 0.0))
    return da.Model([da.rx("theta", link)], [da.Gravity(), da.Damping(da.Parameter("c", 0.1))])


def plain(a, m=2.0, c=0.1):
    own = m * a**2 / 12
    return da.Model(
        [da.rx("theta", da.tz(-a / 2, name="rod", mass=m, inertia=(own, own, 0.0)))], [da.Gravity(), da.Damping(c)]
    )


def test_other_values_are_another_model():
    model = rod()
    assert list(model.parameters) == ["l", "m", "c"]
    other = model.with_parameters({"l": 0.8, "c": 0.3})
    assert float(other.parameters["l"]) == 0.8
    assert float(model.parameters["l"]) == 0.5
    assert other != model
    assert other.with_parameters({"l": 0.5, "c": 0.1}) == model
    for a, b in (
        (model, plain(0.5)),
        (other, plain(0.8, c=0.3)),
        (other.with_parameters({"m": 1.0}), plain(0.8, 1.0, 0.3)),
    ):
        x, y = (da.MidpointVI(m, dt=0.01) for m in (a, b))
        for vi in (x, y):
            vi.motion = vi.simulate(vi.state(q=[1.0]), steps=50)
        np.testing.assert_allclose(x.motion.q, y.motion.q, rtol=0, atol=1e-14)
        assert da.potential_energy(a, [1.0]) == pytest.approx(da.potential_energy(b, [1.0]), rel=1e-14)


def test_values_are_checked():
    model = rod()
    with pytest.raises(da.ModelError, match="did you mean"):
        model.with_parameters({"ll": 1.0})
    with pytest.raises(da.ModelError, match="bounds"):
        model.with_parameters({"l": 0.01})
    with pytest.raises(da.ModelError, match="negative mass"):
        model.with_parameters({"m": -1.0})
    assert float(model.with_parameters({"m": -1.0}, check=False).parameters["m"]) == -1.0


def test_one_name_one_value():
    with pytest.raises(da.ModelError, match="twice and differently"):
        da.Model([da.tx("x", mass=da.Parameter("m", 1.0))], [da.Damping(da.Parameter("m", 2.0))])


def test_what_cannot_be_a_parameter_says_so():
    a = da.Parameter("a", 1.0)
    turn = [[a, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    with pytest.raises(da.ModelError, match="use rx, ry, rz"):
        da.se3(turn)
    with pytest.raises(da.ModelError, match="cannot be a parameter"):
        da.Spline([(0.0, 0.0), (a, 1.0)])
    frames = [da.rz("t", da.tx(a, name="tip", mass=1.0))]
    with pytest.raises(da.ModelError, match="cannot be a parameter"):
        da.Model(frames, [da.TorsionSpring("world", "tip", 1.0, axis=(0, a, 1))])
    with pytest.raises(da.ModelError, match="a function cannot follow"):
        da.Model(frames, [da.Potential(lambda m: m.position("tip")[0], name="mine")])


def test_a_parameter_that_is_zero_can_become_something():
    zero = [da.Parameter(name, 0.0) for name in "abcdef"]
    model = da.Model(
        [
            da.rz(
                "t",
                da.tx(
                    zero[0], da.ry(zero[1], da.rx("s", da.ty(0.2, mass=1.0, inertia=(0.1, 0.1, zero[2])))), mass=zero[3]
                ),
            )
        ],
        [da.Gravity((0, zero[4], -9.81)), da.Damping(zero[5])],
    )
    values = dict(zip("abcdef", (0.3, 0.4, 0.5, 0.6, 0.7, 0.8), strict=True))
    a, b, c, d, e, f = values.values()
    built = da.Model(
        [da.rz("t", da.tx(a, da.ry(b, da.rx("s", da.ty(0.2, mass=1.0, inertia=(0.1, 0.1, c)))), mass=d))],
        [da.Gravity((0, e, -9.81)), da.Damping(f)],
    )
    x, y = (da.MidpointVI(m, dt=0.01) for m in (model.with_parameters(values), built))
    first, second = (vi.simulate(vi.state(q=[0.3, 0.7]), steps=20) for vi in (x, y))
    np.testing.assert_allclose(first.q, second.q, rtol=0, atol=1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_every_number_can_be_set(seed):
    """A model with other values is the one that is built with them."""
    rng = np.random.default_rng(seed)
    named = parametrized(random_model(seed), seed, 0.7)
    assert named.parameters
    values = {n: float(p) * rng.uniform(0.97, 1.03) + 0.01 * rng.uniform() for n, p in named.parameters.items()}
    changed = named.with_parameters(values, check=False)
    built = pickle.loads(pickle.dumps(changed))  # from its frames and elements
    assert built.structure is built
    assert changed.structure is named
    q, v, u = random_point(named, seed)
    for f in (
        lambda m: da.lagrangian_first(m, q, v)[0],
        lambda m: da.lagrangian_first(m, q, v)[1],
        lambda m: da.force(m, q, v, u),
        lambda m: da.constraints(m, q),
        lambda m: da.poses(m, q),
        lambda m: np.array([da.potential_energy(m, q)]),
    ):
        got, expected = f(changed), f(built)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("kind", ["toml", "json"])
@pytest.mark.parametrize("seed", range(3))
def test_files_keep_parameters(seed, kind):
    for model in (rod(), parametrized(random_model(seed), seed, 0.5)):
        again = da.loads(da.dumps(model, kind), kind)
        assert again == model
        assert again.parameters == model.parameters
        assert [repr(p) for p in again.parameters.values()] == [repr(p) for p in model.parameters.values()]


def test_files_of_other_kinds_say_that_they_do_not():
    with pytest.raises(da.ModelError, match="TOML or JSON"):
        da.dumps(rod(), "sexp")


def test_wrong_parameters_in_files():
    text = '{"parameters": {"l": 1.0}, "frames": [{"tx": "x", "mass": {"formula": "k"}}]}'
    with pytest.raises(da.ModelError, match="unknown parameter 'k'"):
        da.loads(text, "json")
    with pytest.raises(da.ModelError, match="needs a value"):
        da.loads('{"parameters": {"l": {}}, "frames": []}', "json")
