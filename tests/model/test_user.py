"""User elements: recording, values, errors, and the derivative programs against CasADi and differences."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from enum import IntEnum

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.errors import ModelError
from dalembert.model.tape import OPERATIONS, Program, Tape, derivatives
from dalembert.symbolic import Symbolic

Op = IntEnum("Op", {name: number for number, name in enumerate(OPERATIONS)})

UNARY = {
    Op.ASSIGN: lambda a: a,
    Op.NEG: lambda a: -a,
    Op.INV: lambda a: 1 / a,
    Op.SQ: lambda a: a * a,
    Op.TWICE: lambda a: 2 * a,
    Op.NOT: lambda a: float(a == 0),
    Op.FABS: abs,
    Op.SIGN: np.sign,
    Op.ERF: math.erf,
    Op.ASIN: np.arcsin,
    Op.ACOS: np.arccos,
    Op.ATAN: np.arctan,
    Op.ASINH: np.arcsinh,
    Op.ACOSH: np.arccosh,
    Op.ATANH: np.arctanh,
    **{op: getattr(np, op.name.lower()) for op in (Op.SQRT, Op.SIN, Op.COS, Op.TAN, Op.SINH, Op.COSH, Op.TANH, Op.EXP)},
    **{op: getattr(np, op.name.lower()) for op in (Op.LOG, Op.FLOOR, Op.CEIL, Op.LOG1P, Op.EXPM1)},
}
BINARY = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.DIV: lambda a, b: a / b,
    Op.ATAN2: math.atan2,
    Op.POW: lambda a, b: a**b,
    Op.FMIN: min,
    Op.FMAX: max,
    Op.LT: lambda a, b: float(a < b),
    Op.LE: lambda a, b: float(a <= b),
    Op.EQ: lambda a, b: float(a == b),
    Op.NE: lambda a, b: float(a != b),
    Op.AND: lambda a, b: float(a != 0 and b != 0),
    Op.OR: lambda a, b: float(a != 0 or b != 0),
    Op.IF_ELSE_ZERO: lambda a, b: b if a != 0 else 0.0,
    Op.COPYSIGN: math.copysign,
    Op.FMOD: math.fmod,
    Op.HYPOT: math.hypot,
    Op.REMAINDER: math.remainder,
}


def run(program: Program, *inputs):
    """The plain interpreter of a program."""
    x = np.concatenate([np.atleast_1d(i) for i in inputs]) if inputs else np.zeros(0)
    assert len(x) == program.n_in
    w, y = np.full(program.n_work, np.nan), np.full(program.n_out, np.nan)
    for op, out, a, b in program.code:
        if op == Op.CONST:
            w[out] = program.constants[a]
        elif op == Op.INPUT:
            w[out] = x[a]
        elif op == Op.OUTPUT:
            y[out] = w[a]
        elif op in UNARY:
            w[out] = UNARY[op](w[a])
        else:
            w[out] = BINARY[op](w[a], w[b])
    return y


def frames():
    return [
        da.tx(
            "x", da.rz("a", da.ty(-1.0, da.rz("b", da.ty(-0.7, name="tip", mass=1.0)), name="elbow", mass=1.0)), mass=1
        ),
        da.tz(da.Kinematic("lift"), name="hook"),
    ]


def difference(f, x, h=1e-5):
    """Jacobian by central differences, shape (outputs, inputs)."""
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))]).T


def energy(m):
    gap = m.position("tip") - m.position("hook")
    return 3 / ca.norm_2(gap) + ca.sin(m["a"]) ** 3 * m["b"]


def test_operations_come_from_the_core():
    """Names and operands are the core's list; the interpreter above must know every one of them."""
    assert {"CONST", "INPUT", "OUTPUT"} | {op.name for op in (*UNARY, *BINARY)} == set(OPERATIONS)
    assert {op.name for op in UNARY} == {name for name, n in OPERATIONS.items() if n == 1} - {"OUTPUT"}
    assert {op.name for op in BINARY} == {name for name, n in OPERATIONS.items() if n == 2}


