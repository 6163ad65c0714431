"""Derivatives by parameters against differences of the step itself, on random mechanisms with every element and with loops."""

import itertools

import numpy as np
import pytest

import dalembert as da
from tests import balls
from tests.integrate import test_rolling
from tests.parametrize import parametrized
from tests.random_models import random_model, random_point
from tests.written import step_by_parameters as written_step


def differences(f, model, names):
    """Differences of sixth order of f(model) by parameters, the last axis, each as precise as it can be had.

    Rounding of multipliers is that of momenta over dt: small steps show it, large ones the seventh derivative. So several lengths are
    tried, and each parameter is taken where two of them agree best.
    """
    out = []
    for name in names:
        x = float(model.parameters[name])
        tried = []
        for h in (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2):
            s = h * max(0.1, abs(x))
            try:
                at = {k: f(model.with_parameters({name: x + k * s}, check=False)) for k in (-3, -2, -1, 1, 2, 3)}
            except da.ConvergenceError:  # a step is not found so far away
                assert len(tried) > 1
                break
            tried.append((45 * (at[1] - at[-1]) - 9 * (at[2] - at[-2]) + (at[3] - at[-3])) / (60 * s))
        apart = [np.abs(b - a).max(initial=0.0) for a, b in itertools.pairwise(tried)]
        out.append(tried[int(np.argmin(apart)) + 1])
    return np.stack(out, axis=-1)


def close(got, expected, tolerance=1e-7):
    assert got.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


def chosen(model, count, seed):
    """Some of the parameters, other ones for every seed."""
    names = list(model.parameters)
    return [names[i] for i in sorted(np.random.default_rng(seed).permutation(len(names))[:count])]


def start(model, seed):
    """A state vector and inputs, on the constraints; None where no such point is found."""
    q, v, u = random_point(model, seed)
    try:
        q = da.satisfy_constraints(model, q, fixed=model.kinematic) if model.nc else q
    except (da.ConvergenceError, da.SingularityError):
        return None
    vi = da.MidpointVI(model, dt=0.005)
    v[model.nd :] = 0.0
    try:
        state = vi.state(q=q, v=da.consistent_velocity(model, q, v) if model.nc else v)
    except da.DalembertError:
        return None
    return np.concatenate([q, state.p, np.zeros(model.nkv)]), np.concatenate([u, q[model.nqd :]]), state


def solved(vi, x, u):
    steps = vi.over(np.array([0.0, vi.dt]))
    return steps.solve(x, u, 0)


def by_coordinates(model, q, tangents):
    """Derivatives (nq, n) of coordinates at q from those of tangent components (nd, n)."""
    jacobian = model.configuration.integrate_jacobian(q)
    jacobian = np.eye(model.nq) if jacobian is None else jacobian
    return jacobian[:, : model.nd] @ tangents


def step_of(model, state, u, order=2, forcing="split", alpha=0.5, dt=0.005):
    q, p, lam = solved(da.MidpointVI(model, dt=dt, order=order, forcing=forcing, alpha=alpha), *u)
    return np.concatenate([model.difference(state.q, q)[: model.nd], p, lam])


@pytest.mark.parametrize(
    ("seed", "order", "forcing", "alpha"),
    [
        *((seed, 2, "split", 0.5) for seed in (0, 3, 4, 10, 12, 24, 33)),
        *((seed, 2, "left", 0.4) for seed in (0, 4, 9)),
        *((seed, 4, "split", 0.5) for seed in (9, 24)),
        *((seed, 6, "split", 0.5) for seed in (2,)),
    ],
)
def test_step(seed, order, forcing, alpha):
    model = parametrized(random_model(seed, size=2 + seed % 7), seed)
    found = start(model, seed)
    assert found is not None
    x, u, state = found
    names = chosen(model, 12, seed)
    vi = da.MidpointVI(model, dt=0.005, order=order, forcing=forcing, alpha=alpha)
    got = da.step_by_parameters(vi, state, u, names)
    expected = differences(lambda m: step_of(m, state, (x, u), order, forcing, alpha), model, names)
    nd = model.nd
    close(got["q"], expected[:nd])
    close(got["p"], expected[nd : 2 * nd])
    close(got["lam"], expected[2 * nd :])


