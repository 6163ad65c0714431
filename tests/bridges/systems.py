"""Systems for the bridges: flat, prescribed, closed, with balls, of higher order, with stages, and a map that is no integrator."""

import numpy as np

import dalembert as da
from dalembert import models

from .. import balls, maps


def cart():
    return da.System(da.MidpointVI(models.cart_pole(), 0.05), steps=8), np.array([0.1, 0.4, 0.3, -0.2])


def forced(model):
    """The model with a motor on its first and its last variable."""
    motors = [da.ConfigForce(model.dynamic[i], f"motor{i}", gear=1.5) for i in (0, -1)]
    return da.Model(model.frames, [*model.elements, *motors])


def four_links():
    model = forced(models.n_link(4))
    system = da.System(da.MidpointVI(model, 0.05, order=4), steps=5)
    return system, np.random.default_rng(1).normal(0, 0.4, system.nx)


def gauss():
    model = forced(models.n_link(2))
    system = da.System(da.GaussVI(model, 0.1, order=4), steps=5)
    return system, np.random.default_rng(2).normal(0, 0.4, system.nx)


def crane():
    model = models.load("crane")
    system = da.System(da.MidpointVI(model, 0.02), steps=6)
    q = da.satisfy_constraints(model, model.neutral() + 0.1) if model.nc else model.neutral() + 0.1
    return system, system.x(q)


def closed_chain():
    plain, q = models.load_with_configurations("closed_chain")
    model = forced(plain)
    system = da.System(da.MidpointVI(model, 0.02), steps=5)
    return system, system.x(next(iter(q.values())))


def floating():
    model = balls.mechanism(3)
    vi = da.MidpointVI(model, 0.03)
    system = da.System(vi, steps=4)
    s = balls.start(vi, 3)
    return system, np.concatenate([s.q, s.p])


def rk4():
    model = models.cart_pole()
    return da.System(maps.RK4(model, 0.05), steps=4), np.array([0.1, 0.4, 0.3, -0.2])


ALL = {f.__name__: f for f in (cart, four_links, gauss, crane, closed_chain, floating, rk4)}


def inputs(system, x0, seed=0, batch=3, scale=0.3):
    """Starts (batch, nx) near x0 and inputs (batch, N, nu) near rest."""
    rng = np.random.default_rng(seed)
    starts = np.stack([system.retract(x0, 0.02 * rng.normal(size=system.ndx)) for _ in range(batch)])
    U = scale * rng.normal(size=(batch, system.steps, system.nu))
    if system.model is not None and system.model.nk and system.nu > system.model.nu:
        nu, nq, nk = system.model.nu, system.model.nq, system.model.nk
        U[..., nu:] = starts[:, None, nq - nk : nq] + 0.01 * np.cumsum(U[..., nu:], axis=1)
    return starts, U
