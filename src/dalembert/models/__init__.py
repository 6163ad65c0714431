"""Ready-made models: functions that build them, and model files that ship with the package.

>>> from dalembert import models
>>> models.n_link(8).nq
8
>>> model, configurations = models.load_with_configurations("closed_chain")
>>> model.variables
('J', 'H', 'K', 'M', 'A', 'C', 'E')
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..errors import ModelError
from ..model import (
    ConfigForce,
    Distance,
    Frame,
    Gravity,
    Kinematic,
    Model,
    PointToPoint,
    RollingDisk,
    floating,
    free_euler,
    rx,
    ry,
    rz,
    se3,
    tx,
    ty,
    tz,
)

_FOLDER = Path(__file__).parent
_SUFFIXES = (".sexp", ".toml", ".json")


def names() -> tuple[str, ...]:
    """Names of the model files that ship with the package.

    >>> "marionette" in names()
    True
    """
    return tuple(sorted(p.stem for p in _FOLDER.iterdir() if p.suffix in _SUFFIXES))


def path(name: str) -> Path:
    """The file of a shipped model.

    >>> path("closed_chain").name
    'closed_chain.sexp'
    """
    for suffix in _SUFFIXES:
        file = _FOLDER / f"{name}{suffix}"
        if name and Path(name).name == name and file.is_file():
            return file
    raise ModelError(f"no model {name!r}; there are {', '.join(names())}", culprit=str(name))


def load(name: str) -> Model:
    """A shipped model.

    >>> load("cart_pole").inputs
    ('push',)
    """
    return formats.load(path(name))


def load_with_configurations(name: str) -> tuple[Model, dict[str, NDArray[np.float64]]]:
    """A shipped model and its named configurations {name: q (nq,)}; "q0" is where its examples start.

    >>> load_with_configurations("pendulum")[1]["q0"].shape
    (1,)
    """
    return formats.load_with_configurations(path(name))


# ---- small machines ------------------------------------------------------------------------------------------------


def pendulum(*, length: float = 1.0, mass: float = 1.0, gravity: float = 9.8) -> Model:
    """A point mass on a rod that swings about x; input: a torque (Structured linearization). theta = 0 hangs down.

    Units: m, kg, m/s^2.

    >>> pendulum().variables, pendulum().inputs
    (('theta',), ('torque',))
    """
    return Model(
        [rx("theta", tz(-length, name="bob", mass=mass), name="pivot")],
        [Gravity((0.0, 0.0, -gravity)), ConfigForce("theta", input="torque")],
        "pendulum",
    )


def cart_pole(*, length: float = 1.0, mass: float = 1.0, cart_mass: float = 1.0, gravity: float = 9.8) -> Model:
    """A cart on a rail (x), pushed by a force, with a pendulum (Trajectory optimization). theta = 0 hangs down (-y).

    >>> cart_pole().variables
    ('x', 'theta')
    """
    return Model(
        [tx("x", rz("theta", ty(-length, name="bob", mass=mass)), name="cart", mass=cart_mass)],
        [Gravity((0.0, -gravity, 0.0)), ConfigForce("x", input="push")],
        "cart_pole",
    )


def n_link(n: int, *, length: float = 1.0, mass: float = 1.0, inertia: float = 1.0, gravity: float = 9.8) -> Model:
    """A planar pendulum of n links (Scalable variational integrators, VI-A): mass and inertia at each lower end.

    >>> n_link(3).variables
    ('link-0', 'link-1', 'link-2')
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    frame: Frame | None = None
    for i in range(n - 1, -1, -1):
        below = () if frame is None else (frame,)
        end = tz(-length, *below, name=f"end-{i}", mass=mass, inertia=(inertia,) * 3)
        frame = rx(f"link-{i}", end)
    assert frame is not None
    return Model([frame], [Gravity((0.0, 0.0, -gravity))], f"n_link_{n}")


