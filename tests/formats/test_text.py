"""S-expressions, TOML and JSON: the paper's listing, lossless round trips, errors with their places."""

import json
import math
import pickle
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert import Kinematic, formats, rx, tx, tz

TEXT = ("sexp", "toml", "json")

LISTING_1 = """(mechanical-system (gravity 0 0 -9.81)
(ry "J" (Name "J")
(tz -0.5 (Name "I") (Mass 1))
(tz -1.0
(ry "H" (Name "H")
(tz -1.0 (Name "G") (Mass 1))
(tz -2.0 (Name "O2")))))
(tx -1.5
(ry "K" (Name "K")
(tz -1.0 (Name "L") (Mass 1))
(tz -2.0
(ry "M" (Name "M")
(tz -0.5 (Name "N") (Mass 1))
(tz -1.0 (Name "O"))))))
(tx 1.5
(ry "A" (Name "A")
(tz -1.0 (Name "B") (Mass 1))
(tz -2.0
(ry "C" (Name "C")
(tz -0.375 (Name "D") (Mass 1))
(tz -0.75
(ry "E" (Name "E")
(tz -0.5 (Name "F") (Mass 1))
(tz -1.0 (Name "G2"))))))))
(point-constaint "G" "G2" (1 0 0))
(point-constaint "G" "G2" (0 0 1))
(point-constaint "O" "O2" (1 0 0))
(point-constaint "O" "O2" (0 0 1)))
"""


def test_listing_1_as_printed():
    model = formats.loads(LISTING_1, "sexp")
    assert model.variables == ("J", "H", "K", "M", "A", "C", "E")
    assert (model.nd, model.nk, model.nc) == (7, 0, 4)
    assert sum(e.frame.mass for e in model.frame_entries[1:]) == 7
    assert model.elements[0] == da.Gravity((0, 0, -9.81))
    assert model.elements[1] == da.PointToPoint("G", "G2", "x")


def test_listing_1_pasted_from_a_pdf():
    """Typographic quotes and minus signs, Windows line ends, a byte order mark."""
    text = LISTING_1.replace("-0", "\u22120").replace("-1", "\u22121").replace("-2", "\u22122")
    text = re.sub(r'"([^"]*)"', "\u201c\\1\u201d", text).replace("\n", "\r\n")
    assert formats.loads("\ufeff" + text, "sexp") == formats.loads(LISTING_1, "sexp")


def test_table_2_spelling():
    """SYSTEM, capitals, (D name), (K name), several transforms in one frame, a direction as three numbers, a name."""
    model = formats.loads(
        """(SYSTEM (GRAVITY 0 0 -9.8)
             (TX 0.1 TY 0.2 RZ (D "q") (NAME "end") (MASS 1 2 3 4))
             (TX (K "rho") (NAME "cart"))
             (POINT-CONSTRAINT "end" "cart" 1 0 0 (NAME "loop")))""",
        "sexp",
    )
    assert [e.frame.transform for e in model.frame_entries[1:]] == ["tx", "ty", "rz", "tx"]
    assert model.variables == ("q", "rho")
    assert model.kinematic == ("rho",)
    end = model.frame_entries[3].frame
    assert (end.name, end.mass, end.inertia) == ("end", 1.0, (2.0, 3.0, 4.0, 0.0, 0.0, 0.0))
    listed = formats.loads(
        '(system (tx 0.1 (ty 0.2 (rz "q" (name "end") (mass 1 2 3 4)))) (tx (K "rho") (name "cart")))', "sexp"
    )
    assert listed.frames == model.frames


@pytest.mark.parametrize("kind", TEXT)
def test_everything_round_trips(everything, kind, tmp_path):
    q = np.linspace(-1, 1, everything.nq) / 3
    text = formats.dumps(everything, kind, configurations={"q0": q, "odd name": {"x": 1e-17}})
    model, named = formats.loads_with_configurations(text, kind)
    assert model == everything
    assert pickle.loads(pickle.dumps(model)) == everything
    assert np.array_equal(named["q0"], q)
    assert named["odd name"][model.index("x")] == 1e-17
    assert formats.dumps(model, kind, configurations=named).count("\n") >= text.count("\n")
    path = tmp_path / f"model.{kind}"
    formats.save(everything, path, configurations=named)
    assert formats.load(path) == everything


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=6)


@st.composite
def models(draw):
    names = iter(draw(st.lists(NAMES.filter(lambda s: s != "world"), min_size=30, max_size=30, unique=True)))
    makers = (da.tx, da.ty, da.tz, da.rx, da.ry, da.rz)

    def frame(depth):
        kids = [frame(depth + 1) for _ in range(draw(st.integers(0, 2 if depth < 2 else 0)))]
        value = draw(st.sampled_from(["number", "dynamic", "kinematic"]))
        amount = draw(NUMBERS) if value == "number" else next(names)
        return draw(st.sampled_from(makers))(
            Kinematic(amount) if value == "kinematic" else amount,
            *kids,
            name=next(names) if draw(st.booleans()) else None,
            mass=draw(st.floats(1e-300, 1e300)),
            com=[draw(NUMBERS) for _ in range(3)],
        )

    return da.Model([frame(0) for _ in range(draw(st.integers(1, 2)))], [da.Gravity([draw(NUMBERS)] * 3)], draw(NAMES))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(models())
