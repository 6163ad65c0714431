"""Identification on twins: what is found, how sure it says to be, and what it says cannot be known."""

from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

import dalembert as da


def rod(c=0.2, m=1.3, length=0.7, named=True):
    p = da.Parameter if named else lambda name, value: value
    c, m, length = p("c", c), p("m", m), p("l", length)
    own = m * length**2 / 12
    arm = da.tz(-length / 2, name="rod", mass=m, inertia=(own, own, 0.0))
    return da.Model([da.rx("theta", arm)], [da.Gravity(), da.Damping(c), da.ConfigForce("theta", "tau")])


def rod_record(noise=0.0, seed=0, steps=150, start=0.4, known=False):
    vi = da.MidpointVI(rod(), dt=0.02)
    u = 2.0 * np.sin(np.arange(steps) * 0.13)[:, None]
    motion = vi.simulate(vi.state(q=[start]), steps=steps, u=u)
    return da.Record.of(motion, ["theta"], noise=noise, seed=seed, known_start=known)


def test_a_rod_is_found_exactly():
    records = [rod_record(start=0.4), rod_record(start=-0.9)]
    fit = da.identify(rod(0.05, 1.0, 0.9), records, noise=1e-6, segment=25)
    assert fit.converged
    for name, value in (("c", 0.2), ("m", 1.3), ("l", 0.7)):
        assert fit[name] == pytest.approx(value, rel=1e-8)
    assert fit.identifiability.rank == 3
    assert set(fit.identifiability.known) == {"m", "l", "c"}
    assert float(fit.model.parameters["l"]) == fit["l"]


def test_a_known_start():
    fit = da.identify(rod(0.05, 1.0, 0.9), rod_record(known=True), ["c", "m", "l"], noise=1e-6, segment=None)
    assert fit["m"] == pytest.approx(1.3, rel=1e-8)


def test_covariance_is_that_of_repeated_experiments():
    """Errors of 60 experiments in units of the covariance that each of them states: chi squared with 3 degrees of freedom."""
    truth, errors = np.array([1.3, 0.7, 0.2]), []
    for seed in range(60):
        fit = da.identify(rod(), rod_record(noise=2e-3, seed=seed), ["m", "l", "c"], noise=2e-3, segment=None)
        e = fit.values - truth
        errors.append(e @ np.linalg.solve(fit.covariance, e))
    assert np.mean(errors) == pytest.approx(3.0, abs=4 * np.sqrt(6 / 60))


def test_noise_is_estimated_where_it_is_not_given():
    fit = da.identify(rod(), rod_record(noise=2e-3, seed=1), segment=None)
    assert fit.noise[0] == pytest.approx(2e-3, rel=0.2)
    low, high = fit.confidence("c", 0.99999)
    assert low < 0.2 < high


def test_what_cannot_be_known_is_named():
    """Without inputs the mass of a pendulum does not matter; its damping only relative to it."""
    model = rod()
    vi = da.MidpointVI(model, dt=0.02)
    motion = vi.simulate(vi.state(q=[1.0]), steps=100, u=np.zeros((100, 1)))
    report = da.identifiability(vi, motion, measurement=["theta"])
    assert report.rank == 2
    assert set(report.tied) == {"m", "c"}
    assert report.known == ("l",)
    (text,) = report.combinations
    assert "m" in text
    assert "c" in text
    assert "l" not in text.split()[1::2]
    fit = da.identify(rod(0.1, 1.0, 0.9), da.Record.of(motion, ["theta"]), noise=1e-6)
    assert fit["l"] == pytest.approx(0.7, rel=1e-8)
    assert fit["c"] / fit["m"] == pytest.approx(0.2 / 1.3, rel=1e-7)
    assert np.isinf(fit.deviation["m"])
    assert np.isfinite(fit.deviation["l"])
    assert "not known by itself" in repr(fit)


def test_priors_tell_the_rest():
    vi = da.MidpointVI(rod(), dt=0.02)
    motion = vi.simulate(vi.state(q=[1.0]), steps=100, u=np.zeros((100, 1)))
    record = da.Record.of(motion, ["theta"])
    fit = da.identify(rod(0.1, 1.0, 0.9), record, noise=1e-4, prior={"m": (1.3, 0.01)})
    assert fit["m"] == pytest.approx(1.3, abs=1e-6)
    assert fit.deviation["m"] == pytest.approx(0.01, rel=1e-3)