@pytest.mark.parametrize("kind", [da.Potential, da.Constraint])
def test_derivatives_of_a_configuration_function(kind):
    element = kind(energy, name="mine")
    model = da.Model(frames(), [element])
    resolved = model.elements[0]
    assert model.variables_of(resolved) == ("x", "a", "b", "lift")
    d = derivatives(resolved.tape)
    m = 4
    x, direction = np.array([0.3, 0.4, -0.8, 0.6]), np.array([0.2, -1.0, 0.5, 0.7])
    full = run(d.first, x)
    value, gradient, hessian = full[0], full[1 : 1 + m], full[1 + m :].reshape(m, m)
    s = Symbolic(model)
    q = np.array([0.3, 0.4, -0.8, 0.6])  # all variables of the model, in its order
    expression = s.potential_energy() if kind is da.Potential else s.h()
    assert value == pytest.approx(float(ca.Function("f", [s.q], [expression])(q)), rel=1e-14)
    np.testing.assert_allclose(run(d.value, x), full[: 1 + m], rtol=1e-14)
    np.testing.assert_allclose(gradient, difference(lambda z: run(d.value, z)[:1], x)[0], rtol=1e-8)
    np.testing.assert_allclose(hessian, difference(lambda z: run(d.value, z)[1:], x), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-14)
    third = difference(lambda z: run(d.first, z)[1 + m :], x) @ direction
    np.testing.assert_allclose(run(d.second, x, direction), third, rtol=1e-7, atol=1e-7)


def test_derivatives_of_a_force():
    def force(m):
        return {
            "b": m.input("u") * ca.cos(m["a"]) - ca.tanh(m.velocity("x")) * m["b"],
            "x": -(m.velocity("x") ** 3) + m.input("w") * m.input("u"),
        }

    model = da.Model(frames(), [da.ConfigForce("a", "other"), da.Force(force, uses=("u", "w"))])
    d = derivatives(model.elements[1].tape)
    assert (d.variables, d.rows, d.inputs) == (("x", "a", "b"), ("x", "b"), ("u", "w"))
    rng = np.random.default_rng(3)
    m, k, r = 3, 2, 2
    z, mu = rng.normal(size=2 * m + k), rng.normal(size=r)
    first = run(d.first, z)
    np.testing.assert_allclose(first[:r], run(d.value, z), rtol=1e-14)
    jacobian = difference(lambda y: run(d.value, y), z)
    got = [b.reshape(r, -1) for b in np.split(first[r:], np.cumsum([r * m, r * m]))]
    np.testing.assert_allclose(np.hstack(got), jacobian, rtol=1e-7, atol=1e-8)

    def weighted(y):
        blocks = [b.reshape(r, -1) for b in np.split(run(d.first, y)[r:], np.cumsum([r * m, r * m]))]
        return mu @ np.hstack(blocks)

    hessian = run(d.second, z, mu).reshape(2 * m + k, 2 * m + k)
    np.testing.assert_allclose(hessian, difference(weighted, z), rtol=1e-7, atol=1e-8)
    # and the same numbers through Symbolic
    s = Symbolic(model)
    q, v, u = np.zeros(4), np.zeros(4), np.array([0.0, *z[6:]])
    q[:3], v[:3] = z[:3], z[3:6]
    total = np.array(ca.Function("F", [s.q, s.v, s.u], [s.force()])(q, v, u))[:, 0]
    np.testing.assert_allclose(total[[0, 2]], first[:r], rtol=1e-13)