def test_random_models_round_trip(model):
    for kind in TEXT:
        assert formats.loads(formats.dumps(model, kind), kind) == model


def chain(n):
    frame = tz(-1.0, name="end", mass=1.0)
    for i in range(n - 1, -1, -1):
        frame = rx(f"q{i}", frame)
    return da.Model([frame], [da.Gravity()], "chain")


@pytest.mark.parametrize("kind", TEXT)
def test_long_chains_do_not_overflow(kind):
    model = chain(5000)
    start = time.process_time()
    assert formats.loads(formats.dumps(model, kind), kind) == model
    assert time.process_time() - start < 5.0


DEEP = {"sexp": "(" * 3_000_000, "json": '{"frames": ' + "[" * 100_000, "toml": "frames = " + "[" * 100_000}


@pytest.mark.parametrize("kind", TEXT)
def test_deep_nesting_is_refused_quickly(kind):
    start = time.process_time()
    with pytest.raises(da.ModelError) as caught:
        formats.loads(DEEP[kind], kind)
    assert caught.value.line == 1
    assert time.process_time() - start < 2.0


# (format, text, what the message says, line, column)
BROKEN = [
    ("sexp", "", "empty", 1, 1),
    ("sexp", '(system\n  (tx "x" (mass 1))', "never closed", 1, 1),
    ("sexp", '(system (tx "x" (mass 1))))', "too many", 1, 27),
    ("sexp", '(system (tx "x (mass 1)))', "string that is never closed", 1, 13),
    ("sexp", '(system (tx "x" (mass 1))) (more)', "after the end", 1, 28),
    ("sexp", '(systm (tx "x" (mass 1)))', "mechanical-system", 1, 1),
    ("sexp", "(system\n (tx x (mass 1)))", 'write "x"', 2, 6),
    ("sexp", '(system\n (tz "z" (mas 1)))', "unknown (mas ...) in a frame (did you mean 'mass'", 2, 10),
    ("sexp", '(system\n (tz "z" (mass -1)))', "negative mass -1.0", 2, 2),
    ("sexp", '(system (tz "z" (mass 1))\n\n (graviti 0 0 1))', "unknown expression (graviti ...)", 3, 2),
    ("sexp", '(system (tz "z" (mass 1))\n (gravity 0 0))', "three numbers", 2, 11),
    ("sexp", '(system (tz "z" (mass 1 2)))', "(mass m Ixx Iyy Izz)", 1, 17),
    ("sexp", '(system (tz "z" (mass 1) (mass 1)))', "given twice", 1, 26),
    ("sexp", '(system (tz "z" tw 3 (mass 1)))', "'tw' is not a transform", 1, 17),
    ("sexp", "(system (tz (mass 1)))", "expected a number or a quoted name, not mass", 1, 14),
    ("sexp", '(system (tz "z" (mass 1))\n (distance "a" "world" 1))', "unknown frame 'a'", 2, 2),
    ("sexp", '(system (tz "z" (mass 1))\n (distance "world" 1))', "frame2 must be a non-empty string", 2, 20),
    ("sexp", '(system (tz "z" (mass 1))\n (config-spring "z" 1 (rust 2)))', "unknown option (rust ...)", 2, 23),
    ("sexp", '(system (tz "z" (mass 1))\n (config-spring "z"))', "stiffness is missing", 2, 2),
    ("sexp", '(system (tz "z" (mass 1))\n (config-spring "z" 1 2 3))', "too many values", 2, 25),
    ("sexp", '(system (tz "z" (mass 1)) (tx "z" (mass 1)))', "variable 'z' already drives", 1, 27),
    ("sexp", '(system (tz "z" (name "a") (mass 1))\n (tz "y" (name "a") (mass 1)))', "two frames are called 'a'", 2, 2),
    ("sexp", '(system (tz "z" (mass 1e999)))', "not finite", 1, 17),
    ("sexp", '(system (tz "z" (mass 1))\n (configuration "q" ("zz" 1)))', "unknown variable 'zz'", 2, 21),
    ("sexp", '(system (tz "z\\q" (mass 1)))', "unknown escape", 1, 13),
    ("json", '{"frames": [{"tx": "x", "mass": 1},\n {"tx": "x", "mass": 1}]}', "already drives", 2, 2),
    ("json", '{"frames": [{"tx": "x",\n "mass": "1"}]}', "frames[1].mass must be a number, not '1'", 2, 10),
    ("json", '{"frames": [{"tx": "x",\n "mass": NaN}]}', "not finite", 2, 10),
    ("json", '{"frames": [{"tx": "x", "mass": 1,\n "mass": 2}]}', "given twice", 2, 2),
    ("json", '{"frames": [{"tx": "x", "mass": 1}]\n "elements": []}', "delimiter", 2, 2),
    (
        "json",
        '{"frames": [{"tx": "x", "mass": 1}],\n "elements": [{"type": "Gravty"}]}',
        "did you mean 'Gravity'",
        2,
        24,
    ),
    ("json", '{"frames": [{"tx": "x", "tz": 1}]}', "exactly one of", 1, 13),
    ("json", '{"frames": [{"tx": "x", "mass": 1, "parent": 1}]}', "number of a frame above (0 to 0)", 1, 46),
    ("json", '{"frames": [{"tx": "x", "mass": 1, "parent": "b"}]}', "parent 'b' is not a frame above", 1, 46),
    ("json", "[]", "must be a table", 1, 1),
    ("json", "{}", "no frames", 1, 1),
    ("json", '{"frames": 3}', "frames must be a list", 1, 12),
    ("toml", "frames = [\n", "Invalid value", 2, 1),
    ("toml", '[[frames]]\ntx = "x"\nmass = 1\nmass = 2', "overwrite", 4, 9),
    ("toml", '[[frames]]\ntx = "x"\nmass = true', "frames[1].mass must be a number, not True", 3, 1),
    ("toml", '[[frames]]\ntx = "x"\nmass = 1\n\n[[frames]]\nname = "b"', "exactly one of", 5, 1),
    ("toml", '[[frames]]\ntx = "x"\nmas = 1', "unknown key 'mas' (did you mean 'mass'?)", 3, 1),
    (
        "toml",
        '[[frames]]\ntx = "x"\nmass = 1\n[[elements]]\ntype = "ConfigSpring"\nvariable = "y"\nstiffness = 1',
        "unknown variable 'y'",
        4,
        1,
    ),
    ("toml", '[[frames]]\ntx = "x"\nmass = 1\n[configurations.q0]\nx = "a"', "must be a number", 5, 1),
    ("toml", 'variables = ["y"]\n[[frames]]\ntx = "x"\nmass = 1', "unknown variable 'y'", 1, 1),
]


