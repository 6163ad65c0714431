"""JAX: the step and whole motions as functions of arrays, with jit, grad, jvp, vjp, vmap and second order.

XLA calls the core itself, through its foreign-function interface: no Python runs inside of a compiled function. Derivatives are exact, of the
discrete step; float64 has to be switched on (`jax.config.update("jax_enable_x64", True)`). On the CPU.

>>> import dalembert as da, jax, jax.numpy as jnp
>>> jax.config.update("jax_enable_x64", True)
>>> from dalembert.bridges.jax import rollout
>>> cart = da.System(da.MidpointVI(da.models.load("cart_pole"), dt=0.02), steps=50)
>>> x0 = jnp.array([0.0, 0.3, 0.0, 0.0])
>>> last_angle = lambda U: rollout(cart, x0, U)[-1, 1]
>>> jax.jit(jax.grad(last_angle))(jnp.zeros((50, 1))).shape
(50, 1)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dalembert import System
from dalembert.integrate import CoreMotions

from .shapes import together


def rollout(system: System, x0: Any, U: Any, first: int = 0) -> jax.Array:
    """Motions X (..., m+1, nx) from x0 (..., nx) under the inputs U (..., m, nu), beginning with the step `first` of the system.

    Leading axes broadcast, or use vmap. A step that has no solution is a JaxRuntimeError that names it. Quaternions in x0 are made unit.
    """
    x0, U = _checked(x0, "x0"), _checked(U, "U")
    lead, count = together(system, x0.shape, U.shape, first), U.shape[-2]
    starts = jnp.broadcast_to(x0, (*lead, system.nx))
    inputs = jnp.broadcast_to(U, (*lead, count, system.nu))
    return _roll.bind(starts, inputs, steps=_Steps(_core_of(system), first))


def step(system: System, x: Any, u: Any, k: int = 0) -> jax.Array:
    """The state (..., nx) after step k from x (..., nx) with the input u (..., nu); leading axes broadcast.

    >>> import dalembert as da
    >>> jax.config.update("jax_enable_x64", True)
    >>> pendulum = da.Model([da.rx("theta", da.tz(-1.0, mass=1.0))], [da.Gravity((0, 0, -9.8)), da.ConfigForce("theta", "torque")])
    >>> system = da.System(da.MidpointVI(pendulum, dt=0.1), steps=1)
    >>> A = jax.jacobian(lambda x: step(system, x, jnp.zeros(1)))(jnp.array([0.2, 0.0]))
    >>> bool(abs(A - system.linearize([0.2, 0.0], [0.0])[0]).max() < 1e-12)
    True
    """
    return rollout(system, x, jnp.expand_dims(u, -2), k)[..., 1, :]


def _checked(x: Any, what: str) -> jax.Array:
    if jnp.zeros(()).dtype != np.float64:
        raise TypeError('float64 is needed: jax.config.update("jax_enable_x64", True) before arrays are made')
    y = jnp.asarray(x)
    if y.dtype != np.float64:
        if not isinstance(x, jax.Array) or jnp.issubdtype(y.dtype, jnp.integer):
            return y.astype(np.float64)
        raise TypeError(f"{what} must be float64, not {y.dtype}")
    return y


def _core_of(system: System) -> CoreMotions:
    motions = system.motions
    if not isinstance(motions, CoreMotions):
        raise TypeError(f"jax needs an integrator of a Model, not {type(system.one_step).__name__}: XLA calls the core")
    return motions


class _Steps:
    """Which steps a primitive takes: compared by what it is, so that jit finds what it has compiled."""

    def __init__(self, motions: CoreMotions, first: int) -> None:
        self.motions, self.first = motions, int(first)
        _ALIVE.add(motions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Steps) and self.motions is other.motions and self.first == other.first

    def __hash__(self) -> int:
        return hash((id(self.motions), self.first))

    def __repr__(self) -> str:
        return f"steps from {self.first}"


_ALIVE: set[CoreMotions] = set()  # compiled functions know only the address of what they call


# ---- the four operations (see dalembert.integrate.motions) as primitives


def _roll_shapes(x0: Any, U: Any, *, steps: _Steps) -> Any:
    return jax.core.ShapedArray((*x0.shape[:-1], U.shape[-2] + 1, x0.shape[-1]), x0.dtype)


def _push_shapes(X: Any, U: Any, S: Any, dU: Any, *, steps: _Steps) -> Any:
    return jax.core.ShapedArray(X.shape, X.dtype)


def _pull_shapes(X: Any, U: Any, G: Any, *, steps: _Steps) -> Any:
    return [jax.core.ShapedArray(X.shape, X.dtype), jax.core.ShapedArray(U.shape, U.dtype)]


def _kick_shapes(X: Any, U: Any, Z: Any, dX: Any, dU: Any, *, steps: _Steps) -> Any:
    return [jax.core.ShapedArray(X.shape, X.dtype), jax.core.ShapedArray(U.shape, U.dtype)]


def _primitive(name: str, shapes: Any, several: bool) -> Primitive:
    p = Primitive(f"dalembert_{name}")
    p.multiple_results = several
    p.def_abstract_eval(shapes)

    def call(*arrays: Any, steps: _Steps) -> Any:
        out = shapes(*(jax.core.ShapedArray(a.shape, a.dtype) for a in arrays), steps=steps)
        result = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), out)
        motions, count = steps.motions, arrays[1].shape[-2]
        batch = int(np.prod(arrays[1].shape[:-2]))
        return jax.ffi.ffi_call(f"dalembert_{name}", result)(
            *arrays,
            motions=np.int64(motions.address),
            first=np.int64(steps.first),
            count=np.int64(count),
            threads=np.int64(motions.threads(batch, count)),
        )

    jitted = jax.jit(call, static_argnames="steps")
    p.def_impl(lambda *arrays, steps: jitted(*arrays, steps=steps))
    mlir.register_lowering(p, mlir.lower_fun(call, multiple_results=several))

    def batched(arrays: Any, axes: Any, *, steps: _Steps) -> Any:
        size = next(a.shape[i] for a, i in zip(arrays, axes, strict=True) if i is not None)
        full = [
            jnp.broadcast_to(a, (size, *a.shape)) if i is None else jnp.moveaxis(a, i, 0)
            for a, i in zip(arrays, axes, strict=True)
        ]
        out = p.bind(*full, steps=steps)
        return (out, [0] * len(out)) if several else (out, 0)

    batching.primitive_batchers[p] = batched
    jax.ffi.register_ffi_target(f"dalembert_{name}", CoreMotions.handlers()[name], platform="cpu")
    return p


_roll = _primitive("roll", _roll_shapes, False)
_push = _primitive("push", _push_shapes, False)
_pull = _primitive("pull", _pull_shapes, True)
_kick = _primitive("kick", _kick_shapes, True)


# ---- derivatives: roll -> push; push and pull are each other's transpose; pull -> kick and pull; push -> kick and push


def _zeros(*tangents: Any) -> bool:
    return all(type(t) is ad.Zero for t in tangents)


def _full(tangent: Any, like: Any) -> Any:
    return jnp.zeros_like(like) if type(tangent) is ad.Zero else tangent


def _roll_jvp(arrays: Any, tangents: Any, *, steps: _Steps) -> Any:
    (x0, U), (dx0, dU) = arrays, tangents
    X = _roll.bind(x0, U, steps=steps)
    S = jnp.concatenate([_full(dx0, x0)[..., None, :], jnp.zeros_like(X[..., 1:, :])], axis=-2)
    return X, _push.bind(X, U, S, _full(dU, U), steps=steps)


def _push_jvp(arrays: Any, tangents: Any, *, steps: _Steps) -> Any:
    (X, U, S, dU), (tX, tU, tS, tdU) = arrays, tangents
    dX = _push.bind(X, U, S, dU, steps=steps)
    source = _full(tS, S)
    if not _zeros(tX, tU):  # F_xx(dX, tX) by components: contracted with every unit costate
        nx = X.shape[-1]
        axes = [jnp.broadcast_to(a, (nx, *a.shape)) for a in (X, U, _full(tX, X), _full(tU, U))]
        unit = jnp.broadcast_to(jnp.eye(nx).reshape(nx, *[1] * (X.ndim - 1), nx), (nx, *X.shape))
        hX, hU = _kick.bind(axes[0], axes[1], unit, axes[2], axes[3], steps=steps)
        bent = jnp.moveaxis((hX[..., :-1, :] * dX[..., :-1, :]).sum(-1) + (hU * dU).sum(-1), 0, -1)
        source = source + jnp.concatenate([jnp.zeros_like(bent[..., :1, :]), bent], axis=-2)
    return dX, _push.bind(X, U, source, _full(tdU, dU), steps=steps)


def _pull_jvp(arrays: Any, tangents: Any, *, steps: _Steps) -> Any:
    (X, U, G), (tX, tU, tG) = arrays, tangents
    Z, gU = _pull.bind(X, U, G, steps=steps)
    if _zeros(tX, tU):
        return (Z, gU), tuple(_pull.bind(X, U, _full(tG, G), steps=steps))
    hX, hU = _kick.bind(X, U, Z, _full(tX, X), _full(tU, U), steps=steps)
    tZ, tgU = _pull.bind(X, U, hX + _full(tG, G), steps=steps)
    return (Z, gU), (tZ, tgU + hU)


def _kick_jvp(arrays: Any, tangents: Any, *, steps: _Steps) -> Any:
    (X, U, Z, dX, dU), (tX, tU, tZ, tdX, tdU) = arrays, tangents
    if not _zeros(tX, tU):
        raise NotImplementedError(
            "dalembert: derivatives of third order; the step has exact first and second derivatives"
        )
    h = _kick.bind(X, U, Z, dX, dU, steps=steps)
    by_z = _kick.bind(X, U, _full(tZ, Z), dX, dU, steps=steps)
    by_d = _kick.bind(X, U, Z, _full(tdX, dX), _full(tdU, dU), steps=steps)
    return tuple(h), tuple(a + b for a, b in zip(by_z, by_d, strict=True))


def _push_transpose(ct: Any, X: Any, U: Any, S: Any, dU: Any, *, steps: _Steps) -> Any:
    if type(ct) is ad.Zero:
        return None, None, None, None
    Z, gU = _pull.bind(X, U, ct, steps=steps)
    return None, None, Z if ad.is_undefined_primal(S) else None, gU if ad.is_undefined_primal(dU) else None


def _pull_transpose(cts: Any, X: Any, U: Any, G: Any, *, steps: _Steps) -> Any:
    cZ, cU = cts
    return None, None, _push.bind(X, U, _full(cZ, X), _full(cU, U), steps=steps)


def _kick_transpose(cts: Any, X: Any, U: Any, Z: Any, dX: Any, dU: Any, *, steps: _Steps) -> Any:
    if ad.is_undefined_primal(Z):
        raise NotImplementedError(
            "dalembert: derivatives of third order; the step has exact first and second derivatives"
        )
    cX, cU = cts
    hX, hU = _kick.bind(X, U, Z, _full(cX, X), _full(cU, U), steps=steps)
    return None, None, None, hX if ad.is_undefined_primal(dX) else None, hU if ad.is_undefined_primal(dU) else None


for _p, _jvp in ((_roll, _roll_jvp), (_push, _push_jvp), (_pull, _pull_jvp), (_kick, _kick_jvp)):
    ad.primitive_jvps[_p] = _jvp
for _p, _transpose in ((_push, _push_transpose), (_pull, _pull_transpose), (_kick, _kick_transpose)):
    ad.primitive_transposes[_p] = _transpose
