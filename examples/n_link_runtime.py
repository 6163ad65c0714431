"""N-link pendulum: run time against the number of links, with and without use of the tree in the solution.

Johnson, Murphey, Scalable variational integrators, Fig. 7: 20 s at dt = 0.01 s, links aligned, turned by 45 degrees.
The paper compares recursions with and without caching; here all quantities are composite sums along the tree, each
computed once, and what remains to compare is the solution: along the tree, or plain (a dense matrix and its
factorization in every Newton iteration). The paper's program trep, caching, took the times of TREP on a like machine.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert import models

TREP = {1: 16, 2: 28, 4: 70, 8: 250, 16: 1500, 32: 9700}  # microseconds per step, trep 1.0, one core of about 3 GHz


def microseconds(n: int, plain: bool, seconds: float, repeat: int) -> float:
    """Shortest processor time of a step over some runs: other programs can only add to it."""
    vi = da.MidpointVI(models.n_link(n, inertia=0.1), 0.01, plain=plain)
    start = vi.state({"link-0": np.pi / 4})
    steps = max(20, round(seconds / 0.01))
    best = np.inf
    for _ in range(repeat):
        begun = time.process_time()
        vi.simulate(start, steps)
        best = min(best, time.process_time() - begun)
    return 1e6 * best / steps


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--quick", action="store_true", help="fewer links and shorter runs")
    args = parser.parse_args(argv)
    links = (1, 2, 4, 8, 16) if args.quick else (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    seconds = 2.0 if args.quick else 20.0
    tree, plain = [], []
    print(f"{'links':>6} {'tree':>10} {'plain':>10} {'trep':>10}   microseconds per step")
    for n in links:
        tree.append(microseconds(n, False, seconds, 8 if n <= 16 else 3))
        plain.append(microseconds(n, True, seconds, 8 if n <= 16 else 1))
        print(f"{n:>6} {tree[-1]:>10.2f} {plain[-1]:>10.2f} {TREP.get(n, ''):>10}")
    a, b = links.index(links[-3]), len(links) - 1
    growth = np.log(tree[b] / tree[a]) / np.log(links[b] / links[a])
    print(f"growth from {links[a]} to {links[b]} links: N^{growth:.2f}")

    import matplotlib.pyplot as plt

    from dalembert.viewing import style

    args.out.mkdir(parents=True, exist_ok=True)
    n, small = np.array(links), np.array(links) <= 10
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
        trep = np.array([[k, v] for k, v in TREP.items()])
        left.plot(n[small], np.array(plain)[small] * 2e-3, "--o", color="0.5", ms=4, label="plain")
        left.plot(n[small], np.array(tree)[small] * 2e-3, "-o", ms=4, label="along the tree")
        left.set(
            xlabel="links",
            ylabel="run time of 20 s (s)",
            title="20 s of motion at dt = 0.01 s",
            ylim=(0, None),
        )
        left.legend()
        right.loglog(*trep.T, ":s", color="C1", ms=4, label="trep")
        right.loglog(n, plain, "--o", color="0.5", ms=4, label="plain")
        right.loglog(n, tree, "-o", color="C0", ms=4, label="along the tree")
        right.loglog(n[-6:], 0.6 * tree[-1] * n[-6:] / n[-1], color="0.3", lw=0.8, label="slope of N")
        right.set(
            xlabel="links", ylabel="time of a step (µs)", title="Long chains", xticks=(1, 2, 4, 8, 16, 32, 64, 128)
        )
        right.set_xticklabels([1, 2, 4, 8, 16, 32, 64, 128])
        right.minorticks_off()
        right.legend()
        figure.savefig(args.out / "n_link_runtime.png")
    print("figure:", args.out / "n_link_runtime.png")


if __name__ == "__main__":
    main()
