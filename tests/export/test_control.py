"""Exported filter and regulator against the library, in closed loop."""

from __future__ import annotations

import numpy as np
import pytest

import dalembert as da
from dalembert.export import ExportError, export_c
from dalembert.export.vectors import still
from tests.export import designs
from tests.export import test_agreement as agreement
from tests.export.compiled import Compiled, reached

pytestmark = pytest.mark.filterwarnings("ignore::dalembert.errors.AccuracyWarning")


class Loop:
    """The loop of the library and that of the C code side by side."""

    def __init__(self, vi, options, folder, guess):
        self.vi, self.ekf, self.law = vi, options["ekf"], options["gains"]
        self.c = Compiled(vi, folder, **options)
        m = vi.model
        spread = np.full(vi.ndx, 1e-2)
        self.c.call("filter_start", guess[: m.nq], guess[m.nq : m.nq + m.nd], spread)
        self.estimate = self.ekf.start(guess, spread)

    def control(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        w = (self.c.real * self.vi.nu)()
        time = (self.c.real(k * self.vi.dt),) if self.law.steps > 1 else ()
        assert getattr(self.c.lib, f"{self.c.n}_control")(self.c.m, *time, w) == 0
        return self.law.input(k, self.estimate.mean), np.array(w[:])

    def cycle(self, k: int, u, z, dt: float | None = None) -> int:
        m = self.vi.model
        parts = [part for part in (u[: m.nu], u[m.nu :]) if len(part)]
        length = self.c.real(self.vi.dt if dt is None else dt)
        assert self.c.call("predict", *parts, last=(length,)) == 0
        status = self.c.call("update", z)
        self.estimate = self.ekf.update(self.ekf.predict(self.estimate, u, k, dt=dt), z)
        return status

    def off(self) -> tuple[float, float]:
        n = self.vi.ndx
        mean = np.abs(self.c.x - self.estimate.mean).max()
        return mean, np.abs(self.c.field("covariance", n, n) - self.estimate.covariance).max()


def test_cart_pole_with_missing_refused_and_wrapped_measurements_and_an_irregular_clock(tmp_path):
    vi, options = designs.cart_pole()
    loop = Loop(vi, options, tmp_path, [0.05, np.pi + 0.1, 0, 0])
    rng = np.random.default_rng(0)
    x = np.array([0, np.pi + 0.05, 0, 0.0])
    refused = 0
    for k in range(200):
        u, w = loop.control(k)
        u = np.clip(u, -10, 10)
        assert np.abs(u - w).max() < 1e-11
        dt = vi.dt * (1.5 if k % 9 == 0 else 1.0)
        x = vi.with_dt(np.array([dt])).f(x, u)
        z = x[:2] + 1e-2 * rng.normal(size=2) + [0, 2 * np.pi * (k % 3 - 1)]
        if k % 7 == 3:
            z[0] = np.nan
        if k % 11 == 5:
            z[:] = np.nan
        if k % 50 == 49:
            z[1] += 2.0
        status = loop.cycle(k, u, z, dt)
        refused += status == 6
        assert (status == 6) == (loop.estimate.accepted is False)
        assert max(loop.off()) < 1e-11
    assert refused == 3
    assert abs(x[1] - np.pi) < 0.1  # it stands


@pytest.mark.parametrize("reduced", [None, False])
def test_closed_chain_on_its_constraints_and_off_them(reduced, tmp_path):
    """Gains along a motion, in the gauge of the reference; estimates brought back to the constraints."""
    vi, options = designs.closed_chain(reduced=reduced, every=1)
    start = options["start"]
    rng = np.random.default_rng(1)
    guess = start + np.concatenate([0.01 * rng.normal(size=7), np.zeros(7)])
    loop = Loop(vi, options, tmp_path, guess)
    x = start
    for k in range(50):
        u, w = loop.control(k)
        assert np.abs(u - w).max() < 1e-10
        x = vi.f(x, u)
        assert loop.cycle(k, u, x[:2] + 1e-2 * rng.normal(size=2)) == 0
        assert max(loop.off()) < 1e-10


def test_prescribed_variables_in_the_filter(tmp_path):
    """A crane: a string over a moving trolley, both prescribed."""
    model = da.models.crane()
    vi = da.MidpointVI(model, 0.01)
    q = da.satisfy_constraints(model, {"y": -1.0, "r": 1.0})
    rest = vi.state(q)
    start = np.concatenate([rest.q, rest.p, np.zeros(2)])
    ekf = da.ExtendedKalmanFilter(vi, da.measure(vi, "x", "y"), Q=1e-6, R=1e-4)
    gains = np.zeros((2, vi.ndx))
    gains[:, :2], gains[:, 4:6] = 0.01, 0.001
    law = da.Feedback.at_point(start, q[2:], gains, system=vi)
    loop = Loop(vi, {"ekf": ekf, "gains": law, "start": start}, tmp_path, start)
    x, rng = start, np.random.default_rng(2)
    for k in range(50):
        u, w = loop.control(k)
        assert np.abs(u - w).max() < 1e-10
        u = u + np.array([0.05 * np.sin(0.1 * k), 0.0])
        x = vi.f(x, u)
        assert loop.cycle(k, u, x[:2] + 1e-2 * rng.normal(size=2)) == 0
        assert max(loop.off()) < 1e-10


def satellite() -> tuple[da.MidpointVI, da.System, np.ndarray, np.ndarray]:
    """A tumbling body with an arm on a ball joint, three torques and a motor; a motion of 40 steps under them."""
    arm = da.ry("arm", da.tx(0.5, name="tip", mass=0.3), name="forearm", mass=0.4, inertia=(0.1, 0.2, 0.15))
    wrist = da.ball("wrist", arm, name="hand", mass=0.5, inertia=(0.2, 0.15, 0.1), com=(0.1, 0.0, 0.05))
    body = da.floating("body", da.tz(0.4, wrist), name="body", mass=2.0, inertia=(1.0, 1.4, 0.8))
    torques = [da.ConfigForce(f"body.w{a}", f"t{a}") for a in "xyz"]
    model = da.Model([body], [*torques, da.ConfigForce("arm", "motor"), da.Damping(0.05)], name="satellite")
    vi = da.MidpointVI(model, 0.02)
    rng = np.random.default_rng(3)
    state = vi.state(q=model.random(rng), v=rng.normal(size=model.nv))
    U = 0.3 * rng.normal(size=(40, 4))
    system = da.System(vi, steps=40)
    return vi, system, system.simulate(np.concatenate([state.q, state.p]), U), U


@pytest.mark.parametrize("every", [1, 13])
def test_balls_in_filter_and_regulator(every, tmp_path):
    """Gains along a tumbling motion, a camera on a frame and one coordinate of a quaternion; large corrections of the attitude."""
    vi, system, X, U = satellite()
    law = da.lqr(system, (X, U), Q=1.0, R=1.0)
    sensor = da.measure_frame(system, "tip") + da.measure_frame(system, "hand", "xy") + da.measure(system, "wrist.qx")
    ekf = da.ExtendedKalmanFilter(system, sensor, Q=1e-5, R=1e-3)
    options = {"ekf": ekf, "gains": law, "start": X[0], "every": every}
    if every > 1:  # interpolated between: its own vectors say what is right
        export_c(vi, tmp_path, vectors=30, **options)
        from tests.export.test_quality import build_and_run

        assert ": ok" in build_and_run(tmp_path, "gcc", "-O1")
        return
    rng = np.random.default_rng(0)
    guess = vi.retract(X[0], 0.05 * rng.normal(size=vi.ndx))
    loop = Loop(vi, options, tmp_path, guess)
    x = X[0]
    for k in range(40):
        u, w = loop.control(k)
        assert np.abs(u - w).max() < 1e-10
        x = vi.f(x, u)
        z = sensor.expected(x) + 0.03 * rng.normal(size=6)
        z[rng.random(6) < 0.1] = np.nan
        assert loop.cycle(k, u, z) == 0
        assert max(loop.off()) < 1e-10


def test_bad_measurements_give_a_status(tmp_path):
    vi, options = designs.cart_pole()
    c = Compiled(vi, tmp_path, **options)
    c.call("filter_start", [0, np.pi], [0, 0], np.full(4, 1e-2))
    before = c.x
    assert c.call("update", [np.inf, 0.0]) == 3
    assert c.call("predict", [np.nan], last=(c.real(0.01),)) == 3
    np.testing.assert_array_equal(c.x, before)


def test_designs_that_cannot_be_written(tmp_path):
    vi, options = designs.cart_pole()
    other = da.MidpointVI(da.models.cart_pole(), 0.02)
    with pytest.raises(ExportError, match="another system"):
        export_c(other, tmp_path, ekf=options["ekf"])
    chain, others = designs.closed_chain()
    for sensor, why in (
        (da.measure_force(chain), "only sensors of states"),
        (da.measure_accelerometer(chain, "G"), "where there are no constraints"),
    ):
        felt = da.ExtendedKalmanFilter(chain, sensor, Q=1e-5, R=1e-4)
        with pytest.raises(ExportError, match=why):
            export_c(chain, tmp_path, ekf=felt, start=others["start"])
    with pytest.raises(ValueError, match="no input is called 'pull'"):
        export_c(vi, tmp_path, gains=options["gains"], limits={"pull": (0, 1)})
    with pytest.raises(ValueError, match="give gains="):
        export_c(vi, tmp_path, limits={"push": (0, 1)})


@pytest.mark.parametrize("full", [False, True])
def test_noise_that_changes_from_step_to_step(full, tmp_path):
    """One matrix per step; after the last step the last one goes on."""
    vi = da.MidpointVI(da.models.cart_pole(), 0.01)
    system = da.System(vi, steps=20)
    rng = np.random.default_rng(1)
    Q = np.stack([np.diag(rng.uniform(1e-6, 1e-3, 4)) for _ in range(20)])
    if full:
        Q[:, 0, 2] = Q[:, 2, 0] = 1e-7
    ekf = da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=Q, R=1e-4)
    c = Compiled(vi, tmp_path, ekf=ekf, start=[0.0, 0.4, 0.0, 0.0])
    estimate = ekf.start([0.0, 0.4, 0.0, 0.0], 1e-2)
    c.call("filter_start", [0.0, 0.4], [0.0, 0.0], np.full(4, 1e-2))
    for k in range(25):
        assert c.call("predict", [0.3], last=(c.real(0.01),)) == 0
        estimate = ekf.predict(estimate, [0.3], min(k, 19))
        assert np.abs(c.field("covariance", 4, 4) - estimate.covariance).max() < 1e-14
        assert c.call("update", [0.01, 0.41]) == 0
        estimate = ekf.update(estimate, [0.01, 0.41])
        assert np.abs(c.x - estimate.mean).max() < 1e-12
    c.call("filter_start", [0.0, 0.4], [0.0, 0.0], np.full(4, 1e-2))  # and begins anew
    c.call("predict", [0.3], last=(c.real(0.01),))
    first = ekf.predict(ekf.start([0.0, 0.4, 0.0, 0.0], 1e-2), [0.3], 0)
    assert np.abs(c.field("covariance", 4, 4) - first.covariance).max() < 1e-14


