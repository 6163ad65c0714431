"""Small mechanisms used by the tests of control and estimation."""

import dalembert as da


def pendulum():
    """Pendulum of 000 and 001: m = l = 1, g = 9.8, torque."""
    return da.Model(
        [da.rx("theta", da.tz(-1.0, name="bob", mass=1.0))],
        [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", input="torque")],
    )


def cart_pole():
    return da.Model(
        [da.tx("x", da.rz("theta", da.ty(-1.0, name="bob", mass=1.0)), name="cart", mass=1.0)],
        [da.Gravity((0, -9.8, 0)), da.ConfigForce("x", input="push")],
    )


def winch_robot():
    """String-and-winch robot of 003, Fig. 1: a mass on a string of variable length under a driven robot."""
    return da.Model(
        [
            da.tx("xm", da.ty("ym", name="mass", mass=1.0)),
            da.tx(da.Kinematic("xr"), name="robot"),
        ],
        [da.Gravity((0, -9.81, 0)), da.Distance("mass", "robot", da.Kinematic("r"))],
    )


def rod_cart():
    """A cart and a bob in Cartesian coordinates, joined by a rod: one constraint, one force."""
    return da.Model(
        [
            da.tx("x", name="cart", mass=1.0),
            da.tx("xb", da.ty("yb", name="bob", mass=0.5)),
        ],
        [da.Gravity((0, -9.8, 0)), da.Distance("cart", "bob", 1.0), da.ConfigForce("x", input="push")],
    )