def test_bounds_hold():
    length = da.Parameter("l", 0.9, bounds=(0.8, None))
    model = da.Model(
        [da.rx("theta", da.tz(-length, name="rod", mass=1.0))], [da.Gravity(), da.ConfigForce("theta", "tau")]
    )
    vi = da.MidpointVI(model.with_parameters({"l": 0.8}), dt=0.02)
    short = vi.with_model(model.with_parameters({"l": 0.7}, check=False))
    record = da.Record.of(short.simulate(short.state(q=[1.0]), steps=60, u=np.zeros((60, 1))), ["theta"])
    assert da.identify(model, record, noise=1e-3)["l"] == 0.8


def four_bar(a=0.4, b=1.0, c=0.8, named=True):
    p = da.Parameter if named else lambda name, value: value
    crank = da.rz("crank", da.tx(p("a", a), name="A", mass=0.5), mass=0.3, inertia=(0, 0, 0.05))
    rocker = da.tx(1.2, da.rz("rocker", da.tx(p("c", c), name="B", mass=0.5), mass=0.3, inertia=(0, 0, 0.05)))
    elements = [
        da.Gravity((0, -9.81, 0)),
        da.Distance("A", "B", p("b", b)),
        da.Damping(0.05),
        da.ConfigForce("crank", "motor"),
    ]
    return da.Model([crank, rocker], elements)


def test_lengths_of_a_closed_chain():
    true = four_bar()
    vi = da.MidpointVI(true, dt=0.01)
    q = da.satisfy_constraints(true, [1.0, 1.5], fixed=["crank"])
    u = 3.0 * np.ones((150, 1))
    motion = vi.simulate(vi.state(q=q), steps=150, u=u)
    record = da.Record.of(motion, ["crank", "rocker"])
    fit = da.identify(four_bar(0.42, 0.97, 0.83), record, noise=1e-6, segment=30)
    assert fit.converged
    for name, value in (("a", 0.4), ("b", 1.0), ("c", 0.8)):
        assert fit[name] == pytest.approx(value, rel=1e-8)


def test_the_radius_of_a_wheel():
    """A cart with a wheel that is turned at a given rate: how far it gets tells the radius, how it turns the place of the wheel."""

    def cart(radius, arm):
        wheel = da.ry(da.Kinematic("s"), name="wheel", mass=0.5, inertia=(0.1, 0.2, 0.1))
        body = da.rz("h", da.tx(da.Parameter("arm", arm), wheel), name="body", mass=1.0, inertia=(0.1, 0.1, 0.2))
        rolls = da.RollingDisk("wheel", da.Parameter("r", radius), support="joints")
        return da.Model([da.tx("x", da.ty("y", body))], [rolls, da.ConfigForce("h", "steer"), da.Damping(0.1)])

    true = cart(0.5, 0.2)
    vi = da.MidpointVI(true, dt=0.02)
    t = 0.02 * np.arange(101)
    motion = vi.simulate(vi.state(), steps=100, u=0.3 * np.cos(3 * t[:100, None]), kinematic=t[1:, None] ** 2)
    fit = da.identify(cart(0.45, 0.25), da.Record.of(motion, ["x", "y", "h"]), noise=1e-6, segment=None)
    assert fit["r"] == pytest.approx(0.5, rel=1e-8)
    assert fit["arm"] == pytest.approx(0.2, rel=1e-7)


def test_frames_are_measured_too():
    """A camera sees the tip: its place depends on the length by itself, and by the motion."""
    length = da.Parameter("l", 0.7)
    model = da.Model(
        [da.rx("theta", da.tz(-length, name="tip", mass=1.0))], [da.Gravity(), da.Damping(da.Parameter("c", 0.2))]
    )
    vi = da.MidpointVI(model, dt=0.02)
    motion = vi.simulate(vi.state(q=[1.0]), steps=80)
    record = da.Record.of(motion, ["tip"])
    fit = da.identify(
        model.with_parameters({"l": 0.8, "c": 0.1}), record, measurement=["tip"], noise=1e-6, segment=None
    )
    assert fit["l"] == pytest.approx(0.7, rel=1e-9)
    assert fit["c"] == pytest.approx(0.2, rel=1e-8)


