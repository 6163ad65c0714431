"""The same mechanics as an independent rigid-body library, Pinocchio: poses, M(q), energies, momenta, accelerations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from tests.core.paper002 import Tree, unhat
from tests.random_models import _body, _pose

pin = pytest.importorskip("pinocchio", reason="Pinocchio (package `pin`) is not installed")

GRAVITY = (0.7, -1.9, -9.3)


def random_tree(seed: int, n: int) -> da.Model:
    """A branching tree of n dynamic variables, all six joints and screws, bodies with full inertias, fixed offsets."""
    rng = np.random.default_rng(seed)
    parents = [-1] + [int(rng.integers(max(-1, i - 5), i)) for i in range(1, n)]
    below: list[list[da.Frame]] = [[] for _ in range(n)]
    roots: list[da.Frame] = []
    for i in range(n - 1, -1, -1):
        kind = ("tx", "ty", "tz", "rx", "ry", "rz")[i % 6]
        pitch = {"pitch": float(rng.uniform(-0.3, 0.3))} if kind[0] == "r" and rng.random() < 0.2 else {}
        joint = getattr(da, kind)(f"q{i}", _body(rng, f"b{i}"), _body(rng, f"c{i}"), *reversed(below[i]), **pitch)
        joint = da.se3(_pose(rng), joint) if rng.random() < 0.6 else joint
        (below[parents[i]] if parents[i] >= 0 else roots).append(joint)
    return da.Model(list(reversed(roots)), [da.Gravity(GRAVITY)])


def to_pinocchio(model: da.Model) -> tuple[Any, list[int], list[tuple[int, Any]]]:
    """(Pinocchio model, place of each variable there, (joint, placement) of each frame); a joint per variable."""
    out = pin.Model()
    out.gravity.linear = np.array(GRAVITY)
    where: list[tuple[int, Any]] = [(0, pin.SE3.Identity())]
    order = [0] * model.nq
    for entry in model.frame_entries[1:]:
        f: Any = entry.frame
        joint, place = where[entry.parent]
        if f.transform == "se3":
            m = np.array(f.value)
            place = place * pin.SE3(m[:3, :3], m[:3, 3])
        elif f.variable is None:
            axis = np.eye(3)["xyz".index(f.transform[1])] * f.value
            turn = f.transform[0] == "r"
            place = place * pin.SE3(pin.exp3(axis) if turn else np.eye(3), np.zeros(3) if turn else axis)
        else:
            letter = f.transform[1].upper()
            if f.pitch:
                kind = getattr(pin, f"JointModelH{letter}")(f.pitch)
            else:
                kind = getattr(pin, f"JointModel{'P' if f.transform[0] == 't' else 'R'}{letter}")()
            joint = out.addJoint(joint, kind, place, f.variable)
            order[model.index(f.variable)] = out.idx_vs[joint]
            place = pin.SE3.Identity()
        where.append((joint, place))
        if f.mass or any(f.inertia):
            xx, yy, zz, xy, xz, yz = f.inertia
            rotational = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            out.appendBodyToJoint(joint, pin.Inertia(f.mass, np.array(f.com), rotational), place)
    return out, order, where


def close(ours: Any, theirs: Any) -> None:
    a, b = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    assert np.abs(a - b).max() <= 1e-10 * max(1.0, float(np.abs(b).max()))


@pytest.mark.parametrize(("seed", "n"), [(0, 30), (1, 30), (2, 7)])
def test_random_tree(seed: int, n: int) -> None:
    model = random_tree(seed, n)
    other, order, where = to_pinocchio(model)
    data = other.createData()
    rng = np.random.default_rng(100 + seed)
    q, v, force = rng.uniform(-1, 1, (3, n))
    x, w, tau = np.zeros((3, n))
    x[order], w[order], tau[order] = q, v, force

    pin.forwardKinematics(other, data, x, w)
    theirs = [(data.oMi[joint] * place).homogeneous for joint, place in where]
    close(da.poses(model, q), theirs)
    m = pin.crba(other, data, x)
    m = np.triu(m) + np.triu(m, 1).T
    close(da.mass_matrix(model, q), m[np.ix_(order, order)])
    close(da.kinetic_energy(model, q, v), pin.computeKineticEnergy(other, data, x, w))
    close(da.potential_energy(model, q), pin.computePotentialEnergy(other, data, x))
    close(da.potential_gradient(model, q), pin.computeGeneralizedGravity(other, data, x)[order])
    # linear momentum, and angular momentum about the centre of mass
    h = pin.computeCentroidalMomentum(other, data, x, w)
    centre = pin.centerOfMass(other, data, x)
    total = da.spatial_momentum(model, q, v)
    close(total[3:], h.linear)
    close(total[:3] - np.cross(centre, total[3:]), h.angular)

    close(da.acceleration(model, q, v).ddq, pin.aba(other, data, x, w, np.zeros(n))[order])
    driven = da.Model(model.frames, [*model.elements, *(da.ConfigForce(name, f"u{name}") for name in model.dynamic)])
    close(da.acceleration(driven, q, v, force).ddq, pin.aba(other, data, x, w, tau)[order])


@pytest.mark.parametrize("seed", range(3))
def test_free_body(seed: int) -> None:
    """Six variables against a free flyer: energies, mass matrix through the body Jacobian, acceleration of the body."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(3, 3))
    inertia, mass, com = a @ a.T + np.eye(3), 2.7, rng.uniform(-0.4, 0.4, 3)
    body = da.tz(0.0, name="body", mass=mass, inertia=inertia, com=com)
    model = da.Model(
        [da.free_euler("hull", body)], [da.Gravity(GRAVITY), da.Wrench("body", ("x", "y", "z"), ("a", "b", "c"))]
    )
    other = pin.Model()
    other.gravity.linear = np.array(GRAVITY)
    joint = other.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "hull")
    other.appendBodyToJoint(joint, pin.Inertia(mass, com, inertia), pin.SE3.Identity())
    data = other.createData()

    q, v, u = rng.uniform(-1, 1, (3, 6))
    tree, k = Tree(model, q, v), model.frame_index("body")
    x = pin.SE3ToXYZQUAT(pin.SE3(tree.g(k)[:3, :3], tree.g(k)[:3, 3]))
    jacobian = np.array([unhat(tree.v_v(k, i)) for i in range(6)]).T  # body twist (linear, angular) per dq
    twist = unhat(tree.v(k))
    close(jacobian @ v, twist)
    m = pin.crba(other, data, x)
    m = np.triu(m) + np.triu(m, 1).T
    close(da.mass_matrix(model, q), jacobian.T @ m @ jacobian)
    close(da.kinetic_energy(model, q, v), pin.computeKineticEnergy(other, data, x, twist))
    close(da.potential_energy(model, q), pin.computePotentialEnergy(other, data, x))
    ddq = da.acceleration(model, q, v, u).ddq
    rate = jacobian @ ddq + sum(unhat(tree.v_q(k, i)) * v[i] for i in range(6))
    close(rate, pin.aba(other, data, x, twist, u))


