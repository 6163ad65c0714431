"""trep's way to end a step, to tell its solver's error from differences of the equations.

trep iterates full Newton steps from the configuration and multipliers before (or from hints) until the Euclidean norm of the
momentum balance is below `MidpointVI.tolerance`, 1e-10 absolute, and every constraint below its own; what is left of the balance
is lost. The layer solves to rounding. An iteration that amplifies its start carries that 1e-10 with it, so recorded iterates of
such a one come back only with this stop.
"""

import numpy as np

import dalembert.trep as trep
from dalembert.trep import discopt


class Stopped(trep.MidpointVI):
    """Stops as trep does. For systems whose forces depend on inputs only: forces are left out of the Newton matrix."""

    def step(self, t2, u1=(), k2=(), max_iterations=200, q2_hint=None, lambda1_hint=None):
        d, nd, nc = self._dynamics, self.nd, self.nc
        t1, q1, p1 = self._t2, self._q2, self._p2
        dt = t2 - t1
        lam = self._lambda1 if lambda1_hint is None else np.array(lambda1_hint, dtype=float)
        q2 = np.array(q1 if q2_hint is None else q2_hint, dtype=float)
        if len(k2):
            q2[nd:] = k2
        self._t1, self._q1, self._p1, self._u1, self._t2 = t1, q1, p1, np.array(u1, dtype=float), t2
        push = d.constraints(q1)[1][:, :nd] if nc else np.zeros((0, nd))
        for iterations in range(max_iterations):
            self._q2, self._lambda1 = q2, lam
            f = self.calc_f()
            if np.linalg.norm(f[:nd]) < self.tolerance and (np.abs(f[nd:]) < 1e-10).all():
                self.calc_p2()
                self._place(q1, q2, self._u1, t1, t2)
                return iterations
            qq, qv, vv = d.second(0.5 * (q1 + q2), (q2 - q1) / dt)
            matrix = (0.25 * dt * qq + 0.5 * (qv - qv.T) - vv / dt)[:nd, :nd]
            if nc:
                pull = d.constraints(q2)[1][:, :nd]
                matrix = np.block([[matrix, -push.T], [pull, np.zeros((nc, nc))]])
            change = np.linalg.solve(matrix, -f)
            q2, lam = q2.copy(), lam + change[nd:]
            q2[:nd] += change[:nd]
        raise AssertionError("no convergence")


class Stepwise(discopt.DSystem):
    """Takes every step through its integrator, as trep does, instead of whole trajectories through the core."""

    def _fast(self):
        return None
