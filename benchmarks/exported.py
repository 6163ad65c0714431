"""Exported C against CasADi's generated C for the same step, its A and B, and the same filter: time, code, in one program.

    python -m benchmarks.exported [--cc gcc] [--flags="-O2"] [--rounds 7]

CasADi's side is what its users would write: the discrete Euler-Lagrange equations as expressions of the model's Symbolic, a `rootfinder`
("fast_newton", with the same guess), A and B by the implicit function theorem with a sparse QR solver, common subexpressions shared. Both are
compiled with the same flags, linked into one program and timed in turns (time of the processor); the least of the rounds counts.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import dalembert as da
from dalembert.export.vectors import vector_inputs
from dalembert.symbolic import Symbolic

DRIVER = """
#define _POSIX_C_SOURCE 199309L
#include "@n@.h"
#include "@n@_vectors.h"
#include "casadi_step.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
enum { NX = @N@_NX, NQ = @N@_NQ, NC = @N@_NC, NU = @N@_NU, NZ = @N@_NZ, CYCLES = @cycles@ };
static @n@ m;
static double x[NX], next[NX], z[NQ + NC], zo[NQ + NC], before[NQ], last[NQ], a[NX * NX], b[NX * NU + 1];
static double P[NX * NX], Pn[NX * NX], xo[NX], measured[CYCLES][NZ];
static double work[200000];
static casadi_int integers[200000];
static const double *arg[64];
static double *res[64];
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static double own(int filter) { /* 0: step, A, B; 1: with the filter; 2: the step alone */
  double start;
  int k;
  @n@_filter_start(&m, vector_q, vector_p, vector_variance);
  start = now();
  for (k = 0; k < CYCLES; ++k) {
    if (filter == 1) {
      if (@n@_predict(&m@u@, @N@_DT) || @n@_update(&m, measured[k])) return -1;
    } else if (@n@_step(&m@u@, @N@_DT) || (filter == 0 && @n@_linearize(&m))) return -1;
  }
  return (now() - start) / CYCLES;
}
static double theirs(int filter) {
  double start;
  int k, i;
  memset(z, 0, sizeof z);
  memset(P, 0, sizeof P);
  for (i = 0; i < NQ; ++i) x[i] = z[i] = last[i] = before[i] = vector_q[i];
  for (i = 0; i < NX - NQ; ++i) x[NQ + i] = vector_p[i];
  for (i = 0; i < NX; ++i) P[i * NX + i] = vector_variance[i];
  start = now();
  for (k = 0; k < CYCLES; ++k) {
    for (i = 0; i < NQ; ++i) { /* the same guess: a parabola */
      const double y = x[i], guess = k > 1 ? 3 * y - 3 * last[i] + before[i] : k ? 2 * y - last[i] : y;
      before[i] = last[i];
      last[i] = y;
      z[i] = guess;
    }
    arg[0] = x, arg[1] = vector_u[k], arg[2] = z;
    res[0] = next, res[1] = zo, res[2] = a, res[3] = b;
    if (casadi_step(arg, res, integers, work, 0)) return -1;
    memcpy(x, next, sizeof x);
    memcpy(z, zo, sizeof z);
    if (!filter) continue;
    arg[0] = x, arg[1] = P, arg[2] = a, arg[3] = measured[k];
    res[0] = xo, res[1] = Pn;
    if (casadi_filter(arg, res, integers, work, 0)) return -1;
    memcpy(x, xo, sizeof x);
    memcpy(P, Pn, sizeof P);
  }
  return (now() - start) / CYCLES;
}
int main(int count, char **words) {
  int round, filter, i, k;
  (void)words;
  if (count > 1) { /* the step alone */
    double best = 1e300;
    for (round = 0; round < 20; ++round) {
      const double t = own(2);
      if (t < 0) return 1;
      if (t < best) best = t;
    }
    printf("%g\\n", best);
    return 0;
  }
  for (k = 0; k < CYCLES; ++k) /* every sensor speaks: CasADi's filter knows no missing ones */
    for (i = 0; i < NZ; ++i) measured[k][i] = vector_z[k][i] == vector_z[k][i] || !k ? vector_z[k][i] : measured[k - 1][i];
  for (filter = 0; filter < 2; ++filter) {
    double best[2] = {1e300, 1e300}, off = 0;
    for (round = 0; round < @rounds@; ++round) {
      const double t = own(filter), c = theirs(filter);
      if (t < 0 || c < 0) return 1;
      if (t < best[0]) best[0] = t;
      if (c < best[1]) best[1] = c;
    }
    for (i = 0; i < NQ; ++i) off = off > m.q[i] - x[i] ? off : m.q[i] - x[i], off = off > x[i] - m.q[i] ? off : x[i] - m.q[i];
    printf("%g %g %g\\n", best[0], best[1], off);
  }
  return 0;
}
"""


def casadi_sources(vi: da.MidpointVI, ekf: da.ExtendedKalmanFilter, folder: Path) -> None:
    """casadi_step.c: step with A, B, and the filter's update, from expressions."""
    import casadi as ca

    model, dt = vi.model, vi.dt
    s = Symbolic(model)
    nq, nc, nu = model.nq, model.nc, model.nu
    u = s.u if nu else ca.SX(0, 1)
    L = ca.Function("L", [s.q, s.v, u], [s.lagrangian()])
    push = ca.Function("F", [s.q, s.v, u], [s.force() if nu else ca.SX(nq, 1)])
    h = ca.Function("h", [s.q], [s.h() if nc else ca.SX(0, 1)])
    q, p, y, lam, w = (ca.SX.sym(n, k) for n, k in (("q", nq), ("p", nq), ("y", nq), ("lam", nc), ("w", nu)))
    middle, speed = (q + y) / 2, (y - q) / dt
    Ld = dt * L(middle, speed, w)
    F = dt / 2 * push(middle, speed, w)
    balance = p + ca.gradient(Ld, q) + F
    if nc:
        balance -= ca.jacobian(h(q), q).T @ lam
    unknown, given = ca.vertcat(y, lam), ca.vertcat(q, p, w)
    root = ca.rootfinder(
        "root",
        "fast_newton",
        {"x": unknown, "p": given, "g": ca.vertcat(balance, h(y))},
        {"abstol": 1e-11, "abstolStep": 1e-12, "max_iter": 12},
    )
    # derivatives by the implicit function theorem, with everything at the solution evaluated once
    after = ca.gradient(Ld, y) + F
    blocks = [ca.jacobian(ca.vertcat(balance, h(y)), by) for by in (unknown, given)]
    blocks += [after, ca.jacobian(after, y), ca.jacobian(after, given)]
    at_solution = ca.Function("at_solution", [unknown, given], blocks, {"cse": True})
    x, W, guess = ca.MX.sym("x", 2 * nq), ca.MX.sym("w", nu), ca.MX.sym("guess", nq + nc)
    found = root(guess, ca.vertcat(x, W))
    J, G, momentum, by_y, by_given = at_solution(found, ca.vertcat(x, W))
    moved = -ca.solve(J, ca.densify(G), "qr")[:nq, :]
    slopes = ca.vertcat(moved, by_y @ moved + by_given)
    outputs = [ca.vertcat(found[:nq], momentum), found, slopes[:, : 2 * nq], slopes[:, 2 * nq :]]
    step = ca.Function("casadi_step", [x, W, guess], outputs, {"cse": True})
    # the filter in the same form: covariance by A, then Joseph's form
    X, P, A = ca.SX.sym("x", 2 * nq), ca.SX.sym("P", 2 * nq, 2 * nq), ca.SX.sym("A", 2 * nq, 2 * nq)
    z, C = ca.SX.sym("z", ekf.measurement.size), ca.sparsify(ca.DM(ekf.measurement.matrix))
    ahead = A @ P @ A.T + ca.sparsify(ca.DM(np.asarray(ekf.Q)))
    R = ca.sparsify(ca.DM(np.asarray(ekf.R)))
    cross = ahead @ C.T
    gain = ca.solve(C @ cross + R, cross.T).T
    rest = ca.SX.eye(2 * nq) - gain @ C
    update = ca.Function(
        "casadi_filter",
        [X, P, A, z],
        [X + gain @ (z - C @ X), rest @ ahead @ rest.T + gain @ R @ gain.T],
        {"cse": True},
    )
    files = ca.CodeGenerator("casadi_step", {"with_header": True})
    files.add(step)
    files.add(update)
    files.generate(str(folder) + "/")


