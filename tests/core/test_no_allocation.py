"""Evaluations and steps of the core allocate nothing: an interposed malloc counts while the work grows.

A call may allocate its outputs and buffers, so each call is made with little and with much work: same count.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COUNTER = r"""
#include <errno.h>
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
static long count;
long allocation_count(void) { return __atomic_load_n(&count, __ATOMIC_RELAXED); }
static void one(void) { __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED); }
void *malloc(size_t n) { one(); return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { one(); return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { one(); return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { one(); return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { one(); return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { one(); *p = __libc_memalign(a, n); return *p ? 0 : ENOMEM; }
"""

WORK = r"""
import ctypes, gc, json, sys
import numpy as np
import dalembert as da
from tests.random_models import random_model, random_point

count = ctypes.CDLL(None).allocation_count
count.restype = ctypes.c_long

def allocations(call):
    call()  # fills the pool of workspaces
    gc.collect(); gc.disable()
    before = count()
    call()
    after = count()
    gc.enable()
    return after - before

def pairs(vi, q, p, u):
    m, core = vi.model, vi._core
    state = da.State(0.0, q, p, np.zeros(m.nc))
    after = vi.step(state, u)
    yield "counter", lambda n: [np.empty(100_000) for _ in range(n)], (1, 50)
    for what in ("first", "second", "third", "linearize", "second_order"):
        yield what, lambda n, w=what: core.time(w, vi.options, 0.01, q, p, u, after.q, after.lam, n), (1, 500)
    short, long = 32, 512
    dt, U, rho, steady = {}, {}, {}, np.tile(q[m.nd :], (long, 1))
    for n in (short, long):
        dt[n], U[n], rho[n] = np.full(n, 1e-4), np.tile(u, (n, 1)), steady[:n].copy()
    # only the last state is stored, so the outputs do not grow
    yield "simulate", lambda n: core.simulate(vi.options, q, p, dt[n], U[n], rho[n], n), (short, long)
    stop = da._core.Options(0.5, 1.0, 0.0, 1e-14, 1e-14, 40, False, 1e-10, [1e-10])
    yield "simulate, stop", lambda n: core.simulate(stop, q, p, dt[n], U[n], rho[n], n), (short, long)
    Q, P = np.tile(q, (16, 1)), np.tile(p, (16, 1))
    for lanes in (False, True):
        run = lambda n, lanes=lanes: core.rollouts(vi.options, Q, P, dt[n], U[n], rho[n], True, True, 1, lanes, False)
        yield f"rollouts, lanes={lanes}", run, (short, long)
    X, V, K, Z, h = {}, {}, {}, {}, {}
    for n in (600, 1800):  # arrays of both sizes come from the same place
        X[n], h[n] = np.tile(np.concatenate([q, p, np.zeros(m.nk)]), (n + 1, 1)), np.full(n, 1e-4)
        V[n] = np.tile(np.concatenate([u, q[m.nd :]]), (n, 1))
        K[n], Z[n] = np.zeros((n, V[n].shape[1], X[n].shape[1])), np.ones((n, X[n].shape[1]))
    yield "project", lambda n: core.project(vi.options, X[n][0].copy(), X[n], V[n], K[n], h[n]), (600, 1800)
    yield "linearize_trajectory", lambda n: core.linearize_trajectory(vi.options, X[n], V[n], h[n], None, 1), (600, 1800)
    yield "second_order_trajectory", lambda n: core.second_order_trajectory(vi.options, X[n], V[n], h[n], Z[n], 1), (600, 1800)

def models():
    model, known = da.models.load_with_configurations("marionette")
    yield "marionette", model, next(iter(known.values())), np.zeros(model.nu)
    chain = da.models.n_link(24)
    yield "chain", chain, np.full(24, 0.1), np.zeros(0)
    for seed in range(3, 200):
        model = random_model(seed, 9, constraints=0)
        kinds = {type(e).__name__ for e in model.elements}
        if {"Potential", "Force", "LinearDamper", "Wrench"} <= kinds:
            q, _, u = random_point(model, seed)
            yield f"random {seed}", model, q, u
            return

out = {}
for name, model, q, u in models():
    vi = da.MidpointVI(model, 0.01)
    start = vi.state(q)
    for what, call, (small, large) in pairs(vi, start.q, start.p, u):
        out[f"{name}: {what}"] = allocations(lambda: call(small)), allocations(lambda: call(large))
print(json.dumps(out))
"""


def test_evaluations_and_steps_allocate_nothing(tmp_path: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and glibc to count allocations")
    source, library = tmp_path / "counter.c", tmp_path / "counter.so"
    source.write_text(COUNTER)
    built = subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"the counter does not build here: {built.stderr[:200]}")
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("AddressSanitizer replaces malloc itself")
    root = Path(__file__).parents[2]
    env = os.environ | {"LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, env=env, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads(done.stdout)
    counters = {k: v for k, v in counts.items() if k.endswith("counter")}
    assert len(counters) == 3  # three models
    assert all(large > small for small, large in counters.values())  # the counter counts
    grown = {k: v for k, v in counts.items() if k not in counters and v[1] > v[0]}
    assert not grown, f"allocations grow with the work (few, many): {grown}"
