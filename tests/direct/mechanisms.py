"""Mechanisms that several tests plan for."""

import numpy as np

from dalembert.direct.dmocc import Joint, MultibodySystem, RigidBody

Z = (0, 0, 1)


def rod(name, a, b, mass=1.0, axial=0.01):
    """A rod from a to b, its first axis along it; `axial` is its inertia about that axis (kg m^2)."""
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    length = np.linalg.norm(b - a)
    e = (b - a) / length
    f = np.cross(e, np.eye(3)[np.argmin(np.abs(e))])
    f /= np.linalg.norm(f)
    across = mass * length**2 / 12
    rotation = np.column_stack([e, f, np.cross(e, f)])
    return RigidBody(name, mass, (axial, across, across), position=(a + b) / 2, rotation=rotation)


def thin_arm(axial=0.0025):
    """Hinge, ball and slider, all actuated: links that are easily spun about their long axis."""
    return MultibodySystem(
        [
            rod("upper", (0, 0, 0), (0.5, 0, 0), axial=axial),
            rod("lower", (0.5, 0, 0), (1, 0, 0), axial=axial),
            rod("tool", (0.95, 0, 0), (1.25, 0, 0), mass=0.5, axial=axial),
        ],
        [
            Joint("R", "ground", "upper", axis=Z, name="hinge"),
            Joint("S", "upper", "lower", point=(0.5, 0, 0), name="ball"),
            Joint("P", "lower", "tool", point=(1, 0, 0), axis=(1, 0, 0), name="slide"),
        ],
        gravity=(0, 0, -9.81),
    )


ARM = ("hinge", "ball.rx", "ball.ry", "ball.rz", "slide")
REACH = dict(zip(ARM, (1.0, 0.8, -0.6, 1.0, 0.2), strict=True))


def random_goals(count=10, seed=0):
    """Goals of the thin arm."""
    rng = np.random.default_rng(seed)
    parts = [[rng.uniform(-1.5, 1.5, 1), rng.uniform(-1.2, 1.2, 3), rng.uniform(-0.2, 0.3, 1)] for _ in range(count)]
    return [dict(zip(ARM, np.concatenate(p), strict=True)) for p in parts]


def five_bar():
    """Two driven cranks that meet in a hinge: five rows of closure, of which two are independent."""
    a, b, c, d, e = (0, 0, 0), (-0.4, 0.8, 0), (0.5, 1.5, 0), (1.4, 0.8, 0), (1, 0, 0)
    return MultibodySystem(
        [rod("l1", a, b), rod("l2", b, c), rod("r1", e, d), rod("r2", d, c)],
        [
            Joint("R", "ground", "l1", point=a, axis=Z),
            Joint("R", "l1", "l2", point=b, axis=Z, actuated=False),
            Joint("R", "ground", "r1", point=e, axis=Z),
            Joint("R", "r1", "r2", point=d, axis=Z, actuated=False),
            Joint("R", "l2", "r2", point=c, axis=Z, actuated=False, name="tip"),
        ],
        gravity=(0, -9.81, 0),
    )


def four_bar():
    """Crank and rocker with a coupler on a ball joint and a hinge (R-S-R-R): five rows, four independent."""
    a, b, c, d = (0, 0, 0), (0, 0.5, 0), (1.2, 0.9, 0), (1.2, 0, 0)
    return MultibodySystem(
        [rod("crank", a, b), rod("coupler", b, c), rod("rocker", d, c)],
        [
            Joint("R", "ground", "crank", point=a, axis=Z),
            Joint("S", "crank", "coupler", point=b, actuated=False),
            Joint("R", "ground", "rocker", point=d, axis=Z, actuated=False),
            Joint("R", "rocker", "coupler", point=c, axis=Z, actuated=False, name="pin"),
        ],
        gravity=(0, -9.81, 0),
    )


def spatial_four_bar():
    """R-S-U-R with axes that are not parallel: four rows, all independent."""
    a, b, c, d = (0, 0, 0), (0, 0.4, 0.1), (1.1, 0.7, 0.5), (1.0, 0, 0.4)
    return MultibodySystem(
        [rod("crank", a, b), rod("coupler", b, c), rod("rocker", d, c)],
        [
            Joint("R", "ground", "crank", point=a, axis=Z),
            Joint("S", "crank", "coupler", point=b, actuated=False),
            Joint("R", "ground", "rocker", point=d, axis=(0.3, 0, 1), actuated=False),
            Joint("U", "rocker", "coupler", point=c, axis=Z, inplane=(1, 0, 0), actuated=False, name="cross"),
        ],
        gravity=(0, -9.81, 0),
    )
