"""Four discrete Lagrangians: rectangles from the left, in the middle and from the right, and the trapezoidal rule.

Johnson, Murphey, Scalable variational integrators, Fig. 3. The first three are `MidpointVI` with alpha = 0, 1/2 and 1; the
fourth is a one-step of one's own, written here in a page: Ld = dt/2 (L(q_k, v) + L(q_k+1, v)), v = (q_k+1 - q_k)/dt. It gives
its step and the derivatives of it, and with that it works wherever a step is asked for: here the LQR of an upright pole.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import mechanics, models


class TrapezoidalVI(da.OneStepMap):
    """Variational integrator of the trapezoidal rule: x = (q, p), u the inputs; no constraints, no prescribed variables."""

    def __init__(self, model: da.Model, dt: float) -> None:
        if model.nc or model.nk:
            raise ValueError("this example has no multipliers and no prescribed variables")
        self.model, self.dt = model, dt
        self.nx, self.nu = 2 * model.nq, model.nu
        self.x_names = (*model.variables, *(f"p.{name}" for name in model.variables))
        self.u_names = model.inputs

    def slots(self, q0, q1, u):
        """D1 Ld + F-, D2 Ld + F+ (n,), and their derivatives by q0, q1 and u, (2, n, n) twice and (2, n, m)."""
        m, dt = self.model, self.dt
        v = (q1 - q0) / dt
        ends = [(mechanics.lagrangian_first(m, q, v), mechanics.lagrangian_second(m, q, v)) for q in (q0, q1)]
        forces = [(mechanics.force(m, q, v, u), *mechanics.force_first(m, q, v, u)) for q in (q0, q1)]
        (first0, (qq0, qv0, vv0)), (first1, (qq1, qv1, vv1)) = ends
        speed, mass = (first0[1] + first1[1]) / 2, (vv0 + vv1) / (2 * dt)
        value = [dt / 2 * (first0[0] + forces[0][0]) - speed, dt / 2 * (first1[0] + forces[1][0]) + speed]
        push = [dt / 2 * f[1] for f in forces], [f[2] / 2 for f in forces], [dt / 2 * f[3] for f in forces]
        by0 = [
            dt / 2 * qq0 - (qv0 + qv0.T) / 2 + mass + push[0][0] - push[1][0],
            (qv0.T - qv1) / 2 - mass - push[1][1],
        ]
        by1 = [
            (qv0 - qv1.T) / 2 - mass + push[1][0],
            dt / 2 * qq1 + (qv1 + qv1.T) / 2 + mass + push[0][1] + push[1][1],
        ]
        return value, by0, by1, push[2]

    def solve(self, x, u):
        """q1 of p + D1 Ld + F- = 0, by Newton's method."""
        q, p = np.split(np.asarray(x, dtype=float), 2)
        new = q + self.dt * np.linalg.solve(mechanics.mass_matrix(self.model, q), p)
        for _ in range(30):
            value, _, by1, _ = self.slots(q, new, u)
            change = np.linalg.solve(by1[0], -(p + value[0]))
            new = new + change
            if np.abs(change).max() < 1e-14 * (1 + np.abs(new).max()):
                return new
        raise da.ConvergenceError("the step did not converge", state=x)

    def f(self, x, u, k=0):
        q = x[: self.model.nq]
        new = self.solve(x, u)
        return np.concatenate([new, self.slots(q, new, u)[0][1]])

    def linearize(self, x, u, k=0):
        """Structured linearization, eqs 10 to 15."""
        n = self.model.nq
        _, by0, by1, by_u = self.slots(x[:n], self.solve(x, u), u)
        W = -np.linalg.inv(by1[0])
        q_x, q_u = W @ np.hstack([by0[0], np.eye(n)]), W @ by_u[0]
        p_x = by1[1] @ q_x + np.hstack([by0[1], np.zeros((n, n))])
        return np.vstack([q_x, p_x]), np.vstack([q_u, by1[1] @ q_u + by_u[1]])


RULES = {
    "rectangle, left (α = 0)": lambda m, dt: da.MidpointVI(m, dt, alpha=0.0),
    "midpoint (α = 1/2)": lambda m, dt: da.MidpointVI(m, dt),
    "rectangle, right (α = 1)": lambda m, dt: da.MidpointVI(m, dt, alpha=1.0),
    "trapezoidal": TrapezoidalVI,
}


