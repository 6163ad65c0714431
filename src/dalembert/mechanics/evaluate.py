"""Mechanics at a point: kinematics, energies, momenta, derivatives of L, forces and constraints, continuous dynamics.

Free functions of a `Model` and arrays; everything numeric happens in the compiled core. q has shape (nq,), dynamic variables first; v likewise.
Where the docstring says so, q and v may also be (N, nq).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..arrays import Array, Named, floats, matrix, needed, vector
from ..errors import ModelError, SingularityError
from ..model import Model
from ..model.compile import compile_gaps, compile_model, describe
from ..model.numbers import Numbers
from .kept import Kept


def _compile(model: Model) -> tuple[Any, Numbers]:
    description = describe(model)
    numbers = Numbers(description)
    return _core.Core(description), numbers


def _make_core(model: Model) -> Any:
    core, numbers = _compiled(model.structure)
    return core if model.structure is model else core.with_numbers(*numbers.replacements(model.parameters))


_compiled = Kept(_compile)  # by structure
_cores = Kept(_make_core)
_links: Kept[dict[tuple[str, ...], Any]] = Kept(lambda model: {})
_gap_cores = Kept(lambda model: _core.Core(compile_gaps(model)))
_gap_scales = Kept(lambda model: np.array([gap.scale for gap in model.gaps]))
_joint_orders = Kept(lambda model: np.array([j["v"] for j in compile_model(model)["joints"]], dtype=int))
_torques = Kept(lambda model: {key: np.array(compile_model(model)[key]) for key in ("damping", "force_v", "force_u")})


def core(model: Model) -> Any:
    """The compiled core of a model, built on first use and kept as long as the model."""
    return _cores(checked(model))


def parameter_links(model: Model, names: tuple[str, ...]) -> Any:
    """How the numbers of the core depend on these parameters, as the core's derivatives by parameters want it."""
    found = _links(model)
    if names not in found:
        if not core(model).parameters_known():
            raise ModelError(f"{model.name}: an element of this model has no derivatives by parameters")
        links = _compiled(model.structure)[1].links(model.parameters, names)
        found[names] = core(model).links(len(names), links.place, links.parameter, links.factor)
    return found[names]


def _q(model: Model, q: Named) -> Array:
    return checked(model).configuration.point(q)


def checked(model: Model) -> Model:
    """A Model, or TypeError."""
    return needed(model, Model)


def _v(model: Model, v: Named | None) -> Array:
    return checked(model).configuration.tangent(v)


def _many(model: Model, q: Named) -> tuple[Array, bool]:
    """(N, nq) and whether a single point was given."""
    checked(model)
    x = None if isinstance(q, Mapping) else floats(q, "q")
    if x is None or x.ndim == 1:
        return _q(model, q if x is None else x)[None], True
    return model.configuration.unit(matrix(x, (-1, model.nq), "q"), "q"), False


def _both(model: Model, q: Named, v: Named) -> tuple[Array, Array, bool]:
    """q (N, nq), v (N, nv), and whether a single point was given."""
    x, single = _many(model, q)
    y = None if isinstance(v, Mapping) else floats(v, "v")
    w = _v(model, v if y is None else y)[None] if y is None or y.ndim == 1 else matrix(y, (-1, model.nv), "v")
    if len(x) != len(w):
        raise ValueError(f"q has {len(x)} rows, v has {len(w)}")
    return x, w, single


def _rows(model: Model, x: Array, result: Array) -> Array:
    """One row of results per row of x; the core cannot count rows of a model without variables."""
    return result if model.nq else np.repeat(result, len(x), axis=0)


def finite_results(model: Model, q: Array, what: str, *values: Any) -> None:
    """Raises SingularityError if a result is not finite: no NaN leaves this module."""
    for value in values:
        flat = value.ravel()
        # a dot product costs a fraction of a test of every entry and finds every NaN; it may also overflow by itself
        if not math.isfinite(flat.dot(flat)) and not np.isfinite(flat).all():
            raise _undefined(model, q, what)


def undefined_elements(model: Model, q: Array) -> dict[str, str]:
    """Elements that have no value at q, by label, and why."""
    here = poses(model, q)
    found = {e.label: e.undefined(lambda frame: here[model.frame_index(frame)]) for e in model.elements}
    return {label: why for label, why in found.items() if why}