def turret() -> da.Model:
    """A prescribed turntable that carries two links: not in a plane, and coupled with what is prescribed."""
    gun = da.rx("tip", da.tz(-0.4, name="end", mass=0.7, inertia=(0.01, 0.02, 0.03)))
    arm = da.ry("lift", da.tz(-0.5, gun, name="elbow", mass=1.0, inertia=(0.02, 0.01, 0.03)))
    table = da.rz(da.Kinematic("turn"), da.tx(0.3, arm), name="table", mass=2.0, inertia=(0.1, 0.1, 0.2))
    return da.Model([table], [da.Gravity((0, 0, -9.8)), da.ConfigForce("tip", "torque")], name="turret")


def seen_in_motion(vi: da.MidpointVI, frame: str) -> object:
    """Tachometers, speeds of frames, gyroscopes and magnetometers, beside a sensor of states."""
    sensor = da.measure_gyroscope(vi, frame) + da.measure(vi, vi.model.variables[-1])
    sensor += da.measure_velocity(vi, *vi.model.velocities[:4], frame)
    return sensor + da.measure_magnetometer(vi, frame, (0.3, 0.1, -0.5))


def moving_cases(name: str) -> tuple[da.MidpointVI, np.ndarray]:
    """Without and with prescribed variables; constraints on configurations and velocities; balls; both."""
    rng = np.random.default_rng(3)
    if name in ("cart_pole", "turret"):
        vi = da.MidpointVI(da.models.cart_pole() if name == "cart_pole" else turret(), 0.01)
        m = vi.model
        return vi, np.concatenate([rng.uniform(-1, 1, m.nq), rng.uniform(-0.3, 0.3, m.nd), np.zeros(m.nkv)])
    if name == "satellite":
        vi, _, X, _ = satellite()
        return vi, X[3]
    return agreement.case(name, 0.01, options=False)