def test_gears_of_motors():
    """F = gear u."""
    gear = da.Parameter("gear", 3.0)
    model = da.Model([da.tx("x", mass=2.0)], [da.ConfigForce("x", "u", gear)])
    vi = da.MidpointVI(model, dt=0.1)
    got = da.step_by_parameters(vi, vi.state(), [5.0])
    np.testing.assert_allclose(got["p"], [[0.5]], rtol=0, atol=1e-14)  # dt u
    np.testing.assert_allclose(da.force_by_parameters(model, [0.0], [0.0], [5.0]), [[5.0]], rtol=0, atol=1e-14)
    stronger = vi.with_model(model.with_parameters({"gear": 6.0}))
    assert stronger.step(stronger.state(), [5.0]).p[0] == pytest.approx(3.0, rel=1e-14)


def test_gears_of_wrenches():
    """A rotor: thrust and drag of one input, the drag's gear and place by derivative."""
    gear = da.Parameter("gear", -0.02)
    body = da.floating("base", da.tx(0.2, name="rotor"), name="B", mass=1.0, inertia=(0.1, 0.12, 0.2))
    drag = da.Wrench("rotor", torque=(0, 0, "thrust"), gear=gear)
    model = da.Model([body], [da.Wrench("rotor", force=(0, 0, "thrust")), drag])
    assert model.inputs == ("thrust",)
    q, v = model.neutral(), np.zeros(6)
    np.testing.assert_allclose(da.force(model, q, v, [5.0]), [0, 0, 5, 0, -1, -0.1], atol=1e-15)
    np.testing.assert_allclose(da.force_by_parameters(model, q, v, [5.0]).ravel(), [0, 0, 0, 0, 0, 5], atol=1e-14)
    vi = da.MidpointVI(model, dt=0.1)
    got = da.step_by_parameters(vi, vi.state(), [5.0])
    stronger = vi.with_model(model.with_parameters({"gear": -0.0201}))
    change = stronger.step(stronger.state(), [5.0]).p - vi.step(vi.state(), [5.0]).p
    np.testing.assert_allclose(got["p"][:, 0], change / -1e-4, atol=1e-4)


def tilted_disk():
    """A disk on a plane that is carried by a hinge, both on constant frames; a screw above."""
    wheel = da.rx(0.3, da.ry("s", da.tz(0.1, name="wheel", mass=0.6, inertia=(0.1, 0.2, 0.1))))
    body = da.tx("x", da.ty("y", da.tz("z", da.rz("h", da.rx("l", da.tx(0.2, wheel), mass=0.2), pitch=0.1))))
    plate = da.ty(0.2, da.rx("tilt", da.tz(-0.1, da.ry(0.2, name="plate", mass=2.0, inertia=(1.0, 1.0, 1.0)))))
    disk = da.RollingDisk("wheel", 0.5, axis=(0.1, 1.0, 0.2), surface="plate", normal=(0.2, -0.1, 1.0))
    return da.Model([body, plate], [da.Gravity(), disk, da.ConfigForce("s", "drive", 1.5)])


def ball_on_a_plate():
    ball = da.floating("b", da.tz(0.05, name="ball"), name="centre", mass=1.0, inertia=(0.04, 0.05, 0.036))
    plate = da.rz(da.Kinematic("turn"), da.tz(-0.3, da.ry(0.2, name="plate")))
    sphere = da.RollingSphere("ball", 0.3, surface="plate", normal=(0.1, 0.2, 1.0))
    return da.Model([ball, plate], [da.Gravity(), sphere, da.Damping(0.1)])


ROLLING = {**test_rolling.MODELS, "tilted disk": tilted_disk, "ball on a plate": ball_on_a_plate}


