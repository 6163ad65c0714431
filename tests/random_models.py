"""Random mechanisms for property tests: branching trees, all six joints, kinematic variables, every registered element.

`sample` makes a random element of any kind from what its fields hold, so that a new kind takes part without a line here.
"""

from __future__ import annotations

import numpy as np

import dalembert as da
from dalembert import Frame, Kinematic, Model
from dalembert.model.elements import ELEMENTS, Element
from dalembert.model.elements import fields as f


def random_model(seed: int, size: int | None = None, *, elements: bool = True, constraints: int | None = None) -> Model:
    """A model with 1 to 40 variables (small ones more often); elements of every kind when there is room for them."""
    rng = np.random.default_rng(seed)
    n = size if size is not None else int(np.clip(round(np.exp(rng.uniform(0, np.log(40.5)))), 1, 40))
    parents = [-1] + [int(rng.integers(max(-1, i - 6), i)) for i in range(1, n)]
    kinematic = [n > 2 and bool(rng.random() < 0.15) for _ in range(n)]
    if all(kinematic):
        kinematic[0] = False
    children: list[list[Frame]] = [[] for _ in range(n)]
    roots: list[Frame] = []
    for i in range(n - 1, -1, -1):
        name = f"q{i}"
        kind = ("tx", "ty", "tz", "rx", "ry", "rz")[int(rng.integers(6))]
        pitch = {"pitch": float(rng.uniform(-0.3, 0.3))} if kind[0] == "r" and rng.random() < 0.1 else {}
        bodies = [_body(rng, f"b{i}")]
        if rng.random() < 0.3:
            bodies.append(
                da.rz(
                    float(rng.uniform(-1, 1)),
                    da.tx(float(rng.uniform(-1, 1)), name=f"c{i}", mass=float(rng.uniform(0.1, 1))),
                )
            )
        value = Kinematic(name) if kinematic[i] else name
        joint = getattr(da, kind)(value, *bodies, *reversed(children[i]), **pitch)
        if rng.random() < 0.5:
            joint = da.se3(_pose(rng), joint)
        (children[parents[i]] if parents[i] >= 0 else roots).append(joint)
    roots.reverse()
    hook = da.tx(Kinematic("hook"), da.tz(float(rng.uniform(1, 2)), name="anchor"))
    bare = Model([*roots, hook])
    chosen = _elements(rng, bare, n, constraints) if elements else [da.Gravity(tuple(rng.normal(size=3) * 5))]
    if elements:
        chosen += _newer(np.random.default_rng(seed + 50_000), bare, chosen, constraints)
    return Model([*roots, hook], chosen, name=f"random{seed}")


