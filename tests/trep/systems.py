"""The systems of the reference numbers, written as trep scripts."""

import json
from math import pi
from pathlib import Path

import numpy as np

import dalembert.trep as trep
from dalembert.trep import puppets, rx, ry, rz, tx, ty, tz

REFERENCE = Path(__file__).parent.parent / "reference"


def place(name):
    """A file of reference numbers: of this room if it is there, else shared with the others."""
    own = REFERENCE / "trep" / name
    return own if own.exists() else REFERENCE / name


def read(name):
    return json.loads(place(name).read_text())


def pendulum():
    system = trep.System()
    system.import_frames([rz("theta_1", name="PendAngle"), [ty(-1.0, name="PendMass", mass=1.0)]])
    trep.potentials.Gravity(system, (0, -9.8, 0))
    trep.forces.ConfigForce(system, "theta_1", "tau")
    return system


def closed_chain():
    """Scalable variational integrators, Listing 1."""
    system = trep.System()
    system.import_frames(
        [
            *(
                ry("J", name="J"),
                [
                    tz(-0.5, name="I", mass=1),
                    tz(-1.0),
                    [ry("H", name="H"), [tz(-1.0, name="G", mass=1), tz(-2.0, name="O2")]],
                ],
            ),
            *(
                tx(-1.5),
                [
                    ry("K", name="K"),
                    [
                        tz(-1.0, name="L", mass=1),
                        tz(-2.0),
                        [ry("M", name="M"), [tz(-0.5, name="N", mass=1), tz(-1.0, name="O")]],
                    ],
                ],
            ),
            tx(1.5),
            [
                ry("A", name="A"),
                [
                    tz(-1.0, name="B", mass=1),
                    tz(-2.0),
                    [
                        ry("C", name="C"),
                        [
                            tz(-0.375, name="D", mass=1),
                            tz(-0.75),
                            [ry("E", name="E"), [tz(-0.5, name="F", mass=1), tz(-1.0, name="G2")]],
                        ],
                    ],
                ],
            ],
        ]
    )
    trep.potentials.Gravity(system, (0, 0, -9.81))
    trep.constraints.PointToPoint2D(system, "xz", "G", "G2")
    trep.constraints.PointToPoint2D(system, "xz", "O", "O2")
    return system


def links(n):
    """N-link pendulum."""
    system = trep.System()
    parent = system.world_frame
    for i in range(n):
        joint = trep.Frame(parent, trep.RX, f"link-{i}")
        parent = trep.Frame(joint, trep.TZ, -1.0, mass=(1.0, 1.0, 1.0, 1.0))
    trep.potentials.Gravity(system)
    return system


def chain3d(turned=True):
    """A chain in space; with a turned link in its middle, or straight."""
    system = trep.System()
    tip = [tx(0.5, name="tip", mass=(0.7, 0.1, 0.2, 0.3))]
    end = [ry("d", name="d", mass=(1.0, 2.0, 3.0, 4.0)), tip]
    if turned:
        end = [trep.const_se3(([0, 1, 0], [-1, 0, 0], [0, 0, 1], [0.1, 0.2, 0.3])), end]
    system.import_frames([rx("a"), [ty("b"), [rz("c"), end]]])
    return system


def scissor(segments, link=5.0):
    """Two lines of links, crossing at their middles; see scissor.json for the order and meaning of the angles."""
    system = trep.System()
    world = system.world_frame
    slider = trep.Frame(world, trep.TX, "SLIDER", name="SLIDER", mass=1.0)
    left, right = world, slider
    for n in range(segments):
        new = []
        for side, parent in (("L", left), ("R", right)):
            joint = trep.Frame(parent, trep.RY, f"{side}{n:02d}", name=f"{side}{n:02d}")
            trep.Frame(joint, trep.TX, link / 2, name=f"{side}M{n:02d}", mass=(1.0, 1.0, 1.0, 1.0))
            new.append(trep.Frame(joint, trep.TX, link, name=f"{side}E{n:02d}"))
        trep.constraints.PointToPoint2D(system, "xz", f"LM{n:02d}", f"RM{n:02d}")
        left, right = new[1], new[0]
    trep.potentials.Gravity(system, (0, 0, -9.8))
    return system


def marionette():
    puppet = puppets.Puppet(string_constraints=True)
    puppet.q = {
        **{"torso_rx": -0.05, "torso_tz": 0.0, "lelbow_rx": 1.57, "relbow_rx": 1.57},
        **{"lhip_rx": pi / 2 - 0.6, "rhip_rx": pi / 2 - 0.6, "lknee_rx": -pi / 2 + 0.6, "rknee_rx": -pi / 2 + 0.6},
    }
    puppet.project_string_controls()
    return puppet


def walk(puppet, k0, t):
    """Kinematic values of the walk at time t."""
    signs = {"left_leg": -1, "right_leg": 1, "left_arm": 1, "right_arm": -1}
    k = k0.copy()
    for limb, sign in signs.items():
        k[puppet.get_config(f"{limb}_string-length").k_index] += sign * 0.1 * np.sin(0.6 * pi * t)
    return k
