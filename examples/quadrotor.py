"""A quadrotor turns over three times: tracking regulator, Kalman filter with gyroscope and accelerometer.

No coordinate of it is singular: the body floats. The regulator's error is a rotation vector, the filter's
covariance lives in the tangent space of its mean.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da

DT = 0.005
MASS = 1.35


def quadrotor() -> da.Model:
    """A body under thrust and torques, with an inertial sensor."""
    imu = da.tx(0.05, da.tz(0.02, name="imu"))
    body = da.floating("base", imu, name="body", mass=MASS, inertia=(0.01, 0.011, 0.018))
    push = da.Wrench("body", force=(0.0, 0.0, "thrust"), torque=("roll", "pitch", "yaw"))
    return da.Model([body], [da.Gravity((0, 0, -9.81)), push])


def flips(vi: da.MidpointVI, turns: int = 3) -> da.Trajectory:
    """Up, over and over about x within 1.2 s, down, caught and held: what these inputs do is the reference."""
    weight = MASS * 9.81
    spin = 1.2
    jump, catch, hover = 0.5, 0.53, 0.6
    t = np.arange(0.0, jump + spin + catch + hover, vi.dt)
    s = np.clip((t + vi.dt / 2 - jump) / spin, 0.0, 1.0)
    bend = 60 * s - 180 * s**2 + 120 * s**3  # second derivative of 10 s^3 - 15 s^4 + 6 s^5
    U = np.zeros((len(t), 4))
    U[:, 0] = np.where(t < jump, 2.2 * weight, np.where(t < jump + spin, 0.05 * weight, 2.1 * weight))
    U[t > jump + spin + catch, 0] = weight
    U[:, 1] = 0.01 * 2 * np.pi * turns / spin**2 * bend
    return vi.simulate(vi.state(), steps=len(t), u=U, accuracy="ignore")


def fly(vi: da.MidpointVI, reference: da.Trajectory, law: da.Feedback, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The motion (N+1, nx) and its estimate under gusts, with noisy sensors; the law sees the estimate only."""
    system = da.System(vi, steps=reference.steps)
    sensor = da.measure_gyroscope(system, "imu") + da.measure_accelerometer(system, "imu")
    R = np.r_[np.full(3, 0.02), np.full(3, 0.1)] ** 2
    rng = np.random.default_rng(seed)
    # gusts: impulses in every step (kg m/s, kg m^2/s)
    gust = np.concatenate([np.full(3, 1e-3), np.full(3, 1e-4)])
    Q = np.concatenate([np.full(6, 1e-12), gust**2])
    away = np.concatenate([np.full(6, 0.05), np.zeros(6)])
    x0 = np.r_[reference.q[0], reference.p[0]]
    x = vi.retract(x0, away * rng.normal(size=12))
    ekf = da.ExtendedKalmanFilter(system, sensor, Q=Q, R=R)
    estimate = ekf.start(x, np.full(12, 1e-6))
    X, M = [x], [estimate.mean]
    for k in range(reference.steps):
        u = law.input(k, estimate.mean)
        x = vi.retract(system.f(x, u, k), np.concatenate([np.zeros(6), gust * rng.normal(size=6)]))
        z = sensor.expected(x, u) + np.sqrt(R) * rng.normal(size=6)
        estimate = ekf.update(ekf.predict(estimate, u, k), z, u)
        X.append(x)
        M.append(estimate.mean)
    return np.array(X), np.array(M)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    vi = da.MidpointVI(quadrotor(), DT)
    reference = flips(vi)
    turned = np.degrees(reference["base.rx"])
    fastest = reference["base.wx"].max()
    print(f"reference: {turned[-1]:.1f} degrees about x in {reference.t[-1]:.2f} s, at most {fastest:.0f} rad/s")
    weights = {"base.v?": 1.0, "base.w?": 20.0, "p.base.v?": 0.5, "p.base.w?": 50.0}
    law = da.lqr(vi, reference, Q=weights, R={"thrust": 0.05, "*": 1.0})
    X, M = fly(vi, reference, law, seed=1)
    error = vi.difference(np.hstack([reference.q, reference.p]), X)
    guess = vi.difference(X, M)
    tilt, place = np.degrees(np.linalg.norm(error[:, 3:6], axis=1)), np.linalg.norm(error[:, :3], axis=1)
    print(
        f"flown: at most {tilt.max():.1f} degrees and {place.max():.2f} m from it, at the end {tilt[-1]:.1f} degrees and {place[-1]:.2f} m"
    )
    print(
        f"estimate: at most {np.degrees(np.linalg.norm(guess[:, 3:6], axis=1)).max():.2f} degrees and "
        f"{np.linalg.norm(guess[:, :3], axis=1).max():.3f} m off"
    )

    rng = np.random.default_rng(0)
    model = vi.model
    starts = [vi.state(q={"base": model.random(rng)[3:7]}) for _ in range(1000)]
    many = da.rollouts(vi, starts, reference.steps, u=reference.u, accuracy="ignore")
    done = int((many.completed == reference.steps).sum())
    print(f"the same inputs from {len(starts)} random attitudes: {done} motions end, none fails")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    up = da.rotation.matrix(X[:, 3:7])[:, :, 2]
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(12.5, 4.2), width_ratios=(1.15, 1, 1))
        for k in range(0, len(X), 12):  # side by side in time, so that one sees each
            y, z = 2.2 * reference.t[k] + X[k, 1], X[k, 2]
            side = 0.16 * np.array([up[k, 2], -up[k, 1]])
            a.plot([y - side[0], y + side[0]], [z - side[1], z + side[1]], color="C0", lw=1.6)
            a.plot([y, y + 0.12 * up[k, 1]], [z, z + 0.12 * up[k, 2]], color="C0", lw=0.8)
        a.set(xlabel="2.2 m/s t + y (m)", ylabel="z (m)", title="Body and thrust axis")
        a.set_aspect("equal", adjustable="datalim")
        b.plot(reference.t, reference["base.rx"] / (2 * np.pi), label="turns about x")
        b.plot(reference.t, reference["base.wx"] / 10, label="rate about x (10 rad/s)")
        b.plot(reference.t, X[:, 2], label="height (m)")
        b.set(xlabel="time (s)", title="Three turns in 1.2 s")
        b.legend(loc="center right", fontsize=8)
        c.semilogy(reference.t, tilt, label="flown: attitude (degrees)")
        c.semilogy(reference.t, 100 * place, label="flown: position (cm)")
        c.semilogy(reference.t, np.degrees(np.linalg.norm(guess[:, 3:6], axis=1)) + 1e-6, label="estimated: attitude")
        c.semilogy(reference.t, 100 * np.linalg.norm(guess[:, :3], axis=1) + 1e-6, label="estimated: position")
        c.set(xlabel="time (s)", title="Errors under gusts", ylim=(1e-3, None))
        c.legend(fontsize=8)
        figure.savefig(args.out / "quadrotor.png")
    print("figure:", args.out / "quadrotor.png")


if __name__ == "__main__":
    main()