def compare(
    vi: da.MidpointVI, start: np.ndarray, flags: list[str], rounds: int, cycles: int = 400, cc: str = "cc"
) -> dict[str, Any]:
    """{"step": (own, CasADi's) in ns, "filter": the same, "size": bytes of code, "off": how far the motions are apart, "core": see below}"""
    ekf = da.ExtendedKalmanFilter(vi, da.measure(vi, *vi.x_names[:2]), Q=1e-6, R=1e-4, reduced=False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        out = da.export_c(vi, folder, ekf=ekf, start=start, vectors=cycles)
        casadi_sources(vi, ekf, folder)
        text = DRIVER.replace("@cycles@", str(cycles)).replace("@rounds@", str(rounds))
        text = text.replace("@u@", ", vector_u[k]" if vi.model.nu else "")
        text = text.replace("@n@", out.name).replace("@N@", out.name.upper())
        if not vi.model.nu:
            text = text.replace("vector_u[k]", "0")
        (folder / "driver.c").write_text(text)
        ours = [f"{out.name}.c", f"{out.name}_control.c"]
        for file in (*ours, "casadi_step.c", "driver.c"):
            subprocess.run([cc, *flags, "-c", file, "-o", file[:-2] + ".o"], cwd=folder, check=True)
        objects = [file[:-2] + ".o" for file in (*ours, "casadi_step.c", "driver.c")]
        subprocess.run([cc, *objects, "-lm", "-o", "driver"], cwd=folder, check=True)
        size = [_code(folder, [f[:-2] + ".o" for f in group]) for group in (ours, ["casadi_step.c"])]
        ran = subprocess.run(["./driver"], cwd=folder, capture_output=True, text=True, check=True).stdout
        alone = beside_the_core(vi, start, folder, rounds, cycles)
    steps, filters = (list(map(float, line.split())) for line in ran.splitlines())
    return {"step": steps[:2], "filter": filters[:2], "size": size, "off": max(steps[2], filters[2]), "core": alone}


def beside_the_core(vi: da.MidpointVI, start: np.ndarray, folder: Path, rounds: int, cycles: int) -> list[float]:
    """[exported step, step of the library's core without and with its judgement of steps] in ns, in turns, the least of the rounds."""
    W = vector_inputs(vi, start, cycles)
    best = [np.inf] * 3

    def library(**options: Any) -> float:
        repeats = 20
        begin = time.process_time_ns()
        for _ in range(repeats):
            vi.simulate(vi.state(start[: vi.model.nq], p=start[vi.model.nq :]), u=W, steps=cycles, **options)
        return (time.process_time_ns() - begin) / repeats / cycles

    for _ in range(rounds):
        ran = subprocess.run(["./driver", "step"], cwd=folder, capture_output=True, text=True, check=True).stdout
        for i, t in enumerate((float(ran), library(accuracy="ignore"), library())):
            best[i] = min(best[i], t)
    return best


def _code(folder: Path, objects: list[str]) -> int:
    text = subprocess.run(["size", *objects], cwd=folder, capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[0]) for line in text.splitlines()[1:])