def test_inertias_stay_those_of_bodies():
    """A free fall of information: noise pulls the inertia of a light link anywhere; it stays that of a body."""
    from dalembert.identification.charts import body_of_chart, chart_of_body

    body = np.array([2.0, 0.1, -0.2, 0.3, 0.4, 0.5, 0.45, 0.02, -0.03, 0.01])
    z = chart_of_body(body)
    again, slope = body_of_chart(z)
    np.testing.assert_allclose(again, body, rtol=1e-13, atol=1e-14)
    h = 1e-6
    for k in range(10):
        e = np.eye(10)[k] * h
        np.testing.assert_allclose(
            slope[:, k], (body_of_chart(z + e)[0] - body_of_chart(z - e)[0]) / (2 * h), rtol=0, atol=1e-8
        )
    with pytest.raises(ValueError, match="no rigid body"):
        chart_of_body(np.array([1.0, 0, 0, 0, 1.0, 0.1, 0.1, 0, 0, 0]))


def test_names_of_numbers():
    model = da.name_parameters(rod(named=False), "rod.inertial", "theta.damping", "Gravity.acceleration.z")
    assert set(model.parameters) == {
        *(f"rod.{x}" for x in ("mass", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")),
        "theta.damping",
        "Gravity.acceleration.z",
    }
    with pytest.raises(da.ModelError, match="did you mean"):
        da.name_parameters(rod(named=False), "rod.mas")


def test_wrong_arguments_are_named():
    record = rod_record()
    for call, text in (
        (lambda: da.identify(rod(), []), "one at least"),
        (lambda: da.identify(rod(), record, ["k"]), "no number of the model"),
        (lambda: da.identify(rod(), record, ["m", "m"]), "named twice"),
        (lambda: da.identify(rod(), record, []), "one at least"),
        (lambda: da.identify(rod(named=False), record), "has no parameters"),
        (lambda: da.identify(rod(), record, measurement=["thta"]), "did you mean"),
        (lambda: da.identify(rod(), record, noise=0.0), "positive"),
        (lambda: da.identify(rod(), record, noise={"thta": 1.0}), "did you mean"),
        (lambda: da.identify(rod(), record, prior={"k": (1, 1)}), "unknown parameter"),
        (lambda: da.identify(rod(), record, segment=0), "at least 1"),
        (lambda: da.Record(t=[0, 1], y=[[0.0]]), "is needed"),
        (lambda: da.Record(t=[0, 0], y=[[0.0], [0.0]]), "increase"),
    ):
        with pytest.raises((ValueError, da.ModelError), match=text):
            call()


ARMS = {"panda": (7, 43), "ur5": (6, 36), "xarm7": (7, 43)}


@pytest.mark.parametrize("name", ARMS)
def test_base_parameters_of_arms(name):
    """As many directions of the inertias can be known as the arm has base parameters."""
    from benchmarks import arms

    try:
        model, joints = arms.arm(name)
    except PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    links = arms.links(model, joints)
    named = da.name_parameters(model, *(f"{link}.inertial" for link in links))
    vi = da.MidpointVI(named, dt=0.01)
    motions = arms.motions(vi, joints, 2, steps=120)
    report = da.identifiability(vi, [da.Record.of(m, joints) for m in motions], measurement=joints)
    joints_count, base = ARMS[name]
    assert len(joints) == joints_count
    assert report.rank == base
    assert report.singular[base] < 1e-6 * report.singular[0] < 1e-2 * report.singular[base - 1]


def panda(rounds=2, steps=60, dt=0.02):
    """A Panda arm with named inertias and damping, motions of it, and what its base parameters are: (model, joints, motions, basis)."""
    from benchmarks import arms

    try:
        model, joints = arms.arm("panda")
    except PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    links = arms.links(model, joints)
    named = da.name_parameters(model, *(f"{link}.inertial" for link in links), "*.damping")
    vi = da.MidpointVI(named, dt=dt)
    return vi, joints, arms.motions(vi, joints, rounds, steps=steps)


@pytest.mark.slow
def test_covariance_of_an_arm_is_the_bound_of_cramer_and_rao():
    """200 noisy experiments with a 7-joint arm: the spread of what can be known (43 base parameters and 7 of damping) is the inverse
    information to 10 %. 50 variances of 200 runs scatter by 10 % each, so it is their mean, and the volume of the ellipsoid."""
    vi, joints, motions = panda()
    sigma, names = 1e-5, tuple(vi.model.parameters)
    clean = [da.Record.of(m, joints) for m in motions]
    report = da.identifiability(vi, clean, measurement=joints, noise=sigma)
    assert report.rank == 50
    errors = []
    truth = np.array([float(vi.model.parameters[n]) for n in names])
    for run in range(200):
        records = [da.Record.of(m, joints, noise=sigma, seed=1000 * run + k) for k, m in enumerate(motions)]
        fit = da.identify(vi, records, names, joints, noise=sigma, segment=None, physical=False)
        assert fit.converged
        errors.append(report.basis.T @ ((fit.values - truth) / report.scales) * report.singular[: report.rank])
    e = np.array(errors)  # of unit variance each if the bound is met
    variances = (e**2).mean(axis=0)
    assert variances.mean() == pytest.approx(1.0, abs=0.1)
    volume = np.linalg.slogdet(np.cov(e.T))[1] / report.rank
    expected = np.mean([np.log(2 / 199) + _digamma((199 - k) / 2) for k in range(report.rank)])  # of a Wishart matrix
    assert volume - expected == pytest.approx(0.0, abs=0.1)


def moments(values, names):
    """What motions are linear in: mass, first and second moments about the joint's origin (10 per body), the other parameters as they are."""
    out = np.array(values)
    place = {name: i for i, name in enumerate(names)}
    for name in names:
        body, _, part = name.rpartition(".")
        if part != "mass":
            continue
        at = [place[f"{body}.{x}"] for x in ("mass", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")]
        m, c = out[at[0]], out[at[1:4]]
        shift = m * ((c @ c) * np.eye(3) - np.outer(c, c))
        out[at[4:]] += shift[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        out[at[1:4]] = m * c
    return out


@pytest.mark.slow
def test_base_parameters_of_an_arm_without_noise():
    """Inertias and friction wrong by a fifth, centres of mass by a centimetre: all that can be known is found to 1e-8."""
    vi, joints, motions = panda(rounds=4, steps=160, dt=0.01)
    names = tuple(vi.model.parameters)
    truth = np.array([float(vi.model.parameters[n]) for n in names])
    rng = np.random.default_rng(0)
    share = {n.rpartition(".")[0]: rng.uniform(0.8, 1.2) for n in names}
    wrong = {
        n: x + rng.uniform(-0.01, 0.01) if n.rpartition(".")[2][0] == "c" else x * share[n.rpartition(".")[0]]
        for n, x in zip(names, truth, strict=True)
    }
    records = [da.Record.of(m, joints) for m in motions]
    believed = vi.with_model(vi.model.with_parameters(wrong))
    fit = da.identify(believed, records, names, joints, noise=1e-6, segment=20)
    # directions that can be known, in the numbers in which they are straight, from the sensitivities themselves (motions begin at rest)
    slope = np.stack([moments(truth + 1e-30j * e, names).imag * 1e30 for e in np.eye(len(names))], axis=1)
    J = np.vstack([da.motion_by_parameters(vi, m)[1:, : len(joints)].reshape(-1, len(names)) for m in motions])
    scale = np.maximum(np.abs(moments(truth, names)), 1e-2)
    _, size, base = np.linalg.svd(J @ np.linalg.inv(slope) * scale, full_matrices=False)
    assert size[50] < 1e-12 * size[0] < 1e-6 * size[49]
    error = base[:50] @ ((moments(fit.values, names) - moments(truth, names)) / scale)
    assert np.abs(error).max() < 1e-8


def _digamma(x):
    return np.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4)
