"""Swing-up of a two-link pendulum with least effort: four transcriptions of one problem.

Leyendecker, Ober-Bloebaum, Marsden, Ortiz, Discrete mechanics and optimal control for constrained systems, section 7.1:
convergence of configuration, control and objective (Fig. 7), DMOCC against DMOC and consistency of the angular
momentum (Fig. 8). Two uniform rods, m = l = 1, J = 1/12, g = 9.81, torques at the base and at the elbow, T = 1 s, from
hanging to upright, at rest at both ends. Variables: a, the angle of the first rod from the horizontal (-pi/2 to pi/2),
and b, the angle of the second rod relative to the first (0 to 0); the first guess is the straight line between them.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.direct import dmocc

ROD = {"mass": 1.0, "inertia": (0.0, 1 / 12, 1 / 12)}
START = {"q": [-np.pi / 2, 0.0], "v": [0.0, 0.0]}
GOAL = {"q": [np.pi / 2, 0.0], "v": [0.0, 0.0]}
MESHES = (8, 16, 32, 64, 128, 256, 512)
FINE = 2048
METHODS = {
    "DMOC": "dmoc",
    "Hamiltonian collocation": "hamiltonian",
    "velocity collocation": "velocity",
    "DMOCC": "dmocc",
}


def model():
    """The pendulum; torques named base and joint."""
    second = da.tx(1.0, da.rz("b", da.tx(0.5, name="second", **ROD)))
    return da.Model(
        [da.rz("a", da.tx(0.5, name="first", **ROD), second)],
        [da.Gravity((0, -9.81, 0)), da.ConfigForce("a", "base"), da.ConfigForce("b", "joint")],
        name="two-link pendulum",
    )


def solve(method, steps, guess=None, **options):
    """(t, q (N+1, 2), u (N, 2), angular momentum about the base (N+1,), objective) by one of the four methods."""
    pendulum = model()
    if method == "dmocc":
        system = dmocc.from_model(pendulum)
        q = (
            None
            if guess is None
            else np.stack([np.interp(np.linspace(0, 1, steps + 1), guess[0], c) for c in guess[1].T], 1)
        )
        found = dmocc.optimize(system, steps=steps, time=1.0, start=START["q"], goal=GOAL["q"], guess=q)
        assert found.success, found.message
        m = found.motion
        return m.t, m.u, m.tau, m.angular_momentum()[:, 2], found.objective
    previous = None if guess is None else _as_guess(guess)
    plan = da.dmoc(pendulum, start=START, goal=GOAL, steps=steps, time=1.0, method=method, guess=previous, **options)
    assert plan.success, plan.message
    return plan.t, plan.q, plan.u, plan.p[:, 0], plan.objective


class _as_guess:
    """A motion as `dmoc` reads it."""

    def __init__(self, found):
        self.t, self.q, self.u = found[:3]
        self.p, self.lam, self.success = np.zeros_like(self.q), np.zeros((len(self.u), 0)), False


def gravity_torque(q):
    """Torque of gravity about the base."""
    return -9.81 * (1.5 * np.cos(q[..., 0]) + 0.5 * np.cos(q[..., 0] + q[..., 1]))


def momentum_defect(method, found):
    """Change of angular momentum in each step minus the discrete impulses of base torque and gravity (N,)."""
    t, q, u, momentum, _ = found
    h = np.diff(t)
    if method == "dmocc":  # its midpoint is the average of directors, not of angles
        torque = (gravity_torque(q[1:]) + gravity_torque(q[:-1])) / 2
    else:
        torque = gravity_torque((q[1:] + q[:-1]) / 2)
    return np.abs(np.diff(momentum) - h * (u[:, 0] + torque))


def convergence(reference):
    """{method: errors (meshes, 3) of configuration, control and objective}, and all solutions."""
    errors, found = {}, {}
    for name, method in METHODS.items():
        fine = solve(method, FINE, reference)
        found[name] = {n: solve(method, n, fine) for n in MESHES}
        middle = (fine[0][1:] + fine[0][:-1]) / 2
        rows = []
        for n in MESHES:
            t, q, u, _, objective = found[name][n]
            at = (t[1:] + t[:-1]) / 2
            exact = np.stack([np.interp(at, middle, c) for c in fine[2].T], axis=1)
            rows.append([np.abs(q - fine[1][:: FINE // n]).max(), np.abs(u - exact).max(), abs(objective - fine[4])])
        errors[name] = np.array(rows)
    return errors, found


def timings():
    """Rows (how, iterations, set-up s, solve s, objective) for N = 512, best of three."""
    pendulum = model()
    problem = {"start": START, "goal": GOAL, "time": 1.0}
    coarse = da.dmoc(pendulum, steps=64, guess=da.dmoc(pendulum, steps=512, **problem), **problem)
    cases = {
        "IPOPT, straight line": {},
        "fatrop, straight line": {"solver": "fatrop"},
        "IPOPT, from N = 64": {"guess": coarse},
        "fatrop, from N = 64": {"guess": coarse, "solver": "fatrop"},
    }
    for name, options in cases.items():
        runs = [da.dmoc(pendulum, steps=512, **problem, **options) for _ in range(3)]
        best = min(runs, key=lambda r: r.solve_time)
        yield name, best.iterations, min(r.setup_time for r in runs), best.solve_time, best.objective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figures")
    out = parser.parse_args().out
    warnings.simplefilter("ignore", da.AccuracyWarning)  # the study is about meshes that are too coarse

    print("N = 512                   iterations  set-up s  solve s  objective")
    for name, iterations, setup, spent, objective in timings():
        print(f"{name:25} {iterations:10d}  {setup:8.3f}  {spent:7.3f}  {objective:.5f}")

    reference = solve("dmoc", 512)
    errors, found = convergence(reference)
    slope = lambda e: np.polyfit(np.log(1 / np.array(MESHES[2:])), np.log(e[2:]), 1)[0]  # noqa: E731
    print(f"\norder of convergence, N = {MESHES[2]} ... {MESHES[-1]} against N = {FINE}")
    print("method                     configuration  control  objective  momentum defect (N = 64)")
    defects = {}
    for name, method in METHODS.items():
        orders = [slope(errors[name][:, i]) for i in range(3)]
        defects[name] = momentum_defect(method, found[name][64])
        print(f"{name:26} {orders[0]:13.2f}  {orders[1]:7.2f}  {orders[2]:9.2f}  {defects[name].max():.1e}")
    gap = np.array(
        [
            [np.abs(a - b).max() for a, b in zip(found["DMOC"][n][1:3], found["DMOCC"][n][1:3], strict=True)]
            for n in MESHES
        ]
    )
    print(f"DMOCC to DMOC: order {slope(gap[:, 0]):.2f} in configuration, {slope(gap[:, 1]):.2f} in control")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    h = 1 / np.array(MESHES)
    with style():
        figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
        for i, (name, marker) in enumerate(zip(METHODS, "osd^", strict=True)):
            axes[0, 0].loglog(h, errors[name][:, 0], marker=marker, color=f"C{i}", label=name, ms=4)
            axes[0, 0].loglog(h, errors[name][:, 1], marker=marker, color=f"C{i}", ls="--", ms=4)
            axes[0, 1].loglog(h, errors[name][:, 2], marker=marker, color=f"C{i}", label=name, ms=4)
            axes[1, 1].semilogy(
                found[name][64][0][1:], np.maximum(defects[name], 1e-17), marker=marker, color=f"C{i}", ms=2, label=name
            )
        axes[0, 0].loglog(h, 40 * h**2, ":", color="gray")
        axes[0, 0].set(xlabel="step (s)", ylabel="largest error", title="configuration (solid), control (dashed)")
        axes[0, 1].loglog(h, 400 * h**2, ":", color="gray", label="slope 2")
        axes[0, 1].set(xlabel="step (s)", ylabel="error", title="objective")
        axes[0, 1].legend()
        axes[1, 0].loglog(h, gap[:, 0], marker="o", label="configuration")
        axes[1, 0].loglog(h, gap[:, 1], marker="s", ls="--", label="control")
        axes[1, 0].set(xlabel="step (s)", ylabel="largest difference", title="DMOCC to DMOC")
        axes[1, 0].legend()
        axes[1, 1].set(xlabel="time (s)", ylabel="defect (N m s)", title="angular momentum, N = 64")
        axes[1, 1].legend()
        figure.savefig(out / "two_link_pendulum.png")

        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        t, q, u, _, _ = reference
        left.plot(t, q, label=["a", "b"])
        left.set(xlabel="time (s)", ylabel="angle (rad)", title="configuration")
        left.legend()
        right.plot((t[1:] + t[:-1]) / 2, u, label=["base", "joint"])
        right.set(xlabel="time (s)", ylabel="torque (N m)", title="control")
        right.legend()
        figure.savefig(out / "two_link_motion.png")
    print("figures:", out / "two_link_pendulum.png", out / "two_link_motion.png")


if __name__ == "__main__":
    main()