# ---- balls and floating bodies

SHIFTS = ("root.x", "root.y", "root.z")  # parts of a free flyer


def ball_tree(seed: int) -> da.Model:
    """A tree on a floating body (or, every third, on a ball): balls, hinges, sliders, screws; full inertias, fixed offsets."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 11))
    parents = [-1] + [int(rng.integers(max(0, i - 4), i)) for i in range(1, n)]
    below: list[list[da.Frame]] = [[] for _ in range(n)]
    for i in range(n - 1, 0, -1):
        kind = ("ball", "rx", "ball", "tz", "ry", "rz")[int(rng.integers(6))]
        pitch = {"pitch": float(rng.uniform(-0.3, 0.3))} if kind[0] == "r" and rng.random() < 0.2 else {}
        joint = getattr(da, kind)(f"q{i}", _body(rng, f"b{i}"), _body(rng, f"c{i}"), *reversed(below[i]), **pitch)
        below[parents[i]].append(da.se3(_pose(rng), joint) if rng.random() < 0.6 else joint)
    root = da.ball if seed % 3 == 2 else da.floating
    return da.Model([root("root", _body(rng, "b0"), *reversed(below[0]))], [da.Gravity(GRAVITY)])


def balls_to_pinocchio(model: da.Model) -> tuple[Any, dict[str, int], list[tuple[int, Any]]]:
    """(Pinocchio model, joint there of each variable, (joint, placement) of each frame); a floating body is one free flyer."""
    out = pin.Model()
    out.gravity.linear = np.array(GRAVITY)
    where: list[tuple[int, Any]] = [(0, pin.SE3.Identity())]
    joints: dict[str, int] = {}
    for entry in model.frame_entries[1:]:
        f: Any = entry.frame
        joint, place = where[entry.parent]
        name = f.variable
        if f.transform == "se3":
            m = np.array(f.value)
            place = place * pin.SE3(m[:3, :3], m[:3, 3])
        elif name is None:
            axis = np.eye(3)["xyz".index(f.transform[1])] * f.value
            turn = f.transform[0] == "r"
            place = place * pin.SE3(pin.exp3(axis) if turn else np.eye(3), np.zeros(3) if turn else axis)
        elif name not in SHIFTS:
            if f.transform == "ball":
                flying = name == "root" and "root.x" in model.variables
                kind = pin.JointModelFreeFlyer() if flying else pin.JointModelSpherical()
            elif f.pitch:
                kind = getattr(pin, f"JointModelH{f.transform[1].upper()}")(f.pitch)
            else:
                kind = getattr(pin, f"JointModel{'P' if f.transform[0] == 't' else 'R'}{f.transform[1].upper()}")()
            joint = joints[name] = out.addJoint(joint, kind, place, name)
            place = pin.SE3.Identity()
        where.append((joint, place))
        if f.mass or any(f.inertia):
            xx, yy, zz, xy, xz, yz = f.inertia
            rotational = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            out.appendBodyToJoint(joint, pin.Inertia(f.mass, np.array(f.com), rotational), place)
    return out, joints, where


def there(model: da.Model, other: Any, joints: dict[str, int], q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Pinocchio's configuration, T (nv, nv)): its velocities, along body axes of the free flyer, are T v."""
    x, T = np.zeros(other.nq), np.zeros((other.nv, model.nv))
    for name, j in joints.items():
        at, to = other.idx_qs[j], other.idx_vs[j]
        place = next((p for p in model.configuration.places if p.name == name), None)
        if place is None:
            x[at] = q[model.index(name)]
            T[to, model.velocity_index(name)] = 1.0
            continue
        w, *v = q[place.q]
        if other.nqs[j] == 7:
            lin = [model.velocity_index(f"root.v{a}") for a in "xyz"]
            x[at : at + 3] = [q[model.index(f"root.{a}")] for a in "xyz"]
            T[to : to + 3, lin] = da.rotation.matrix(q[place.q]).T
            at, to = at + 3, to + 3
        x[at : at + 4] = [*v, w]
        T[to : to + 3, place.v] = np.eye(3)
    return x, T


