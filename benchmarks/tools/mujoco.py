"""MuJoCo. Rollouts call `mj_step` with a step count, so that the loop runs in C."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from .. import machines
from . import Case


def version() -> str:
    return mujoco.__version__


def _machine(machine: str, size: int, **options: Any) -> tuple[machines.Machine, Any, Any]:
    m = getattr(machines, machine)(size)
    model = mujoco.MjModel.from_xml_string(machines.to_mjcf(m, **options))
    assert model.nv == m.n
    # bodies are listed in depth-first order, joints with them; the description is too
    assert [model.joint(i).name for i in range(m.n)] == [f"j_{link.name}" for link in m.links]
    return m, model, mujoco.MjData(model)


def rollout(
    machine: str, size: int, dt: float, steps: int, every: int, method: str, solref: float | None = None
) -> Case:
    """Integrators Euler, implicit, implicitfast, RK4."""
    m, model, data = _machine(machine, size, dt=dt, integrator=method, solref=solref)
    count = steps // every

    def run() -> Any:
        mujoco.mj_resetData(model, data)
        data.qpos[:] = m.q0
        states = np.empty((count, 2, m.n))
        for i in range(count):
            mujoco.mj_step(model, data, nstep=every)
            states[i, 0], states[i, 1] = data.qpos, data.qvel
        if data.warning.number.any():
            raise ArithmeticError("the simulation became unstable and was reset")
        return states

    return Case(run, lambda s: {"q": s[:, 0], "v": s[:, 1]})


def linearize(machine: str, size: int, dt: float, centred: bool, repeats: int) -> Case:
    """mjd_transitionFD of the Euler step with all joints actuated; its error against a fine extrapolated difference."""
    m, model, data = _machine(machine, size, dt=dt, integrator="Euler", actuated=True)
    n = m.n
    data.qpos[:], data.qvel[:] = m.q0, np.linspace(-0.5, 0.7, n)
    mujoco.mj_forward(model, data)
    A, B = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, n))

    def run() -> Any:
        for _ in range(repeats):
            mujoco.mjd_transitionFD(model, data, 1e-6, centred, A, B, None, None)

    def read(_: Any) -> dict[str, Any]:
        def rough(eps: float) -> np.ndarray:
            out = np.zeros_like(A)
            mujoco.mjd_transitionFD(model, data, eps, True, out, np.zeros_like(B), None, None)
            return out

        h = 1e-3
        exact = (64 * rough(h / 4) - 20 * rough(h / 2) + rough(h)) / 45  # two steps of Richardson's extrapolation
        return {"error": np.abs(A - exact).max() / np.abs(exact).max()}

    return Case(run, read)


def rollouts(machine: str, size: int, dt: float, steps: int, count: int, threads: int) -> Case:
    """`mujoco.rollout`: many starting states on threads, in C."""
    from mujoco import rollout as batch

    m, model, _ = _machine(machine, size, dt=dt, integrator="Euler")
    datas = [mujoco.MjData(model) for _ in range(threads)]
    data = mujoco.MjData(model)
    data.qpos[:] = m.q0
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    starts = np.tile(state, (count, 1))
    starts[:, 1] += np.linspace(-0.1, 0.1, count)
    pool = batch.Rollout(nthread=threads if threads > 1 else 0)

    def run() -> Any:
        states, _ = pool.rollout(model, datas, starts, nstep=steps)
        return states

    return Case(run, lambda s: {"shape": list(s.shape)})


def build(machine: str, size: int) -> Case:
    m = getattr(machines, machine)(size)
    text = machines.to_mjcf(m, 0.01, "Euler")
    return Case(lambda: mujoco.MjModel.from_xml_string(text))


def tumbling(dt: float, time: float, method: str) -> Case:
    """A free body without forces: its rotation matrix at the end."""
    inertia = " ".join(map(str, machines.BODY_INERTIA))
    text = f"""<mujoco><option timestep="{dt!r}" integrator="{method}" gravity="0 0 0"><flag contact="disable"/></option><worldbody>
    <body><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="{inertia}"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    steps = round(time / dt)

    def run() -> Any:
        mujoco.mj_resetData(model, data)
        data.qvel[3:] = machines.BODY_RATES
        mujoco.mj_step(model, data, nstep=steps)
        return data.qpos[3:].copy()

    def read(quaternion: Any) -> dict[str, Any]:
        out = np.empty(9)
        mujoco.mju_quat2Mat(out, quaternion)
        return {"end": out.reshape(3, 3)}

    return Case(run, read)