ALWAYS = ("cart_pole", "turret", "closed_chain", "satellite", "skate")
LONGER = ("crane", "string_puppet", "random0", "balls1", "balls3", "turntable", "bicycle")


@pytest.mark.parametrize("name", [*ALWAYS, *(pytest.param(name, marks=pytest.mark.slow) for name in LONGER)])
def test_sensors_of_velocities(name, tmp_path):
    """30 cycles; where there are balls the library's own derivatives are differences (1e-9)."""
    vi, start = moving_cases(name)
    m = vi.model
    sensor = seen_in_motion(vi, m.frame_names[-1])
    ekf = da.ExtendedKalmanFilter(vi, sensor, Q=1e-4, R=1e-3)
    c = Compiled(vi, tmp_path, ekf=ekf, start=start)
    rng = np.random.default_rng(3)
    guess = vi.retract(start, 1e-2 * rng.normal(size=vi.ndx) * (np.arange(vi.ndx) < m.nd))
    estimate = ekf.start(guess, 1e-2)
    other = ekf.start(agreement.rounded(vi, guess, rng), 1e-2)
    c.filter_start(guess, np.full(vi.ndx, 1e-2))
    truth = start.copy()
    tolerance = 1e-11 if m.configuration.flat else 1e-8
    for k in range(30):
        w = np.concatenate(
            [np.full(m.nu, 0.2), start[m.nqd : m.nq] + 0.02 * (1 - np.cos(0.2 * (k + 1))) * np.ones(m.nkv)]
        )
        truth = vi.f(truth, w)
        z = sensor.expected(truth) + 0.03 * rng.normal(size=sensor.size)
        z[rng.random(sensor.size) < 0.1] = np.nan
        assert c.predict(w) == 0
        assert c.call("update", z) == 0
        estimate, other = (ekf.update(ekf.predict(e, w), z) for e in (estimate, other))
        agreement.close(c.x, estimate.mean, tolerance, rounding=np.abs(estimate.mean - other.mean).max())
        P = c.field("covariance", vi.ndx, vi.ndx)
        agreement.close(
            P, estimate.covariance, tolerance, rounding=np.abs(estimate.covariance - other.covariance).max()
        )


