"""PyTorch: the step and whole motions as differentiable functions of tensors.

Gradients are those of the discrete step, by the exact adjoint in the core; they can be differentiated once more (`create_graph=True`). A batch
is one call, on threads and SIMD lanes. Tensors are float64 on the CPU.

>>> import dalembert as da, torch
>>> from dalembert.bridges.torch import rollout
>>> cart = da.System(da.MidpointVI(da.models.load("cart_pole"), dt=0.02), steps=50)
>>> x0 = torch.tensor([0.0, 0.3, 0.0, 0.0], dtype=torch.float64)
>>> U = torch.zeros(50, cart.nu, dtype=torch.float64, requires_grad=True)
>>> rollout(cart, x0, U)[-1, 1].backward()      # how the last angle depends on every push
>>> U.grad.shape
torch.Size([50, 1])
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from dalembert import System

from .shapes import together


def rollout(system: System, x0: torch.Tensor, U: torch.Tensor, first: int = 0) -> torch.Tensor:
    """Motions X (..., m+1, nx) from x0 (..., nx) under the inputs U (..., m, nu), beginning with the step `first` of the system.

    Leading axes broadcast. A step that has no solution raises ConvergenceError. Quaternions in x0 are made unit.
    """
    lead = together(system, x0.shape, U.shape, first)
    count = U.shape[-2]
    starts = _checked(x0, "x0").expand(*lead, system.nx).reshape(math.prod(lead), system.nx)
    inputs = _checked(U, "U").expand(*lead, count, system.nu).reshape(math.prod(lead), count, system.nu)
    X: torch.Tensor = _Roll.apply(system, first, starts, inputs)
    return X.reshape(*lead, count + 1, system.nx)


def step(system: System, x: torch.Tensor, u: torch.Tensor, k: int = 0) -> torch.Tensor:
    """The state (..., nx) after step k from x (..., nx) with the input u (..., nu); leading axes broadcast.

    >>> import dalembert as da
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, mass=1.0))], [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", "torque")])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=1)
    >>> x = torch.tensor([0.2, 0.0], dtype=torch.float64, requires_grad=True)
    >>> step(system, x, torch.zeros(1, dtype=torch.float64)).sum().backward()
    >>> bool(abs(x.grad - torch.tensor(system.linearize([0.2, 0.0], [0.0])[0].sum(axis=0))).max() < 1e-12)
    True
    """
    return rollout(system, x, u.unsqueeze(-2), k)[..., 1, :]


def _checked(x: torch.Tensor, what: str) -> torch.Tensor:
    if x.dtype != torch.float64:
        raise TypeError(f"{what} must be float64, not {x.dtype}: {what}.double()")
    if x.device.type != "cpu":
        raise TypeError(f"{what} must be on the CPU, not on {x.device}: {what}.cpu()")
    return x


class _Roll(torch.autograd.Function):
    """X of (x0, U)."""

    @staticmethod
    def forward(ctx: Any, system: System, first: int, x0: torch.Tensor, U: torch.Tensor) -> torch.Tensor:
        X = torch.from_numpy(system.motions.roll(x0.numpy(), U.numpy(), first))
        ctx.system, ctx.first = system, first
        ctx.save_for_backward(X, U)
        return X

    @staticmethod
    def backward(ctx: Any, G: torch.Tensor) -> tuple[Any, ...]:
        X, U = ctx.saved_tensors
        Z, gU = _Pull.apply(ctx.system, ctx.first, X, U, G)
        return None, None, Z[:, 0], gU


class _Pull(torch.autograd.Function):
    """Costates and gradients (Z, gU) of G along motions; its own derivative is that of second order."""

    @staticmethod
    def forward(ctx: Any, system: System, first: int, X: torch.Tensor, U: torch.Tensor, G: torch.Tensor) -> Any:
        Z, gU = map(torch.from_numpy, system.motions.pull(X.numpy(), U.numpy(), G.numpy(), first))
        ctx.system, ctx.first = system, first
        ctx.save_for_backward(X, U, Z)
        return Z, gU

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, c: torch.Tensor, cU: torch.Tensor) -> tuple[Any, ...]:
        X, U, Z = (x.numpy() for x in ctx.saved_tensors)
        motions, first, dU = ctx.system.motions, ctx.first, cU.numpy()
        dX = motions.push(X, U, c.numpy(), dU, first)
        hX, hU = motions.kick(X, U, Z, dX, dU, first) if any(ctx.needs_input_grad[2:4]) else (None, None)
        return None, None, _tensor(hX), _tensor(hU), torch.from_numpy(dX)


def _tensor(x: Any) -> torch.Tensor | None:
    return None if x is None else torch.from_numpy(x)
