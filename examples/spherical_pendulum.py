"""Spherical pendulum: where the matrix M_{k+1} of a step is singular, and the step bound sqrt(4 r / g).

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, section VII-A. In polar angles
q = (phi, theta) the matrix D2D1 Ld is singular where two consecutive configurations are symmetric about the pole
(theta_k + theta_{k+1} = 2 n pi), a property of the coordinates, and, in a plane, where
dt^2 g cos((theta_k + theta_{k+1})/2) + 4 r = 0, which no step shorter than sqrt(4 r / g) can reach.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

R, G, M = 1.0, 9.8, 1.0


def model() -> da.Model:
    """Azimuth phi about the vertical, polar angle theta from hanging."""
    return da.Model(
        [da.rz("phi", da.ry("theta", da.tz(-R, name="bob", mass=M)))], [da.Gravity((0, 0, -G))], "spherical"
    )


def step_matrix(m: da.Model, a: np.ndarray, b: np.ndarray, dt: float) -> np.ndarray:
    """D2D1 Ld (nq, nq) between two configurations, for alpha = 1/2."""
    qq, qv, vv = da.lagrangian_second(m, (a + b) / 2, (b - a) / dt)
    return dt / 4 * qq + (qv - qv.T) / 2 - vv / dt


def formula(a: np.ndarray, b: np.ndarray, dt: float) -> float:
    """Its determinant by the paper's eq. 34 (whose Ld lacks a factor dt; hence dt^2)."""
    s, d = b[1] + a[1], a[0] - b[0]
    bracket = dt**2 * G * np.cos(s / 2) + R * (2 + np.cos(s)) * d**2 + 4 * R
    return M**2 * R**3 / (4 * dt**2) * np.sin(s / 2) ** 2 * bracket


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    args = parser.parse_args(argv)
    m, rng = model(), np.random.default_rng(3)

    worst = 0.0
    for _ in range(200):
        a, b = rng.uniform(-1.5, 1.5, (2, 2))
        dt = rng.uniform(0.01, 0.8)
        worst = max(worst, abs(np.linalg.det(step_matrix(m, a, b, dt)) / formula(a, b, dt) - 1))
    print(f"determinant against eq. 34 at 200 random pairs: relative difference {worst:.1e}")

    bound = np.sqrt(4 * R / G)
    print(f"step bound sqrt(4 r / g) = {bound:.4f} s")
    angles = np.linspace(0.02, np.pi, 400)
    curves = {}
    for h in (0.3, 0.6, 0.7, 0.8):
        pairs = [(np.array([0.0, s - 0.01]), np.array([0.0, s + 0.01])) for s in angles]
        curves[h] = np.array([np.linalg.det(step_matrix(m, a, b, h)) / np.sin(b[1] - 0.01) ** 2 for a, b in pairs[:-1]])
        verdict = "changes sign" if curves[h].min() < 0 else "keeps its sign"
        print(f"  dt = {h:g} s: the determinant {verdict} for motion in a plane")

    # a swing that passes the pole closely: the condition of the step tells, and another chart has no trouble at all
    dt = 0.01
    polar, other = da.MidpointVI(m, dt), da.MidpointVI(models.spherical_pendulum(length=R, mass=M, gravity=G), dt)
    conditions, paths = {}, {}
    for side in (1.0, 0.3, 0.1):
        state, row = polar.state({"theta": 1.0}, v={"phi": side}), []
        for _ in range(120):
            row.append(polar.condition(state).worst)
            state = polar.step(state)
        conditions[side] = row
        # the same start in angles about x and y: the bob is at x = -sin(theta), y = 0 and moves sideways along -y
        start = other.state({"theta_y": 1.0}, v={"theta_x": -side * np.tan(1.0)})
        # polar angles are not accurate so close to the pole, which is the point here
        near = polar.simulate(polar.state({"theta": 1.0}, v={"phi": side}), time=20, accuracy="ignore")
        runs = [near, other.simulate(start, time=20)]
        paths[side] = [da.pose(r.model, r.q, "bob")[:, :2, 3] for r in runs]
        errors = [abs(r.energy() - r.energy()[0]).max() for r in runs]
        print(
            f"  sideways with {side:g} rad/s: condition up to {max(row):.1e}; energy error in 20 s "
            f"{errors[0]:.1e} J (polar), {errors[1]:.1e} J (angles about x and y); "
            f"p_phi changes by {np.ptp(near['p.phi']):.1e}; {np.sum(near.quality(0).jumps > 0.01)} of {near.steps} polar steps "
            f"jump by more than 1 % of what moves"
        )
    for name, start in (("at the pole", {"theta": 0.0}), ("symmetric about the pole", {"theta": -0.02})):
        try:
            state = polar.state(start, v={"theta": 4.0})
            print(f"  a step {name}: condition {polar.condition(state).worst:.1e}")
        except da.SingularityError as error:
            print(f"  a step {name}: SingularityError, {error}")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6))
        for i, (h, row) in enumerate(curves.items()):
            left.plot(angles[:-1], row * h**2, label=f"dt = {h:g} s", color=plt.cm.viridis(i / 3.5))
        left.axhline(0, color="black", lw=0.8)
        left.set(
            xlabel="mean of θₖ and θₖ₊₁ (rad)",
            ylabel="dt² det M / sin²",
            title=f"Swing in a plane; bound {bound:.2f} s",
        )
        left.legend()
        for side, row in conditions.items():
            middle.semilogy(dt * np.arange(len(row)), row, label=f"{side:g} rad/s")
        middle.set(xlabel="time (s)", ylabel="condition of the step", title="Passing close to the pole")
        middle.legend(title="sideways at start", loc="upper right")
        for i, (a, b) in enumerate(paths.values()):
            right.plot(*b[:500].T, lw=4, alpha=0.25, color=f"C{i}")
            right.plot(*a[:500].T, lw=1, color=f"C{i}")
        right.set(xlabel="x (m)", ylabel="y (m)", title="From above, 5 s (wide: other chart)", aspect="equal")
        right.locator_params(nbins=5)
        figure.savefig(args.out / "spherical_pendulum.png")
    print("figure:", args.out / "spherical_pendulum.png")


if __name__ == "__main__":
    main()