def _pose(rng: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    g = np.eye(4)
    g[:3, :3], g[:3, 3] = q, rng.uniform(-0.5, 0.5, 3)
    return g


def _body(rng: np.random.Generator, name: str) -> Frame:
    offset = float(rng.uniform(-1, 1))
    mass = float(rng.uniform(0.2, 2))
    style = int(rng.integers(3))
    if style == 0:
        return da.ty(offset, name=name, mass=mass, inertia=rng.uniform(0.1, 1, 3))
    a = rng.normal(size=(3, 3)) * 0.3
    full = a @ a.T + 0.1 * np.eye(3)
    if style == 1:
        return da.tz(offset, name=name, mass=mass, inertia=full, com=rng.uniform(-0.3, 0.3, 3))
    return da.se3(_pose(rng), name=name, mass=mass, inertia=rng.uniform(0.1, 1, 3), com=rng.uniform(-0.3, 0.3, 3))


TABLE = [(-3.0, 4.0), (-1.5, 1.0), (0.0, 0.2), (1.2, -1.5), (3.0, -4.0)]


def _elements(rng: np.random.Generator, bare: Model, n: int, constraints: int | None) -> list[da.Element]:
    frames = [f for f in bare.frame_names if f[0] in "bc"]
    dynamic = list(bare.dynamic)

    def two() -> tuple[str, str]:
        pool = [*frames, "anchor"]
        a, b = rng.choice(len(pool), 2, replace=False)
        return pool[int(a)], pool[int(b)]

    def one(pool: list[str]) -> str:
        return pool[int(rng.integers(len(pool)))]

    def number() -> float:
        return float(rng.uniform(0.2, 2))

    some: list[da.Element] = [da.Gravity(tuple(rng.normal(size=3) * 5))]
    maybe = {
        "field": lambda: da.Gravity(tuple(rng.normal(size=3)), masses=(one(frames),)),
        "spring": lambda: da.LinearSpring(*two(), number(), number()),
        "soft": lambda: da.LinearSpring(*two(), number()),
        "point": lambda: da.PointGravity(*two(), number()),
        "config": lambda: da.ConfigSpring(one(dynamic), number(), number()),
        "table": lambda: da.NonlinearConfigSpring(one(dynamic), TABLE, number(), number()),
        "damping": lambda: da.Damping(number(), {one(dynamic): number()}),
        "damper": lambda: da.LinearDamper(*two(), number()),
        "push": lambda: da.ConfigForce(one(dynamic), "u_push"),
        "body": lambda: da.Wrench(one(frames), ("u_a", number(), number()), (number(), "u_b", number()), "body", 1.5),
        "mixed": lambda: da.Wrench(one(frames), (number(), "u_a", number()), ("u_c", number(), number()), "mixed"),
        "world": lambda: da.Wrench(
            one(frames), (number(), number(), "u_c"), (number(), number(), "u_b"), "world", -0.7
        ),
        "user energy": lambda: _user_energy(one(dynamic), one(frames)),
        "user force": lambda: _user_force(one(dynamic), one(dynamic)),
    }
    for make in maybe.values():
        if rng.random() < 0.45:
            some.append(make())
    rows: dict[str, list[da.Element]] = {}
    moving = [f for f in frames if any(v in dynamic for v in bare.path(f))]
    if moving:
        a = one(moving)
        rows["string"] = [da.Distance("anchor", a, Kinematic("length"))]
        rows["rod"] = [da.Distance("anchor", one(moving), 1.5)]
        rows["direction"] = [da.PointToPoint(one(moving), "anchor", [tuple(rng.normal(size=3))])]
        rows["turning"] = [da.PointToPoint("anchor", one(moving), "y", axes_of=one(frames))]
        rows["plane"] = [da.PointOnPlane("anchor", tuple(rng.normal(size=3)), one(moving))]
        other = one(moving)
        if other != a and len(set(bare.path(a)) ^ set(bare.path(other)) & set(dynamic)):
            rows["plane2"] = [da.PointOnPlane(a, tuple(rng.normal(size=3)), other)]
    if len(dynamic) > 1:
        i, j = rng.choice(len(dynamic), 2, replace=False)
        rows["gear"] = [da.LinearRelation({dynamic[int(i)]: number(), dynamic[int(j)]: -number()}, number())]
        rows["cam"] = [da.Cam(dynamic[int(j)], dynamic[int(i)], TABLE)]
        rows["user"] = [_user_constraint(dynamic[int(i)], dynamic[int(j)])]
    room = len(dynamic) // 2 if constraints is None else constraints
    for key in rng.permutation(sorted(rows)):
        if room <= 0:
            break
        if constraints is not None or rng.random() < 0.7:
            some += rows[str(key)]
            room -= 1
    return some


# kinds that `_elements` writes out by hand, so that the models of old seeds stay as they are
_BY_HAND = (
    *(da.Gravity, da.PointGravity, da.LinearSpring, da.ConfigSpring, da.NonlinearConfigSpring, da.Potential),
    *(da.ConfigForce, da.Damping, da.LinearDamper, da.Wrench, da.Force),
    *(da.Distance, da.PointToPoint, da.PointOnPlane, da.LinearRelation, da.Cam, da.Constraint),
    *(da.Limit, da.Contact, da.SphereContact),  # tests/integrate/test_impacts.py
    *(da.KnifeEdge, da.RollingDisk, da.RollingSphere, da.VelocityConstraint),  # tests/integrate/test_rolling.py
)


def _newer(rng: np.random.Generator, bare: Model, old: list[Element], constraints: int | None) -> list[Element]:
    """Elements of the kinds that `_elements` does not know."""
    found: list[Element] = []
    room = 0 if constraints is not None else len(bare.dynamic) // 2 - sum(e.size for e in old)
    for kind in ELEMENTS.values():
        if kind in _BY_HAND or rng.random() > 0.45:
            continue
        e = sample(kind, bare, rng)
        if e is not None and e.size <= room:
            found.append(e)
            room -= e.size
    return found


def sample(kind: type[Element], model: Model, rng: np.random.Generator) -> Element | None:
    """A random element of a kind on a model of `random_model`; None if the model has no room for one."""
    frames = [name for name in model.frame_names if name[0] in "bc"] + ["anchor"]
    variables = list(model.dynamic)
    names = {f.FrameField: list(rng.permutation(frames)), f.VariableField: list(rng.permutation(variables))}
    values: dict[str, object] = {}
    for name, field in kind.FIELDS.items():
        pool = names.get(type(field))
        if pool is not None:  # every name once
            if not pool:
                return None
            values[name] = str(pool.pop())
        else:
            values[name] = _SAMPLES[type(field)](rng, kind, frames, variables, field)
    return kind(**values)


def _letters(rng: np.random.Generator) -> str:
    return "xyz"[int(rng.integers(3))]


def _function(rng, kind, frames, variables, field):  # type: ignore[no-untyped-def]
    a, b = (variables[int(rng.integers(len(variables)))] for _ in range(2))
    made = {
        da.Potential: lambda: _user_energy(a, frames[int(rng.integers(len(frames)))]).energy,
        da.Force: lambda: _user_force(a, b).force,
        da.Constraint: lambda: _user_constraint(a, b).h,
        da.VelocityConstraint: lambda: lambda m: m.velocity(a) - m[b] ** 2 * m.velocity(b) + 0.3 * m[a],
    }
    return made[kind]()


# by field: (rng, kind, frames, variables, field) -> a value
_SAMPLES = {
    f.NumberField: lambda rng, *_: float(rng.uniform(0.2, 2)),
    f.SizeField: lambda rng, *_: float(rng.uniform(0.0, 0.3)),
    f.ShareField: lambda rng, *_: float(rng.uniform(0.0, 1.0)),
    f.BoundField: lambda rng, kind, frames, variables, field: float(rng.uniform(0.1, 2)) * (1 if field.upper else -1),
    f.VectorField: lambda rng, *_: tuple(rng.normal(size=3)),
    f.AxisField: lambda rng, *_: tuple(rng.normal(size=3)) if rng.random() < 0.7 else _letters(rng),
    f.AxesField: lambda rng, *_: [tuple(rng.normal(size=3))] if rng.random() < 0.7 else _letters(rng),
    f.ComponentsField: lambda rng, *_: tuple(
        x if rng.random() < 0.6 else f"u_{i}" for i, x in enumerate(rng.normal(size=3))
    ),
    f.LengthField: lambda rng, *_: 1.5 if rng.random() < 0.5 else Kinematic("length"),
    f.CoefficientsField: lambda rng, kind, frames, variables, field: {
        str(v): float(rng.normal()) for v in rng.permutation(variables)[:2]
    },
    f.SplineField: lambda rng, *_: TABLE,
    f.ChoiceField: lambda rng, kind, frames, variables, field: field.words[int(rng.integers(len(field.words)))],
    f.InputField: lambda rng, *_: "u_push",
    f.InputsField: lambda rng, *_: ("u_user",),
    f.FramesField: lambda rng, kind, frames, variables, field: None if rng.random() < 0.5 else (frames[0],),
    f.TextField: lambda rng, kind, *_: f"my {kind.__name__}",
    f.FunctionField: _function,
}


def _user_energy(variable: str, frame: str) -> da.Potential:
    import casadi as ca

    return da.Potential(lambda m: ca.cos(m[variable]) + 0.3 * ca.sumsqr(m.position(frame)) ** 1.5, name="user energy")


def _user_force(a: str, b: str) -> da.Force:
    import casadi as ca

    def force(m: object) -> dict[str, object]:
        return {a: -ca.tanh(m.velocity(b)) * m[a] + m.input("u_user") ** 2 * m[b]}  # type: ignore[attr-defined, index]

    return da.Force(force, uses=("u_user",), name="user force")


def _user_constraint(a: str, b: str) -> da.Constraint:
    import casadi as ca

    return da.Constraint(lambda m: m[a] - 0.5 * ca.sin(m[b]), name="user constraint")


def random_point(model: Model, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, v, u) in a generic position."""
    rng = np.random.default_rng(seed + 10_000)
    q = rng.uniform(-1, 1, model.nq)
    for i, name in enumerate(model.variables):
        if name == "length":
            q[i] = rng.uniform(0.5, 2)
    return q, rng.uniform(-1, 1, model.nq), rng.uniform(-1, 1, model.nu)
