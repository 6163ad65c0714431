"""PyTorch: values of the system, gradients of first and second order as PyTorch's own checks want them."""

import numpy as np
import pytest

import dalembert as da
from dalembert import models

from .systems import ALL, cart, inputs

torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")

from dalembert.bridges.torch import rollout, step  # noqa: E402

FLAT = [name for name in ALL if name != "rk4"]


def tensors(name, batch=2, steps=3):
    system, x0 = ALL[name]()
    x, U = inputs(system, x0, batch=batch)
    return system, *(torch.tensor(a, requires_grad=True) for a in (x, U[:, :steps]))


@pytest.mark.parametrize("name", list(ALL))
def test_gradcheck(name):
    system, x, U = tensors(name)
    assert torch.autograd.gradcheck(lambda a, b: rollout(system, a, b), (x, U), atol=1e-5, rtol=1e-5)
    assert torch.autograd.gradcheck(lambda a, b: step(system, a, b[:, 0]), (x, U), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", FLAT)
def test_gradgradcheck(name):
    system, x, U = tensors(name, batch=1, steps=2)
    assert torch.autograd.gradgradcheck(
        lambda a, b: rollout(system, a, b), (x, U), atol=1e-4, rtol=1e-4, fast_mode=True
    )


def test_a_system_without_inputs():
    system = da.System(da.MidpointVI(models.n_link(3), 0.02), steps=4)
    x = torch.full((2, 6), 0.3, dtype=torch.float64, requires_grad=True)
    U = torch.zeros(2, 4, 0, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a: rollout(system, a, U), (x,), atol=1e-5, rtol=1e-5)


def test_shapes_broadcast():
    system, x, U = tensors("cart", batch=6)
    X = rollout(system, x.reshape(2, 3, 4), U[0])
    assert X.shape == (2, 3, 4, 4)
    assert (
        np.abs(X[1, 2].detach().numpy() - system.motions.roll(x.detach().numpy()[5:], U.detach().numpy()[:1])).max()
        == 0
    )
    assert step(system, x[0], U[0, 0], k=2).shape == (4,)


def test_hessian_of_a_cost_is_that_of_differences():
    system, x, U = tensors("cart", batch=1)
    cost = lambda b: (rollout(system, x.detach(), b) ** 2).sum()  # noqa: E731
    H = torch.autograd.functional.hessian(cost, U.detach())
    h, d = 1e-5, torch.zeros_like(U)
    d[0, 1, 0] = h
    up, down = (torch.autograd.functional.jacobian(cost, U.detach() + s * d) for s in (1, -1))
    assert float(abs(H[..., 0, 1, 0] - (up - down) / (2 * h)).max()) < 1e-6


def test_what_is_wrong_is_said():
    system, _ = cart()
    x, u = torch.zeros(4, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64)
    with pytest.raises(TypeError, match="must be float64"):
        rollout(system, x.float(), u)
    with pytest.raises(ValueError, match=r"states must have the shape \(..., 4\) \(x, theta"):
        rollout(system, x[:3], u)
    with pytest.raises(ValueError, match="inputs must have the shape"):
        rollout(system, x, torch.zeros(3, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match="the system has 8"):
        rollout(system, x, u, first=6)
    with pytest.raises(da.ConvergenceError):
        rollout(system, x, u + 1e300)