@pytest.mark.parametrize(
    "name",
    [
        "cart_pole",
        "turret",
        "satellite",
        "random28",
        *(pytest.param(f"balls{i}", marks=pytest.mark.slow) for i in (0, 2, 4, 6)),
    ],
)
def test_accelerometers(name, tmp_path):
    """An inertial measurement unit (accelerometer, gyroscope, magnetometer) beside an encoder, with inputs, springs, dampers and damping."""
    vi, start = moving_cases(name)
    m = vi.model
    frame = "bob" if name == "cart_pole" else m.frame_names[-1]
    sensor = da.measure_accelerometer(vi, frame) + da.measure(vi, m.variables[-1])
    sensor += da.measure_gyroscope(vi, frame) + da.measure_magnetometer(vi, frame, (0.3, 0.1, -0.5))
    ekf = da.ExtendedKalmanFilter(vi, sensor, Q=1e-4, R=1e-2)
    c = Compiled(vi, tmp_path, ekf=ekf, start=start)
    rng = np.random.default_rng(4)
    guess = vi.retract(start, 1e-2 * rng.normal(size=vi.ndx) * (np.arange(vi.ndx) < m.nd))
    estimate = ekf.start(guess, 1e-2)
    other = ekf.start(agreement.rounded(vi, guess, rng), 1e-2)
    c.filter_start(guess, np.full(vi.ndx, 1e-2))
    truth = start
    tolerance = 1e-11 if m.configuration.flat else 1e-8
    for k in range(30):
        w = agreement.some_inputs(vi, truth, rng)
        truth = vi.f(truth, w)
        z = sensor.expected(truth, w) + 0.1 * rng.normal(size=sensor.size)
        z[rng.random(sensor.size) < 0.1] = np.nan
        assert c.predict(w) == 0
        assert c.call("update", z) == 0
        estimate, other = (ekf.update(ekf.predict(e, w, k), z, w) for e in (estimate, other))
        agreement.close(c.x, estimate.mean, tolerance, rounding=np.abs(estimate.mean - other.mean).max())
        P = c.field("covariance", vi.ndx, vi.ndx)
        agreement.close(
            P, estimate.covariance, tolerance, rounding=np.abs(estimate.covariance - other.covariance).max()
        )


