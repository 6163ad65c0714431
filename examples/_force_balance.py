"""A force-balance engine in the manner of the Open Dynamics Engine, the rival in Scalable variational integrators.

Every body has its own coordinates (x, z, angle), joints are constraints between them, and a step is semi-implicit Euler: the
velocity is advanced by the forces, corrected so that the constraints' rates take away a part of their errors, and then
moves the bodies. The engine's defaults make joints a little soft, and what gives way there is damped: that, more than the order
of the step, is why its mechanisms lose their energy. With `softness=0` joints are as stiff as the step allows.
"""

from __future__ import annotations

import numpy as np

import dalembert as da
from dalembert import mechanics

ERROR_REDUCTION = 0.2  # the engine's default: this part of the constraint error is removed per step
SOFTNESS = 1e-5  # its default in single precision: the velocity in a joint per impulse on it, divided by dt


def bodies(model: da.Model, q, least_inertia: float = 0.004):
    """(model, configuration) with a free body for every moving part of a planar mechanism in x and z.

    Parts without rotational inertia get that of a sphere with a radius of 0.1 m and 1 kg.
    """
    poses = np.asarray(mechanics.poses(model, q))
    part = [0] * len(poses)  # index of the joint that moves a frame, 0 for the world
    for e in model.frame_entries[1:]:
        part[e.index] = e.index if e.frame.variable is not None else part[e.parent]
    found: dict[int, tuple[float, np.ndarray, float]] = {}
    for e in model.frame_entries[1:]:
        if e.frame.mass or any(e.frame.inertia):
            if part[e.index] in found:
                raise ValueError("one mass per moving part is expected")
            found[part[e.index]] = e.frame.mass, poses[e.index], max(e.frame.inertia[1], least_inertia)
    spots: dict[int, list[da.Frame]] = {i: [] for i in (0, *found)}

    def spot(owner: int, place: np.ndarray) -> str:
        """A frame of a body at a place of the world."""
        local = place if owner == 0 else np.linalg.inv(found[owner][1]) @ place
        name = f"{owner}.{len(spots[owner])}"
        spots[owner].append(da.se3(local, name=name))
        return name

    ties: list[da.Element] = [e for e in model.elements if not e.size]
    start: dict[str, float] = {}
    frames = []
    held: list[str] = []
    for i in found:
        e = model.frame_entries[i]
        above = part[e.parent]
        if e.frame.transform == "ry":
            ties.append(da.PointToPoint(spot(i, poses[i]), spot(above, poses[i]), "xz"))
        else:  # a slider along x: its height and its angle stay
            held.append(e.frame.variable)
    for c in model.elements:
        if isinstance(c, da.PointToPoint):
            ends = [model.frame_index(f) for f in (c.frame1, c.frame2)]
            ties.append(da.PointToPoint(*(spot(part[k], poses[k]) for k in ends), c.directions))
    for i, (mass, pose, inertia) in found.items():
        name = model.frame_entries[i].frame.variable
        turn = float(np.arctan2(pose[0, 2], pose[2, 2]))
        body = da.se3(np.eye(4), *spots[i], name=f"body {name}", mass=mass, inertia=(inertia,) * 3)
        if name in held:
            frames.append(da.tx(f"{name}.x", da.tz(float(pose[2, 3]), da.ry(turn, body))))
            start[f"{name}.x"] = float(pose[0, 3])
        else:
            frames.append(da.tx(f"{name}.x", da.tz(f"{name}.z", da.ry(f"{name}.angle", body))))
            start |= {f"{name}.x": float(pose[0, 3]), f"{name}.z": float(pose[2, 3]), f"{name}.angle": turn}
    out = da.Model([*frames, *spots[0]], ties, "free bodies")
    return out, np.array([start[name] for name in out.variables])


def simulate(model: da.Model, q, dt: float, steps: int, softness: float = SOFTNESS):
    """(q, v), (steps + 1, nq) each, from rest."""
    soft = max(softness / dt, 1e-12) * np.eye(model.nc)  # a trace of it where constraints depend on each other
    loose = da.Model(model.frames, [e for e in model.elements if not e.size])
    v = np.zeros(model.nq)
    qs, vs = [q], [v]
    for _ in range(steps):
        v = v + dt * mechanics.acceleration(loose, q, v).ddq
        J, h = mechanics.constraint_jacobian(model, q), mechanics.constraints(model, q)
        a = np.linalg.solve(mechanics.mass_matrix(model, q), J.T)
        v = v - a @ np.linalg.solve(J @ a + soft, J @ v + ERROR_REDUCTION * h / dt)
        q = q + dt * v
        qs.append(q)
        vs.append(v)
    return np.array(qs), np.array(vs)