@pytest.mark.parametrize(("kind", "text", "says", "line", "column"), BROKEN)
def test_errors_say_where_and_what(kind, text, says, line, column, tmp_path):
    path = tmp_path / f"broken.{kind}"
    path.write_text(text)
    with pytest.raises(da.ModelError) as caught:
        formats.load(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}:{column}: ")
    assert (caught.value.file, caught.value.line, caught.value.column) == (str(path), line, column)


def test_not_text_and_not_there(tmp_path):
    (tmp_path / "huge.json").write_bytes(b" " * (formats.MAX_BYTES + 1))
    with pytest.raises(da.ModelError, match="larger than 16 MB"):
        formats.load(tmp_path / "huge.json")
    with pytest.raises(da.ModelError, match="not UTF-8") as caught:
        formats.loads(b"(system\n \xff)", "sexp")
    assert (caught.value.line, caught.value.column) == (2, 2)
    with pytest.raises(da.ModelError, match="cannot read the file"):
        formats.load(tmp_path / "nothing.toml")
    with pytest.raises(da.ModelError, match="unknown suffix"):
        formats.load(tmp_path / "model.yaml")
    with pytest.raises(ValueError, match="format must be one of"):
        formats.loads("", "yaml")
    with pytest.raises(ValueError, match="needs 1 numbers"):
        formats.dumps(da.Model([tx("x", mass=1.0)]), "json", configurations={"q": [1, 2]})
    with pytest.raises(ValueError, match="not finite"):
        formats.dumps(da.Model([tx("x", mass=1.0)]), "json", configurations={"q": [math.nan]})


def test_json_is_json_and_frames_may_come_in_any_order():
    model = chain(3)
    data = json.loads(formats.dumps(model, "json"))
    assert [row.get("parent") for row in data["frames"]] == [None, 1, 2, 3]
    by_name = {"frames": [{"tx": "x", "name": "a"}, {"tx": "y", "name": "b"}, {"tz": 1, "parent": "a", "mass": 1}]}
    by_name["frames"].append({"tz": 2, "parent": "b", "mass": 1})
    loaded = formats.loads(json.dumps(by_name), "json")
    assert loaded.frames[0].children[0].value == 1.0
    assert loaded.frames[1].children[0].value == 2.0


def test_no_machine_dependence_of_file_end(tmp_path):
    path = tmp_path / "m.sexp"
    formats.save(chain(2), path)
    assert b"\r" not in Path(path).read_bytes()
