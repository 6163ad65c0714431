"""Values measured with another implementation (trep 1.0) at random states: reference/lagrangian.json.

L with derivatives to the third order, h, continuous dynamics and multipliers with first and second derivatives,
wrenches, poses and body velocities: the closed-chain device, the marionette, an 8-link pendulum and a chain in space.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dalembert as da
from tests.core.paper002 import Tree

DATA: dict[str, Any] = json.loads((Path(__file__).parent.parent / "reference" / "lagrangian.json").read_text())


def closed_chain() -> da.Model:
    return da.models.load("closed_chain")


def marionette() -> da.Model:
    return da.models.load("marionette")


def pendulum8() -> da.Model:
    model = da.models.n_link(8)
    forces = [da.Damping(0.3), da.ConfigForce("link-0", "u0"), da.ConfigForce("link-3", "u3")]
    return da.Model(model.frames, [*model.elements, *forces])


def chain3d(*elements: da.Element, turned: bool = True) -> da.Model:
    """No gravity; the wrenches were measured without the fixed transform in the middle."""
    fixed = [[0, -1, 0, 0.1], [1, 0, 0, 0.2], [0, 0, 1, 0.3], [0, 0, 0, 1]] if turned else np.eye(4)
    tip = da.tx(0.5, name="tip", mass=0.7, inertia=(0.1, 0.2, 0.3))
    end = da.ry("d", tip, mass=1.0, inertia=(2, 3, 4))
    return da.Model([da.rx("a", da.ty("b", da.rz("c", da.se3(fixed, end))))], elements)


class Case:
    """One entry of the file with its model; arrays of q in the order of our model."""

    def __init__(self, key: str, model: da.Model) -> None:
        self.data, self.model = DATA[key], model
        names = self.data.get("q_names", list(model.variables))
        self.place = np.array([model.index(name) for name in names])  # their variable -> ours
        self.q, self.v = self.ours(self["q"], 0), self.ours(self["dq"], 0)

    def __getitem__(self, key: str) -> np.ndarray:
        x = self.data[key]
        if isinstance(x, dict):
            full = np.zeros(int(np.prod(x["shape"])))
            full[x["index"]] = x["value"]
            return full.reshape(x["shape"])
        return np.array(x)

    def ours(self, x: np.ndarray, *axes: int) -> np.ndarray:
        """Permute axes over variables from their order to ours."""
        for axis in axes:
            order = np.argsort(self.place[: x.shape[axis]])
            x = np.take(x, order, axis=axis)
        return x


def case(key: str) -> Case:
    model = {"pccd_listing1_random": closed_chain, "puppet_random": marionette, "pendulum8_random": pendulum8}[key]()
    return Case(key, model)


def close(ours: Any, reference: Any, tolerance: float = 1e-10) -> None:
    a, b = np.asarray(ours, dtype=float), np.asarray(reference, dtype=float)
    assert a.size == b.size
    a = a.reshape(b.shape)
    scale = max(1.0, float(np.abs(b).max(initial=0.0)))
    assert float(np.abs(a - b).max(initial=0.0)) <= tolerance * scale


SYSTEMS = ["pccd_listing1_random", "puppet_random", "pendulum8_random"]


@pytest.mark.parametrize("key", SYSTEMS)
def test_lagrangian(key: str) -> None:
    c = case(key)
    m, q, v = c.model, c.q, c.v
    close(da.lagrangian(m, q, v), c["L"])
    close(da.kinetic_energy(m, q, v) + da.potential_energy(m, q), c["total_energy"])
    lq, lv = da.lagrangian_first(m, q, v)
    close(lq, c.ours(c["L_dq"], 0))
    close(lv, c.ours(c["L_ddq"], 0))
    qq, qv, vv = da.lagrangian_second(m, q, v)
    close(qq, c.ours(c["L_dqdq"], 0, 1))
    close(qv.T, c.ours(c["L_ddqdq"], 0, 1))
    close(vv, c.ours(c["L_ddqddq"], 0, 1))


@pytest.mark.parametrize("key", SYSTEMS)
def test_third_derivatives_of_the_lagrangian(key: str) -> None:
    c = case(key)
    for n, triple in enumerate(c["triples"]):
        i, j, k = c.place[triple]
        qqq, qvq, vvq = da.lagrangian_third(c.model, c.q, c.v, np.eye(c.model.nq)[k])
        close(qqq[i, j], c["L_dqdqdq"][n])
        close(qvq[j, i], c["L_ddqdqdq"][n])
        close(vvq[i, j], c["L_ddqddqdq"][n])


@pytest.mark.parametrize("key", SYSTEMS[:2])
def test_constraints(key: str) -> None:
    c = case(key)
    m, q = c.model, c.q
    close(da.constraints(m, q), c["h"])
    close(da.constraint_jacobian(m, q), c.ours(c["h_dq"], 1))
    close(da.constraint_hessian(m, q), c.ours(c["h_dqdq"], 1, 2))
    for row in range(m.nc):
        weight = np.eye(m.nc)[row]
        for n, triple in enumerate(c["triples"]):
            i, j, k = c.place[triple]
            third = da.constraint_third(m, q, np.eye(m.nq)[k], weight)
            close(third[i, j], c["h_dqdqdq_triples"][row, n])


@pytest.mark.parametrize("key", SYSTEMS)
def test_continuous_dynamics(key: str) -> None:
    """f() with f_dq, f_ddq, f_dddk, f_du and the same of lambda; samples of the second derivatives."""
    c = case(key)
    m, u, ddk = c.model, c["u"], c["ddqk"]
    ddk = c.ours(np.concatenate([np.zeros(m.nd), ddk]), 0)[m.nd :]
    a = da.acceleration(m, c.q, c.v, u, ddk, derivatives=True)
    close(a.ddq[: m.nd], c.ours(c["f"], 0))
    close(-a.lam, c["lambda"])  # trep's force is +Dh^T lambda here, and -Dh^T lambda in its steps
    rows = np.argsort(c.place[: m.nd])
    for ours, name in ((a.ddq_q, "f_dq"), (a.ddq_v, "f_ddq")):
        close(ours, c.ours(c[name][rows], 1))
    close(a.ddq_u, c["f_du"][rows])
    kinematic = np.argsort(c.place[m.nd :])
    close(a.ddq_k, c["f_dddk"][rows][:, kinematic] if m.nk else c["f_dddk"])
    if m.nc:
        close(-a.lam_q, c.ours(c["lambda_dq"], 1))
        close(-a.lam_v, c.ours(c["lambda_ddq"], 1))
        close(-a.lam_k, c["lambda_dddk"][:, kinematic] if m.nk else c["lambda_dddk"])
    second = da.acceleration_second(m, c.q, c.v, u, ddk)[0]
    for n, (out, i, j) in enumerate(c.place[c["f2_triples_out_i_j"]]):
        close(second[out, i, j], c["f_dqdq"][n], 1e-9)
        close(second[out, m.nq + i, j], c["f_ddqdq"][n], 1e-9)
        close(second[out, m.nq + i, m.nq + j], c["f_ddqddq"][n], 1e-9)


def test_chain_in_space() -> None:
    """Pose and body velocity of the tip with derivatives (the recursions in paper002.py), L, accelerations."""
    c = Case("chain3d", chain3d())
    m, q, v = c.model, c.q, c.v
    close(da.lagrangian(m, q, v), c["L"])
    close(da.acceleration(m, q, v).ddq, c["f"])
    close(da.pose(m, q, "tip"), c["g"])
    close(da.pose(m, q, "tip")[:, 3], c["p"])
    tree, k, n = Tree(m, q, v), m.frame_index("tip"), range(m.nq)
    close(np.linalg.inv(tree.g(k)), c["g_inv"])
    close([tree.g_q(k, i) for i in n], c["g_dq"])
    close([[tree.g_qq(k, i, j) for j in n] for i in n], c["g_dqdq"])
    close(tree.v(k), c["vb"])
    close([tree.v_q(k, i) for i in n], c["vb_dq"])
    close([tree.v_v(k, i) for i in n], c["vb_ddq"])
    close([[tree.v_qq(k, i, j) for j in n] for i in n], c["vb_dqdq"])
    close([[tree.v_qv(k, j, i) for j in n] for i in n], c["vb_ddqdq"])


@pytest.mark.parametrize(("key", "axes"), [("Body", "body"), ("Spatial", "world"), ("Hybrid", "mixed")])
def test_wrenches(key: str, axes: str) -> None:
    wrench = da.Wrench("tip", ("fx", 0.3, "fz"), (0.1, "ty", -0.2), axes)
    c = Case(f"wrench_{key}Wrench", chain3d(wrench, turned=False))
    m, q, v, u = c.model, c.q, c.v, np.array([0.5, -0.7, 0.9])
    close(da.force(m, q, v, u), c["f"])
    fq, _, fu = da.force_first(m, q, v, u)
    close(fq, c["f_dq"])
    close(fu, c["f_du"])
    for row in range(4):
        qq, _, _, qu, _, _ = da.force_second(m, q, v, u, np.eye(4)[row])
        close(qq, c["f_dqdq"][row])
        close(qu.T, c["f_dudq"][row])
    close(da.acceleration(m, q, v, u).ddq, c["ddq"])
