"""The mechanisms of the benchmarks, described once: a tree of one-variable links and pins between points of two links.

Every tool builds the same mechanism from this description, so that coordinates (relative joint variables in the order of
the links), masses and starting states agree. Gravity is 9.8 m/s^2 along -z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Point = tuple[float, float, float]
GRAVITY = 9.8
AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class Link:
    """A link whose joint ("r" turns, "p" slides, about or along `axis`) sits at `offset` in the frame of its parent."""

    name: str
    parent: int
    kind: str
    axis: str
    offset: Point
    mass: float
    com: Point
    inertia: Point


@dataclass(frozen=True)
class Machine:
    """Links in an order where parents come first (-1 is the world), pins (link, point, link, point), start at rest."""

    name: str
    links: tuple[Link, ...]
    q0: tuple[float, ...]
    pins: tuple[tuple[int, Point, int, Point], ...] = ()

    @property
    def n(self) -> int:
        return len(self.links)


def n_link(n: int, angle: float = np.pi / 2) -> Machine:
    """A pendulum of n links, m = 1, L = 1, I = 0.1 at the lower ends; the first joint starts at `angle`, the rest at 0."""
    links = [
        Link(f"link{i}", i - 1, "r", "x", (0, 0, -1.0 if i else 0), 1.0, (0, 0, -1.0), (0.1, 0.1, 0.1))
        for i in range(n)
    ]
    return Machine(f"n_link_{n}", tuple(links), (angle,) + (0.0,) * (n - 1))


def tree(limbs: int = 4) -> Machine:
    """A puppet-like open tree: 6 joints of the root, 3 of the spine, 3 of the neck, 7 per limb: 40 variables for 4 limbs.

    Every link has mass, because some of the tools refuse massless moving links.
    """
    links: list[Link] = []

    def chain(name: str, parent: int, joints: Sequence[tuple[str, str, Point]], reach: Point) -> int:
        for i, (kind, axis, offset) in enumerate(joints):
            com = (reach[0] / 2, reach[1] / 2, reach[2] / 2)
            links.append(Link(f"{name}{i}", parent, kind, axis, offset, 0.3, com, (0.02, 0.03, 0.01)))
            parent = len(links) - 1
        return parent

    o: Point = (0.0, 0.0, 0.0)
    root = chain("root", -1, [("p", a, o) for a in "xyz"] + [("r", a, o) for a in "xyz"], (0.0, 0.0, 0.2))
    spine = chain("spine", root, [("r", a, (0.0, 0.0, 0.1)) for a in "xyz"], (0.0, 0.0, 0.3))
    chain("neck", spine, [("r", a, (0.0, 0.0, 0.1)) for a in "xyz"], (0.0, 0.0, 0.2))
    for i in range(limbs):
        side, up = (-0.2 if i % 2 else 0.2), (spine if i < 2 else root)
        drop: Point = (0.0, 0.0, -0.3)
        joints = [("r", "x", (side, 0.0, 0.0)), ("r", "y", o), ("r", "z", o), ("r", "x", drop)]
        joints += [("r", "x", drop), ("r", "y", o), ("r", "z", o)]
        chain(f"limb{i}_", up, joints, drop)
    q0 = tuple(float(x) for x in 0.3 * np.sin(1.0 + np.arange(len(links))))
    return Machine(f"tree_{len(links)}", tuple(links), q0)


def cart_pole(_: int = 0) -> Machine:
    """A cart along x with a hanging pole: all masses and lengths 1."""
    cart = Link("cart", -1, "p", "x", (0, 0, 0), 1.0, (0, 0, 0), (0.1, 0.1, 0.1))
    pole = Link("pole", 0, "r", "y", (0, 0, 0), 1.0, (0, 0, -1.0), (0.01, 0.01, 0.01))
    return Machine("cart_pole", (cart, pole), (0.0, 0.0))


LENGTH = 5.0


def scissor(segments: int = 5, theta: float = np.pi / 20) -> Machine:
    """The hanging scissor lift (Johnson, Murphey, Scalable variational integrators, section VI-C), L = 5, m = I = 1."""
    links: list[Link] = [Link("slider", -1, "p", "x", (0, 0, 0), 1.0, (0, 0, 0), (0.1, 0.1, 0.1))]
    centre: Point = (LENGTH / 2, 0.0, 0.0)
    turn = [np.pi - 2 * theta if i % 2 else np.pi + 2 * theta for i in range(segments)]
    q0 = [LENGTH * np.cos(theta)]
    ends: dict[str, list[int]] = {}
    for side in "RL":
        parent = 0 if side == "R" else -1
        ends[side] = []
        for i in range(segments):
            offset: Point = (LENGTH if i else 0.0, 0.0, 0.0)
            links.append(Link(f"{side}{i}", parent, "r", "y", offset, 1.0, centre, (1.0, 1.0, 1.0)))
            parent = len(links) - 1
            ends[side].append(parent)
            first = np.pi - theta if side == "R" else theta
            q0.append(float(first if i == 0 else 2 * np.pi - turn[i] if side == "R" else turn[i]))
    pins = tuple((r, centre, left, centre) for r, left in zip(ends["R"], ends["L"], strict=True))
    return Machine(f"scissor_{segments}", tuple(links), tuple(float(x) for x in q0), pins)


def scissor_angle(segments: int, q: Any) -> Any:
    """theta of configurations (..., 2 segments + 1)."""
    return np.asarray(q)[..., 1 + segments]


def scissor_exact(segments: int, t: np.ndarray, theta: float = np.pi / 20) -> np.ndarray:
    """theta(t) from the exact Lagrangian of the one degree of freedom, L = A(theta) w^2 + G sin(theta), to 1e-12."""
    from scipy.integrate import solve_ivp

    mass, inertia, slider = 1.0, 1.0, 1.0
    lever = np.arange(1, segments + 1) - 0.5
    a = mass * LENGTH**2 * float((lever**2).sum())
    b = mass * LENGTH**2 * segments / 4 + 0.5 * slider * LENGTH**2
    g = 2 * mass * GRAVITY * LENGTH * float(lever.sum())

    def rate(_: float, y: np.ndarray) -> list[float]:
        s, c = np.sin(y[0]), np.cos(y[0])
        value, slope = a * c * c + b * s * s + segments * inertia, 2 * (b - a) * s * c
        return [y[1], (g * c - slope * y[1] ** 2) / (2 * value)]

    return solve_ivp(rate, (0, t[-1]), [theta, 0.0], "DOP853", t_eval=t, rtol=1e-13, atol=1e-13).y[0]


# ---- the same mechanism in the languages of the tools


def to_dalembert(machine: Machine, *, inputs: bool = False) -> Any:
    """A dalembert Model; `inputs` adds a generalized force per variable."""
    import dalembert as da

    turn = {"x": da.rx, "y": da.ry, "z": da.rz}
    slide = {"x": da.tx, "y": da.ty, "z": da.tz}

    def moved(offset: Point, frames: list[Any]) -> list[Any]:
        """Frames shifted by a constant offset, without frames for zeros."""
        for axis, value in zip("zyx", offset[::-1], strict=True):
            if value:
                frames = [slide[axis](value, *frames)]
        return frames

    def body(link: Link) -> list[Any]:
        axes = [a for a, value in zip("xyz", link.com, strict=True) if value]
        name = f"{link.name} centre"
        if not axes:
            return []
        frame = slide[axes[-1]](link.com["xyz".index(axes[-1])], name=name, mass=link.mass, inertia=link.inertia)
        for a in axes[-2::-1]:
            frame = slide[a](link.com["xyz".index(a)], frame)
        return [frame]

    def build(index: int) -> list[Any]:
        link = machine.links[index]
        below = [f for i, other in enumerate(machine.links) if other.parent == index for f in build(i)]
        own = body(link)
        make = (turn if link.kind == "r" else slide)[link.axis]
        facts = {} if own else {"mass": link.mass, "inertia": link.inertia}
        return moved(link.offset, [make(link.name, *own, *below, name=f"{link.name} frame", **facts)])

    roots = [f for i, link in enumerate(machine.links) if link.parent < 0 for f in build(i)]
    elements: list[Any] = [da.Gravity((0, 0, -GRAVITY))]
    plane = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    for a, point, b, other in machine.pins:
        assert (point, other) == (machine.links[a].com, machine.links[b].com)
        names = [f"{machine.links[i].name} centre" for i in (a, b)]
        elements.append(da.PointToPoint(*names, plane))
    if inputs:
        elements += [da.ConfigForce(link.name, input=f"u.{link.name}") for link in machine.links]
    return da.Model(roots, elements, machine.name)


def from_model_order(machine: Machine, model: Any) -> np.ndarray:
    """Indices that bring a dalembert configuration into the order of the links: q_links = q_model[..., order]."""
    return np.array([model.index(link.name) for link in machine.links])


def to_text(machine: Machine) -> str:
    """Plain numbers for the C++ program."""
    rows = [f"{machine.n} {len(machine.pins)}"]
    for link in machine.links:
        numbers = [*AXES[link.axis], *link.offset, link.mass, *link.com, *link.inertia]
        rows.append(f"{link.parent} {link.kind} " + " ".join(repr(float(x)) for x in numbers))
    for a, point, b, other in machine.pins:
        rows.append(" ".join(str(x) for x in (a, *point, b, *other)))
    rows.append(" ".join(repr(float(x)) for x in machine.q0))
    return "\n".join(rows) + "\n"


def to_urdf(machine: Machine) -> str:
    """URDF; the world is the link "base"."""

    def triple(p: Sequence[float]) -> str:
        return " ".join(repr(float(x)) for x in p)

    out = [f'<robot name="{machine.name}">', '<link name="base"/>']
    for link in machine.links:
        x, y, z = link.inertia
        out.append(
            f'<link name="{link.name}"><inertial><origin xyz="{triple(link.com)}"/><mass value="{link.mass}"/>'
            f'<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        )
        parent = "base" if link.parent < 0 else machine.links[link.parent].name
        kind = "continuous" if link.kind == "r" else "prismatic"
        limit = "" if link.kind == "r" else '<limit lower="-1e6" upper="1e6" effort="1e9" velocity="1e9"/>'
        out.append(
            f'<joint name="j_{link.name}" type="{kind}"><parent link="{parent}"/><child link="{link.name}"/>'
            f'<origin xyz="{triple(link.offset)}"/><axis xyz="{triple(AXES[link.axis])}"/>{limit}'
            '<dynamics damping="0" friction="0"/></joint>'
        )
    return "\n".join([*out, "</robot>"])


def to_mjcf(
    machine: Machine, dt: float, integrator: str, *, solref: float | None = None, actuated: bool = False
) -> str:
    """MJCF; pins become `connect` equalities with a time constant `solref` (default 2 dt, the tightest that it takes)."""

    def triple(p: Sequence[float]) -> str:
        return " ".join(repr(float(x)) for x in p)

    def body(index: int) -> str:
        link = machine.links[index]
        kind = "hinge" if link.kind == "r" else "slide"
        below = "".join(body(i) for i, other in enumerate(machine.links) if other.parent == index)
        return (
            f'<body name="{link.name}" pos="{triple(link.offset)}"><joint name="j_{link.name}" type="{kind}" '
            f'axis="{triple(AXES[link.axis])}"/><inertial pos="{triple(link.com)}" mass="{link.mass}" '
            f'diaginertia="{triple(link.inertia)}"/>{below}</body>'
        )

    roots = "".join(body(i) for i, link in enumerate(machine.links) if link.parent < 0)
    pins = "".join(
        f'<connect body1="{machine.links[a].name}" body2="{machine.links[b].name}" anchor="{triple(point)}" '
        f'solref="{solref or 2 * dt} 1" solimp="0.9999 0.9999 0.001"/>'
        for a, point, b, _ in machine.pins
    )
    motors = "".join(f'<motor joint="j_{link.name}"/>' for link in machine.links) if actuated else ""
    return (
        f'<mujoco><compiler autolimits="false" angle="radian"/>'
        f'<option timestep="{dt!r}" integrator="{integrator}" gravity="0 0 {-GRAVITY}" tolerance="1e-12" iterations="100">'
        '<flag contact="disable"/></option>'
        f"<worldbody>{roots}</worldbody><equality>{pins}</equality><actuator>{motors}</actuator></mujoco>"
    )


# ---- a disk that rolls on a plane and falls
DISK_RADIUS, DISK_INERTIA = 0.5, (0.0625, 0.125, 0.0625)  # m, kg m^2 at 1 kg, axis y
BODY_INERTIA, BODY_RATES = (0.01, 0.012, 0.02), (0.5, 8.0, 0.1)  # of the tumbling body of 1 kg, along its axes
DISK_LEAN, DISK_RATES = 0.2, (0.1, 6.0, 0.5)  # rad about x; rad/s along its axes