def spherical_pendulum(*, length: float = 1.0, mass: float = 1.0, gravity: float = 9.8) -> Model:
    """A point mass on a rod that swings about x and y; both angles 0 hang down (singular where theta_y is +-pi/2).

    >>> spherical_pendulum().variables
    ('theta_x', 'theta_y')
    """
    return Model(
        [rx("theta_x", ry("theta_y", tz(-length, name="bob", mass=mass)))],
        [Gravity((0.0, 0.0, -gravity))],
        "spherical_pendulum",
    )


def free_top(
    *, mass: float = 1.0, inertia: tuple[float, float, float] = (1.0, 2.0, 2.5), gravity: float = 0.0
) -> Model:
    """A rigid body that floats and tumbles freely, with three different principal moments (kg m^2).

    >>> free_top().nq
    6
    """
    body = free_euler("top", name="top", mass=mass, inertia=inertia)
    return Model([body], [Gravity((0.0, 0.0, -gravity))] if gravity else [], "free_top")


def bicycle() -> Model:
    """The benchmark bicycle of Meijaard, Papadopoulos, Ruina, Schwab 2007 (Whipple's model): rear frame with a rider, fork, two wheels that roll.

    In its neutral configuration it stands upright at the origin, x forward, y to the right, z down (gravity along +z), as the paper has it.
    Variables: the floating `frame`, the wheels' angles `rear`, `front` (negative rates roll forward), the angle `steer`.

    >>> bicycle().nd, bicycle().nc
    (9, 6)
    """
    tilt, wheelbase, trail = np.pi / 10, 1.02, 0.08

    def at(x: float, z: float, angle: float = 0.0) -> NDArray[np.float64]:
        pose = np.eye(4)
        pose[:3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
        pose[:3, 3] = x, 0.0, z
        return pose

    axis = at(wheelbase + trail - 0.7 * np.tan(tilt), -0.7, tilt)  # a point of the steering axis, z along it
    in_fork = np.linalg.inv(axis)
    front = ry("front", name="front wheel", mass=3.0, inertia=(0.1405, 0.28, 0.1405))
    bar = (0.05892, 0.06, 0.00708, 0.0, -0.00756, 0.0)
    fork = rz(
        "steer",
        se3(in_fork @ at(0.9, -0.7), name="handlebar", mass=4.0, inertia=bar),
        se3(in_fork @ at(wheelbase, -0.35), front),
    )
    rear = ry("rear", name="rear wheel", mass=2.0, inertia=(0.0603, 0.12, 0.0603))
    rider = se3(at(0.3, -0.9), name="rider", mass=85.0, inertia=(9.2, 11.0, 2.8, 0.0, 2.4, 0.0))
    frame = floating("frame", se3(at(0.0, -0.3), rear), rider, se3(axis, fork), name="frame")
    up = (0.0, 0.0, -1.0)
    wheels = [RollingDisk("rear wheel", 0.3, normal=up), RollingDisk("front wheel", 0.35, normal=up)]
    return Model([frame], [Gravity((0.0, 0.0, 9.81)), *wheels], "bicycle")


def crane(*, mass: float = 1.0, gravity: float = 9.8) -> Model:
    """The robot of Embedded control synthesis: a mass on a string of prescribed length r, below a robot at x_r.

    The mass has its own coordinates x (horizontal) and y (vertical).

    >>> crane().dynamic, crane().kinematic
    (('x', 'y'), ('x_r', 'r'))
    """
    return Model(
        [tx(Kinematic("x_r"), name="robot"), tx("x", ty("y", name="mass", mass=mass))],
        [Gravity((0.0, -gravity, 0.0)), Distance("robot", "mass", Kinematic("r"))],
        "crane",
    )


def string_puppet(*, height: float = 2.0, gravity: float = 9.8) -> Model:
    """A small puppet: a torso with two arms of two links in 3-D, hung on three strings with winches at a given height.

    Dynamic: the free torso and, per arm, shoulder (two angles) and elbow; kinematic: the lengths of the strings.

    >>> string_puppet().nd, string_puppet().kinematic
    (12, ('back', 'left', 'right'))
    """

    def arm(side: str, x: float) -> Frame:
        hand = tz(-0.3, name=f"{side}_hand", mass=0.2, inertia=(0.002, 0.002, 0.001))
        elbow = rx(f"{side}_elbow", hand)
        upper = rx(f"{side}_shoulder_x", tz(-0.15, mass=0.3, inertia=(0.003, 0.003, 0.001)), tz(-0.3, elbow))
        return tx(x, tz(0.25, ry(f"{side}_shoulder_y", upper)), name=f"{side}_shoulder")

    torso = free_euler(
        "torso", arm("left", -0.2), arm("right", 0.2), tz(0.3, ty(-0.1, name="back")), name="torso", mass=2.0,
        inertia=(0.05, 0.04, 0.03),
    )  # fmt: skip
    hooks = [tx(x, ty(y, tz(height, name=f"{name}_winch"))) for name, x, y in _HOOKS]
    strings = [
        Distance("back", "back_winch", Kinematic("back")),
        Distance("left_hand", "left_winch", Kinematic("left")),
        Distance("right_hand", "right_winch", Kinematic("right")),
    ]
    return Model([torso, *hooks], [Gravity((0.0, 0.0, -gravity)), *strings], "string_puppet")


_HOOKS = (("back", 0.0, -0.1), ("left", -0.2, 0.3), ("right", 0.2, 0.3))


def scissor_lift(
    segments: int = 5,
    *,
    length: float = 5.0,
    mass: float = 1.0,
    inertia: float = 1.0,
    slider_mass: float = 1.0,
    gravity: float = 9.8,
) -> Model:
    """A hanging scissor lift (Scalable variational integrators, VI-C): one degree of freedom, 2 segments + 1 variables.

    Link Lnn goes down to the right, link Rnn down to the left (angles about y, below the horizontal; relative to the
    link above from the second segment on); they are pinned at their centres. The upper left joint is fixed, the upper
    right one slides along x with the slider.

    Variables: the slider and the links below it, then the links below the fixed joint.

    >>> lift = scissor_lift(2)
    >>> lift.variables, lift.nc
    (('SLIDER', 'R00', 'L01', 'L00', 'R01'), 4)
    """
    if segments < 1:
        raise ValueError(f"segments must be at least 1, not {segments}")

    def chain(side: str) -> Frame:
        """The links that hang from one upper joint: they change sides at every segment."""
        frame: Frame | None = None
        for i in range(segments - 1, -1, -1):
            link = f"{side if i % 2 == 0 else 'LR'['RL'.index(side)]}{i:02d}"
            centre = tx(length / 2, name=f"{link} centre", mass=mass, inertia=(inertia,) * 3)
            ends = () if frame is None else (tx(length, frame),)
            frame = ry(link, centre, *ends, name=link)
        assert frame is not None
        return frame

    slider = tx("SLIDER", chain("R"), name="slider", mass=slider_mass)
    plane = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    pins = [PointToPoint(f"L{i:02d} centre", f"R{i:02d} centre", plane) for i in range(segments)]
    return Model([slider, chain("L")], [Gravity((0.0, 0.0, -gravity)), *pins], f"scissor_lift_{segments}")


def scissor_lift_configuration(theta: float, *, segments: int = 5, length: float = 5.0) -> NDArray[np.float64]:
    """The configuration (2 segments + 1,) of `scissor_lift` with its links `theta` (rad) below the horizontal.

    >>> scissor_lift_configuration(0.0, segments=1).round(3).tolist()
    [5.0, 3.142, 0.0]
    """
    turn = [np.pi - 2 * theta if i % 2 else np.pi + 2 * theta for i in range(segments)]  # below the fixed joint
    left = [theta, *turn[1:]]
    right = [np.pi - theta, *(2 * np.pi - x for x in turn[1:])]
    return np.array([length * np.cos(theta), *right, *left])


__all__ = [
    "bicycle",
    "cart_pole",
    "crane",
    "free_top",
    "load",
    "load_with_configurations",
    "n_link",
    "names",
    "path",
    "pendulum",
    "scissor_lift",
    "scissor_lift_configuration",
    "spherical_pendulum",
    "string_puppet",
]