def test_all_operations_survive_the_round_trip():
    def everything(m):
        a, b = m["a"], m["b"]
        parts = [a + b, a - b, a * b, a / b, -a, 1 / a, a**2, 2 * a, ca.sqrt(b), ca.sin(a), ca.cos(a), ca.tan(a)]
        parts += [ca.asin(a), ca.acos(a), ca.atan(a), ca.atan2(a, b), ca.sinh(a), ca.cosh(a), ca.tanh(a)]
        parts += [ca.asinh(a), ca.acosh(1 + b), ca.atanh(a), ca.exp(a), ca.log(b), b**a, b**2.5, ca.fabs(a), ca.sign(a)]
        parts += [ca.fmin(a, b), ca.fmax(a, b), a < b, a <= b, a == b, a != b, ca.logic_not(a), ca.logic_and(a, b)]
        parts += [ca.logic_or(a, b), ca.if_else(a > b, ca.sin(a), ca.cos(b)), ca.floor(3 * a), ca.ceil(3 * a)]
        parts += [ca.copysign(a, b), ca.fmod(b, a), ca.erf(a), ca.log1p(b), ca.expm1(b), ca.hypot(a, b)]
        parts += [ca.remainder(b, a), ca.sin(1 / a), ca.exp(-b)]
        return sum((i + 1.0) * p for i, p in enumerate(parts))

    model = da.Model(frames(), [da.Potential(everything)])
    tape = model.elements[0].energy
    assert {line[0] for line in tape.code} >= {op.name for op in Op} - {"ASSIGN"}
    q, s = ca.SX.sym("q", 2), Symbolic(model)
    rebuilt = ca.Function("f", [q], tape.expression(ca.vertsplit(q)))
    direct = ca.Function("g", [s.q], [everything({"a": s.variable("a"), "b": s.variable("b")})])
    d = derivatives(model.elements[0].tape)
    for a, b in [(0.3, 0.9), (-0.4, 0.2), (0.5, 0.5)]:
        expected = float(direct([0, a, b, 0]))
        assert float(rebuilt([a, b])) == pytest.approx(expected, rel=1e-13)
        assert run(d.value, [a, b])[0] == pytest.approx(expected, rel=1e-13)


def test_tapes_are_values():
    model = da.Model(frames(), [da.Potential(energy), da.Force(lambda m: {"x": -m.velocity("x")})])
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert hash(again) == hash(model)
    assert model == da.Model(frames(), model.elements)
    assert da.Model(frames(), model.elements).elements[0] is model.elements[0]
    assert model != da.Model(frames(), [da.Potential(lambda m: 2 * energy(m)), model.elements[1]])


def test_a_tape_follows_a_new_order_of_variables():
    body = lambda *names: [da.tx(n, mass=1.0) for n in names]  # noqa: E731
    first = da.Model(
        body("a", "b"), [da.Potential(lambda m: m["a"] - 3 * m["b"]), da.Force(lambda m: {"b": m.velocity("a")})]
    )
    second = da.Model(body("b", "a"), first.elements)
    assert second.elements[0].energy.variables == ("b", "a")
    s = Symbolic(second)
    assert float(ca.Function("f", [s.q], [s.potential_energy()])([1.0, 10.0])) == 7.0
    assert np.array(ca.Function("f", [s.q, s.v], [s.force()])([0, 0], [0, 5])).ravel().tolist() == [5.0, 0.0]
    with pytest.raises(ModelError, match="unknown variable 'b'"):
        da.Model(body("a"), first.elements[:1])


def test_constant_values_are_allowed():
    model = da.Model(frames(), [da.Potential(lambda m: 2.5), da.Force(lambda m: {"x": 3.0})])
    d = derivatives(model.elements[0].tape)
    assert d.variables == ()
    assert run(d.first).tolist() == [2.5]
    assert d.second.n_out == 0
    f = derivatives(model.elements[1].tape)
    assert run(f.value).tolist() == [3.0]
    assert run(f.second, [1.0]).tolist() == []


