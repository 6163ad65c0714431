"""How the error of a Kalman filter grows when its rate falls: discrete mechanics, explicit Euler, matrix exponential.

Schultz, Murphey, Embedded control synthesis using one-step methods in discrete mechanics, Fig. 3: for every time step
from 1/100 to 1/5 s, many trials of an extended Kalman filter on one motion of the string robot. The configuration is
measured with 10 mm of noise, process noise is 1 mm (m/s); the paper does not print its levels.

Three linearizations: exact, of the variational step; that of the continuous dynamics with an explicit Euler step; and its
matrix exponential over the step with inputs held (zero-order hold). What a filter knows of the winches matters as much:
"known", their next positions are inputs; "estimated", positions and velocities are states, accelerations are inputs. The
paper compares a variational filter that knows them with an Euler filter that estimates them; here all three are also
compared with equal knowledge. Two kinds of prediction: "nominal", as in the paper, where the predicted mean is the motion
itself plus noise, so that only the gains differ; and "own", where every filter predicts by its own step.

In the paper's experiment predictions are equally good for all; what differs is how far a filter trusts them. How much that
costs depends on the ratio of the noises: `levels` shows where the error is nearly doubled.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

RATES = (100, 75, 60, 50, 37.5, 30, 25, 20, 15, 12, 10, 7.5, 6, 5)
DURATION = 10.0
FINE = 300  # Hz; every rate above divides it
KINDS = ("variational", "exponential", "Euler")
WINCHES = ("known", "estimated")
PAPER = "as in the paper"  # variational: known; the others: estimated
STATE, POSITION, MOTION = 0, 1, 2  # errors, see `lengths`


def path(t):
    """Positions of robot and string length (n, 2) at times t, and their velocities."""
    a, w = np.array([[0.25, 0.1], [0.15, 0.0]]), np.array([[0.9, 2.3], [1.3, 0.0]])
    phase = np.multiply.outer(t, w)
    rho = (a * np.sin(phase)).sum(-1) + np.array([0.0, 0.75])
    return rho, (a * w * np.cos(phase)).sum(-1)


def motion():
    """A swinging motion of the crane at the fine rate: t (n,), X (n, 8)."""
    steps = int(DURATION * FINE)
    system = da.System(da.MidpointVI(models.crane(), dt=1 / FINE), steps=steps)
    rho, speed = path(system.t)
    x0 = np.concatenate([[0.0, -rho[0, 1]], rho[0], [0.3, -speed[0, 1]], speed[0]])
    return np.asarray(system.t), system.simulate(x0, rho[1:])


def acceleration(q, rho, v, speed, drive):
    """Continuous acceleration (..., 2) of the mass, 1 kg, on the string, and how it was found: (a, d, pull)."""
    d = q - np.stack([rho[..., 0], 0 * rho[..., 0]], axis=-1)
    w = v - np.stack([speed[..., 0], 0 * speed[..., 0]], axis=-1)
    free = np.stack([-drive[..., 0], -9.8 + 0 * drive[..., 0]], axis=-1)  # relative to the robot
    length = rho[..., 1]
    # d . (a - robot's) + |w|^2 = r r'' + r'^2
    wanted = length * drive[..., 1] + speed[..., 1] ** 2 - (w**2).sum(-1)
    size = (d**2).sum(-1)
    pull = (wanted - (d * free).sum(-1)) / size
    return np.stack([0 * pull, -9.8 + 0 * pull], axis=-1) + pull[..., None] * d, d, w, pull, size, free


def jacobian(x, drive):
    """Derivative (..., 8, 8) of (q', rho', a, rho'') by the state (q, rho, v, rho')."""
    q, rho, v, speed = (x[..., i : i + 2] for i in (0, 2, 4, 6))
    _, d, w, pull, size, free = acceleration(q, rho, v, speed, drive)
    out = np.zeros((*x.shape[:-1], 8, 8))
    out[..., np.arange(4), 4 + np.arange(4)] = 1.0
    slope = np.zeros((*x.shape[:-1], 8))  # of pull
    by_d = -(free + 2 * pull[..., None] * d) / size[..., None]
    slope[..., 0:2], slope[..., 2] = by_d, -by_d[..., 0]
    slope[..., 3] = drive[..., 1] / size
    slope[..., 4:6], slope[..., 6] = -2 * w / size[..., None], 2 * w[..., 0] / size
    slope[..., 7] = 2 * speed[..., 1] / size
    out[..., 4:6, :] = d[..., :, None] * slope[..., None, :]
    out[..., [4, 5], [0, 1]] += pull[..., None]
    out[..., 4, 2] -= pull
    return out


def exponential(D):
    """Matrix exponentials of many matrices (n, 8, 8) at once: Taylor's series, scaled and squared."""
    out = term = np.broadcast_to(np.eye(8), D.shape)
    for j in range(1, 11):
        term = term @ D / (64 * j)
        out = out + term
    for _ in range(6):
        out = out @ out
    return out


class Filter:
    """One linearization at one rate with one knowledge of the winches; many states (n, 8) at once.

    All kinds share the model of the winches: velocities are backward differences, so that rho' = rho + dt v + dt^2 drive.
    """

    def __init__(self, kind: str, winches: str, rate: float) -> None:
        self.kind, self.dt = kind, 1 / rate
        self.winches = ("known" if kind == "variational" else "estimated") if winches == PAPER else winches
        self.vi = da.MidpointVI(models.crane(), dt=self.dt)
        self.step = da.System(self.vi, steps=1).f

    def winch_rows(self, A):
        """The rows of (rho, v) in A (n, 8, 8): positions from inputs, or from states and accelerations."""
        eye, dt = np.eye(2), self.dt
        A[:, 2:4], A[:, 6:8] = 0.0, 0.0
        if self.winches == "known":
            A[:, 6:8, 2:4] = -eye / dt
        else:
            A[:, 2:4, 2:4], A[:, 2:4, 6:8], A[:, 6:8, 6:8] = eye, dt * eye, eye
        return A

    def next_winches(self, x, rho, drive):
        """(rho, v) of the next state, (n, 4)."""
        if self.winches == "known":
            return np.hstack([np.broadcast_to(rho, x[:, 2:4].shape), (rho - x[:, 2:4]) / self.dt])
        v = x[:, 6:8] + self.dt * drive
        return np.hstack([x[:, 2:4] + self.dt * v, v])

    def held(self, x, rho, drive):
        """(velocity at the start of the step, acceleration) of winches that accelerate evenly, (n, 2) each."""
        if self.winches == "known":
            a = (rho - x[:, 2:4] - self.dt * x[:, 6:8]) / self.dt**2
        else:
            a = np.broadcast_to(drive, x[:, 2:4].shape)
        return x[:, 6:8] + self.dt / 2 * a, a

    def linearize(self, x, rho, drive):
        """A (n, 8, 8) at the states x."""
        dt = self.dt
        if self.kind == "variational":
            # states side by side, as if they followed each other; given positions for the winches
            goal = self.next_winches(x, rho, drive)[:, :2]
            system = da.System(self.vi, steps=len(x))
            A, B = system.linearize_trajectory(np.vstack([x, x[-1:]]), goal)
            if self.winches == "estimated":
                A[:, :, 2:4] += B
                A[:, :, 6:8] += dt * B
            return self.winch_rows(A)
        start, a = self.held(x, rho, drive)
        D = dt * jacobian(np.hstack([x[:, :6], start]), a)
        if self.kind == "Euler":
            return self.winch_rows(np.eye(8) + D)
        return self.winch_rows(exponential(D))

    def predict(self, x, rho, drive):
        """The next states (n, 8) by the filter's own step."""
        dt = self.dt
        new = self.next_winches(x, rho, drive)
        if self.kind == "variational":
            out = np.array([self.step(s, g) for s, g in zip(x, new[:, :2], strict=True)])
            return np.hstack([out[:, :2], new[:, :2], out[:, 4:6], new[:, 2:]])
        start, a = self.held(x, rho, drive)

        def rate(q, v, s):
            return v, acceleration(q, x[:, 2:4] + s * start + s**2 / 2 * a, v, start + s * a, a)[0]

        q, v = x[:, :2], x[:, 4:6]
        if self.kind == "Euler":
            dq, dv = rate(q, v, 0.0)
            q, v = q + dt * dq, v + dt * dv
        else:
            parts = max(4, round(dt * 60))
            h = dt / parts
            for i in range(parts):
                k1 = rate(q, v, i * h)
                k2 = rate(q + h / 2 * k1[0], v + h / 2 * k1[1], (i + 0.5) * h)
                k3 = rate(q + h / 2 * k2[0], v + h / 2 * k2[1], (i + 0.5) * h)
                k4 = rate(q + h * k3[0], v + h * k3[1], (i + 1) * h)
                q, v = (
                    y + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
                    for y, a1, a2, a3, a4 in zip((q, v), k1, k2, k3, k4, strict=True)
                )
        return np.hstack([q, new[:, :2], v, new[:, 2:]])


def reference(rate: float, fine=None):
    """(X (N+1, 8) with backward differences for the winches' velocities, rho (N+1, 2), drive (N, 2)) at one rate."""
    t, X = motion() if fine is None else fine
    every = round(FINE / rate)
    t, X = t[::every], X[::every]
    rho, speed = path(t)
    v = np.vstack([speed[:1], np.diff(rho, axis=0) * rate])
    return np.hstack([X[:, :2], rho, X[:, 4:6], v]), rho, np.diff(v, axis=0) * rate


def gain(P, R: float):
    """K (..., 8, 4) and updated covariances for predicted ones P (..., 8, 8)."""
    S = P[..., :4, :4] + R * np.eye(4)
    K = np.swapaxes(np.linalg.solve(S, P[..., :4, :]), -1, -2)
    return K, P - K @ P[..., :4, :]


def lengths(e, x):
    """(n, 3) of errors e (n, 8) at the state x: of the state, of the mass's position, of the state without the momentum
    along the string (in discrete mechanics that part belongs to the string's impulse, not to the motion)."""
    along = x[:2] - [x[2], 0.0]
    along = along / np.linalg.norm(along)
    rest = e.copy()
    rest[:, 4:6] -= np.outer(rest[:, 4:6] @ along, along)
    return np.stack([np.linalg.norm(part, axis=1) for part in (e, e[:, :2], rest)], axis=1)


def nominal_errors(kind, winches, rate, *, trials=1000, noise=1e-2, process=1e-3, seed=0, fine=None):
    """(trials, 3): mean over time of the errors of `lengths`, with nominal predictions.

    One covariance serves all trials: A belongs to the motion, which every estimate is near.
    """
    X, rho, drive = reference(rate, fine)
    rng = np.random.default_rng(seed)
    A = Filter(kind, winches, rate).linearize(X[:-1], rho[1:], drive)
    P = 1e-6 * np.eye(8)
    x = X[0] + 1e-3 * rng.normal(size=(trials, 8))
    total = np.zeros((trials, 3))
    for k in range(len(X)):
        K, P = gain(P, noise**2)
        z = X[k, :4] + noise * rng.normal(size=(trials, 4))
        e = x + (z - x[:, :4]) @ K.T - X[k]
        total += lengths(e, X[k])
        if k < len(A):
            P = A[k] @ P @ A[k].T + process**2 * np.eye(8)
            x = X[k + 1] + process * rng.normal(size=(trials, 8))
    return total / len(X)


def own_errors(kind, winches, rate, *, trials=100, noise=1e-2, process=1e-3, seed=0, fine=None):
    """The same for filters that predict by their own step, linearized at their own estimates."""
    X, rho, drive = reference(rate, fine)
    f, rng = Filter(kind, winches, rate), np.random.default_rng(seed)
    P = np.tile(1e-6 * np.eye(8), (trials, 1, 1))
    x = X[0] + 1e-3 * rng.normal(size=(trials, 8))
    total = np.zeros((trials, 3))
    for k in range(len(X)):
        K, P = gain(P, noise**2)
        z = X[k, :4] + noise * rng.normal(size=(trials, 4))
        x = x + np.einsum("nij,nj->ni", K, z - x[:, :4])
        total += lengths(x - X[k], X[k])
        if k < len(drive):
            A = f.linearize(x, rho[k + 1], drive[k])
            P = A @ P @ np.swapaxes(A, 1, 2) + process**2 * np.eye(8)
            x = f.predict(x, rho[k + 1], drive[k])
    return total / len(X)


def study(trials: int, rates=RATES, *, own: bool = False, winches=(PAPER, *WINCHES), **options):
    """{winches: {rate: {kind: errors of the trials (trials, 3)}}}."""
    fine = motion()
    errors = own_errors if own else nominal_errors
    return {
        w: {
            rate: {kind: errors(kind, w, rate, trials=trials, fine=fine, **options) for kind in KINDS} for rate in rates
        }
        for w in winches
    }


def levels(rate: float = 30.0, ratios=(1, 2, 5, 10, 20, 30, 50, 100), trials: int = 300):
    """{winches: {noise over process noise: error of the state of Euler over variational}}, nominal predictions."""
    fine = motion()
    options = {"trials": trials, "fine": fine}
    out = {}
    for w in (PAPER, *WINCHES):
        out[w] = {}
        for ratio in ratios:
            euler, ours = (nominal_errors(k, w, rate, noise=1e-3 * ratio, **options) for k in ("Euler", "variational"))
            out[w][ratio] = euler[:, MOTION].mean() / ours[:, MOTION].mean()
    return out


def show(title: str, results, which: int) -> None:
    """Print one table of one of the errors."""
    print(title)
    print(" rate (Hz)" + "".join(f"{kind:>20}" for kind in KINDS) + "   Euler/var.  exp./var.")
    for rate, row in results.items():
        mean, std = ({kind: 1e3 * f(row[kind][:, which]) for kind in KINDS} for f in (np.mean, np.std))
        v = mean["variational"]
        cells = "".join(f"{mean[kind]:11.3f} ± {std[kind]:6.3f}" for kind in KINDS)
        print(f"{rate:10.1f}{cells}   {mean['Euler'] / v:10.2f} {mean['exponential'] / v:10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--trials", type=int, default=1000, help="trials per point with nominal predictions")
    parser.add_argument("--own", type=int, default=20, help="trials per point with own predictions")
    options = parser.parse_args()
    clock = time.perf_counter()
    nominal = study(options.trials)
    for w, results in nominal.items():
        show(f"winches {w}, nominal predictions (Fig. 3): error of the state (mm, mm/s)", results, MOTION)
    at30 = {kind: errors[:, STATE].mean() for kind, errors in nominal[PAPER][30].items()}
    print(
        f"the same at 30 Hz, as in the paper, with the momentum along the string: {at30['Euler'] / at30['variational']:.2f}"
    )
    own = study(options.own, (30, 20, 15, 10, 7.5), own=True, winches=WINCHES)
    for w, results in own.items():
        show(f"winches {w}, every filter predicts by its own step: error of the position (mm)", results, POSITION)
    print("at 30 Hz, nominal: error of Euler over variational, by noise over process noise")
    by_noise = levels()
    for w, row in by_noise.items():
        print(f"  winches {w:<15}: " + ", ".join(f"{r}: {a:.2f}" for r, a in row.items()))
        double = [r for r, a in row.items() if 1.75 <= a <= 2.1]
        print(f"    nearly double (1.75 to 2.1) at {', '.join(map(str, double)) or 'none of these'}")
    print(f"{time.perf_counter() - clock:.1f} s")

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    labels = {
        "Euler": "explicit Euler",
        "exponential": "matrix exponential (zero-order hold)",
        "variational": "exact, of the variational step",
    }
    with style():
        figure, panels = plt.subplot_mosaic("abc;dex", figsize=(12, 7), layout="constrained")
        for letters, results, which in (("abc", nominal, MOTION), ("de", own, POSITION)):
            for letter, (w, row) in zip(letters, results.items(), strict=True):
                ax, rates = panels[letter], np.array(list(row))
                for kind, label in labels.items():
                    mean = [1e3 * r[kind][:, which].mean() for r in row.values()]
                    std = [1e3 * r[kind][:, which].std() for r in row.values()]
                    ax.errorbar(1 / rates, mean, std, marker="o", ms=3, capsize=3, label=label)
                ax.axvline(1 / 30, color="gray", lw=0.8, ls=":")
                ax.set(xlabel="time step (s)", title=f"winches {w}" + (", own predictions" if results is own else ""))
        for letter in "abc":
            panels[letter].set(ylim=(0, 12))
        for letter in "de":
            panels[letter].set(yscale="log", ylim=(1, None))
        panels["a"].set(ylabel="error of the state (mm, mm/s)")
        panels["d"].set(ylabel="error of the position (mm)")
        panels["a"].annotate("30 Hz", (1 / 30, 0), (3, 4), textcoords="offset points", color="gray")
        for w, row in by_noise.items():
            panels["x"].semilogx(list(row), list(row.values()), "o-", ms=3, label=f"winches {w}")
        panels["x"].axhspan(1.75, 2.1, color="0.92", lw=0)
        panels["x"].set(
            xlabel="measurement noise over process noise", ylabel="Euler over variational", title="30 Hz, nominal"
        )
        panels["a"].legend(loc="upper left")
        panels["x"].legend()
        figure.savefig(options.out / "filter_rates.png")
    print("figure:", options.out / "filter_rates.png")


if __name__ == "__main__":
    main()
