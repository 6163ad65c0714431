"""Every registered kind of element, by one set of tests: derivatives, files, drawing, values, wrong fields.

A new kind is tested here without a line of its own.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert import ModelError, _core, formats
from dalembert.model.compile import FAMILIES, compile_model
from dalembert.model.elements import ELEMENTS, Element, PotentialElement, element
from dalembert.model.elements import fields as f
from dalembert.viewing import build_scene
from tests.core.test_derivatives import check_model
from tests.random_models import random_model, sample

KINDS = sorted(ELEMENTS)


def models_with(kind: str, count: int, size: int | None = None) -> list[da.Model]:
    """Random mechanisms with one or two elements of a kind and nothing else."""
    found: list[da.Model] = []
    for seed in range(1000):
        frames = random_model(seed, size or 2 + seed % 6, elements=False)
        rng = np.random.default_rng(seed)
        some = [sample(ELEMENTS[kind], frames, rng) for _ in range(1 + seed % 2)]
        try:
            found.append(da.Model(frames.frames, [e for e in some if e is not None], f"{kind} {seed}"))
        except ModelError:  # a constraint without dynamic variables, or too many of them
            continue
        if not found[-1].elements:
            found.pop()
        if len(found) == count:
            return found
    raise AssertionError(f"no model for {kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_to_the_third_order_agree_with_the_symbolic_definition(kind: str) -> None:
    for seed, model in enumerate(models_with(kind, 12)):
        check_model(model, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_side_by_side_are_the_steps_alone(kind: str) -> None:
    """The same element in double and in SIMD lanes."""
    for model in models_with(kind, 2, size=4):
        vi = da.MidpointVI(model, 1e-3)
        rng = np.random.default_rng(5)
        try:
            base = da.satisfy_constraints(model, rng.uniform(-0.5, 0.5, model.nq) + 1.0)
        except da.ConvergenceError:
            continue
        q = np.tile(base, (_core.width() + 1, 1))
        if not model.nc:
            q[:, : model.nd] += rng.uniform(-0.2, 0.2, (len(q), model.nd))
        try:
            starts = [vi.state(q=row) for row in q]
        except ValueError:  # inside of a contact
            continue
        u, rho = np.ones((5, model.nu)), np.tile(base[model.nd :], (5, 1))
        alone, beside = (da.rollouts(vi, starts, steps=5, u=u, kinematic=rho, lanes=lanes) for lanes in (False, True))
        np.testing.assert_allclose(beside.q, alone.q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("suffix", ["sexp", "toml", "json"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_keep_every_field(kind: str, suffix: str) -> None:
    for model in models_with(kind, 6):
        text = formats.dumps(model, suffix)
        again = formats.loads(text, suffix)
        assert again == model, text


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_values(kind: str) -> None:
    """Equal, hashable, picklable; the repr builds an equal one."""
    for model in models_with(kind, 3):
        for e in model.elements:
            copy = pickle.loads(pickle.dumps(e))
            assert copy == e
            assert hash(copy) == hash(e)
            names = {**vars(da.model), "Tape": da.model.tape.Tape}
            assert eval(repr(e), names) == e
            assert e.label.startswith(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_viewers_can_draw_what_they_ask_for(kind: str) -> None:
    for model in models_with(kind, 3):
        scene = build_scene(model)
        assert np.isfinite(scene.extent)


WRONG: dict[type[f.Field], tuple[Any, ...]] = {
    f.NumberField: (math.nan, math.inf, "1", None, True, [1.0], 10**400),
    f.SizeField: (-0.1, math.nan, "1", None, True),
    f.ShareField: (-0.1, 1.1, math.nan, "1", None, True),
    f.BoundField: (math.nan, math.inf, "1", True, [1.0]),
    f.VectorField: ((1, 2), (1, 2, 3, 4), "down", 3.0, None, {"x": 1}, (0, math.nan, 0), (0, "0", 0)),
    f.AxisField: ((1, 2), "w", "", 3.0, None, (0, 0, 0), (0, math.inf, 0)),
    f.AxesField: ((1, 2, 3), "xw", "", (), 3.0, None, [(0, 0, 0)], [(0, math.nan, 1)]),
    f.ComponentsField: ((1, 2), "push", None, (1, 2, math.nan), (1, 2, [3])),
    f.LengthField: (0.0, -1.0, math.nan, None, da.Kinematic(""), "no such variable", True),
    f.CoefficientsField: (
        3.0,
        {"q0": math.nan},
        {"q0": "1"},
        {"no such variable": 1.0},
        [("q0", 1), ("q0", 2)],
        {1: 2},
    ),
    f.SplineField: ([(0, 0)], "table", None, [(0, 0), (0, 1)], [(0, 0), (1, math.nan)]),
    f.ChoiceField: ("spatial", None, 1),
    f.FrameField: ("no such frame", "", None, 3),
    f.VariableField: ("no such variable", "", None, 3),
    f.InputField: ("", None, 3),
    f.InputsField: ("u", None, 3, ("u", "u"), (1,)),
    f.FramesField: ("b0", 3, ("no such frame",), ("b0", "b0"), (1,)),
    f.TextField: ("", None, 3),
    f.FunctionField: (None, 3.0, "m"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_wrong_field_is_a_model_error_that_names_the_element(kind: str) -> None:
    model = models_with(kind, 1)[0]
    good = model.elements[0]
    for name, field in ELEMENTS[kind].FIELDS.items():
        for value in WRONG[type(field)]:
            with pytest.raises(ModelError) as caught:
                da.Model(model.frames, [replace(good, **{name: value})])
            assert kind in str(caught.value), (name, value)
            assert caught.value.culprit


@pytest.mark.parametrize("kind", KINDS)
def test_every_wrong_field_in_a_file_says_where(kind: str) -> None:
    model = models_with(kind, 1)[0]
    data = formats.document.to_document(model)
    for name in ELEMENTS[kind].FIELDS:
        for value in (None, [], {}, -1e400, True, [[]], {"kinematic": 3}, ""):
            if (value == [] and "masses" in name) or (name in ("coefficients", "uses") and value in ([], {})):
                continue  # an empty list means something there
            row = data["elements"][0] | {name: value}
            with pytest.raises(formats.document.Fault) as caught:
                formats.document.from_document(data | {"elements": [row]})
            assert caught.value.path[:2] == ("elements", 0), (name, value)


# ---- the list


def test_the_core_and_the_classes_know_the_same_kinds() -> None:
    """Every class compiles to kinds of its own family in the core (those on velocities also to constraints), and every kind has a class."""
    used: dict[str, set[str]] = {family: set() for family in FAMILIES}
    for kind in KINDS:
        for model in models_with(kind, 6):
            data = compile_model(model)
            for family in FAMILIES:
                both = (family, ELEMENTS[kind].FAMILY) == ("constraints", "velocities")
                assert family == ELEMENTS[kind].FAMILY or both or not data[family]
                used[family] |= {row["kind"] for row in data[family]}
    assert used == {family: set(kinds) for family, kinds in _core.ELEMENT_KINDS.items()}


def test_the_core_refuses_a_kind_that_it_does_not_know() -> None:
    data = compile_model(da.Model([da.tx("x", mass=1.0)], [da.ConfigSpring("x", 1.0)]))
    _core.Core(data)
    for kind in ("Bungee", "Wrench", ""):  # a force is no potential
        with pytest.raises(ValueError, match="unknown kind"):
            _core.Core(data | {"potentials": [data["potentials"][0] | {"kind": kind}]})
    for key, value in {"vars": 7, "n": 3, "site_a": 99, "tape": [5, -1, -1], "spline": 2, "input": [4] * 6}.items():
        with pytest.raises(ValueError, match="out of range"):
            _core.Core(data | {"potentials": [data["potentials"][0] | {key: value}]})


def test_a_class_that_nobody_knows_is_refused_when_the_model_is_built() -> None:
    class Bare(Element):
        pass

    class Pull(PotentialElement):
        pass

    class Stiff(da.LinearSpring):
        pass

    class Mine(da.Potential):
        pass

    cases = {
        Bare(): "use Potential, Force or Constraint",
        Pull(): "use Potential, Force or Constraint",
        Stiff("a", "b", 1.0): "derives from LinearSpring: use LinearSpring",
        Mine(lambda m: m["x"] ** 2): "derives from Potential",
    }
    for e, hint in cases.items():
        with pytest.raises(ModelError, match=hint) as caught:
            da.Model([da.tx("x", name="a", mass=1.0), da.tx(1.0, name="b")], [e])
        assert caught.value.culprit == type(e).__name__


def test_a_class_with_the_name_of_an_element_is_not_that_element() -> None:
    class Gravity(Element):
        pass

    with pytest.raises(ModelError, match="give the class another"):
        da.Model([da.tx("x", mass=1.0)], [Gravity()])


@pytest.fixture
def bungee() -> Any:
    """A kind of a user, made of what the core has."""

    @element
    @dataclass(frozen=True)
    class Bungee(PotentialElement):
        variable: f.VariableName
        stiffness: f.Number = 1.0

        def compile(self, table: Any) -> Any:
            return [table.on_variables("ConfigSpring", [self.variable], [self.stiffness, 0.1])]

        def symbolic(self, s: Any) -> Any:
            return self.stiffness / 2 * (s.variable(self.variable) - 0.1) ** 2

    yield Bungee
    del ELEMENTS["Bungee"]


def test_a_user_can_register_a_kind(bungee: Any) -> None:
    model = da.Model([da.tx("x", mass=1.0)], [bungee("x", 3)])
    assert da.potential_energy(model, [0.6]) == pytest.approx(1.5 * 0.25)
    check_model(model, 0)
    for suffix in ("sexp", "toml", "json"):
        assert formats.loads(formats.dumps(model, suffix), suffix) == model
    with pytest.raises(ModelError, match=r"Bungee\(x\): stiffness must be a number"):
        bungee("x", "3")


def test_registration_refuses_what_would_be_silent() -> None:
    with pytest.raises(TypeError, match="must be a dataclass"):
        element(type("Loose", (PotentialElement,), {}))
    with pytest.raises(TypeError, match="must derive from a family"):
        element(dataclass(frozen=True)(type("Lost", (Element,), {})))
    with pytest.raises(TypeError, match="has no compile"):
        element(dataclass(frozen=True)(type("Empty", (PotentialElement,), {})))
    bare = {"compile": lambda self, table: [], "symbolic": lambda self, s: 0}
    with pytest.raises(TypeError, match="annotate 'x'"):
        element(dataclass(frozen=True)(type("Typed", (PotentialElement,), bare | {"__annotations__": {"x": float}})))
    with pytest.raises(TypeError, match="there is an element Gravity"):
        element(dataclass(frozen=True)(type("Gravity", (PotentialElement,), bare)))
    assert not {"Loose", "Lost", "Empty", "Typed"} & set(ELEMENTS)
