"""Arms of example-robot-data with torques at their joints, for identification: what is known of them, and motions that show it."""

from __future__ import annotations

from importlib.metadata import distribution

import numpy as np

import dalembert as da
from dalembert.model.frames import flatten, unflatten

FILES = {
    "panda": ("panda_description/urdf/panda.urdf", 7),
    "ur5": ("ur_description/urdf/ur5_robot.urdf", 6),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", 7),
}


def arm(name: str) -> tuple[da.Model, list[str]]:
    """The arm, with a torque and some damping at each of its joints (hands do not move), and the names of these."""
    path, count = FILES[name]
    folder = distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    model = da.load(f"{folder}/{path}")
    joints = list(model.dynamic[:count])
    rows = []
    for parent, transform, value, *rest in flatten(model.frames):
        moves = not isinstance(value, str) or value in joints
        rows.append((parent, transform, value if moves else 0.0, *rest))
    elements = [da.Gravity(), da.Damping(dict.fromkeys(joints, 0.5)), *(da.ConfigForce(j, f"tau.{j}") for j in joints)]
    return da.Model(unflatten(rows), elements, name), joints


def links(model: da.Model, joints: list[str]) -> list[str]:
    """Names of the frames that the joints move."""
    at = {e.frame.variable: e.frame.name for e in model.frame_entries[1:] if e.frame is not None}
    return [str(at[j]) for j in joints]


def motions(vi: da.MidpointVI, joints: list[str], count: int, steps: int, seed: int = 0) -> list[da.Trajectory]:
    """Motions under torques that are sums of sines, from anywhere."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps) * vi.dt
    out = []
    for _ in range(count):
        waves = rng.normal(size=(len(joints), 4)), rng.uniform(0, 2 * np.pi, (len(joints), 4))
        rates = 2 * np.pi * np.array([0.5, 1.0, 2.0, 3.0])
        u = 4.0 * np.einsum("jf,tjf->tj", waves[0], np.sin(t[:, None, None] * rates + waves[1]))
        start = vi.state(q=rng.uniform(-1, 1, vi.model.nq))
        out.append(vi.simulate(start, steps=steps, u=u, accuracy="ignore"))
    return out
