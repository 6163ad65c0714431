"""Many simulations at once: in the core on threads and SIMD lanes, or any function over any executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import floats, matrix, whole
from ..progress import progress as shown
from .impacts import say_crossed
from .midpoint import MidpointVI, refuse_order
from .quality import check_accuracy, say_of_batch
from .trajectory import State, Trajectory

if TYPE_CHECKING:
    from concurrent.futures import Executor

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Results of `rollouts`: `q` (count, N+1, nq), `p` (count, N+1, nd), `lam` (count, N, nc), `completed` (count,) steps done.

    Made by the integrator `vi` at the times `t` (N+1,) with the inputs `u` and prescribed values `rho`; `interrupted` by Ctrl-C.

    A rollout that stopped early has NaN after its last state. With keep=False only the last state of each is there (axis 1 has
    length 1). `batch[i]` is one Trajectory. `checks` (count, N, 5), or (count, 1, 5) of all steps together, is what the core found about
    the accuracy of the steps (see `Trajectory.quality`).
    """

    vi: MidpointVI
    t: Array
    q: Array
    p: Array
    lam: Array
    u: Array | None
    rho: Array | None
    completed: NDArray[np.int64]
    interrupted: bool = False
    checks: Array | None = None

    def __len__(self) -> int:
        return len(self.q)

    @property
    def failed(self) -> NDArray[np.int64]:
        """Indices of the rollouts that stopped early."""
        return np.flatnonzero(self.completed < len(self.t) - 1)

    def __getitem__(self, i: int) -> Trajectory:
        if self.q.shape[1] != len(self.t):
            raise ValueError("only the last states were kept (keep=False)")
        model, n = self.vi.model, int(self.completed[i])
        u = np.zeros((n, model.nu)) if self.u is None else (self.u if self.u.ndim == 2 else self.u[i])[:n]
        if self.rho is None:
            rho = np.tile(self.q[i, 0, model.nqd :], (n, 1))
        else:
            rho = (self.rho if self.rho.ndim == 2 else self.rho[i])[:n]
        return Trajectory(
            model,
            self.t[: n + 1],
            self.q[i, : n + 1],
            self.p[i, : n + 1],
            u,
            rho,
            self.lam[i, :n],
            np.zeros(n, dtype=np.int64),
            scheme=self.vi.scheme,
            checks=None if self.checks is None else self.checks[i, :n],
        )

    def __repr__(self) -> str:
        text = f"Rollouts: {len(self)} of {len(self.t) - 1} steps"
        return text + (f", {len(self.failed)} stopped early" if len(self.failed) else "")


def rollouts(
    vi: MidpointVI,
    starts: Sequence[State],
    steps: int | None = None,
    *,
    u: ArrayLike | None = None,
    kinematic: ArrayLike | None = None,
    threads: int | None = None,
    lanes: bool = True,
    keep: bool = True,
    accuracy: str = "warn",
    order: None = None,
) -> Rollouts:
    """Simulate `steps` steps from many starting states `starts` (with as many input sequences) in the core.

    `u`: (N, nu) for all or (count, N, nu); `kinematic` likewise. `threads`: default all cores.
    `lanes`: several rollouts side by side in the SIMD lanes of each core; a rollout's result does not depend on its neighbours. A failed rollout
    does not stop the others: see `completed`. `keep=False` stores only the last states. `accuracy`: "warn" or "raise" when steps are not
    accurate, as in `MidpointVI.simulate` (the message is about the worst rollout), or "ignore": steps are not judged. `order` belongs to the
    integrator: here it is an error.

    >>> import dalembert as da
    >>> m = da.Model([da.rz("a", da.ty(-1.0, mass=1.0))], [da.Gravity((0, -9.8, 0))])
    >>> vi = da.MidpointVI(m, dt=0.01)
    >>> batch = da.rollouts(vi, [vi.state(q=[x]) for x in (0.1, 0.2, 0.3)], 100)
    >>> batch.q.shape
    (3, 101, 1)
    """
    refuse_order(order)
    check_accuracy(accuracy)
    if not isinstance(vi, MidpointVI):
        raise TypeError(f"a MidpointVI is needed, not {type(vi).__name__}")
    model, starts = vi.model, list(starts)
    if not starts:
        raise ValueError("no starting states")
    checked = [vi._checked(s) for s in starts]
    q0, p0 = np.stack([c[0] for c in checked]), np.stack([c[1] for c in checked])
    dt = vi._steps(steps, None)
    n = len(dt)
    if len({s.t for s in starts}) != 1:
        raise ValueError("all starting states must have the same time")
    t = vi._times(starts[0].t, dt)

    def inputs(value: ArrayLike | None, width: int, what: str) -> Array | None:
        if value is None:
            return None
        x = floats(value, what)
        return matrix(x, (n, width) if x.ndim == 2 else (len(starts), n, width), what)

    us, rhos = inputs(u, model.nu, "u"), inputs(kinematic, model.nk, "kinematic")
    if rhos is not None:
        model.prescribed.unit(rhos, "kinematic")
    crew = whole(threads, "threads") if threads is not None else (os.cpu_count() or 1)
    q, p, lam, done, _, stop, checks = vi._core.rollouts(
        vi.options,
        q0,
        p0,
        dt,
        us,
        rhos,
        us is not None and us.ndim == 2,
        rhos is not None and rhos.ndim == 2,
        crew,
        bool(lanes) and len(starts) > 1,
        bool(keep),
        judged=accuracy != "ignore",
    )
    completed = np.array(done, dtype=np.int64)
    for i in np.flatnonzero(completed < n):  # what was not computed must not look like a result
        k = int(completed[i])
        if k == 0:  # not even begun, when interrupted
            q[i, 0], p[i, 0] = q0[i], p0[i]
        if keep:
            q[i, k + 1 :], p[i, k + 1 :], lam[i, k:] = np.nan, np.nan, np.nan
    for i in np.flatnonzero(completed < n):
        checks[i, int(completed[i]) if keep else 1 :] = np.nan
    batch = Rollouts(vi, t, q, p, lam, us, rhos, completed, bool(stop), checks if accuracy != "ignore" else None)
    if model.gaps and accuracy != "ignore":
        ends = q.reshape(-1, model.nq)
        say_crossed(model, np.tile(t if keep else t[-1:], len(starts)), ends, "rollouts", accuracy)
    say_of_batch(checks, accuracy, model=model, t=t, order=vi.order, dt=float(dt.min(initial=np.inf)), batch=batch)
    return batch


def ensemble(
    function: Callable[..., Any], cases: Iterable[Any], executor: Executor | None = None, *, progress: bool = False
) -> list[Any]:
    """[function(case) for case in cases] on any `concurrent.futures.Executor`; local processes without an `executor`.

    Models, integrators, trajectories and policies pickle, so they can travel. Results come in the order of the cases.
    `progress` shows a bar in a terminal or a notebook.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import dalembert as da
    >>> with ThreadPoolExecutor(2) as pool:
    ...     da.ensemble(abs, [-1, 2, -3], pool)
    [1, 2, 3]
    """
    if executor is None:
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor() as pool:
            return ensemble(function, cases, pool, progress=progress)
    futures = [executor.submit(function, case) for case in cases]
    with shown("cases", len(futures), wanted=progress) as tell:
        if tell is not None:
            from concurrent.futures import as_completed

            for i, _ in enumerate(as_completed(futures)):
                tell(i + 1, "")
    return [f.result() for f in futures]
