"""The models that ship with the package: files equal their generators, and the reference values of trep."""

import json
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert import formats, mechanics, models
from dalembert.symbolic import Symbolic

REFERENCE = json.loads((Path(__file__).parents[1] / "reference/models.json").read_text())


def value(model, expression, q, v=None):
    s = Symbolic(model)
    f = ca.Function("f", [s.q, s.v], [expression(s)])
    return np.array(f(q, np.zeros(model.nq) if v is None else v)).ravel()


def test_every_file_loads_and_starts_on_its_constraints():
    assert {"closed_chain", "marionette", "scissor_lift", "pendulum", "cart_pole", "string_puppet"} <= set(
        models.names()
    )
    for name in models.names():
        model, configurations = models.load_with_configurations(name)
        assert model == models.load(name)
        if model.nc:
            h = value(model, lambda s: s.h(), configurations["q0"])
            assert np.abs(h).max() < 1e-10, name
        for kind in ("sexp", "toml", "json"):
            text = formats.dumps(model, kind, configurations=configurations)
            again, named = formats.loads_with_configurations(text, kind)
            assert again == model
            assert all(np.array_equal(named[k], configurations[k]) for k in configurations)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("pendulum", models.pendulum()),
        ("cart_pole", models.cart_pole()),
        ("eight_link", models.n_link(8)),
        ("scissor_lift", models.scissor_lift(5)),
        ("free_top", models.free_top()),
        ("spherical_pendulum", models.spherical_pendulum()),
        ("crane", models.crane()),
        ("string_puppet", models.string_puppet()),
    ],
)
def test_file_equals_generator(name, made):
    assert models.load(name) == made


@pytest.mark.parametrize("name", ["closed_chain", "marionette", "eight_link"])
def test_lagrangian_of_reference(name):
    """Order of variables, L, generalized momenta and constraints at a random state."""
    data = REFERENCE[name]
    model, configurations = models.load_with_configurations(name)
    assert list(model.variables) == data["q_names"]
    q, v = data["q"], data["dq"]
    assert value(model, lambda s: s.lagrangian(), q, v)[0] == pytest.approx(data["L"], rel=1e-12)
    p = value(model, lambda s: ca.gradient(s.lagrangian(), s.v), q, v)
    assert np.abs(p - data["L_ddq"])[: model.nd].max() < 1e-11
    assert mechanics.lagrangian(model, q, v) == pytest.approx(data["L"], rel=1e-12)
    assert np.abs(mechanics.lagrangian_first(model, q, v)[1] - data["L_ddq"]).max() < 1e-11
    if model.nc:
        assert np.abs(value(model, lambda s: s.h(), q) - data["h"]).max() < 1e-11
        assert np.abs(mechanics.constraints(model, q) - data["h"]).max() < 1e-11
    if "q0" in data:
        assert np.array_equal(configurations["q0"], data["q0"])


def test_marionette_frames():
    model, configurations = models.load_with_configurations("marionette")
    assert (len(model.frame_entries), model.nd, model.nk, model.nc) == (86, 22, 18, 6)
    s = Symbolic(model)
    origins = {name: p for name, p in REFERENCE["marionette"]["origins_at_q0"].items() if name != "World"}
    f = ca.Function("f", [s.q], [ca.horzcat(*(s.position(name) for name in origins))])
    assert np.abs(np.array(f(configurations["q0"])).T - np.array(list(origins.values()))).max() < 1e-14


def test_scissor_lift_is_the_reference():
    """Same names, start and closed loops; kinetic and potential energy of the one-variable Lagrangian."""
    data = REFERENCE["scissor_lift"]
    p = data["parameters"]
    model, configurations = models.load_with_configurations("scissor_lift")
    assert sorted(model.variables) == sorted(data["q_names"])
    there = [
        data["q_names"].index(v) for v in model.variables
    ]  # the reference goes segment by segment, we along chains
    assert np.array_equal(configurations["q0"], np.array(data["q0"])[there])
    assert np.abs(value(model, lambda s: s.h(), np.array(data["q_final"])[there])).max() < 1e-8
    theta, w, step = 0.7, 0.3, 1e-6
    q = models.scissor_lift_configuration(theta)
    v = (
        (models.scissor_lift_configuration(theta + step) - models.scissor_lift_configuration(theta - step))
        / (2 * step)
        * w
    )
    n = np.arange(1, 6)
    m, length, c, s = p["m_link"], p["L_link"], np.cos(theta), np.sin(theta)
    expected = np.sum((m * length**2 * ((n - 0.5) ** 2 * c**2 + 0.25 * s**2) + p["I_link"]) * w**2)
    expected += 0.5 * p["m_slider"] * length**2 * s**2 * w**2 + np.sum(2 * m * p["g"] * length * (n - 0.5) * s)
    assert value(model, lambda x: x.lagrangian(), q, v)[0] == pytest.approx(expected, rel=1e-9)
    assert mechanics.lagrangian(model, q, v) == pytest.approx(expected, rel=1e-9)


def test_scissor_lift_moves_as_the_reference():
    """Ten seconds from rest: the configuration that trep ends at."""
    data = REFERENCE["scissor_lift"]
    model, configurations = models.load_with_configurations("scissor_lift")
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(vi.state(q=configurations["q0"], p=np.zeros(model.nd)), steps=1000)
    expected = dict(zip(data["q_names"], data["q_final"], strict=True))
    assert motion.q[-1] == pytest.approx([expected[v] for v in model.variables], abs=1e-9)


def test_order_of_variables_in_the_core():
    """Another order of the kinematic variables gives the same mechanics, permuted: M, gradient, constraints."""
    model = models.load("string_puppet")
    rng = np.random.default_rng(0)
    order = [*model.dynamic, *reversed(model.kinematic)]
    other = da.Model(model.frames, model.elements, model.name, variables=order)
    assert other.variables != model.variables
    p = [model.index(v) for v in other.variables]
    q, v = rng.uniform(0.5, 1, model.nq), rng.uniform(-1, 1, model.nq)
    assert np.abs(mechanics.mass_matrix(other, q[p]) - mechanics.mass_matrix(model, q)[np.ix_(p, p)]).max() < 1e-13
    for a, b in zip(
        mechanics.lagrangian_first(other, q[p], v[p]), mechanics.lagrangian_first(model, q, v), strict=True
    ):
        assert np.abs(a - b[p]).max() < 1e-12
    for a, b in zip(
        mechanics.lagrangian_second(other, q[p], v[p]), mechanics.lagrangian_second(model, q, v), strict=True
    ):
        assert np.abs(a - b[np.ix_(p, p)]).max() < 1e-12
    assert np.abs(mechanics.constraints(other, q[p]) - mechanics.constraints(model, q)).max() < 1e-14
    jacobian = mechanics.constraint_jacobian(model, q)
    assert np.abs(mechanics.constraint_jacobian(other, q[p]) - jacobian[:, p]).max() < 1e-14


def test_unknown_model():
    with pytest.raises(da.ModelError, match="closed_chain"):
        models.load("closed_chian")
    with pytest.raises(da.ModelError, match="no model"):
        models.path("../models/pendulum")
    for wrong in (lambda: models.n_link(0), lambda: models.scissor_lift(0)):
        with pytest.raises(ValueError, match="at least 1"):
            wrong()
