"""MidpointVI: trep's integrator, which holds two states and steps from one to the next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConvergenceError, SingularityError
from .component import number
from .user import TOLERANCE

if TYPE_CHECKING:
    from .dynamics import Dynamics
    from .system import System

Array = NDArray[np.float64]


class MidpointVI:
    """Midpoint variational integrator with all forces on the left (F- = dt f, F+ = 0), as trep has it.

    A step ends as trep's does: full Newton iterations from the configuration before (or the hint) until the Euclidean norm of
    the momentum balance is below `tolerance` and every |h| below its constraint's own; what is left of the balance is not
    carried on. Both are absolute. A smaller tolerance (say 1e-13) gives steps at rounding level; one below what rounding
    allows ends there. `num_threads` is kept for old scripts. A step that fails leaves everything as it was.

    >>> import dalembert.trep as trep
    >>> system = trep.System()
    >>> system.import_frames([trep.rz("theta"), [trep.ty(-1.0, mass=1.0)]])
    >>> elements = trep.potentials.Gravity(system, (0, -9.8, 0)), trep.forces.ConfigForce(system, "theta", "tau")
    >>> mvi = trep.MidpointVI(system)
    >>> mvi.initialize_from_state(0, [0.2], [0.5])
    >>> iterations = mvi.step(0.1, [0.8])
    >>> mvi.q2.round(9), mvi.p2.round(9), mvi.q2_dp1().round(9)
    (array([0.24713619]), array([0.36272388]), array([[0.09766672]]))
    """

    def __init__(self, system: System, tolerance: float = 1e-10, num_threads: int | None = None) -> None:
        from .system import System

        if not isinstance(system, System):
            raise TypeError(f"MidpointVI needs a trep System, not {type(system).__name__}")
        self._system = system
        self.tolerance = tolerance
        self.num_threads = num_threads
        self._version = -1
        self._sizes = (0, 0, 0, 0)
        self._ready = False
        self._stepped = False
        self._t1 = self._t2 = 0.0
        self._sync()

    def _sync(self) -> None:
        """Take over a changed system: new numbers of the same kind are honoured, another structure needs a new start."""
        system = self._system
        if self._version == system._version:
            return
        sizes = (system.nQ, system.nQd, system.nu, system.nc)
        if self._version < 0 or sizes != self._sizes:
            self._ready = self._stepped = False
            nq, nd, nu, nc = sizes
            self._q1, self._q2 = np.zeros(nq), np.zeros(nq)
            self._p1, self._p2 = np.zeros(nd), np.zeros(nd)
            self._u1, self._lambda1 = np.zeros(nu), np.zeros(nc)
        self._stepped = False  # derivatives of a step belong to the system that made it
        self._first: Any = None
        self._second: dict[str, Any] = {}
        self._version, self._sizes = system._version, sizes
        nq, nd, nu, _ = sizes
        ends = np.cumsum([0, nq, nd, nu, nq - nd]).tolist()
        self._places = {kind: slice(a, b) for kind, a, b in zip("qpuk", ends[:-1], ends[1:], strict=True)}

    @property
    def _dynamics(self) -> Dynamics:
        return self._system._dynamics()

    @property
    def tolerance(self) -> float:
        """Bound on the Euclidean norm of the momentum balance at which a step ends; a new one holds from the next step on."""
        return self._tolerance

    @tolerance.setter
    def tolerance(self, value: float) -> None:
        self._tolerance = number(value, "tolerance")
        if self._tolerance <= 0:
            raise ValueError(f"tolerance must be positive, not {value}")

    @property
    def system(self) -> System:
        """The system."""
        return self._system

    @property
    def nq(self) -> int:
        """Number of variables."""
        return self._system.nQ

    @property
    def nd(self) -> int:
        """Number of dynamic variables."""
        return self._system.nQd

    @property
    def nk(self) -> int:
        """Number of kinematic variables."""
        return self._system.nQk

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return self._system.nu

    @property
    def nc(self) -> int:
        """Number of constraints."""
        return self._system.nc

    # ---- the two states

    def _numbers(self, value: Any, size: int, what: str) -> Array:
        row = np.array(value, dtype=float).reshape(-1)
        if row.shape != (size,):
            raise ValueError(f"{what} has {row.size} numbers, but {size} are needed")
        if not np.isfinite(row).all():
            raise ValueError(f"{what} is not finite at index {int(np.flatnonzero(~np.isfinite(row))[0])}")
        return row

    def _forget(self) -> None:
        self._first, self._second = None, {}

    def _put(self, name: str, value: Any, size: int) -> None:
        self._sync()
        setattr(self, f"_{name}", self._numbers(value, size, name))
        self._ready = self._stepped = True  # states may be set by hand, as in inverse dynamics
        self._forget()

    @property
    def t1(self) -> float:
        """Time before the last step."""
        return self._t1

    @t1.setter
    def t1(self, value: float) -> None:
        self._t1 = number(value, "t1")
        self._forget()

    @property
    def t2(self) -> float:
        """Time now."""
        return self._t2

    @t2.setter
    def t2(self, value: float) -> None:
        self._t2 = number(value, "t2")
        self._forget()

    @property
    def q1(self) -> Array:
        """Configuration before the last step."""
        return self._q1.copy()

    @q1.setter
    def q1(self, value: object) -> None:
        self._put("q1", value, self.nq)

    @property
    def q2(self) -> Array:
        """Configuration now."""
        return self._q2.copy()

    @q2.setter
    def q2(self, value: object) -> None:
        self._put("q2", value, self.nq)

    @property
    def p1(self) -> Array:
        """Momentum before the last step."""
        return self._p1.copy()

    @p1.setter
    def p1(self, value: object) -> None:
        self._put("p1", value, self.nd)

    @property
    def p2(self) -> Array:
        """Momentum now."""
        return self._p2.copy()

    @p2.setter
    def p2(self, value: object) -> None:
        self._put("p2", value, self.nd)

    @property
    def u1(self) -> Array:
        """Inputs of the last step."""
        return self._u1.copy()

    @u1.setter
    def u1(self, value: object) -> None:
        self._put("u1", value, self.nu)

    @property
    def lambda1(self) -> Array:
        """Multipliers of the last step."""
        return self._lambda1.copy()

    @lambda1.setter
    def lambda1(self, value: object) -> None:
        self._put("lambda1", value, self.nc)

    @property
    def v2(self) -> Array:
        """Finite-difference velocity of the kinematic variables in the last step (zero before the first)."""
        dt = self._t2 - self._t1
        k = (self._q2 - self._q1)[self.nd :]
        return k / dt if dt else np.zeros(self.nk)

    def initialize_from_state(self, t1: float, q1: object, p1: object, lambda1: object = None) -> None:
        """Start from time, configuration and momentum."""
        self._sync()
        t = number(t1, "t1")
        q, p = self._numbers(q1, self.nq, "q1"), self._numbers(p1, self.nd, "p1")
        lam = np.zeros(self.nc) if lambda1 is None else self._numbers(lambda1, self.nc, "lambda1")
        self._t1 = self._t2 = t
        self._q1, self._q2, self._p1, self._p2, self._lambda1 = q, q, p, p, lam
        self._ready, self._stepped = True, False
        self._forget()

    def initialize_from_configs(self, t0: float, q0: object, t1: float, q1: object, lambda1: object = None) -> None:
        """Start from two configurations one after the other; the momentum is that of the step between them."""
        self._sync()
        a, b = number(t0, "t0"), number(t1, "t1")
        if not b > a:
            raise ValueError(f"t1 = {b} must be after t0 = {a}")
        x, y = self._numbers(q0, self.nq, "q0"), self._numbers(q1, self.nq, "q1")
        lam = np.zeros(self.nc) if lambda1 is None else self._numbers(lambda1, self.nc, "lambda1")
        p1, p2 = self._dynamics.momentum(x, y, b - a)
        self._t1, self._t2, self._q1, self._q2, self._p1, self._p2, self._lambda1 = a, b, x, y, p1, p2, lam
        self._ready, self._stepped = True, False
        self._forget()
        self._place(x, y, self._u1, a, b)

    def _place(self, q1: Array, q2: Array, u: Array, t1: float, t2: float) -> None:
        """Leave the system at the midpoint of the step, where trep leaves it."""
        system = self._system
        system._q = 0.5 * (q1 + q2)
        system._dq = (q2 - q1) / (t2 - t1)
        system._u = u.copy()
        system._t = 0.5 * (t1 + t2)
        system._memo = {}

    # ---- stepping

    def step(
        self,
        t2: float,
        u1: Any = (),
        k2: Any = (),
        max_iterations: int = 200,
        q2_hint: Any = None,
        lambda1_hint: Any = None,
    ) -> int:
        """Step to time t2 with inputs u1 and next kinematic values k2; returns the number of Newton iterations.

        Left out, u1 is zero and k2 stays as it is.
        """
        system = self._system
        if self._version != system._version:
            self._sync()
        if not self._ready:
            raise RuntimeError("initialize the integrator first (and again after the system's structure changed)")
        dynamics = system._dynamics()
        t1, q1, p1, lam = self._t2, self._q2, self._p2, self._lambda1
        t2 = float(t2)
        dt = t2 - t1
        if not 0.0 < dt < math.inf:
            raise ValueError(f"t2 = {t2} must be after the current time {t1}")
        nd, nu, nk = dynamics.nd, dynamics.nu, dynamics.nk
        u = np.array(u1, dtype=float).reshape(-1) if nu or len(u1) else self._u1
        if u.size != nu:
            if u.size:
                raise ValueError(f"u1 has {u.size} numbers, but {nu} are needed")
            u = np.zeros(nu)
        guess = q1.copy() if q2_hint is None else self._numbers(q2_hint, len(q1), "q2_hint")
        if nk or len(k2):
            if len(k2) == nk:
                guess[nd:] = k2
            elif len(k2):
                raise ValueError(f"k2 has {len(k2)} numbers, but {nk} are needed")
            else:
                guess[nd:] = q1[nd:]
        if not math.isfinite(guess.sum() + u.sum()):  # one sum finds what two checks would, in half the time
            self._numbers(u, nu, "u1")
            self._numbers(guess[nd:], nk, "k2")
        if lambda1_hint is not None:
            lam = self._numbers(lambda1_hint, self.nc, "lambda1_hint")
        q2, p2, lam, iterations, status, error = dynamics.step(
            max_iterations, self._tolerance, dt, q1, p1, u, guess, lam, 0.5 * (t1 + t2)
        )
        if status:
            self._fail(status, error)
        self._t1, self._q1, self._p1, self._u1 = t1, q1, p1, u
        self._t2, self._q2, self._p2, self._lambda1 = t2, q2, p2, lam
        self._stepped, self._first, self._second = True, None, {}
        self._place(q1, q2, u, t1, t2)
        return int(iterations)

    def _fail(self, status: int, error: float) -> None:
        """Say why a step failed; nothing was changed yet."""
        facts: dict[str, Any] = {
            "time": self._t2,
            "residual": error * TOLERANCE,
            "state": (self._q2.copy(), self._p2.copy()),
        }
        dynamics = self._dynamics
        mass = dynamics.second(self._q2, np.zeros(self.nq))[2][: self.nd, : self.nd]
        value, vectors = np.linalg.eigh(mass)
        if len(value) and value[0] <= 1e-12 * abs(value[-1]):
            names = tuple(str(self._system.configs[i].name) for i in np.flatnonzero(np.abs(vectors[:, 0]) > 0.1))
            raise SingularityError(
                f"the mass matrix is singular in {', '.join(names)} at t = {self._t2:g}",
                matrix="mass",
                variables=names,
                hint="give these frames a rotational inertia, or avoid this configuration",
                **facts,
            )
        why = "is not finite" if status == 2 else f"stays at {error * TOLERANCE:.3g} (relative)"
        raise ConvergenceError(
            f"the step from t = {self._t2:g} did not converge: the residual {why}",
            hint="a shorter step usually helps; check that the kinematic values can satisfy the constraints",
            **facts,
        )

    def calc_p2(self) -> None:
        """Set p2 to the momentum D2 Ld at the end of the step between q1 and q2, after these were set by hand."""
        self._sync()
        dt = self._t2 - self._t1
        if not dt > 0:
            raise RuntimeError("the two states are at the same time: there is no step between them")
        self.p2 = self._dynamics.momentum(self._q1, self._q2, dt)[1]

    def calc_f(self) -> Array:
        """Residual of the step between the two states: (p1 + D1 Ld + F- - Dh^T lambda; h(q2)), (nd + nc,)."""
        self._sync()
        d, nd = self._dynamics, self.nd
        dt = self._t2 - self._t1
        if not dt > 0:
            raise RuntimeError("the two states are at the same time: there is no step to evaluate")
        start, _ = d.momentum(self._q1, self._q2, dt)
        mid, vel = 0.5 * (self._q1 + self._q2), (self._q2 - self._q1) / dt
        force = np.zeros(nd)
        force[d.d] = d.core.force(mid[d.q], vel[d.q], np.concatenate([self._u1[d.map.u], np.zeros(d.map.probes)]))
        if d.user:
            force += d.user.force(mid, vel, self._u1, 0.5 * (self._t1 + self._t2), 0)[0]
        slope = d.constraints(self._q1)[1][:, :nd]
        del_ = self._p1 - start + dt * force - slope.T @ self._lambda1
        return np.concatenate([del_, d.constraints(self._q2)[0]])

    # ---- derivatives of the step by x = (q1, p1, u1, k2)

    def _arguments(self) -> tuple[Any, ...]:
        if self._version != self._system._version:
            self._sync()
        if not self._stepped:
            raise RuntimeError("there is no step to differentiate: step first (again after the system was changed)")
        dt = self._t2 - self._t1
        if not dt > 0:
            raise RuntimeError("t2 is not after t1")
        options = self._dynamics.options(200, self._tolerance)
        time = 0.5 * (self._t1 + self._t2)
        return options, dt, self._q1, self._p1, self._u1, self._q2, self._lambda1, time

    def _derivatives(self) -> Any:
        if self._first is None or self._version != self._system._version:
            q, p, lam, ok = self._dynamics.derivatives(*self._arguments())
            if not ok:
                raise SingularityError("the step cannot be linearized: its Newton matrix is singular", time=self._t1)
            self._first = {"q": q, "p": p, "c": lam}
        return self._first

    def _contracted(self, z: Array) -> Array:
        """Second derivatives of z . (q2 dynamic, p2, lambda1), (count, nx, nx)."""
        found = self._dynamics.second_derivatives(z, *self._arguments())
        if found is None:
            raise SingularityError("the step cannot be linearized: its Newton matrix is singular", time=self._t1)
        return found

    def _tensor(self, kind: str) -> Array:
        if kind not in self._second or self._version != self._system._version:
            nd, nc = self.nd, self.nc
            place = {"q": slice(0, nd), "p": slice(nd, 2 * nd), "c": slice(2 * nd, 2 * nd + nc)}
            self._second[kind] = self._contracted(np.eye(2 * nd + nc)[place[kind]]).transpose(1, 2, 0)
        return self._second[kind]  # type: ignore[no-any-return]

    def _out(self, kind: str, part: Any) -> Any:
        if part is None:
            return slice(None)
        if kind == "c":
            return self._system.get_constraint(part).index
        q = self._system.get_config(part)
        if q.kinematic:
            raise ValueError(f"{q.name!r} is kinematic: it is given, not a result of the step")
        return q.index

    def _in(self, kind: str, part: Any) -> Any:
        place = self._places[kind]
        if part is None:
            return place
        system = self._system
        if kind == "u":
            return place.start + system.get_input(part).index
        q = system.get_config(part)
        if (kind == "p" and q.kinematic) or (kind == "k" and not q.kinematic):
            raise ValueError(f"{q.name!r} is {'' if q.kinematic else 'not '}kinematic")
        return place.start + (q.k_index if kind == "k" else q.index)

    def _d1(self, out: str, row: Any, by: str, part: Any) -> Any:
        found = self._derivatives()[out][self._out(out, row), self._in(by, part)]
        return found.copy() if found.ndim else float(found)

    def _d2(self, out: str, row: Any, by1: str, part1: Any, by2: str, part2: Any) -> Any:
        found = self._tensor(out)[self._in(by1, part1)][..., self._in(by2, part2), :][..., self._out(out, row)]
        return float(found) if np.ndim(found) == 0 else found.copy()

    def q2_dq1(self, q: object = None, q1: object = None) -> Any:
        """dq2/dq1, [out, in]."""
        return self._d1("q", q, "q", q1)

    def q2_dp1(self, q: object = None, p1: object = None) -> Any:
        """dq2/dp1, [out, in]."""
        return self._d1("q", q, "p", p1)

    def q2_du1(self, q: object = None, u1: object = None) -> Any:
        """dq2/du1, [out, in]."""
        return self._d1("q", q, "u", u1)

    def q2_dk2(self, q: object = None, k2: object = None) -> Any:
        """dq2/dk2, [out, in]."""
        return self._d1("q", q, "k", k2)

    def q2_dq1dq1(self, q: object = None, q1_1: object = None, q1_2: object = None) -> Any:
        """d2q2/dq1 dq1, [in1, in2, out]."""
        return self._d2("q", q, "q", q1_1, "q", q1_2)

    def q2_dq1dp1(self, q: object = None, q1: object = None, p1: object = None) -> Any:
        """d2q2/dq1 dp1, [in1, in2, out]."""
        return self._d2("q", q, "q", q1, "p", p1)

    def q2_dq1du1(self, q: object = None, q1: object = None, u1: object = None) -> Any:
        """d2q2/dq1 du1, [in1, in2, out]."""
        return self._d2("q", q, "q", q1, "u", u1)

    def q2_dq1dk2(self, q: object = None, q1: object = None, k2: object = None) -> Any:
        """d2q2/dq1 dk2, [in1, in2, out]."""
        return self._d2("q", q, "q", q1, "k", k2)

    def q2_dp1dp1(self, q: object = None, p1_1: object = None, p1_2: object = None) -> Any:
        """d2q2/dp1 dp1, [in1, in2, out]."""
        return self._d2("q", q, "p", p1_1, "p", p1_2)

    def q2_dp1du1(self, q: object = None, p1: object = None, u1: object = None) -> Any:
        """d2q2/dp1 du1, [in1, in2, out]."""
        return self._d2("q", q, "p", p1, "u", u1)

    def q2_dp1dk2(self, q: object = None, p1: object = None, k2: object = None) -> Any:
        """d2q2/dp1 dk2, [in1, in2, out]."""
        return self._d2("q", q, "p", p1, "k", k2)

    def q2_du1du1(self, q: object = None, u1_1: object = None, u1_2: object = None) -> Any:
        """d2q2/du1 du1, [in1, in2, out]."""
        return self._d2("q", q, "u", u1_1, "u", u1_2)

    def q2_du1dk2(self, q: object = None, u1: object = None, k2: object = None) -> Any:
        """d2q2/du1 dk2, [in1, in2, out]."""
        return self._d2("q", q, "u", u1, "k", k2)

    def q2_dk2dk2(self, q: object = None, k2_1: object = None, k2_2: object = None) -> Any:
        """d2q2/dk2 dk2, [in1, in2, out]."""
        return self._d2("q", q, "k", k2_1, "k", k2_2)

    def p2_dq1(self, p: object = None, q1: object = None) -> Any:
        """dp2/dq1, [out, in]."""
        return self._d1("p", p, "q", q1)

    def p2_dp1(self, p: object = None, p1: object = None) -> Any:
        """dp2/dp1, [out, in]."""
        return self._d1("p", p, "p", p1)

    def p2_du1(self, p: object = None, u1: object = None) -> Any:
        """dp2/du1, [out, in]."""
        return self._d1("p", p, "u", u1)

    def p2_dk2(self, p: object = None, k2: object = None) -> Any:
        """dp2/dk2, [out, in]."""
        return self._d1("p", p, "k", k2)

    def p2_dq1dq1(self, p: object = None, q1_1: object = None, q1_2: object = None) -> Any:
        """d2p2/dq1 dq1, [in1, in2, out]."""
        return self._d2("p", p, "q", q1_1, "q", q1_2)

    def p2_dq1dp1(self, p: object = None, q1: object = None, p1: object = None) -> Any:
        """d2p2/dq1 dp1, [in1, in2, out]."""
        return self._d2("p", p, "q", q1, "p", p1)

    def p2_dq1du1(self, p: object = None, q1: object = None, u1: object = None) -> Any:
        """d2p2/dq1 du1, [in1, in2, out]."""
        return self._d2("p", p, "q", q1, "u", u1)

    def p2_dq1dk2(self, p: object = None, q1: object = None, k2: object = None) -> Any:
        """d2p2/dq1 dk2, [in1, in2, out]."""
        return self._d2("p", p, "q", q1, "k", k2)

    def p2_dp1dp1(self, p: object = None, p1_1: object = None, p1_2: object = None) -> Any:
        """d2p2/dp1 dp1, [in1, in2, out]."""
        return self._d2("p", p, "p", p1_1, "p", p1_2)

    def p2_dp1du1(self, p: object = None, p1: object = None, u1: object = None) -> Any:
        """d2p2/dp1 du1, [in1, in2, out]."""
        return self._d2("p", p, "p", p1, "u", u1)

    def p2_dp1dk2(self, p: object = None, p1: object = None, k2: object = None) -> Any:
        """d2p2/dp1 dk2, [in1, in2, out]."""
        return self._d2("p", p, "p", p1, "k", k2)

    def p2_du1du1(self, p: object = None, u1_1: object = None, u1_2: object = None) -> Any:
        """d2p2/du1 du1, [in1, in2, out]."""
        return self._d2("p", p, "u", u1_1, "u", u1_2)

    def p2_du1dk2(self, p: object = None, u1: object = None, k2: object = None) -> Any:
        """d2p2/du1 dk2, [in1, in2, out]."""
        return self._d2("p", p, "u", u1, "k", k2)

    def p2_dk2dk2(self, p: object = None, k2_1: object = None, k2_2: object = None) -> Any:
        """d2p2/dk2 dk2, [in1, in2, out]."""
        return self._d2("p", p, "k", k2_1, "k", k2_2)

    def lambda1_dq1(self, constraint: object = None, q1: object = None) -> Any:
        """dlambda1/dq1, [out, in]."""
        return self._d1("c", constraint, "q", q1)

    def lambda1_dp1(self, constraint: object = None, p1: object = None) -> Any:
        """dlambda1/dp1, [out, in]."""
        return self._d1("c", constraint, "p", p1)

    def lambda1_du1(self, constraint: object = None, u1: object = None) -> Any:
        """dlambda1/du1, [out, in]."""
        return self._d1("c", constraint, "u", u1)

    def lambda1_dk2(self, constraint: object = None, k2: object = None) -> Any:
        """dlambda1/dk2, [out, in]."""
        return self._d1("c", constraint, "k", k2)

    def lambda1_dq1dq1(self, constraint: object = None, q1_1: object = None, q1_2: object = None) -> Any:
        """d2lambda1/dq1 dq1, [in1, in2, out]."""
        return self._d2("c", constraint, "q", q1_1, "q", q1_2)

    def lambda1_dq1dp1(self, constraint: object = None, q1: object = None, p1: object = None) -> Any:
        """d2lambda1/dq1 dp1, [in1, in2, out]."""
        return self._d2("c", constraint, "q", q1, "p", p1)

    def lambda1_dq1du1(self, constraint: object = None, q1: object = None, u1: object = None) -> Any:
        """d2lambda1/dq1 du1, [in1, in2, out]."""
        return self._d2("c", constraint, "q", q1, "u", u1)

    def lambda1_dq1dk2(self, constraint: object = None, q1: object = None, k2: object = None) -> Any:
        """d2lambda1/dq1 dk2, [in1, in2, out]."""
        return self._d2("c", constraint, "q", q1, "k", k2)

    def lambda1_dp1dp1(self, constraint: object = None, p1_1: object = None, p1_2: object = None) -> Any:
        """d2lambda1/dp1 dp1, [in1, in2, out]."""
        return self._d2("c", constraint, "p", p1_1, "p", p1_2)

    def lambda1_dp1du1(self, constraint: object = None, p1: object = None, u1: object = None) -> Any:
        """d2lambda1/dp1 du1, [in1, in2, out]."""
        return self._d2("c", constraint, "p", p1, "u", u1)

    def lambda1_dp1dk2(self, constraint: object = None, p1: object = None, k2: object = None) -> Any:
        """d2lambda1/dp1 dk2, [in1, in2, out]."""
        return self._d2("c", constraint, "p", p1, "k", k2)

    def lambda1_du1du1(self, constraint: object = None, u1_1: object = None, u1_2: object = None) -> Any:
        """d2lambda1/du1 du1, [in1, in2, out]."""
        return self._d2("c", constraint, "u", u1_1, "u", u1_2)

    def lambda1_du1dk2(self, constraint: object = None, u1: object = None, k2: object = None) -> Any:
        """d2lambda1/du1 dk2, [in1, in2, out]."""
        return self._d2("c", constraint, "u", u1, "k", k2)

    def lambda1_dk2dk2(self, constraint: object = None, k2_1: object = None, k2_2: object = None) -> Any:
        """d2lambda1/dk2 dk2, [in1, in2, out]."""
        return self._d2("c", constraint, "k", k2_1, "k", k2_2)