def machines() -> dict[str, tuple[da.MidpointVI, np.ndarray]]:
    """Eight links with a motor, and the closed chain with one: (integrator, state)."""
    links = da.models.n_link(8)
    links = da.Model(links.frames, [*links.elements, da.ConfigForce(links.variables[0], "torque")], name="eight")
    vi = da.MidpointVI(links, 0.01)
    bent = vi.state(q=np.linspace(0.3, -0.2, 8))
    chain, places = da.models.load_with_configurations("closed_chain")
    chain = da.Model(chain.frames, [*chain.elements, da.ConfigForce(chain.variables[0], "torque")], name="chain")
    loop = da.MidpointVI(chain, 0.01)
    rest = loop.state(da.satisfy_constraints(chain, places["q0"]))
    return {
        "8 links": (vi, np.concatenate([bent.q, bent.p])),
        "closed chain": (loop, np.concatenate([rest.q, rest.p])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flags", default="-O2", help="of the compiler, for both")
    parser.add_argument("--cc", default="cc", help="the compiler")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(f"{args.cc} {args.flags}; microseconds per cycle\n")
    print("| | exported | CasADi | ratio | code | CasADi's | ratio |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, (vi, start) in machines().items():
        found = compare(vi, start, args.flags.split(), args.rounds, cc=args.cc)
        size = "{:.1f} kB | {:.1f} kB | {:.1f}".format(
            *(x / 1000 for x in found["size"]), found["size"][1] / found["size"][0]
        )
        for word, what in (("step", "step, A, B"), ("filter", "step, A, B, filter")):
            own, other = found[word]
            print(f"| {name}: {what} | {own / 1000:.2f} | {other / 1000:.2f} | {other / own:.2f} | {size} |")
        print(f"motions apart by {found['off']:.1e}")
        own, core, judged = (t / 1000 for t in found["core"])
        print(
            f"step alone {own:.2f}; the library's core {core:.2f}, with its judgement of steps {judged:.2f}: {own / core:.2f}, {own / judged:.2f}\n"
        )


if __name__ == "__main__":
    main()