def motion(rule, model, dt: float, seconds: float, start):
    """States (N+1, 2 nq) of a free motion from rest."""
    steps = round(seconds / dt)
    x0 = np.concatenate([start, np.zeros(model.nq)])
    return np.asarray(da.System(rule(model, dt), steps=steps).simulate(x0, np.zeros((steps, model.nu))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    model, start = models.n_link(2), np.array([1.0, 0.5])
    exact = motion(lambda m, dt: da.MidpointVI(m, dt, order=6), model, 0.005, 1.0, start)[-1, :2]
    lengths = (0.05, 0.025, 0.0125, 0.00625)
    errors = {
        name: [np.abs(motion(rule, model, dt, 1.0, start)[-1, :2] - exact).max() for dt in lengths]
        for name, rule in RULES.items()
    }
    energies = {}
    for name, rule in RULES.items():
        X = motion(rule, model, 0.02, 60.0, start)
        q, p = X[:, :2], X[:, 2:]
        v = np.stack([np.linalg.solve(mechanics.mass_matrix(model, a), b) for a, b in zip(q, p, strict=True)])
        energies[name] = mechanics.kinetic_energy(model, q, v) + mechanics.potential_energy(model, q)
        order = np.log2(errors[name][-2] / errors[name][-1])
        swing = np.abs(energies[name] - energies[name][0])
        print(
            f"{name:<26} order {order:.2f}; energy error in 60 s at dt = 0.02 s: largest {swing.max():.2e} J, in the last "
            f"10 s {swing[-500:].max():.2e} J"
        )

    pole = models.cart_pole()
    trapezoidal = TrapezoidalVI(pole, 0.05)
    top = np.array([0.0, np.pi, 0.0, 0.0])
    A, B = trapezoidal.linearize(top, np.zeros(1))
    K = da.lqr_infinite(A, B, Q=np.diag([1.0, 10.0, 0.1, 0.1]), R=0.1).K
    x = top + np.array([0.0, 0.3, 0.0, 0.0])
    for _ in range(200):
        x = trapezoidal.f(x, -K @ (x - top))
    print(f"LQR on the trapezoidal step: 0.3 rad off, then {np.abs(x - top).max():.1e} after 10 s")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
        pendulum, dt, count = models.pendulum(), 0.2, 8
        fine = motion(RULES["midpoint (α = 1/2)"], pendulum, dt / 40, dt * count, np.array([2.0]))
        t = dt / 40 * np.arange(len(fine))
        action = fine[:, 1] ** 2 / 2 + 9.8 * np.cos(fine[:, 0])
        nodes = fine[::40, 0]
        for ax, (name, alpha) in zip(axes.flat[:4], zip(RULES, (0.0, 0.5, 1.0, None), strict=True), strict=True):
            ax.plot(t, action, color="black", lw=1.2)
            for k in range(count):
                speed = (nodes[k + 1] - nodes[k]) / dt
                ends = (
                    (nodes[k], nodes[k + 1]) if alpha is None else [(1 - alpha) * nodes[k] + alpha * nodes[k + 1]] * 2
                )
                heights = [speed**2 / 2 + 9.8 * np.cos(a) for a in ends]
                ax.fill_between([k * dt, (k + 1) * dt], heights, color="C0", alpha=0.25 + 0.2 * (k % 2), lw=0)
            ax.set(title=name, xlabel="time (s)", ylabel="L (J)")
        a, b = axes[1, 1], axes[1, 2]
        for (name, e), line in zip(errors.items(), ("-o", "-s", "--^", "--d"), strict=True):
            a.loglog(lengths, e, line, ms=4, label=name)
        a.set(xlabel="step (s)", ylabel="error after 1 s (rad)", title="double pendulum")
        a.set_xticks(lengths, [f"{dt:g}" for dt in lengths])
        a.minorticks_off()
        a.set_ylim(2e-6, None)  # room for the legend, which is also that of the energies
        a.legend(fontsize=8, loc="lower right")
        for name in RULES:
            b.plot(0.02 * np.arange(len(energies[name])), energies[name] - energies[name][0], lw=0.7, label=name)
        b.set(xlabel="time (s)", ylabel="energy − start (J)", title="energy at dt = 0.02 s", xlim=(0, 20))
        b.set_yscale("symlog", linthresh=0.01)
        figure.savefig(out / "discrete_lagrangians.png")
    print("figure:", out / "discrete_lagrangians.png")


if __name__ == "__main__":
    main()
