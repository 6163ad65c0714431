"""Model: names and indices, order of variables, values (equality, hash, pickle, repr), chains of any length."""

import copy
import pickle
import sys
import time

import pytest

import dalembert as da
from dalembert import Kinematic, Model, ModelError, rx, ry, rz, se3, tx, ty, tz


def machine(**options):
    frames = [
        tx("x", rz("theta", ty(-1.0, name="bob", mass=1.0)), name="cart", mass=1.0),
        tx(Kinematic("rho"), tz(2.0, name="hook")),
    ]
    elements = [
        da.Gravity((0, -9.8, 0)),
        da.ConfigForce("x", "push"),
        da.Wrench("bob", force=("wind", 0, "push")),
        da.Distance("bob", "hook", Kinematic("string")),
    ]
    return Model(frames, elements, "machine", **options)


def test_names_and_sizes():
    m = machine()
    assert m.variables == ("x", "theta", "rho", "string")
    assert (m.dynamic, m.kinematic) == (("x", "theta"), ("rho", "string"))
    assert (m.nq, m.nd, m.nk, m.nu, m.nc) == (4, 2, 2, 2, 1)
    assert m.inputs == ("push", "wind")
    assert [m.index(v) for v in m.variables] == [0, 1, 2, 3]
    assert m.frame_names == ("world", "cart", "bob", "hook")
    assert [e.index for e in m.frame_entries] == [0, 1, 2, 3, 4, 5]
    assert [e.parent for e in m.frame_entries] == [-1, 0, 1, 2, 0, 4]
    assert m.frame_entries[m.frame_index("bob")].frame.mass == 1.0
    assert m.input_index("wind") == 1
    assert m.constraints == ("Distance(bob, hook)",)
    assert m.path("bob") == ("x", "theta")
    assert m.variables_of(m.elements[-1]) == ("x", "theta", "rho", "string")


@pytest.mark.parametrize(
    "ask", [lambda m: m.index("tetha"), lambda m: m.frame_index("bobb"), lambda m: m.input_index("pusch")]
)
def test_unknown_names_suggest_the_nearest(ask):
    with pytest.raises(ModelError, match="did you mean"):
        ask(machine())


def test_order_of_variables_can_be_chosen():
    order = ("x", "theta", "string", "rho")
    m = machine(variables=order)
    assert m.variables == order
    assert m.index("string") == 2
    assert m.kinematic == ("string", "rho")
    assert m != machine()
    assert pickle.loads(pickle.dumps(m)).variables == order


def test_values():
    a, b = machine(), machine()
    assert a == b
    assert hash(a) == hash(b)
    assert len({a, b}) == 1
    assert a != Model(a.frames, a.elements, "other")
    assert a != Model(a.frames, a.elements[:-1], "machine")
    assert pickle.loads(pickle.dumps(a)) == a
    assert copy.deepcopy(a) == a
    assert (a == "machine") is False


def test_frames_are_values():
    f = rx("q", tz(-1.0, name="bob", mass=2.0), ry(0.5))
    assert f == rx("q", tz(-1.0, name="bob", mass=2.0), ry(0.5))
    assert f != rx("q", ry(0.5), tz(-1.0, name="bob", mass=2.0))
    assert f != rx("q", tz(-1.0, ry(0.5), name="bob", mass=2.0))
    assert f.add(tx(1.0)) != f
    assert eval(repr(f)) == f
    screw = rz(Kinematic("k"), se3([[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3]]), pitch=0.1, com=(1, 2, 3))
    assert eval(repr(screw)) == screw
    with pytest.raises(AttributeError):
        f.mass = 3.0
    with pytest.raises(AttributeError):
        machine().name = "other"


def test_repr_draws_the_tree():
    text = repr(machine())
    assert text.startswith(
        "Model 'machine': 2 dynamic, 2 kinematic, 2 inputs, 1 constraints\nworld\n├─ tx('x') 'cart'  mass 1"
    )
    assert "└─ ty(-1) 'bob'  mass 1" in text
    assert "Distance(bob, hook)" in text


def test_chain_of_two_thousand_frames():
    """Deeper than Python's stack: build, compare, hash, pickle, copy, draw, and throw away."""
    n = 2 * max(1000, sys.getrecursionlimit())

    def chain():
        frame = tz(-1.0, name="end", mass=1.0)
        for i in range(n - 1, -1, -1):
            frame = rx(f"q{i}", frame)
        return Model([frame], [da.Gravity(), da.Distance("end", "world", 1.0)])

    start = time.process_time()
    a, b = chain(), chain()
    assert a == b
    assert a.frames == b.frames
    assert hash(a) == hash(b)
    assert hash(a.frames[0]) == hash(b.frames[0])
    assert pickle.loads(pickle.dumps(a)) == a
    assert pickle.loads(pickle.dumps(a.frames[0])) == a.frames[0]
    assert copy.deepcopy(a) == a
    assert a.variables[-1] == f"q{n - 1}"
    assert len(a.path("end")) == n
    assert len(repr(a)) < 200_000
    assert repr(a.frames[0]).count("(") == n + 1
    del a, b
    assert time.process_time() - start < 5.0


def test_import_is_light():
    """Reading a model needs neither casadi nor matplotlib nor viser."""
    import subprocess

    code = "import sys, dalembert.formats, dalembert.models as m; m.load('marionette'); "
    code += "print([x for x in ('casadi', 'matplotlib', 'viser', 'scipy') if x in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