def _undefined(model: Model, q: Array, what: str) -> SingularityError:
    """Names the elements that have no value where their frames are."""
    found = undefined_elements(model, q.reshape(-1, model.nq)[0])
    reason = "; ".join(f"{label}: {why}" for label, why in found.items())
    reason = reason or "numbers are too large or a user element is singular"
    names = tuple(found)
    return SingularityError(f"{what} is not finite here: {reason}", matrix=what, variables=names, state=q)


# ---- kinematics


def poses(model: Model, q: Named) -> Array:
    """4x4 pose of every frame (order of `model.frame_entries`): (nframes, 4, 4), or (N, nframes, 4, 4) for many q.

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", name="cart", mass=1.0)])
    >>> da.poses(m, [2.0])[1, 0, 3]
    np.float64(2.0)
    """
    x, single = _many(model, q)
    g = _rows(model, x, core(model).frames(x))
    return g[0] if single else g


def pose(model: Model, q: Named, frame: str) -> Array:
    """4x4 pose of one frame; (N, 4, 4) for many q.

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", name="cart", mass=1.0)])
    >>> da.pose(m, [2.0], "cart")[:3, 3]
    array([2., 0., 0.])
    """
    return poses(model, q)[..., model.frame_index(frame), :, :]


def positions(model: Model, q: Named) -> Array:
    """Origins of all frames: (nframes, 3), or (N, nframes, 3).

    >>> import dalembert as da
    >>> da.positions(da.Model([da.ty("y", mass=1.0)]), [3.0])[1]
    array([0., 3., 0.])
    """
    return poses(model, q)[..., :3, 3]


def twists(model: Model, q: Named) -> Array:
    """Unit twist (angular; linear at the world origin, world axes) of every variable: (nv, 6); zeros where it moves no frame.

    >>> import dalembert as da
    >>> da.twists(da.Model([da.rz("a", da.tx(1.0, mass=1.0))]), [0.0])[0]
    array([0., 0., 1., 0., 0., 0.])
    """
    x = _q(model, q)
    by_joint = core(model).twists(x)
    out = np.zeros((model.nv, 6))
    order = compiled_joints(model)
    out[order] = by_joint
    return out


def compiled_joints(model: Model) -> NDArray[np.int64]:
    """q index of each joint of the compiled core, in its order."""
    return _joint_orders(model)


def path_components(model: Model, frame: str) -> list[int]:
    """Velocity components that move a frame, from the root down."""
    balls = {place.q.start: place.v for place in model.configuration.places}
    out: list[int] = []
    for name in model.path(frame):
        if name in model.configuration.velocity_index:
            out.append(model.velocity_index(name))
        elif model.index(name) in balls:
            out += range(model.nv)[balls[model.index(name)]]
    return out


def frame_jacobian(model: Model, q: Named, frame: str) -> Array:
    """Jacobian (6, nv) of a frame: angular velocity and velocity of its origin, world axes.

    >>> import dalembert as da
    >>> m = da.Model([da.rz("a", da.tx(1.0, name="tip", mass=1.0))])
    >>> da.frame_jacobian(m, [0.0], "tip")[:, 0]
    array([0., 0., 1., 0., 1., 0.])
    """
    x = _q(model, q)
    s = twists(model, x)
    p = pose(model, x, frame)[:3, 3]
    out = np.zeros((6, model.nv))
    for i in path_components(model, frame):
        out[:3, i] = s[i, :3]
        out[3:, i] = s[i, 3:] + np.cross(s[i, :3], p)
    return out


def frame_hessian(model: Model, q: Named, frame: str) -> Array:
    """Derivative of `frame_jacobian`: (6, nv, nv), [:, i, j] is the derivative of column i by q_j.

    Rows 0-2: axes, dw_i = w_j x w_i where j is above i. Rows 3-5: second derivatives of the frame's position, w x u.

    >>> import dalembert as da
    >>> m = da.Model([da.rz("a", da.tx(1.0, name="tip", mass=1.0))])
    >>> da.frame_hessian(m, [0.0], "tip")[3:, 0, 0]
    array([-1.,  0.,  0.])
    """
    x = _q(model, q)
    jac = frame_jacobian(model, x, frame)
    path = path_components(model, frame)
    out = np.zeros((6, model.nv, model.nv))
    for above, i in enumerate(path):
        for j in path[above:]:  # i is above j, or j itself
            out[3:, i, j] = out[3:, j, i] = np.cross(jac[:3, i], jac[3:, j])
            if i != j:
                out[:3, j, i] = np.cross(jac[:3, i], jac[:3, j])
    return out


