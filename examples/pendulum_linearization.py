"""First and second derivatives of one step of the pendulum, and its controllability.

Johnson, Schultz, Murphey, Structured linearization of discrete mechanical systems, sections IV and V: m = l = 1,
g = 9.8, dt = 0.1, q = 0.2, p = 0.5, u = 0.8, forces on the left. Prints the paper's matrices and draws how far the
first- and second-order models are from the step itself.
"""

import argparse
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models


def linearize():
    """(f, A, B, second derivatives of q' and p' by (q, p, u) as two 3x3 matrices, system, x, u)."""
    vi = da.MidpointVI(models.pendulum(), dt=0.1, forcing="left")
    system = da.System(vi, steps=1)
    x, u = np.array([0.2, 0.5]), np.array([0.8])
    A, B = system.linearize(x, u, 0)
    second = []
    for z in np.eye(2):
        fxx, fxu, fuu = system.second_order(x, u, 0, z)
        second.append(np.block([[fxx, fxu], [fxu.T, fuu]]))
    return system, x, u, A, B, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    out = parser.parse_args().out
    system, x, u, A, B, second = linearize()
    f = system.f(x, u, 0)
    with np.printoptions(precision=8, suppress=False):
        print("q' =", f[0], " p' =", f[1])
        print("A =\n", A, "\nB =\n", B, sep="")
        W = da.controllability(A, B)
        print("controllability matrix =\n", W, "\nrank ", np.linalg.matrix_rank(W), sep="")
        print("second derivatives of q' by (q, p, u) =\n", second[0], sep="")
        print("second derivatives of p' by (q, p, u) =\n", second[1], sep="")
    print("A'JA - J =", np.abs(A.T @ _J @ A - _J).max())

    # distance of the models from the step along one direction
    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    d = np.array([1.0, -0.5, 0.7]) / np.linalg.norm([1.0, -0.5, 0.7])
    sizes = np.logspace(-3, 0.5, 30)
    errors = np.zeros((30, 2))
    for i, s in enumerate(sizes):
        w = s * d
        change = system.f(x + w[:2], u + w[2:], 0) - f
        linear = A @ w[:2] + B @ w[2:]
        errors[i] = [
            np.linalg.norm(change - linear),
            np.linalg.norm(change - linear - [w @ H @ w / 2 for H in second]),
        ]
    out.mkdir(parents=True, exist_ok=True)
    with style():
        figure, axes = plt.subplots(figsize=(5, 3.5))
        axes.loglog(sizes, errors[:, 0], "o-", ms=3, label="first order")
        axes.loglog(sizes, errors[:, 1], "s-", ms=3, label="second order")
        axes.loglog(sizes, errors[0, 0] * (sizes / sizes[0]) ** 2, ":", color="gray", label="slopes 2 and 3")
        axes.loglog(sizes, errors[0, 1] * (sizes / sizes[0]) ** 3, ":", color="gray")
        axes.set(xlabel="size of the perturbation of (q, p, u)", ylabel="error of the model of one step")
        axes.legend()
        figure.savefig(out / "pendulum_linearization.png")
    print("figure:", out / "pendulum_linearization.png")


_J = np.array([[0.0, 1.0], [-1.0, 0.0]])

if __name__ == "__main__":
    main()
