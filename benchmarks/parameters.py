"""Timings of derivatives by parameters and of the bridges, each against what others offer in the same run: ratios, best of interleaved runs.

python -m benchmarks.parameters gauss_newton   # one iteration of identification against finite differences with mujoco.rollout
python -m benchmarks.parameters adjoint        # the gradient by 100 parameters against the rollout
python -m benchmarks.parameters cart_poles     # vector environments against gymnasium's own
python -m benchmarks.parameters mjx            # gradient of a rollout against that of MJX on the CPU
python -m benchmarks.parameters mjx_nan        # gradients that are not finite, at random states
python -m benchmarks.parameters brax_nan       # the same of a floating body, against Brax
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dalembert as da
from benchmarks import arms
from dalembert.mechanics.evaluate import core, parameter_links


def best(*calls: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Best processor time (s) of each, run in turns: other work on the machine counts less than in wall time."""
    times = [np.inf] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.process_time()
            call()
            times[i] = min(times[i], time.process_time() - start)
    return times


def gauss_newton(steps: int = 10_000, segment: int = 500, dt: float = 0.001) -> dict[str, float]:
    """One linearization of 10 s of a Panda arm (7 joints; the inertias of 7 links, the hand and a finger) against 91 rollouts of MuJoCo, one
    thread each."""
    import mujoco
    from mujoco import rollout

    from dalembert.identification.fit import Problem
    from dalembert.identification.record import Seen
    from dalembert.model.frames import flatten, unflatten

    model, joints = arms.arm("panda")
    bodies = [*arms.links(model, joints), "panda_hand", "panda_leftfinger"]
    named = da.name_parameters(model, *(f"{body}.inertial" for body in bodies))
    names = tuple(named.parameters)
    vi = da.MidpointVI(named, dt=dt)
    motion = arms.motions(vi, joints, 1, steps)[0]
    problem = Problem(
        vi, [da.Record.of(motion, joints)], names, Seen(named, joints), np.full(len(joints), 1e-3), segment
    )
    problem.settle(named)
    bare = da.Model(unflatten([(*row[:8], ()) for row in flatten(model.frames)]), model.elements, "arm")
    other = mujoco.MjModel.from_xml_string(da.dumps(bare, "mjcf"))
    other.opt.timestep = dt
    data = mujoco.MjData(other)
    data.qpos[:] = motion.q[0]
    mujoco.mj_forward(other, data)
    state = np.zeros((1, mujoco.mj_stateSize(other, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    mujoco.mj_getState(other, data, state[0], mujoco.mjtState.mjSTATE_FULLPHYSICS)
    control = np.ascontiguousarray(motion.u[None, :, : other.nu])
    whole = _sysid(da.dumps(bare, "mjcf"), names, joints, dt, state[0], motion)
    ours, one = best(lambda: problem.linearize(named), lambda: rollout.rollout(other, data, state, control), repeats=8)
    again, sysid = best(lambda: problem.linearize(named), whole, repeats=2)
    theirs = one * (len(names) + 1)
    return {
        "parameters": len(names),
        "s": ours,
        "mujoco s": theirs,
        "mujoco us/step": one / steps * 1e6,
        "ratio": theirs / ours,
        "mujoco.sysid s": sysid,
        "ratio to mujoco.sysid": sysid / again,
    }


def _sysid(
    xml: str, names: tuple[str, ...], joints: list[str], dt: float, state: Any, motion: Any
) -> Callable[[], Any]:
    """Residuals and their Jacobian as `mujoco.sysid.optimize(optimizer="mujoco")` finds them, on one thread, of measured joints."""
    import mujoco
    from mujoco import minimize, sysid

    spec = mujoco.MjSpec.from_string(xml)
    spec.option.timestep = dt
    for joint in joints:
        kind = {"type": mujoco.mjtSensor.mjSENS_JOINTPOS, "objtype": mujoco.mjtObj.mjOBJ_JOINT}
        spec.add_sensor(name=f"{joint}.seen", objname=joint, **kind)
    model = spec.compile()
    places = {"c": ("ipos", ["cx", "cy", "cz"]), "I": ("fullinertia", ["Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz"])}
    numbers = sysid.ParameterDict()
    for name in names:
        body, _, part = name.rpartition(".")
        if part == "mass":
            value = spec.body(body).mass

            def change(s: Any, p: Any, body: str = body) -> None:
                s.body(body).mass = p.value[0]
        else:
            field, parts = places[part[0]]
            value = getattr(spec.body(body), field)[parts.index(part)]

            def change(s: Any, p: Any, body: str = body, field: str = field, i: int = parts.index(part)) -> None:
                getattr(s.body(body), field)[i] = p.value[0]

        numbers.add(sysid.Parameter(name, nominal=value, min_value=value - 10, max_value=value + 10, modifier=change))
    u, t = np.ascontiguousarray(motion.u[:, : model.nu]), motion.t[:-1]
    inputs, seen = sysid.TimeSeries(t, u), sysid.TimeSeries.from_names(t + dt, motion.q[1:], model)
    sequences = sysid.ModelSequences("arm", spec, "motion", state, inputs, seen)
    residuals = sysid.build_residual_fn(models_sequences=[sequences], n_threads=1)
    x, (low, high) = numbers.as_vector().reshape(-1, 1), numbers.get_bounds()

    def function(x: Any) -> Any:
        return np.concatenate(residuals(x, numbers)[0])

    def call() -> Any:
        r = function(x[:, 0]).reshape(-1, 1)
        bounds = [low.reshape(-1, 1), high.reshape(-1, 1)]
        return minimize.jacobian_fd(residual=function, x=x, r=r, eps=1.5e-8, n_res=0, bounds=bounds)[0]

    return call


def adjoint(steps: int = 2000, dt: float = 0.002) -> dict[str, float]:
    """The gradient of a function of a motion of ten links by their 100 inertial numbers, in rollouts."""
    model = da.models.n_link(10)
    bodies = [e.frame.name for e in model.frame_entries[1:] if e.frame is not None and e.frame.mass]
    named = da.name_parameters(model, *(f"{name}.inertial" for name in bodies))
    names, vi, rng = tuple(named.parameters), da.MidpointVI(named, dt=dt), np.random.default_rng(0)
    motion = vi.simulate(vi.state(q=0.3 * rng.normal(size=named.nq)), steps=steps, accuracy="ignore")
    over = vi.over(motion.t)
    X, U = over.curve(motion)
    Z, links, c, nq, nd = (
        rng.normal(size=(steps + 1, vi.ndx)),
        parameter_links(named, names),
        core(named),
        named.nq,
        named.nd,
    )
    q, p, u = X[0, :nq].copy(), X[0, nq : nq + nd].copy(), np.ascontiguousarray(U[:, : named.nu])
    roll, back = best(
        lambda: c.simulate(vi.options, q, p, over.dt, u, np.zeros((steps, 0)), 1),
        lambda: c.rollout_adjoint(vi.options, links, X, U, over.dt, None, Z, None),
    )
    return {
        "parameters": len(names),
        "step us": roll / steps * 1e6,
        "adjoint us/step": back / steps * 1e6,
        "ratio": back / roll,
    }


def cart_poles(sizes: tuple[int, ...] = (1, 4, 16, 64, 256, 1024)) -> dict[str, float]:
    """Steps per second of `VectorEnvironment` over those of gymnasium's own vectorized CartPole, by number of environments: of a task that is told
    by bounds, and of the same told by functions."""
    import gymnasium

    from dalembert.bridges.gymnasium import VectorEnvironment

    system = da.System(da.MidpointVI(da.models.load("cart_pole"), dt=0.02), steps=500)
    up, out = np.array([0, np.pi, 0, 0]), {}
    boxes: dict[str, Any] = {
        "start": (up - 0.05, up + 0.05),
        "cost": -1.0,
        "over": {"x": (-2.4, 2.4), "theta": (np.pi - 0.2095, np.pi + 0.2095)},
    }
    functions: dict[str, Any] = {
        "start": lambda rng, n: up + rng.uniform(-0.05, 0.05, (n, 4)),
        "cost": lambda x, u: -np.ones(len(x)),
        "over": lambda x: (abs(x[:, 1] - np.pi) > 0.2095) | (abs(x[:, 0]) > 2.4),
    }
    for n in sizes:
        all_envs = [VectorEnvironment(system, n, **task, actions=[[-10.0], [10.0]]) for task in (boxes, functions)]
        all_envs.append(gymnasium.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point"))  # type: ignore[arg-type]
        steps = max(100, min(2000, 40_000 // n))
        actions = np.random.default_rng(0).integers(0, 2, (steps, n))

        def run(env: Any, actions: Any = actions) -> None:
            for a in actions:
                env.step(a)

        for env in all_envs:
            env.reset(seed=0)
        boxed, asked, theirs = best(*(lambda env=env: run(env) for env in all_envs), repeats=9)  # type: ignore[misc]
        out[f"{n} environments"], out[f"{n} with functions"] = theirs / boxed, theirs / asked
    return out


def mjx(links: int = 8, steps: int = 1000, dt: float = 0.002) -> dict[str, float]:
    """The gradient of a rollout by its start with JAX in double precision, against that of MJX on the CPU; compilation apart.

    What MJX need not compute is switched off (contacts, constraints). Its loop carries positions and velocities only, and its step is
    evaluated again on the way back (`jax.checkpoint`): with all of its data in the loop the gradient of eight links takes more than
    25 minutes to compile, so in about three."""
    import jax
    import jax.numpy as jnp

    from dalembert.bridges.jax import rollout

    jax.config.update("jax_enable_x64", True)
    system = da.System(da.MidpointVI(da.models.n_link(links), dt), steps=steps)
    q = np.linspace(0.1, 0.5, links)
    x, u = jnp.array(system.x(q)), jnp.zeros((steps, 0))
    ours = jax.jit(jax.grad(lambda x: (rollout(system, x, u)[-1, :links] ** 2).sum()))
    step, zero = _mjx_step(system.one_step.model, dt)

    def loss(q: Any) -> Any:
        (end, _), _ = jax.lax.scan(jax.checkpoint(step), (q, zero), None, length=steps)
        return (end**2).sum()

    theirs, at = jax.jit(jax.grad(loss)), jnp.array(q)
    calls = (lambda: ours(x).block_until_ready(), lambda: theirs(at).block_until_ready())
    first = best(*calls, repeats=1)
    a, b = best(*calls)
    return {"ms": a * 1e3, "mjx ms": b * 1e3, "ratio": b / a, "first call s": first[0], "mjx first call s": first[1]}


def mjx_nan(states: int = 100_000, links: int = 8, dt: float = 0.01) -> dict[str, float]:
    """Gradients of one step at random states (and at rest) that are not finite: ours and those of MJX, of hinges and of balls."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    out = {}
    for word, model in {"hinges": da.models.n_link(links), "ball": _one_ball()}.items():
        system = da.System(da.MidpointVI(model, dt), steps=1)
        q, v = _random_states(model, rng, states)
        out[f"{word}: ours"] = _not_finite(system, q, v)
        step, _ = _mjx_step(model, dt)

        def loss(qv: Any, step: Any = step) -> Any:
            (a, b), _ = step(qv, None)
            return (a**2).sum() + (b**2).sum()

        by = jax.jit(jax.vmap(jax.grad(loss)))
        bad = 0
        for part in np.array_split(np.arange(states), max(1, states // 10_000)):
            gq, gv = by((jnp.array(q[part]), jnp.array(v[part])))
            bad += int((~(np.isfinite(gq).all(1) & np.isfinite(gv).all(1))).sum())
        out[f"{word}: MJX"] = float(bad)
    return out


def brax_nan(states: int = 100_000, dt: float = 0.01) -> dict[str, float]:
    """Gradients of one step of a floating body that are not finite, at random states (a hundred of them at rest): ours and those of Brax."""
    import jax
    import jax.numpy as jnp
    from brax.generalized import pipeline
    from brax.io import mjcf

    jax.config.update("jax_enable_x64", True)
    model = da.Model([da.floating("f", mass=1.0, inertia=(0.02, 0.03, 0.01))], [da.Gravity()], "body")
    q, v = _random_states(model, np.random.default_rng(0), states)
    text = f"""<mujoco><option timestep="{dt}"/><worldbody><geom type="sphere" size="0.01" contype="0" conaffinity="0"/>
      <body><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="0.02 0.03 0.01"/></body></worldbody></mujoco>"""
    there = mjcf.loads(text)

    def loss(qv: Any) -> Any:
        end = pipeline.step(there, pipeline.init(there, *qv), jnp.zeros(0))
        return (end.q**2).sum() + (end.qd**2).sum()

    place = model.configuration.places[0].q
    others = np.hstack([np.delete(q, place, axis=1), q[:, place]])  # position, then quaternion
    gq, gv = jax.jit(jax.vmap(jax.grad(loss)))((jnp.array(others), jnp.array(v)))
    bad = ~(np.isfinite(gq).all(1) & np.isfinite(gv).all(1))
    ours = _not_finite(da.System(da.MidpointVI(model, dt), steps=1), q, v)
    return {"ours": ours, "Brax": float(bad.sum()), "Brax, of 100 at rest": float(bad[:100].sum())}


def _not_finite(system: Any, q: Any, v: Any) -> float:
    """How many gradients of one step's end by its start, at (q, v), are not finite."""
    import jax
    import jax.numpy as jnp

    from dalembert.bridges.jax import rollout

    p = np.array([da.mass_matrix(system.one_step.model, a) @ b for a, b in zip(q, v, strict=True)])
    slope = jax.jit(jax.grad(lambda x: (rollout(system, x, jnp.zeros((len(x), 1, 0)))[:, -1] ** 2).sum()))
    return float((~np.isfinite(slope(jnp.array(np.hstack([q, p])))).all(1)).sum())


def _one_ball() -> da.Model:
    """A body on a ball joint."""
    return da.Model([da.ball("b", da.tz(-0.5, mass=1.0, inertia=(0.02, 0.03, 0.01)))], [da.Gravity()], "ball")


def _random_states(model: da.Model, rng: Any, n: int) -> tuple[Any, Any]:
    """Configurations and velocities; the first hundred are at rest, fifty of them at q = 0."""
    q, v = rng.uniform(-np.pi, np.pi, (n, model.nq)), rng.normal(0, 3, (n, model.nv))
    for place in model.configuration.places:
        q[:, place.q] /= np.linalg.norm(q[:, place.q], axis=1)[:, None]
    v[:100] = 0
    q[:50] = model.neutral()
    return q, v


def _mjx_step(model: da.Model, dt: float) -> tuple[Callable[..., Any], Any]:
    """(q, v) -> (q, v) of MJX without contacts and constraints, as `jax.lax.scan` wants it, and velocities of zero."""
    import jax.numpy as jnp
    import mujoco
    from mujoco import mjx as other

    plain = mujoco.MjModel.from_xml_string(da.dumps(model, "mjcf"))
    plain.opt.timestep, plain.opt.iterations, plain.opt.ls_iterations = dt, 1, 1
    plain.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    there = other.put_model(plain)
    data = other.make_data(there)

    def step(qv: Any, _: Any) -> Any:
        moved = other.step(there, data.replace(qpos=qv[0], qvel=qv[1]))
        return (moved.qpos, moved.qvel), None

    return step, jnp.zeros(plain.nv)


MEASURES = {f.__name__: f for f in (gauss_newton, adjoint, cart_poles, mjx, mjx_nan, brax_nan)}


def main(names: list[str]) -> None:
    """Print the named measures, all of them without names."""
    warnings.simplefilter("ignore")
    for name in names or list(MEASURES):
        print(name, {key: float(f"{x:.4g}") for key, x in MEASURES[name]().items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