# ---- energies, momenta


def kinetic_energy(model: Model, q: Named, v: Named) -> Any:
    """Kinetic energy (J); an array for many q, v.

    >>> import dalembert as da
    >>> da.kinetic_energy(da.Model([da.tx("x", mass=2.0)]), [0.0], [3.0])
    9.0
    """
    x, w, single = _both(model, q, v)
    t = _rows(model, x, core(model).energy(x, w)[0])
    finite_results(model, x, "the kinetic energy", t)
    return float(t[0]) if single else t


def potential_energy(model: Model, q: Named) -> Any:
    """Potential energy (J); an array for many q.

    >>> import dalembert as da
    >>> da.potential_energy(da.Model([da.tz("z", mass=2.0)], [da.Gravity((0, 0, -10.0))]), [3.0])
    60.0
    """
    x, single = _many(model, q)
    u = _rows(model, x, core(model).energy(x, np.zeros((len(x), model.nv)))[1])
    finite_results(model, x, "the potential energy", u)
    return float(u[0]) if single else u


def lagrangian(model: Model, q: Named, v: Named) -> float:
    """L = T - V.

    >>> import dalembert as da
    >>> da.lagrangian(da.Model([da.tx("x", mass=2.0)]), [0.0], [1.0])
    1.0
    """
    x = _q(model, q)[None]
    t, u = core(model).energy(x, _v(model, v)[None])
    finite_results(model, x, "L", t - u)
    return float(t[0] - u[0])


def lagrangian_first(model: Model, q: Named, v: Named) -> tuple[Array, Array]:
    """(L_q, L_v), each (nv,), in O(n).

    >>> import dalembert as da
    >>> da.lagrangian_first(da.Model([da.tx("x", mass=2.0)]), [0.0], [1.0])[1]
    array([2.])
    """
    x = _q(model, q)
    lq, lv = core(model).first(x, _v(model, v))
    finite_results(model, x, "L_q", lq, lv)
    return lq, lv


def lagrangian_second(model: Model, q: Named, v: Named) -> tuple[Array, Array, Array]:
    """(L_qq, L_qv, L_vv), each (nv, nv); L_qv has rows q and columns v.

    >>> import dalembert as da
    >>> da.lagrangian_second(da.Model([da.tx("x", mass=2.0)]), [0.0], [1.0])[2]
    array([[2.]])
    """
    x = _q(model, q)
    qq, qv, vv = core(model).second(x, _v(model, v))
    finite_results(model, x, "L_qq", qq, qv, vv)
    return qq, qv, vv


def lagrangian_third(
    model: Model,
    q: Named,
    v: Named,
    dq: Named | None = None,
    dv: Named | None = None,
) -> tuple[Array, Array, Array]:
    """Derivative of (L_qq, L_qv, L_vv) along the direction (dq, dv), each (nv, nv).

    >>> import dalembert as da
    >>> m = da.Model([da.rz("a", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -10.0, 0))])
    >>> float(da.lagrangian_third(m, [0.3], [0.0], dq=[1.0])[0][0, 0].round(6))
    2.955202
    """
    x, a, b = _q(model, q), model.configuration.tangent(dq, "dq"), model.configuration.tangent(dv, "dv")
    qq, qv, vv = core(model).third(x, _v(model, v), a, b)
    finite_results(model, x, "L_qqq", qq, qv, vv)
    return qq, qv, vv


def mass_matrix(model: Model, q: Named) -> Array:
    """Mass matrix (nv, nv), kinematic variables included.

    >>> import dalembert as da
    >>> da.mass_matrix(da.Model([da.tx("x", mass=2.0)]), [0.0])
    array([[2.]])
    """
    x = _q(model, q)
    m: Array = core(model).second(x, np.zeros(model.nv))[2]
    if not np.isfinite(m).all():  # an undefined potential must not hide the mass matrix
        bare = Model(model.frames)
        place = [model.index(name) for name in bare.variables]
        moved = [model.velocity_index(name) for name in bare.velocities]
        m = np.zeros((model.nv, model.nv))
        m[np.ix_(moved, moved)] = core(bare).second(x[place], np.zeros(bare.nv))[2]
    return m