def led_models() -> dict[str, da.Model]:
    """A hand on a prescribed ball that carries a pendulum; on a prescribed floating base beside a prescribed slider, with a ball, inputs,
    damping; with a string between what is led and what is not."""
    rod = da.rx("swing", da.tz(-0.6, name="bob", mass=0.7, inertia=(0.02, 0.02, 0.01)))
    hand = da.ball(da.Kinematic("hand"), da.tx(0.4, rod), name="palm", mass=0.5, inertia=(0.1, 0.12, 0.08))
    hip = da.ball("hip", da.tz(-0.8, name="foot", mass=1.2, inertia=(0.1, 0.1, 0.05)))
    torques = [da.ConfigForce(f"hip.w{a}", f"t{a}") for a in "xz"]
    base = da.floating(
        da.Kinematic("base"),
        da.tx(0.2, hip),
        da.ty("arm", name="slide", mass=0.4),
        name="deck",
        mass=1.0,
        inertia=(1, 1, 1),
    )
    mass = da.tx("x", da.ty("y", da.tz("z", name="load", mass=1.0)))
    gravity = da.Gravity((0, 0, -9.8))
    tip = da.ball(da.Kinematic("wrist"), da.tx(0.5, name="tip"), name="arm")
    return {
        "hand": da.Model([hand], [gravity, da.Damping(0.1)], name="hand"),
        "deck": da.Model(
            [base, da.tx(da.Kinematic("rail"), da.rz("spin", da.tx(0.3, mass=0.5)))],
            [gravity, *torques, da.Damping(0.2)],
            name="deck",
        ),
        "string": da.Model([tip, mass], [gravity, da.Distance("tip", "load", 1.0)], name="string"),
    }


@pytest.mark.parametrize("name", list(led_models()))
def test_prescribed_balls(name, tmp_path):
    """Steps, A and B by angular velocities, and a filter with irregular steps and corrections of what is prescribed."""
    model = led_models()[name]
    vi = da.MidpointVI(model, 0.01)
    rng = np.random.default_rng(5)
    q = model.random(rng) if not model.nc else {"z": -1.0, "x": 0.5}
    q = da.satisfy_constraints(model, q) if model.nc else q
    state = vi.state(
        q=q, v=0.3 * rng.normal(size=model.nv) * (np.arange(model.nv) < model.nd) if not model.nc else None
    )
    x = np.concatenate([state.q, state.p, np.zeros(model.nkv)])
    sensor = da.measure_frame(vi, model.frame_names[-1]) + da.measure(vi, model.variables[0])
    ekf = da.ExtendedKalmanFilter(vi, sensor, Q=1e-5, R=1e-3)
    c = Compiled(vi, tmp_path, ekf=ekf, start=x)
    at = x
    for _ in range(10):
        w = np.concatenate([0.3 * rng.normal(size=model.nu), still(vi, at)])
        w[model.nu :] += 0.5 * rng.normal(size=model.nkv) * (still(vi, at) == 0) + 0.003 * rng.normal(size=model.nkv)
        new, A, B = vi.advance(at, w)
        c.start(at)
        assert c.step(w) == 0
        agreement.close(c.x, new, 1e-12, reached(A, at))
        status, a, b = c.linearize()
        assert status == 0
        agreement.close(a, A, 1e-12)
        agreement.close(b, B, 1e-12)
        at = new
    estimate = ekf.start(x, 1e-3)
    c.filter_start(x, np.full(vi.ndx, 1e-3))
    truth = x
    for k in range(30):
        w = np.concatenate([0.3 * rng.normal(size=model.nu), still(vi, truth)])
        w[model.nu :] += 0.01 * rng.normal(size=model.nkv)
        truth = vi.f(truth, w)
        z = sensor.expected(truth) + 0.03 * rng.normal(size=sensor.size)
        assert c.predict(w) == 0
        assert c.call("update", z) == 0
        estimate = ekf.update(ekf.predict(estimate, w, k), z)
        agreement.close(c.x, estimate.mean, 1e-10)
        agreement.close(c.field("covariance", vi.ndx, vi.ndx), estimate.covariance, 1e-10)
    from tests.export.test_quality import build_and_run

    (tmp_path / "shim.c").unlink()
    for cc in ("gcc", "clang"):
        assert ": ok" in build_and_run(tmp_path, cc, "-O1")


def test_what_prescribed_balls_do_not_have_yet(tmp_path):
    model = led_models()["hand"]
    with pytest.raises(ExportError, match="order 2"):
        export_c(da.MidpointVI(model, 0.01, order=4), tmp_path)
    vi = da.MidpointVI(model, 0.01)
    with pytest.raises(ExportError, match="no ball is prescribed"):
        export_c(vi, tmp_path, ekf=da.ExtendedKalmanFilter(vi, da.measure_gyroscope(vi, "bob"), Q=1e-5, R=1e-4))