WRONG = {
    "unknown variable": (da.Potential(lambda m: m["aa"], name="soft"), "soft.*unknown variable 'aa'.*'a'"),
    "unknown frame": (da.Potential(lambda m: m.position("tipp")[0]), "unknown frame 'tipp'"),
    "vector": (da.Potential(lambda m: m.position("tip")), r"scalar, not shape \(3, 1\)"),
    "nothing": (da.Constraint(lambda m: None, name="none"), "Constraint\\(none\\).*NoneType"),
    "text": (da.Constraint(lambda m: "x"), "not str"),
    "nan": (da.Potential(lambda m: m["a"] * math.nan), "constant nan"),
    "inf": (da.Potential(lambda m: m["a"] + math.inf), "constant inf"),
    "foreign symbol": (da.Potential(lambda m: m["a"] * ca.SX.sym("alien")), "alien"),
    "mx": (da.Potential(lambda m: ca.MX.sym("x")), "not MX"),
    "velocity in a potential": (da.Potential(lambda m: m.velocity("a")), "configuration only"),
    "input in a constraint": (da.Constraint(lambda m: m.input("u")), "configuration only"),
    "input not listed": (da.Force(lambda m: {"a": m.input("u")}), "not listed in `uses`"),
    "no mapping": (da.Force(lambda m: m["a"]), "must return {variable or frame: expression}"),
    "empty mapping": (da.Force(lambda m: {}), "must return {variable or frame: expression}"),
    "row unknown": (da.Force(lambda m: {"zz": m["a"]}), "'zz' is not a variable"),
    "row kinematic": (da.Force(lambda m: {"lift": m["a"]}), "kinematic"),
    "no function": (da.Potential(3.0), "needs a function"),
    "function fails": (da.Potential(lambda m: 1 / 0), "ZeroDivisionError"),
    "unsupported operation": (da.Potential(lambda m: ca.erfinv(m["a"])), "not supported"),
    "constraint without variables": (da.Constraint(lambda m: 1.0), "no dynamic variable"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_element(case):
    element, text = WRONG[case]
    with pytest.raises(ModelError, match=text) as caught:
        da.Model(frames(), [element])
    assert type(element).__name__ in str(caught.value)


def test_a_damaged_tape_is_refused():
    tape = da.Model(frames(), [da.Potential(lambda m: m["a"] ** 2)]).elements[0].energy
    for code in (
        (("EVAL", 0, 0, 0, 0.0), *tape.code),
        (("INPUT", 0, 99, 0, 0.0), *tape.code[1:]),
        tape.code[:-1],
        (("ADD", 0, 0, 1, 0.0), *tape.code),
        (("CONST", 0, 0, 0, math.nan), *tape.code),
    ):
        with pytest.raises(ModelError, match="tape"):
            replace(tape, code=code)
    with pytest.raises(ValueError, match="expected 1 variables"):
        tape.expression([])
    with pytest.raises(ModelError, match="not resolved yet"):
        _ = da.Potential(energy).tape
    assert isinstance(tape, Tape)


def test_a_force_on_a_frame_is_a_wrench_without_torque():
    """At the frame's origin in world axes: the same generalized forces as a Wrench, derivatives included."""

    def arm(*elements):
        hand = da.rz("c", da.tx(0.4, name="hand", mass=0.3))
        return da.Model([da.rx("a", da.tz(-1.0, da.ry("b", da.tx(0.7, hand, mass=0.5)), mass=1.0))], elements)

    components = [1.5, -0.4, 2.0]
    mine = arm(da.Force(lambda m: {"hand": [m.input("s") * c for c in components]}, uses=("s",)))
    wrench = arm(da.Wrench("hand", force=components, axes="mixed"))
    q, v = [0.3, -0.8, 1.1], [0.5, 0.2, -0.9]
    assert da.force(mine, q, v, [1.0]) == pytest.approx(da.force(wrench, q, v), abs=1e-12)
    for got, want in zip(da.force_first(mine, q, v, [1.0]), da.force_first(wrench, q, v), strict=True):
        assert got[:, : want.shape[1]] == pytest.approx(want, abs=1e-12)


def test_drag_on_a_frame_takes_power_out():
    """Velocities of frames: F = -c |w| w on the hand, its power is -c |w|^3; forces on a variable add to it."""
    model = da.Model(
        [da.rx("a", da.tz(-1.0, da.ry("b", da.tx(0.7, name="hand", mass=0.5)), mass=1.0))],
        [
            da.Force(
                lambda m: {
                    "hand": -0.3 * ca.norm_2(m.velocity("hand")) * m.velocity("hand"),
                    "a": -m.angular_velocity("hand")[0],
                }
            )
        ],
    )
    q, v = [0.3, -0.8], np.array([0.5, 0.2])
    w = da.frame_jacobian(model, q, "hand") @ v  # twist, angular first
    assert da.force(model, q, v) @ v == pytest.approx(
        -0.3 * np.linalg.norm(speed(model, q, v)) ** 3 - w[0] * v[0], rel=1e-9
    )


def speed(model, q, v, h=1e-6):
    """Velocity of the hand by differences."""
    i, step = model.frame_index("hand"), h * np.asarray(v)
    return (da.positions(model, q + step)[i] - da.positions(model, q - step)[i]) / (2 * h)