def potential_gradient(model: Model, q: Named) -> Array:
    """V_q (nv,).

    >>> import dalembert as da
    >>> da.potential_gradient(da.Model([da.tz("z", mass=2.0)], [da.Gravity((0, 0, -10.0))]), [3.0])
    array([20.])
    """
    x = _q(model, q)
    g: Array = core(model).potential(x, False)[1]
    finite_results(model, x, "V_q", g)
    return g


def spatial_momentum(model: Model, q: Named, v: Named) -> Array:
    """Total (angular about the world origin; linear) momentum, world axes: (6,), or (N, 6).

    >>> import dalembert as da
    >>> da.spatial_momentum(da.Model([da.tx("x", mass=2.0)]), [0.0], [3.0])[3]
    np.float64(6.0)
    """
    x, w, single = _both(model, q, v)
    h = _rows(model, x, core(model).momentum(x, w))
    finite_results(model, x, "the momentum", h)
    return h[0] if single else h


# ---- constraints


def constraints(model: Model, q: Named) -> Array:
    """h(q), the constraints on the configuration: (nh,), or (N, nh).

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
    >>> da.constraints(m, [1.0, 1.0])
    array([1.])
    """
    x, single = _many(model, q)
    h = _rows(model, x, core(model).constraints(x)[0])[:, : model.nh]
    finite_results(model, x, "h", h)
    return h[0] if single else h


def constraint_jacobian(model: Model, q: Named) -> Array:
    """C(q): (nc, nv), Dh in the nh rows of constraints on the configuration, a(q) in those on velocities.

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
    >>> da.constraint_jacobian(m, [1.0, 0.0])
    array([[2., 0.]])
    """
    x = _q(model, q)
    c: Array = core(model).constraints(x[None])[1][0]
    finite_results(model, x, "Dh", c)
    return c


def velocity_offset(model: Model, q: Named) -> Array:
    """What constraint rows have besides C(q) v = 0: (nc,), b(q) of the constraints on velocities a(q) v + b(q) = 0, zero for others.

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", da.ty("y", mass=1.0))], [da.VelocityConstraint(lambda m: m.velocity("y") - 2 * m["x"])])
    >>> da.velocity_offset(m, [3.0, 0.0])
    array([-6.])
    """
    x = _q(model, q)
    b: Array = core(model).constraints(x[None])[0][0].copy()
    b[: model.nh] = 0.0
    finite_results(model, x, "b", b)
    return b


def constraint_hessian(model: Model, q: Named, weight: ArrayLike | None = None) -> Array:
    """DC(q): (nc, nv, nv), or its sum weighted with (nc,) numbers: (nv, nv). D2h for constraints on the configuration; for those on velocities
    entry (i, k) is the derivative of a_i by q_k, which is not symmetric.

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
    >>> da.constraint_hessian(m, [1.0, 0.0], [0.5])
    array([[1., 0.],
           [0., 1.]])
    """
    x, c = _q(model, q), core(model)
    d: Array
    if weight is not None:
        d = c.constraint_second(x, vector(weight, model.constraints, "weight"))
    elif model.nc:
        d = np.stack([c.constraint_second(x, row) for row in np.eye(model.nc)])
    else:
        d = np.zeros((0, model.nv, model.nv))
    finite_results(model, x, "D2h", d)
    return d


def constraint_third(model: Model, q: Named, direction: ArrayLike, weight: ArrayLike) -> Array:
    """Derivative of the weighted D2h along a direction (nv,): (nv, nv).

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", da.ty("y", name="p", mass=1.0))], [da.Distance("world", "p", 1.0)])
    >>> float(abs(da.constraint_third(m, [1.0, 0.0], [1.0, 0.0], [1.0])).max())
    0.0
    """
    x = _q(model, q)
    w, d = vector(weight, model.constraints, "weight"), model.configuration.tangent(direction, "direction")
    if w[model.nh :].any():
        raise ValueError(
            "third derivatives are those of constraints on the configuration: give the others the weight 0"
        )
    third: Array = core(model).constraint_third(x, w, d)
    finite_results(model, x, "D3h", third)
    return third


