"""JAX: values of the system under jit, grad, vmap, both modes of differentiation, second order."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dalembert import models

from .systems import ALL, cart, inputs

jax = pytest.importorskip("jax", reason="the extra [jax] is not installed")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

from dalembert.bridges.jax import rollout, step  # noqa: E402

CORE = [name for name in ALL if name != "rk4"]


def case(name, batch=2, steps=3):
    system, x0 = ALL[name]()
    x, U = inputs(system, x0, batch=batch)
    return system, jnp.array(x), jnp.array(U[:, :steps])


@pytest.mark.parametrize("name", CORE)
def test_values(name):
    system, x, U = case(name)
    wanted = system.motions.roll(np.array(x), np.array(U))
    assert np.abs(rollout(system, x, U) - wanted).max() < 1e-13
    assert np.abs(jax.jit(lambda a, b: rollout(system, a, b))(x, U) - wanted).max() < 1e-13
    assert np.abs(jax.vmap(lambda a, b: rollout(system, a, b))(x, U) - wanted).max() < 1e-13
    assert np.abs(jax.vmap(lambda b: rollout(system, x[0], b))(U)[0] - wanted[0]).max() < 1e-13
    assert (
        np.abs(step(system, x, U[:, 1], k=1) - system.motions.roll(np.array(x), np.array(U[:, 1:2]), 1)[:, 1]).max()
        < 1e-13
    )


@pytest.mark.parametrize("name", CORE)
def test_both_modes(name):
    """The tangent is the slope, and the gradient its transpose."""
    system, x, U = case(name)
    rng = np.random.default_rng(3)
    dx, dU, G = (jnp.array(rng.normal(size=s)) for s in (x.shape, U.shape, (*x.shape[:1], U.shape[1] + 1, x.shape[1])))

    @jax.jit
    def both(a, b):
        f = lambda a, b: rollout(system, a, b)  # noqa: E731
        _, forward = jax.jvp(f, (a, b), (dx, dU))
        return forward, jax.vjp(f, a, b)[1](G)

    forward, (gx, gU) = both(x, U)
    S = np.zeros(G.shape)
    S[:, 0] = dx
    assert np.abs(forward - system.motions.push(rollout(system, x, U), U, S, dU)).max() < 1e-12 * np.abs(forward).max()
    assert abs(float((G * forward).sum() - (gx * dx).sum() - (gU * dU).sum())) < 1e-10 * float(abs(G * forward).sum())


@pytest.mark.parametrize("name", ["cart", "closed_chain", "floating"])
def test_second_order(name):
    """All four orders of differentiation give the slope of the gradient."""
    system, x, U = case(name, batch=1, steps=2)
    dx = jnp.array(np.random.default_rng(4).normal(size=x.shape))
    cost = lambda a: (jnp.cos(rollout(system, a, U)) ** 2).sum()  # noqa: E731
    slope = lambda a: jax.jvp(cost, (a,), (dx,))[1]  # noqa: E731

    @jax.jit
    def ways(a):
        forward_reverse = jax.jvp(jax.grad(cost), (a,), (dx,))[1]
        reverse_reverse = jax.grad(lambda b: (jax.grad(cost)(b) * dx).sum())(a)
        reverse_forward = jax.grad(slope)(a)
        forward_forward = jax.jvp(slope, (a,), (dx,))[1]
        return forward_reverse, reverse_reverse, reverse_forward, forward_forward

    found = ways(x)
    gradient, h = jax.jit(jax.grad(cost)), 1e-5
    near, far = (gradient(x + n * h * dx) - gradient(x - n * h * dx) for n in (1, 2))
    wanted = (8 * near - far) / (12 * h)
    scale = max(1.0, float(abs(wanted).max()))
    for second in found[:3]:
        assert np.abs(second - wanted).max() < 1e-5 * scale
        assert np.abs(second - found[0]).max() < 1e-10 * scale
    assert abs(float(found[3] - (found[0] * dx).sum())) < 1e-9 * scale


def test_third_order_is_refused():
    system, x, U = case("cart", batch=1)
    f = lambda a: rollout(system, a, U).sum()  # noqa: E731
    with pytest.raises(NotImplementedError, match="third order"):
        jax.make_jaxpr(lambda a: jax.jvp(lambda b: jax.jvp(jax.grad(f), (b,), (b,)), (a,), (a,)))(x)


def test_a_step_without_solution_is_an_error():
    system, x0 = cart()
    with pytest.raises(jax.errors.JaxRuntimeError, match="step 2 of motion 1 has no solution"):
        rollout(system, jnp.array([x0, x0]), jnp.zeros((2, 4, 1)).at[1, 2].set(1e300)).block_until_ready()


def test_what_is_wrong_is_said():
    system, _x0 = cart()
    with pytest.raises(TypeError, match="must be float64"):
        rollout(system, jnp.zeros(4, dtype=jnp.float32), jnp.zeros((3, 1)))
    with pytest.raises(ValueError, match="states must have the shape"):
        rollout(system, jnp.zeros(3), jnp.zeros((3, 1)))
    with pytest.raises(TypeError, match="needs an integrator"):
        rollout(ALL["rk4"]()[0], jnp.zeros(4), jnp.zeros((3, 1)))


def test_gradients_are_finite_everywhere():
    """100 000 random states of eight links, and rest: no NaN."""
    import dalembert as da

    system = da.System(da.MidpointVI(models.n_link(8), 0.01), steps=1)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-np.pi, np.pi, (100_000, 8)), rng.normal(size=(100_000, 8))], axis=1)
    x[0] = 0.0
    g = jax.jit(jax.grad(lambda a: (step(system, a, jnp.zeros(system.nu)) ** 2).sum()))(jnp.array(x))
    assert bool(jnp.isfinite(g).all())


LAYOUT = r"""
#include "xla/ffi/api/c_api.h"
#include "xla.hpp"
#include <cstddef>
using namespace dalembert::xla;
#define SAME(a, x, b, y) static_assert(offsetof(a, x) == offsetof(b, y))
SAME(Call, api, XLA_FFI_CallFrame, api);
SAME(Call, stage, XLA_FFI_CallFrame, stage);
SAME(Call, extension, XLA_FFI_CallFrame, extension_start);
SAME(Call, arguments, XLA_FFI_CallFrame, args);
SAME(Call, results, XLA_FFI_CallFrame, rets);
SAME(Call, attributes, XLA_FFI_CallFrame, attrs);
SAME(Arguments, count, XLA_FFI_Args, size);
SAME(Arguments, values, XLA_FFI_Args, args);
SAME(Arguments, values, XLA_FFI_Rets, rets);
SAME(Attributes, count, XLA_FFI_Attrs, size);
SAME(Attributes, types, XLA_FFI_Attrs, types);
SAME(Attributes, names, XLA_FFI_Attrs, names);
SAME(Attributes, values, XLA_FFI_Attrs, attrs);
SAME(Buffer, type, XLA_FFI_Buffer, dtype);
SAME(Buffer, data, XLA_FFI_Buffer, data);
SAME(Buffer, rank, XLA_FFI_Buffer, rank);
SAME(Buffer, dims, XLA_FFI_Buffer, dims);
SAME(Scalar, value, XLA_FFI_Scalar, value);
SAME(Name, length, XLA_FFI_ByteSpan, len);
SAME(Api, version, XLA_FFI_Api, api_version);
SAME(Api, make_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(ErrorArguments, message, XLA_FFI_Error_Create_Args, message);
SAME(ErrorArguments, code, XLA_FFI_Error_Create_Args, errc);
static_assert(sizeof(ErrorArguments) >= XLA_FFI_Error_Create_Args_STRUCT_SIZE);
SAME(Version, major, XLA_FFI_Api_Version, major_version);
SAME(Version, minor, XLA_FFI_Api_Version, minor_version);
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(Metadata, traits, XLA_FFI_Metadata, traits);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(Extension, type, XLA_FFI_Extension_Base, type);
static_assert(kFloat64 == XLA_FFI_DataType_F64 && kInt64 == XLA_FFI_DataType_S64 && kScalar == XLA_FFI_AttrType_SCALAR);
static_assert(kExecute == XLA_FFI_ExecutionStage_EXECUTE && kInvalid == XLA_FFI_Error_Code_INVALID_ARGUMENT);
static_assert(kInternal == XLA_FFI_Error_Code_INTERNAL && XLA_FFI_Extension_Metadata == 1 && XLA_FFI_API_MAJOR == 0);
"""


def test_layouts_are_those_of_xla(tmp_path):
    """cpp/xla.hpp against the headers of the installed jaxlib."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "layout.cpp").write_text(LAYOUT)
    cpp = Path(__file__).resolve().parents[2] / "cpp"
    done = subprocess.run(
        [
            compiler,
            "-std=c++20",
            "-fsyntax-only",
            f"-I{jax.ffi.include_dir()}",
            f"-I{cpp}",
            str(tmp_path / "layout.cpp"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