def rolling(name, order=2, dt=0.02):
    """A mechanism that rolls or slides, with parameters everywhere, and a step of it."""
    model = parametrized(ROLLING[name](), 3)
    vi = da.MidpointVI(model, dt=dt, order=order)
    r = np.random.default_rng(3)
    q = da.satisfy_constraints(model, model.integrate(model.neutral(), 0.4 * r.normal(size=model.nv)))
    state = vi.state(q=q, v=da.consistent_velocity(model, q, r.normal(size=model.nv)))
    rho = model.integrate(q, dt * state.v)[model.nqd :] + 0.01 * r.normal(size=model.nk)
    x = np.concatenate([state.q, state.p, state.v[model.nd :]])
    return model, vi, state, x, np.concatenate([r.normal(size=model.nu), rho])


@pytest.mark.parametrize(
    ("name", "order"), [*((name, 2) for name in ROLLING), ("tilted disk", 4), ("ball on a plate", 6)]
)
def test_what_rolls(name, order):
    """Radii, axes, normals, and whatever carries wheels and planes."""
    model, vi, state, x, u = rolling(name, order)
    names = list(model.parameters)
    if not names:
        pytest.skip("no numbers")
    got = da.step_by_parameters(vi, state, u, names)

    def f(m):
        return np.concatenate(solved(vi.with_model(m), x, u))

    expected = differences(f, model, names)
    close(by_coordinates(model, solved(vi, x, u)[0], got["q"]), expected[: model.nq])
    close(got["p"], expected[model.nq : model.nq + model.nd])
    close(got["lam"], expected[model.nq + model.nd :])


def with_loops(number):
    """The numbered random mechanism with loops and with parameters in the place of all numbers, and a step of it. Every fourth one has
    balls."""
    for k in range(1000 * number, 1000 * number + 1000):
        if number % 4 == 3:
            model = parametrized(balls.random_mechanism(k), k)
            if not model.nc:
                continue
            try:
                _, state, x, u = ball_start(model, k)
            except da.DalembertError:
                continue
            return model, state, x, u
        model = parametrized(random_model(k, size=3 + k % 7), k)
        found = start(model, k) if model.nc else None
        if found is None:
            continue
        x, u, state = found
        try:
            solved(da.MidpointVI(model, dt=0.005), x, u)
        except da.DalembertError:
            continue
        return model, state, x, u
    raise AssertionError("no such mechanism")


@pytest.mark.parametrize("number", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 200))])
def test_mechanisms_with_loops(number):
    """Against differences to 1e-7, and, for hinges and sliders, against the equations of the step in CasADi to 1e-9."""
    model, state, x, u = with_loops(number)
    names = chosen(model, 8, number)
    vi = da.MidpointVI(model, dt=0.005)
    got = da.step_by_parameters(vi, state, u, names)
    q, _, lam = solved(vi, x, u)
    expected = differences(lambda m: np.concatenate(solved(vi.with_model(m), x, u)), model, names)
    nq, nd = model.nq, model.nd
    close(by_coordinates(model, q, got["q"]), expected[:nq])
    close(got["p"], expected[nq : nq + nd])
    close(got["lam"], expected[nq + nd :])
    if model.configuration.flat:
        written = written_step(model, x, u, q, lam, 0.005, names)
        for part in ("q", "p", "lam"):
            close(got[part], written[part], 1e-9)


def ball_start(model, seed, dt=0.005, order=2):
    vi = da.MidpointVI(model, dt=dt, order=order)
    state = balls.start(vi, seed)
    rng = np.random.default_rng(seed)
    x = np.concatenate([state.q, state.p, np.zeros(model.nkv)])
    return vi, state, x, rng.normal(size=vi.nu)


@pytest.mark.parametrize(("seed", "order"), [(0, 2), (1, 2), (2, 4)])
def test_step_with_balls(seed, order):
    model = parametrized(balls.mechanism(seed), seed)
    vi, state, x, u = ball_start(model, seed, order=order)
    names = chosen(model, 16, seed)
    got = da.step_by_parameters(vi, state, u, names)

    def f(m):
        q, p, lam = solved(vi.with_model(m), x, u)
        return np.concatenate([q, p, lam])

    expected = differences(f, model, names)
    close(by_coordinates(model, solved(vi, x, u)[0], got["q"]), expected[: model.nq])
    close(got["p"], expected[model.nq : model.nq + model.nd])
    close(got["lam"], expected[model.nq + model.nd :])