# ---- gaps of limits and contacts


def gap_rows(model: Model) -> tuple[Any, Array]:
    """A core whose constraints are the gaps of the limits and contacts, and the numbers (number of gaps,) that they are to be multiplied with."""
    return _gap_cores(model), _gap_scales(model)


def gaps(model: Model, q: Named) -> Array:
    """Gaps of the limits and contacts (rad or m, `model.gaps` names them): (number of gaps,), or (N, number of gaps).

    >>> import dalembert as da
    >>> da.gaps(da.Model([da.tx("x", mass=1.0)], [da.Limit("x", -1.0, 2.0)]), [0.5])
    array([1.5, 1.5])
    """
    x, single = _many(model, q)
    h = np.zeros((len(x), 0)) if not model.gaps else _gap_scales(model) * _gap_cores(model).constraints(x)[0]
    finite_results(model, x, "a gap", h)
    return h[0] if single else h


def gap_jacobian(model: Model, q: Named) -> Array:
    """Derivative of the gaps: (number of gaps, nv), or (N, number of gaps, nv).

    >>> import dalembert as da
    >>> da.gap_jacobian(da.Model([da.tx("x", mass=1.0)], [da.Limit("x", -1.0, 2.0)]), [0.5])
    array([[ 1.],
           [-1.]])
    """
    x, single = _many(model, q)
    c: Array = np.zeros((len(x), 0, model.nv))
    if model.gaps:
        c = _gap_scales(model)[:, None] * _gap_cores(model).constraints(x)[1]
    finite_results(model, x, "the derivative of a gap", c)
    return c[0] if single else c


def gap_hessian(model: Model, q: Named, weight: ArrayLike) -> Array:
    """Second derivative of the gaps weighted with numbers (number of gaps,): (nv, nv).

    >>> import dalembert as da
    >>> m = da.Model([da.rx("a", da.tz(-1.0, name="bob", mass=1.0))], [da.Contact("bob")])
    >>> float(da.gap_hessian(m, [0.0], [2.0])[0, 0])
    2.0
    """
    x = _q(model, q)
    if not model.gaps:
        return np.zeros((model.nv, model.nv))
    w = vector(weight, [gap.name for gap in model.gaps], "weight")
    d = np.asarray(_gap_cores(model).constraint_second(x, _gap_scales(model) * w))
    finite_results(model, x, "the second derivative of a gap", d)
    return d


# ---- forces


def force(
    model: Model,
    q: Named,
    v: Named | None = None,
    u: Named | None = None,
) -> Array:
    """Generalized force on the dynamic variables, besides potentials: (nd,).

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", mass=1.0)], [da.Damping(0.5), da.ConfigForce("x", input="push")])
    >>> da.force(m, [0.0], [2.0], [3.0])
    array([2.])
    """
    x = _q(model, q)
    f: Array = core(model).force(x, _v(model, v), vector(u, model.inputs, "u"))
    finite_results(model, x, "F", f)
    return f


def force_first(
    model: Model,
    q: Named,
    v: Named | None = None,
    u: Named | None = None,
) -> tuple[Array, Array, Array]:
    """(F_q (nd, nv), F_v (nd, nv), F_u (nd, nu)).

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", mass=1.0)], [da.Damping(0.5)])
    >>> da.force_first(m, [0.0])[1]
    array([[-0.5]])
    """
    x = _q(model, q)
    fq, fv, fu = core(model).force_first(x, _v(model, v), vector(u, model.inputs, "u"))
    finite_results(model, x, "F_q", fq, fv, fu)
    return fq, fv, fu


