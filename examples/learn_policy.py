"""A neural network learns to balance a cart-pole and to bring the cart home, by gradients through the step (PyTorch).

No reward is sampled: the cost of whole motions is differentiated through the variational integrator, by the exact adjoint of every step, into the
weights of the network. The linear-quadratic regulator of the same cost, with the same limit of the force, is there to compare with: it is made for
small angles, the network has seen large ones.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

import dalembert as da
from dalembert import models
from dalembert.bridges.torch import step

DT, STEPS, LIMIT = 0.05, 60, 10.0  # s, steps of an episode, N
WEIGHTS = torch.tensor([1.0, 4.0, 0.1, 0.1], dtype=torch.float64)  # of x, theta, and their momenta
HOME = torch.tensor([0.0, np.pi, 0.0, 0.0], dtype=torch.float64)  # upright in the middle
FORCE = 0.01


def network() -> torch.nn.Sequential:
    """(x, sine and cosine of the angle, momenta) -> force in units of the limit; one hidden layer."""
    layers = [torch.nn.Linear(5, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers).double()


def learned(policy):
    """The law of a network: forces (n, 1) in the states (n, 4)."""

    def law(x: torch.Tensor) -> torch.Tensor:
        angle = x[..., 1] - np.pi
        seen = torch.stack([x[..., 0], torch.sin(angle), torch.cos(angle) - 1, x[..., 2], x[..., 3]], dim=-1)
        return LIMIT * policy(seen)

    return law


def regulator(system: da.System):
    """The law of the linear-quadratic regulator at the top, cut off at the limit."""
    A, B = system.linearize(HOME.numpy(), [0.0])
    K = torch.tensor(da.lqr_infinite(A, B, Q=np.diag(WEIGHTS.numpy()), R=FORCE * np.eye(1)).K)
    return lambda x: torch.clamp(-(x - HOME) @ K.T, -LIMIT, LIMIT)


def episodes(system: da.System, law, x: torch.Tensor, steps: int = STEPS) -> tuple[torch.Tensor, torch.Tensor]:
    """Motions (steps + 1, n, 4) and forces (steps, n, 1) under a law."""
    motion, forces = [x], []
    for _ in range(steps):
        forces.append(law(motion[-1]))
        motion.append(step(system, motion[-1], forces[-1]))
    return torch.stack(motion), torch.stack(forces)


def costs(X: torch.Tensor, U: torch.Tensor) -> torch.Tensor:
    """Mean cost (n,) of each motion."""
    return ((X - HOME) ** 2 @ WEIGHTS).mean(dim=0) + FORCE * (U[..., 0] ** 2).mean(dim=0)


def starts(n: int, angle: float = 0.6) -> torch.Tensor:
    """States (n, 4) at random: within a metre and so many radians."""
    scale = torch.tensor([1.0, angle, 0.2, 0.2], dtype=torch.float64)
    return HOME + scale * (2 * torch.rand(n, 4, dtype=torch.float64) - 1)


def learn(rounds: int = 200, batch: int = 48, seed: int = 1):
    """(system, law, cost of every round): Adam on fresh motions."""
    torch.set_num_threads(1)  # the network is small: threads would only wait for each other
    torch.manual_seed(seed)
    system = da.System(da.MidpointVI(models.cart_pole(), dt=DT), steps=1)
    policy = network()
    law = learned(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, rounds)
    history = []
    for number in range(rounds):
        horizon = min(STEPS, 10 + 2 * STEPS * number // rounds)  # short motions first
        each = costs(*episodes(system, law, starts(batch), horizon))
        optimizer.zero_grad()
        torch.log1p(each).mean().backward()  # those that have fallen must not drown the others
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        history.append(each.median().item())
    return system, law, np.array(history)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    parser.add_argument("--rounds", type=int, default=200, help="steps of the optimizer")
    options = parser.parse_args(arguments)
    system, law, history = learn(options.rounds)
    torch.manual_seed(7)
    fresh = starts(200, angle=0.8)
    laws = {"network": law, "regulator": regulator(system)}
    with torch.no_grad():
        found = {name: episodes(system, each, fresh, 2 * STEPS) for name, each in laws.items()}
    up = {name: (abs(X[-20:, :, 1] - np.pi) < 0.1).all(dim=0).numpy() for name, (X, _) in found.items()}
    both = up["network"] & up["regulator"]
    for name, (X, U) in found.items():
        print(f"{name}: upright after {2 * STEPS * DT:g} s from {up[name].sum()} of {len(fresh)} starts, "
              f"cost where both are {costs(X, U).numpy()[both].mean():.3f}")  # fmt: skip

    import matplotlib.pyplot as plt

    from dalembert.viewing.figures import style

    options.out.mkdir(parents=True, exist_ok=True)
    t = DT * np.arange(2 * STEPS + 1)
    with style():
        figure, (a, b, c) = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
        a.semilogy(history)
        a.set(xlabel="round", ylabel="median cost of a batch")
        X = found["network"][0].numpy()
        b.plot(t, np.rad2deg(X[:, up["network"], 1] - np.pi), color="tab:blue", lw=0.5, alpha=0.4)
        b.set(xlabel="time (s)", ylabel="angle from upright (deg)", title="under the network")
        begin = fresh.numpy()
        kinds = (("both", both, "tab:gray"), ("network only", up["network"] & ~both, "tab:blue"),
                 ("regulator only", up["regulator"] & ~both, "tab:orange"), ("neither", ~(up["network"] | up["regulator"]), "black"))  # fmt: skip
        for label, which, color in kinds:
            c.plot(
                begin[which, 0],
                np.rad2deg(begin[which, 1] - np.pi),
                ".",
                ms=5,
                color=color,
                label=f"{label} ({which.sum()})",
            )
        c.set(xlabel="cart at the start (m)", ylabel="angle at the start (deg)", title="who balances it")
        c.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        figure.savefig(options.out / "learn_policy.png")
    print("figure:", options.out / "learn_policy.png")


if __name__ == "__main__":
    main()