@pytest.mark.parametrize(("seed", "order"), [(2, 2), (24, 4), (8, 2)])
def test_motion_forward_and_backward(seed, order):
    """Sensitivities of a motion against differences; the backward pass gives their products with any costates."""
    model = parametrized(random_model(seed, size=2 + seed % 7), seed)
    _, u, state = start(model, seed)
    vi = da.MidpointVI(model, dt=0.005, order=order)
    U, rho = np.tile(u[: model.nu], (8, 1)), np.tile(u[model.nu :], (8, 1))

    def simulate(m):
        other = vi.with_model(m)
        start = other.state(q=state.q, p=state.p, check=False)
        return other.simulate(start, steps=8, u=U, kinematic=rho, accuracy="ignore")

    motion = simulate(model)
    names = chosen(model, 8, seed)
    S = da.motion_by_parameters(vi, motion, names)
    nd, nv = model.nd, model.nv
    expected = differences(lambda m: (lambda x: np.hstack([x.q[:, :nd], x.p]))(simulate(m)), model, names)
    close(S, expected)

    rng = np.random.default_rng(seed)
    Z, ZL = rng.normal(size=(9, vi.ndx)), rng.normal(size=(8, model.nc))
    every = list(model.parameters)
    S = da.motion_by_parameters(vi, motion, every)
    g = da.gradient_of_motion(vi, motion, Z, every)
    by_states = np.einsum("kvc,kv->c", S, np.hstack([Z[:, :nd], Z[:, nv : nv + nd]]))
    np.testing.assert_allclose(g.parameters, by_states, rtol=0, atol=1e-9 * np.abs(by_states).max())
    # of multipliers too, by differences of one parameter
    more = da.gradient_of_motion(vi, motion, Z, every, multipliers=ZL)
    if model.nc:
        slope = np.einsum("kcn,kc->n", differences(lambda m: simulate(m).lam, model, names[:3]), ZL)
        at = [every.index(n) for n in names[:3]]
        close(more.parameters[at] - g.parameters[at], slope)


def test_gradient_by_state_and_inputs():
    model = parametrized(random_model(24, size=5), 24)
    _, u, state = start(model, 24)
    vi = da.MidpointVI(model, dt=0.005)
    motion = vi.simulate(state, steps=6, u=np.tile(u[: model.nu], (6, 1)), accuracy="ignore")
    Z = np.random.default_rng(0).normal(size=(7, vi.ndx))
    g = da.gradient_of_motion(vi, motion, Z)
    system = da.System(vi, steps=6)
    X, U = vi.over(motion.t).curve(motion)
    A, B = system.linearize_trajectory(X, U)
    z, inputs = Z[-1], []
    for k in range(5, -1, -1):
        inputs.append(B[k].T @ z)
        z = A[k].T @ z + Z[k]
    np.testing.assert_allclose(g.state, z, rtol=0, atol=1e-9 * np.abs(z).max())
    np.testing.assert_allclose(g.inputs, inputs[::-1], rtol=0, atol=1e-9 * np.abs(inputs).max())


@pytest.mark.parametrize("seed", range(4))
def test_energies_and_forces(seed):
    model = parametrized(random_model(seed, size=3 + seed), seed)
    q, v, u = random_point(model, seed)
    names = chosen(model, 25, seed)
    energy = da.energy_by_parameters(model, q, v, names)
    close(energy["kinetic"], differences(lambda m: np.array(da.kinetic_energy(m, q, v)), model, names))
    close(energy["potential"], differences(lambda m: np.array(da.potential_energy(m, q)), model, names))
    close(da.force_by_parameters(model, q, v, u, names), differences(lambda m: da.force(m, q, v, u), model, names))


def test_unknown_names_and_models_without():
    model = da.models.pendulum()
    vi = da.MidpointVI(model, dt=0.1)
    with pytest.raises(da.ModelError, match="no parameters"):
        da.step_by_parameters(vi, vi.state())
    named = da.name_parameters(model, "bob.mass")
    vi = da.MidpointVI(named, dt=0.1)
    with pytest.raises(da.ModelError, match="did you mean"):
        da.step_by_parameters(vi, vi.state(), parameters=["bob.mas"])