def force_second(
    model: Model,
    q: Named,
    v: Named | None,
    u: Named | None,
    weight: ArrayLike,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Second derivatives of weight . F: blocks (qq, qv, vv, qu, vu, uu); weight (nd,).

    >>> import dalembert as da
    >>> m = da.Model([da.tx("x", mass=1.0)], [da.Damping(0.5)])
    >>> da.force_second(m, [0.0], [1.0], None, [1.0])[0]
    array([[0.]])
    """
    x, w, i = _q(model, q), _v(model, v), vector(u, model.inputs, "u")
    blocks: tuple[Array, Array, Array, Array, Array, Array] = core(model).force_second(
        x, w, i, vector(weight, model.velocities[: model.nd], "weight")
    )
    finite_results(model, x, "F_qq", *blocks)
    return blocks


# ---- continuous dynamics


@dataclass(frozen=True)
class Acceleration:
    """Solution of the continuous equations: `ddq` (nv,), `lam` (nc,); with derivatives if asked for.

    `ddq_q` (nd, nv), `ddq_v` (nd, nv), `ddq_u` (nd, nu), `ddq_k` (nd, nkv) and the same for the multipliers, `lam_q`,
    `lam_v`, `lam_u`, `lam_k` (nc rows). Of a ball, `ddq` is the rate of
    its velocities along body axes, and `_q` are derivatives along turns about these axes.
    """

    ddq: Array
    lam: Array
    ddq_q: Array | None = None
    ddq_v: Array | None = None
    ddq_u: Array | None = None
    ddq_k: Array | None = None
    lam_q: Array | None = None
    lam_v: Array | None = None
    lam_u: Array | None = None
    lam_k: Array | None = None

    def __iter__(self) -> Any:
        return iter((self.ddq, self.lam))


def singular_variables(model: Model, q: Array) -> tuple[str, ...]:
    """Dynamic variables in which the mass matrix is singular at q; () if it is not."""
    value, vectors = np.linalg.eigh(mass_matrix(model, q)[: model.nd, : model.nd])
    if not len(value) or value[0] > 1e-12 * abs(value[-1]):
        return ()
    return tuple(model.velocities[i] for i in _large(vectors[:, 0]))


def idle_turns(model: Model) -> tuple[str, ...]:
    """Velocities of balls and hinges at the ends of the tree about which nothing that they carry has inertia (a point mass on a line through the
    centre) and which no constraint holds."""
    place_of = {place.name: place for place in model.configuration.places if place.v.start < model.nd}
    entries = model.frame_entries
    moved_by, ends = [0] * len(entries), set()  # the last joint above each frame, and those without another joint below
    for entry in entries[1:]:
        above = moved_by[entry.parent]
        joint = entry.frame is not None and entry.frame.variable is not None
        moved_by[entry.index] = entry.index if joint else above
        if joint:
            ends.discard(above)
            ends.add(entry.index)
    inertia = {i: np.zeros((3, 3)) for i in ends if _turns(entries[i].frame, model.dynamic, place_of)}
    carried = [
        e for e in entries[1:] if moved_by[e.index] in inertia and e.frame and (e.frame.mass or any(e.frame.inertia))
    ]
    if not carried:
        return ()
    at = poses(model, model.neutral())
    for entry in carried:
        i, f = moved_by[entry.index], entry.frame
        assert f is not None
        turn, r = at[i, :3, :3].T @ at[entry.index, :3, :3], at[entry.index, :3, 3] - at[i, :3, 3]
        r = at[i, :3, :3].T @ r + turn @ np.array([float(x) for x in f.com])
        xx, yy, zz, xy, xz, yz = (float(x) for x in f.inertia)
        inertia[i] += turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
        inertia[i] += float(f.mass) * (r @ r * np.eye(3) - np.outer(r, r))
    idle: list[tuple[slice, Array]] = []
    for i, total in inertia.items():
        frame: Any = entries[i].frame
        name = str(frame.variable)
        if name in place_of:
            value, vectors = np.linalg.eigh(total)
            if value[0] <= 1e-12 * abs(value[-1]):
                idle.append((place_of[name].v, vectors[:, 0]))
        elif total["xyz".index(frame.transform[1]), "xyz".index(frame.transform[1])] <= 1e-14 * np.trace(total):
            k = model.velocities.index(name)
            idle.append((slice(k, k + 1), np.ones(1)))
    if idle and model.nc:  # where they hold it, they do so nearly everywhere
        held = core(model).constraints(model.random(0)[None])[1][0]
        idle = [(v, way) for v, way in idle if np.abs(held[:, v] @ way).max() <= 1e-12]
    return tuple(model.velocities[v][int(c)] for v, way in idle for c in _large(way))


def _turns(frame: Any, dynamic: Sequence[str], balls: Mapping[str, Any]) -> bool:
    """Whether a joint is a dynamic ball or a dynamic hinge (a screw moves what it carries, too)."""
    name = str(frame.variable)
    return name in balls or (frame.transform in ("rx", "ry", "rz") and not frame.pitch and name in dynamic)


def dependent_constraints(model: Model, q: Array) -> tuple[str, ...]:
    """Constraints whose gradients by the dynamic variables are dependent at q; () if there are none."""
    if not model.nc:
        return ()
    u, s, _ = np.linalg.svd(constraint_jacobian(model, q)[:, : model.nd])
    if s[-1] > 1e-9 * s[0]:
        return ()
    return tuple(model.constraints[i] for i in _large(u[:, -1]))


def _large(x: Array) -> NDArray[np.intp]:
    """Indices of the entries that matter beside the largest."""
    size = np.abs(x)
    return np.flatnonzero(size > 0.1 * size.max())


def _singular(model: Model, q: Array) -> SingularityError:
    """Says which matrix of the continuous equations is singular and in which variables or constraints."""
    if names := singular_variables(model, q):
        return SingularityError(
            f"the mass matrix is singular in {', '.join(names)}",
            matrix="mass",
            variables=names,
            hint="give these frames a rotational inertia, or move away from the singular configuration",
        )
    if names := dependent_constraints(model, q):
        return SingularityError(
            f"the constraints {', '.join(names)} are dependent here, so their forces are not unique",
            matrix="constraint",
            variables=names,
            hint="remove a redundant constraint, or move away from the singular configuration",
        )
    return _undefined(model, q, "the acceleration")


def _without_balls(model: Model, what: str) -> None:
    if model.configuration.places:
        raise ModelError(
            f"{what} are not available for balls ('{model.configuration.places[0].name}'); those of a step are "
            "(MidpointVI), or use spherical_euler, free_euler",
            culprit=model.configuration.places[0].name,
        )


def _drag(w: Array) -> Array:
    """w' - f'' of a ball that turns with w (body axes), for the angles f = 0 of three hinges x, y, z behind it (docs/kernels.md 13)."""
    return np.array([w[1] * w[2], -w[0] * w[2], w[0] * w[1]])


def _turned(a: Array) -> Array:
    """Columns dE/df_c a, with w = E(f) f'."""
    return np.array([[0.0, 0.0, a[1]], [0.0, 0.0, -a[0]], [0.0, a[0], 0.0]])


def _along_body_axes(model: Model, v: slice, w: Array, ddq: Array, blocks: tuple[Array, Array]) -> None:
    """Accelerations (nv) and their derivatives (rows, 2 nv + nu + nkv) of one ball from its chart to body axes, in place."""
    nv, nd = model.nv, model.nd
    rate, at = slice(nv + v.start, nv + v.stop), ddq[v].copy()
    by_rate = np.array([[0.0, w[2], w[1]], [-w[2], 0.0, -w[0]], [w[1], w[0], 0.0]])  # of the drag
    by_turn = np.array([[0.0, -w[0] * w[1], -w[0] * w[2]], [0.0, 0.0, -w[1] * w[2]], [0.0, 0.0, 0.0]])
    by_turn = by_turn - by_rate @ _turned(w) + _turned(at)  # of w' at constant w and f''
    for D in blocks:
        D[:, v] -= D[:, rate] @ _turned(w)
        if v.start >= nd:
            given = D[:, 2 * nv + model.nu + v.start - nd : 2 * nv + model.nu + v.stop - nd]
            D[:, v] -= given @ by_turn
            D[:, rate] -= given @ by_rate
    if v.start < nd:
        blocks[0][v, v] += by_turn
        blocks[0][v, rate] += by_rate
    ddq[v] += _drag(w)


def _turn_torques(model: Model, q: Array, v: Array, u: Array, blocks: tuple[Array, Array]) -> None:
    """Damping and inputs turn with the axes of a ball, as forces on the angles of its chart do not; blocks in place."""
    nd, nc, given = model.nd, model.nc, _torques(model)
    damping = given["damping"]
    tau = -damping * v[: len(damping)]
    np.add.at(tau, given["force_v"].astype(int), u[given["force_u"].astype(int)])
    right = np.zeros((nd + nc, model.nv))
    for place in model.configuration.places:
        if place.v.start < nd:
            x, y, z = tau[place.v]
            turn = np.array([[0.0, z, -y], [0.0, 0.0, x], [0.0, 0.0, 0.0]])
            right[place.v, place.v] = turn - damping[place.v, None] * _turned(v[place.v])
    if not right.any():
        return
    kkt = np.zeros((nd + nc, nd + nc))
    kkt[:nd, :nd] = mass_matrix(model, q)[:nd, :nd]
    if nc:
        kkt[nd:, :nd] = constraint_jacobian(model, q)[:, :nd]
        kkt[:nd, nd:] = -kkt[nd:, :nd].T
    found = np.linalg.lstsq(kkt, right, rcond=1e-13)[0]
    blocks[0][:, : model.nv] += found[:nd]
    blocks[1][:, : model.nv] += found[nd:]


def acceleration(
    model: Model,
    q: Named,
    v: Named | None = None,
    u: Named | None = None,
    ddq_kin: Named | None = None,
    *,
    derivatives: bool = False,
) -> Acceleration:
    """ddq and lambda of d/dt L_v - L_q = F - Dh^T lambda under the constraints (Scalable variational integrators, eqs 28, 36).

    lambda has the sign of `Trajectory.lam`, which is about dt lambda: the force of the constraints is -Dh^T lambda.
    Unpacks as `ddq, lam = acceleration(...)`. `ddq_kin` (nk,) are the prescribed accelerations. With `derivatives=True`
    the result also carries the exact first derivatives (see `Acceleration`).

    >>> import dalembert as da
    >>> m = da.Model([da.tz("z", mass=2.0)], [da.Gravity((0, 0, -9.8))])
    >>> da.acceleration(m, [0.0]).ddq
    array([-9.8])
    """
    x, w, i = _q(model, q), _v(model, v), vector(u, model.inputs, "u")
    k = vector(ddq_kin, model.velocities[model.nd :], "ddq_kin")
    c = core(model)
    if not derivatives:
        ddq, lam, ok = c.acceleration(x, w, i, k)
        if not (ok and np.isfinite(ddq).all() and np.isfinite(lam).all()):
            raise _singular(model, x)
        return Acceleration(ddq, -lam)  # the core has the force +Dh^T lambda
    model.require_holonomic("the derivative of the acceleration", "the step's (MidpointVI.linearize)")
    nd = model.nd
    for place in model.configuration.places:  # the core has a chart's f'', and w' = f'' + drag
        if place.v.start >= nd:
            k = k.copy() if k is ddq_kin else k
            k[place.v.start - nd : place.v.stop - nd] -= _drag(w[place.v])
    ddq, lam, da, dl, ok = c.acceleration_first(x, w, i, k)
    if not (ok and all(np.isfinite(a).all() for a in (ddq, lam, da, dl))):
        raise _singular(model, x)
    for place in model.configuration.places:
        _along_body_axes(model, place.v, w[place.v], ddq, (da, dl))
    if model.configuration.places:
        _turn_torques(model, x, w, i, (da, dl))
    cuts = np.cumsum([model.nv, model.nv, model.nu])
    return Acceleration(ddq, -lam, *np.split(da, cuts, axis=1), *np.split(-dl, cuts, axis=1))


def acceleration_second(
    model: Model,
    q: Named,
    v: Named | None = None,
    u: Named | None = None,
    ddq_kin: Named | None = None,
) -> tuple[Array, Array]:
    """Second derivatives of ddq (nd, n, n) and lambda (nc, n, n) by w = (q, v, u, ddq_kin), n = 2 nq + nu + nk.

    >>> import dalembert as da
    >>> m = da.Model([da.tz("z", mass=2.0)], [da.Gravity((0, 0, -9.8))])
    >>> float(abs(da.acceleration_second(m, [0.0])[0]).max())
    0.0
    """
    x, w, i = _q(model, q), _v(model, v), vector(u, model.inputs, "u")
    _without_balls(model, "second derivatives of the acceleration")
    model.require_holonomic("the derivative of the acceleration", "the step's (MidpointVI.linearize)")
    d2a, d2l, ok = core(model).acceleration_second(x, w, i, vector(ddq_kin, model.velocities[model.nd :], "ddq_kin"))
    if not (ok and np.isfinite(d2a).all() and np.isfinite(d2l).all()):
        raise _singular(model, x)
    return np.ascontiguousarray(d2a.transpose(1, 0, 2)), -np.ascontiguousarray(d2l.transpose(1, 0, 2))


# ---- consistent configurations, equilibria
