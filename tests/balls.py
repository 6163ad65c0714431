"""Mechanisms with ball joints and floating bodies, drawn at random, for tests."""

from __future__ import annotations

import numpy as np

import dalembert as da


def inertia(r, least=0.5):
    return tuple(r.uniform(least, 2 * least, 3))  # of a real body: each below the sum of the others


def mechanism(seed, *, floating=True, forces=True, constraint=True, prescribed=False):
    """A tree with balls at its base, in the middle and at its tip, hinges between them; springs, dampers, wrenches, a distance."""
    r = np.random.default_rng(seed)
    tip = da.se3(_pose(r), name="tip", mass=0.3)
    c = da.ball("c", tip, name="C", mass=0.5, inertia=inertia(r), com=tuple(0.2 * r.normal(size=3)))
    k = da.ball(da.Kinematic("k") if prescribed else "k", da.se3(_pose(r), c), name="K", mass=0.4, inertia=inertia(r))
    h = da.rz("h", da.se3(_pose(r), k), name="H", mass=0.3, inertia=inertia(r))
    g = da.ry("g", name="G", mass=0.5, inertia=inertia(r), com=(0.2, 0.0, 0.1))
    body = da.floating if floating else da.ball
    base = body("base", da.se3(_pose(r), h), da.tz(0.5, g), name="B", mass=1.0, inertia=inertia(r), com=(0.05, -0.1, 0))
    elements = [da.Gravity((0.3, -0.2, -9.8))]
    if forces:
        elements += [
            da.LinearSpring("tip", "world", 30.0, 0.1),
            da.TorsionSpring("H", "C", 1.3, (0.2, 0.3, 1.0)),
            da.Damping(0.0, {"h": 0.1, "c.wx": 0.2, "c.wy": 0.1, "base.wz": 0.3}),
            da.LinearDamper("tip", "G", 0.5),
            da.ConfigForce("c.wy", "tau"),
            da.ConfigForce("h", "motor"),
            da.Wrench("G", force=("fx", 0.0, 1.0), torque=(0.0, "ty", 0.2)),
            da.Wrench("tip", force=(0.0, "fy", 0.3), axes="world"),
            da.Wrench("C", torque=("tx", 0.1, 0.3), axes="mixed"),
        ]
    if constraint:
        elements += [da.Distance("tip", "world", 2.0)]
    return da.Model([base], elements)


def random_mechanism(seed, *, forces=True):
    """A branching tree of 2 to 7 joints with a ball among them, on a floating body or not; springs, dampers, wrenches, inputs and a
    constraint or two as it comes."""
    r = np.random.default_rng(seed)
    n = int(r.integers(2, 8))
    kinds = [str(r.choice(["ball", "ball", "rx", "ry", "rz", "tx", "tz"])) for _ in range(n)]
    kinds[0] = str(r.choice(["ball", "floating", "rz"]))
    kinds[-1] = "ball"
    parents = [int(r.integers(max(0, i - 3), i)) if i else -1 for i in range(n)]
    below = [[] for _ in range(n)]
    for i in range(n - 1, -1, -1):
        tip = da.tx(float(r.uniform(0.2, 0.5)), name=f"tip{i}", mass=float(r.uniform(0.05, 0.2)))
        options = {"mass": float(r.uniform(0.3, 1.0)), "inertia": inertia(r, 0.2), "com": tuple(0.1 * r.normal(size=3))}
        joint = getattr(da, kinds[i])(f"j{i}", tip, *below[i], name=f"B{i}", **options)
        if i:
            below[parents[i]].append(da.se3(_pose(r), joint))
    roots = [joint, da.tx(1.5, da.ty(-2.0, name="post"))]
    bare = da.Model(roots)
    frame = [str(r.choice([f"tip{i}", f"B{i}"])) for i in range(n)]
    elements = [da.Gravity((0.3, -0.2, -9.8))]
    if forces:
        elements += [
            da.LinearSpring(frame[0], "post", float(r.uniform(5, 30)), 0.1),
            da.Damping(float(r.uniform(0, 0.2))),
            da.ConfigForce(str(r.choice(bare.velocities)), "motor"),
            da.Wrench(
                frame[-1], force=("fx", 0.0, 1.0), torque=(0.0, "ty", 0.2), axes=str(r.choice(["body", "world"]))
            ),
        ]
        if n > 2:
            elements += [da.LinearDamper(frame[1], "post", 0.5), da.TorsionSpring("B0", "B1", 1.3, (0.2, 0.3, 1.0))]
        if r.random() < 0.5:
            elements += [da.Wrench(frame[n // 2], torque=("tx", 0.1, 0.3), axes="mixed")]
    if r.random() < 0.5:
        place = da.positions(bare, bare.random(r))
        length = np.linalg.norm(place[bare.frame_index(f"tip{n - 1}")] - place[bare.frame_index("post")])
        elements += [da.Distance(f"tip{n - 1}", "post", float(length))]
    return da.Model(roots, elements)


def _pose(r):
    pose = np.eye(4)
    pose[:3, :3] = da.rotation.matrix(da.rotation.exponential(r.normal(size=3)))
    pose[:3, 3] = 0.4 * r.normal(size=3)
    return pose


def start(vi, seed):
    """A state at random, on the constraints."""
    m, r = vi.model, np.random.default_rng(seed + 1000)
    q, v = m.random(r), r.normal(size=m.nv)
    if m.nc:
        q = da.satisfy_constraints(m, q)
        v = da.consistent_velocity(m, q, v)
    return vi.state(q=q, v=v)
