"""Models and reference problems that several tests share."""

from __future__ import annotations

import json
import pathlib

import numpy as np

import dalembert as da
from dalembert import Kinematic, rz, tx, ty

REFERENCE = pathlib.Path(__file__).parent.parent / "reference"


def reference(name):
    return json.loads((REFERENCE / name).read_text())


def pendulum():
    return da.Model(
        [rz("theta", ty(-1.0, name="bob", mass=1.0))],
        [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque")],
        name="pendulum",
    )


def cart_pendulum(cart=1.0, damping=0.0):
    elements = [da.Gravity((0, -9.8, 0)), da.ConfigForce("x", "force")]
    if damping:
        elements.insert(1, da.Damping(damping))
    return da.Model(
        [tx("x", rz("theta", ty(-1.0, name="bob", mass=1.0)), name="cart", mass=cart)], elements, name="cart pendulum"
    )


def driven_pendulum():
    """A pendulum below a prescribed cart, with a torque: a kinematic input and a force."""
    return da.Model(
        [tx(Kinematic("x"), rz("theta", ty(-1.0, name="bob", mass=1.0)), name="cart")],
        [da.Gravity((0, -9.8, 0)), da.ConfigForce("theta", "torque"), da.Damping(0.1)],
        name="driven pendulum",
    )


def hanging():
    """A mass on a string whose length and top are prescribed: constraint, kinematic inputs, no forces."""
    return da.Model(
        [tx("x", ty("y", name="bob", mass=1.0)), tx(Kinematic("top"), name="top")],
        [da.Gravity((0, -9.8, 0)), da.Distance("top", "bob", Kinematic("length")), da.Damping(0.2)],
        name="hanging mass",
    )


def swing_up():
    """(Xd, Ud), Q, R, (X0, U0) of Johnson, Schultz, Murphey, Structured linearization, section VIII-A."""
    r = reference("pend_opt.json")
    return (np.array(r["Xd"]), np.array(r["Ud"])), r["Q"], r["R"], (np.array(r["X0"]), np.array(r["U0"]))


def left_system(model, dt, steps):
    """The compiled System with all of a step's force on the left, as the reference data have it."""
    return da.System(da.MidpointVI(model, dt, forcing="left"), steps=steps)