@pytest.mark.parametrize("seed", range(50))
def test_balls_and_floating_bodies(seed: int) -> None:
    model = ball_tree(seed)
    other, joints, where = balls_to_pinocchio(model)
    frames = [other.addFrame(pin.Frame(f"frame{i}", *at, pin.FrameType.OP_FRAME)) for i, at in enumerate(where)]
    data, rng = other.createData(), np.random.default_rng(100 + seed)
    q, v, force = model.random(rng), rng.normal(size=model.nv), rng.normal(size=model.nv)
    x, T = there(model, other, joints, q)
    w = T @ v

    pin.forwardKinematics(other, data, x, w)
    seen = [i for i, entry in enumerate(model.frame_entries) if i and entry.frame.variable not in SHIFTS]
    close(da.poses(model, q)[seen], [(data.oMi[where[i][0]] * where[i][1]).homogeneous for i in seen])
    m = pin.crba(other, data, x)
    close(da.mass_matrix(model, q), T.T @ (np.triu(m) + np.triu(m, 1).T) @ T)
    close(da.kinetic_energy(model, q, v), pin.computeKineticEnergy(other, data, x, w))
    close(da.potential_energy(model, q), pin.computePotentialEnergy(other, data, x))
    close(da.potential_gradient(model, q), T.T @ pin.computeGeneralizedGravity(other, data, x))
    h, centre = pin.computeCentroidalMomentum(other, data, x, w), pin.centerOfMass(other, data, x)
    total = da.spatial_momentum(model, q, v)
    close(total[3:], h.linear)
    close(total[:3] - np.cross(centre, total[3:]), h.angular)
    close(da.MidpointVI(model, 0.01).state(q=q, v=v).p, T.T @ (np.triu(m) + np.triu(m, 1).T) @ w)
    for i in seen:
        if name := model.frame_entries[i].frame.name:
            linear_first = pin.computeFrameJacobian(other, data, x, frames[i], pin.LOCAL_WORLD_ALIGNED)
            close(da.frame_jacobian(model, q, name), np.roll(linear_first, 3, axis=0) @ T)

    driven = da.Model(model.frames, [*model.elements, *(da.ConfigForce(n, f"u{n}") for n in model.velocities)])
    ours = da.acceleration(driven, q, v, force).ddq
    rate = pin.aba(other, data, x, w, np.linalg.solve(T.T, force))
    if "root.x" in model.variables:  # the acceleration of the free flyer is that of its components along turning axes
        at = other.idx_vs[joints["root"]]
        rate[at : at + 3] += np.cross(w[at + 3 : at + 6], w[at : at + 3])
    close(T @ ours, rate)
