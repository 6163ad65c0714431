"""The discrete scheme (10)-(18) of a system: what stands at a node, momenta of a step, compiled functions.

A chart says what stands at a node: z, from which follow the configuration q = place(z, r), the projection of forces on
what may move, and the constraints that are left for multipliers. The parameters r of a node are numbers.

    Coordinates   z = u (nd), q = F(u, q_00); closures are left             minimal dimension, (13)
    Referred      the same with rotation vectors from a rotation of the node's own
    Directors     z = q (n) on the constraints, P(q); closures are left     steps of (13), and the relative form (11)
    Redundant     z = q (n), P = 1; all constraints are left                (10)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from ...arrays import needed
from .general import ConstrainedSystem, General
from .multibody import Multibody
from .system import MultibodySystem

SX = Any  # casadi.SX; casadi is imported on use
System = MultibodySystem | ConstrainedSystem


def dense(x: Any) -> np.ndarray:
    """A CasADi number matrix as a 2-D array."""
    return x.full()


def flat(x: Any) -> np.ndarray:
    """A CasADi number column as a 1-D array."""
    return x.full().ravel()


class Coordinates:
    """z = u. Sizes of z, of projected forces (`rank`), of the constraints that are left (`rows`, of which the first
    `tree` are no closures), of r (`nr`)."""

    def __init__(self, mechanics: Multibody | General) -> None:
        self.mechanics, self.tree = mechanics, 0
        self.size, self.rank, self.rows, self.nr = mechanics.nd, mechanics.nd, mechanics.nc, 0

    def place(self, z: SX, r: SX) -> SX:
        """Configuration q (n,)."""
        return self.mechanics.place(z)

    def near(self, z: SX, r: SX) -> SX:
        """Coordinates (nd,) next to which turns are read."""
        return z

    def coordinates(self, z: SX, r: SX) -> SX:
        """Joint coordinates (nd,)."""
        return z

    def project(self, q: SX, x: SX, load: SX = None) -> SX:
        """P(q)'x and the effect of loads, (rank,)."""
        return self.mechanics.project(q, x, load)

    def normal(self, q: SX) -> SX:
        """P(q), (n, rank), whose transpose `project` applies."""
        return self.mechanics.nullspace(q)

    def retract(self, z: SX, d: SX) -> SX:
        """Where an increment d (rank,) leads."""
        return z + d

    def tidy(self, z: SX) -> SX:
        """z (size,) without what rounding has taken it off the manifold."""
        return z

    def tangent(self, z: SX, r: SX) -> SX:
        """Derivative of place(retract(z, d), r) by d at zero, (n, rank)."""
        import casadi as ca

        return ca.jacobian(self.place(z, r), z)

    def left(self, q: SX, near: SX) -> SX:
        """Constraints that are left for multipliers, (rows,)."""
        return self.mechanics.closures(q, near)


class Referred(Coordinates):
    """z = u, but the rotation vectors of balls and free bodies refer to the rotations r (nref) of their node."""

    def __init__(self, mechanics: Multibody | General) -> None:
        super().__init__(mechanics)
        self.nr = mechanics.nref

    def place(self, z: SX, r: SX) -> SX:
        return self.mechanics.place(z, r)

    def coordinates(self, z: SX, r: SX) -> SX:
        return self.mechanics.coordinates(self.place(z, r), z)


class Directors(Coordinates):
    """z = q on the constraints; r (nd) are coordinates next to which turns are read."""

    def __init__(self, mechanics: Multibody | General) -> None:
        super().__init__(mechanics)
        self.size, self.nr = mechanics.n, mechanics.nd

    def place(self, z: SX, r: SX) -> SX:
        return z

    def near(self, z: SX, r: SX) -> SX:
        return r

    def coordinates(self, z: SX, r: SX) -> SX:
        return self.mechanics.coordinates(z, r)

    def retract(self, z: SX, d: SX) -> SX:
        return self.mechanics.advance(d, z)  # type: ignore[misc]

    def tidy(self, z: SX) -> SX:
        return self.mechanics.orthonormal(z)

    def tangent(self, z: SX, r: SX) -> SX:
        return self.mechanics.tangent(z)


class Redundant(Directors):
    """z = q; all constraints are left."""

    def __init__(self, mechanics: Multibody | General) -> None:
        super().__init__(mechanics)
        self.rank, self.rows, self.tree = mechanics.n, mechanics.m + mechanics.nc, mechanics.m

    def project(self, q: SX, x: SX, load: SX = None) -> SX:
        return x if load is None else x + self.mechanics.lift(q, load)

    def normal(self, q: SX) -> SX:
        import casadi as ca

        return ca.SX.eye(self.rank)

    def retract(self, z: SX, d: SX) -> SX:
        return z + d

    def tidy(self, z: SX) -> SX:
        return z

    def tangent(self, z: SX, r: SX) -> SX:
        import casadi as ca

        return ca.SX.eye(self.rank)

    def left(self, q: SX, near: SX) -> SX:
        import casadi as ca

        return ca.vertcat(self.mechanics.constraints(q), self.mechanics.closures(q, near))


class Kernels:
    """The functions of one system; get it with `kernels(system)`, which remembers it."""

    def __init__(self, system: System) -> None:
        import casadi as ca

        self.system = system
        self.mechanics: Any = General(system) if isinstance(system, ConstrainedSystem) else Multibody(system)
        m = self.mechanics
        self.coordinates, self.referred = Coordinates(m), Referred(m)
        self.directors, self.redundant = Directors(m), Redundant(m)
        q, near = ca.SX.sym("q", m.n), ca.SX.sym("near", m.nd)
        energy = m.potential(q, near)
        self.potential = ca.Function("potential", [q, near], [energy])
        self.gradient = ca.Function("gradient", [q, near], [ca.densify(ca.gradient(energy, q))])

    # ---- expressions of the scheme in a chart

    def momenta(
        self, chart: Coordinates, q0: SX, q1: SX, near: SX, tau: SX, h: SX, *, kinetic: bool = True
    ) -> tuple[SX, SX]:
        """p_0- and p_1+ of a step without multipliers, projected (16): midpoint Lagrangian (7), forces (12).

        Without the `kinetic` part: the impulses of potential and forces that they take up.
        """
        m = self.mechanics
        pull = 0.5 * h * self.gradient(0.5 * (q0 + q1), near)
        moving = m.mass @ (q1 - q0) / h if kinetic else 0
        first, second = m.loads(q0, q1, tau, h)
        minus = chart.project(q0, moving + pull, -0.5 * h * first)
        return minus, chart.project(q1, moving - pull, 0.5 * h * second)

    def reaction(self, chart: Coordinates, q: SX, near: SX, lam: SX) -> SX:
        """P'Dc'lam: the projected forces of the constraints that are left, (rank,)."""
        import casadi as ca

        here = ca.SX.sym("here", self.mechanics.n)
        force = ca.jtimes(chart.left(here, near), here, lam, True)
        return chart.project(q, ca.substitute(force, here, q))

    def velocity(self, q: SX, p: SX, near: SX, choose: np.ndarray) -> SX:
        """Velocity (n,) of a reduced momentum p (nd,) along the closures, of which `choose` (kept, nc) are independent:
        the projection (15)."""
        import casadi as ca

        m = self.mechanics
        here = ca.SX.sym("here", m.n)
        P = m.nullspace(q)
        kept = len(choose)
        normal = ca.DM(choose) @ ca.substitute(ca.jacobian(m.closures(here, near), here), here, q) @ P
        matrix = ca.vertcat(ca.horzcat(P.T @ m.mass @ P, normal.T), ca.horzcat(normal, ca.SX(kept, kept)))
        return P @ ca.solve(matrix, ca.vertcat(p, ca.SX(kept, 1)))[: m.nd]

    # ---- compiled functions

    @cached_property
    def place(self) -> Any:
        """u -> q."""
        return self._function("place", lambda u: self.mechanics.place(u), u=self.mechanics.nd)

    @cached_property
    def place_jacobian(self) -> Any:
        """u -> dq/du, (n, nd)."""
        return self._function("place_jacobian", lambda u: self.coordinates.tangent(u, None), u=self.mechanics.nd)

    @cached_property
    def advance(self) -> Any:
        """(du, q) -> q."""
        return self._function("advance", self.mechanics.advance, du=self.mechanics.nd, q=self.mechanics.n)

    @cached_property
    def nullspace(self) -> Any:
        """q -> P, (n, nd)."""
        return self._function("nullspace", self.mechanics.nullspace, q=self.mechanics.n)

    @cached_property
    def constraints(self) -> Any:
        """q -> g, (m,), and G, (m, n): those that the coordinates fulfil."""
        return self._with_jacobian("constraints", self.mechanics.constraints, q=self.mechanics.n)

    @cached_property
    def closures(self) -> Any:
        """(q, near) -> c, (nc,), and Dc, (nc, n): those that are left for multipliers."""
        return self._with_jacobian("closures", self.mechanics.closures, q=self.mechanics.n, near=self.mechanics.nd)

    @cached_property
    def closing(self) -> Any:
        """u -> c, (nc,), and its derivative by u, (nc, nd)."""
        return self._with_jacobian(
            "closing", lambda u: self.mechanics.closures(self.mechanics.place(u), u), u=self.mechanics.nd
        )

    @cached_property
    def difference(self) -> Any:
        """(q0, q1) -> change of the coordinates, (nd,)."""
        return self._function("difference", self.mechanics.difference, q0=self.mechanics.n, q1=self.mechanics.n)

    @cached_property
    def actuation(self) -> Any:
        """q -> B', (n, nu), eq. (42)."""
        import casadi as ca

        m = self.mechanics
        tau = ca.SX.sym("tau", m.nu)

        def forces(q: SX) -> SX:  # at rest: no damping
            return ca.jacobian(m.lift(q, m.loads(q, q, tau, ca.DM(1))[0]), tau)

        return self._function("actuation", forces, q=m.n)

    @cached_property
    def forces(self) -> Any:
        """(q0, q1, near, tau, h) -> redundant forces at both nodes: those of inputs and damping, minus the gradient of
        the potential at the midpoint."""
        m = self.mechanics

        def parts(q0: SX, q1: SX, near: SX, tau: SX, h: SX) -> list[SX]:
            first, second = m.loads(q0, q1, tau, h)
            pull = self.gradient(0.5 * (q0 + q1), near)
            return [m.lift(q0, first) - pull, m.lift(q1, second) - pull]

        return self._function("forces", parts, q0=m.n, q1=m.n, near=m.nd, tau=m.nu, h=1)

    @cached_property
    def legendre(self) -> Any:
        """(q0, q1, near, tau, h) -> redundant p_0-, p_1+ without multipliers (14)."""
        return self._momenta("legendre", self.redundant)

    @cached_property
    def reduced(self) -> Any:
        """(q0, q1, near, tau, h) -> P'p_0-, P'p_1+ (16)."""
        return self._momenta("reduced", self.directors)

    @cached_property
    def inertia(self) -> Any:
        """(q, near) -> P, (n, nd), P'MP, and Dc P, (nc, nd)."""
        import casadi as ca

        m = self.mechanics

        def parts(q: SX, near: SX) -> list[SX]:
            P = m.nullspace(q)
            return [P, P.T @ m.mass @ P, ca.jacobian(m.closures(q, near), q) @ P]

        return self._function("inertia", parts, q=m.n, near=m.nd)

    @cache  # noqa: B019  a chart lives as long as these kernels
    def residual(self, chart: Coordinates, kept: int) -> Any:
        """(z0, z1, r, tau, h, w, L, mu, p) -> residual of a step (rank + kept,): p - p_0- - w Dc'L'mu, and -L c(z1).

        L (kept, nc) chooses independent rows of the closures (empty if all are kept); mu and c have `tree` + kept rows,
        those of the tree first where a chart leaves them. Turns are read next to those of r.
        """
        import casadi as ca

        def parts(z0: SX, z1: SX, r: SX, tau: SX, h: SX, w: SX, L: SX, mu: SX, p: SX) -> SX:
            q0, q1, near = chart.place(z0, r), chart.place(z1, r), chart.near(z0, r)
            held, c = self._held(chart, kept, q0, q1, near, tau, h, w, L, mu)
            return ca.vertcat(p - held, -c)

        return self._function("residual", parts, **self._step_sizes(chart, kept))

    @cache  # noqa: B019
    def slope(self, chart: Coordinates, kept: int) -> Any:
        """Sparse matrix of Newton's method for `residual`: by the increment d of z1 -> retract(z1, d) at d = 0, and mu.

        No derivative of the reparameterization is needed, only the null space matrix. The product with the mass matrix
        is left to CasADi's sparse matrices, where the operations are many and all alike.
        """
        import casadi as ca

        m, q = self.mechanics, ca.SX.sym("q", self.mechanics.n)
        bodies = isinstance(m, Multibody) and chart is self.directors

        def parts(z0: SX, z1: SX, r: SX, tau: SX, h: SX, w: SX, L: SX, mu: SX, p: SX) -> list[SX]:
            q0, q1, near = chart.place(z0, r), chart.place(z1, r), chart.near(z0, r)
            held, c = self._held(chart, kept, q0, q, near, tau, h, w, L, mu, kinetic=False)
            tangent = chart.tangent(z1, r)
            rest, across = (ca.substitute(ca.jacobian(x, q), q, q1) @ tangent for x in (held, c))
            below = ca.horzcat(across, ca.SX(across.shape[0], across.shape[0]))
            if bodies:
                factors = [m.reach(q0), m.inertia(q0, q1) / h, m.reach(q1)]
            else:
                factors = [chart.normal(q0), m.mass / h, tangent]
            return [*factors, ca.vertcat(ca.horzcat(rest, ca.jacobian(held, mu)), below)]

        sizes = self._step_sizes(chart, kept)
        symbols = [ca.SX.sym(key, size) for key, size in sizes.items()]
        outputs: Any = ca.cse(parts(*symbols))
        factors = ca.Function("factors", symbols, outputs)
        given = [ca.MX.sym(key, size) for key, size in sizes.items()]
        left, middle, right, rest = factors(*given)
        along, extra = left.T @ (middle @ right), chart.tree + kept
        return ca.Function("slope", given, [rest + ca.diagcat(along, ca.MX(extra, extra))])

    def _held(
        self,
        chart: Coordinates,
        kept: int,
        q0: SX,
        q1: SX,
        near: SX,
        tau: SX,
        h: SX,
        w: SX,
        L: SX,
        mu: SX,
        kinetic: bool = True,
    ) -> tuple[SX, SX]:
        """Momentum at the beginning of a step with the forces of multipliers, and the constraints at its end."""
        import casadi as ca

        nc = self.mechanics.nc
        choose = ca.reshape(L, kept, nc) if kept < nc else ca.SX.eye(nc)
        choose = ca.diagcat(ca.SX.eye(chart.tree), choose)
        minus, _ = self.momenta(chart, q0, q1, near, tau, h, kinetic=kinetic)
        return minus + w * self.reaction(chart, q0, near, choose.T @ mu), choose @ chart.left(q1, near)

    def _step_sizes(self, chart: Coordinates, kept: int) -> dict[str, int]:
        sizes = {"z0": chart.size, "z1": chart.size, "r": chart.nr, "tau": self.mechanics.nu, "h": 1, "w": 1}
        choice = kept * self.mechanics.nc if kept < self.mechanics.nc else 0
        return sizes | {"L": choice, "mu": chart.tree + kept, "p": chart.rank}

    @cache  # noqa: B019
    def arrival(self, chart: Coordinates) -> Any:
        """(z0, z1, r, tau, h) -> p_1+ and the coordinates at z1 next to which turns are read from then on."""

        def parts(z0: SX, z1: SX, r: SX, tau: SX, h: SX) -> list[SX]:
            q0, q1, near = chart.place(z0, r), chart.place(z1, r), chart.near(z0, r)
            _, plus = self.momenta(chart, q0, q1, near, tau, h)
            follow = self.mechanics.winding and chart is not self.coordinates
            return [plus, self.mechanics.coordinates(q1, r) if follow else r]

        sizes = {"z0": chart.size, "z1": chart.size, "r": chart.nr, "tau": self.mechanics.nu, "h": 1}
        return self._function("arrival", parts, **sizes)

    @cache  # noqa: B019
    def retract(self, chart: Coordinates) -> Any:
        """(z, d) -> z."""
        return self._function("retract", chart.retract, z=chart.size, d=chart.rank)

    @cache  # noqa: B019
    def tidy(self, chart: Coordinates) -> Any:
        """z -> z."""
        return self._function("tidy", chart.tidy, z=chart.size)

    @cache  # noqa: B019
    def step(self, chart: Coordinates, kept: int, iterations: int, renew: bool) -> Any:
        """(state, tau, h, w, L) -> state and residual after a fixed number of Newton iterations, with one matrix or
        with a new one each time.

        The state stacks z, p, mu, r and the increments of the last three steps, whose parabola the first guess follows.
        """
        import casadi as ca

        rank, more = chart.rank, chart.tree + kept
        parts = (chart.size, rank, more, chart.nr, rank, rank, rank)
        state, names = ca.MX.sym("state", sum(parts)), ("tau", "h", "w", "L")
        z, p, mu, r, d1, d2, d3 = ca.vertsplit(state, np.cumsum([0, *parts]).tolist())
        sizes = self._step_sizes(chart, kept)
        tau, h, w, L = given = [ca.MX.sym(name, sizes[name]) for name in names]
        retract, residual, slope = self.retract(chart), self.residual(chart, kept), self.slope(chart, kept)
        moved = 3 * (d1 - d2) + d3
        z1 = retract(z, moved)
        matrix = slope(z, z1, r, tau, h, w, L, mu, p)
        for i in range(iterations):
            if renew and i:
                matrix = slope(z, z1, r, tau, h, w, L, mu, p)
            fix = ca.solve(matrix, residual(z, z1, r, tau, h, w, L, mu, p), "qr")
            d, change = ca.vertsplit(fix, [0, rank, rank + more])
            z1, mu, moved = retract(z1, d), mu + change, moved + d
        z1 = self.tidy(chart)(z1)
        plus, near = self.arrival(chart)(z, z1, r, tau, h)
        off = residual(z, z1, r, tau, h, w, L, mu, p)
        return ca.Function("step", [state, *given], [ca.vertcat(z1, plus, mu, near, moved, d1, d2), off])

    @cache  # noqa: B019
    def block(self, chart: Coordinates, kept: int, iterations: int, length: int, runs: int) -> Any:
        """`runs` times `length` steps in a row; arguments as columns, run after run; states (S, runs) to begin with."""
        step = self.step(chart, kept, iterations, iterations > 3).mapaccum(length)
        return step if runs == 1 else step.map(runs)

    def _momenta(self, name: str, chart: Any) -> Any:
        m = self.mechanics
        sizes = {"q0": m.n, "q1": m.n, "near": m.nd, "tau": m.nu, "h": 1}
        return self._function(name, lambda *z: list(self.momenta(chart, *z)), **sizes)

    def _with_jacobian(self, name: str, function: Any, **sizes: int) -> Any:
        import casadi as ca

        def both(q: SX, *more: SX) -> list[SX]:
            value = function(q, *more)
            return [value, ca.jacobian(value, q)]

        return self._function(name, both, **sizes)

    def _function(self, name: str, function: Any, **sizes: int) -> Any:
        """A CasADi function of named columns with dense results; shared terms are computed once."""
        import casadi as ca

        symbols = [ca.SX.sym(key, size) for key, size in sizes.items()]
        value = function(*symbols)
        outputs = ca.cse([ca.SX(x) for x in (value if isinstance(value, list) else [value])])
        return ca.Function(name, symbols, [ca.densify(x) for x in outputs])


@lru_cache(maxsize=32)
def kernels(system: System) -> Kernels:
    """The functions of a system (remembered)."""
    return Kernels(needed(system, MultibodySystem, ConstrainedSystem))


def over(function: Any, *rows: np.ndarray) -> list[np.ndarray]:
    """A compiled function at many points: arguments (T, k), outputs (T, i, j)."""
    count = len(rows[0])
    shapes = [function.size_out(k) for k in range(function.n_out())]
    given = [np.zeros(x.shape[1]) for x in rows]
    found = [np.zeros(i * j) for i, j in shapes]
    evaluate = bound(function, given, found)
    out = [np.empty((count, i * j)) for i, j in shapes]
    for t in range(count):
        for place, row in zip(given, rows, strict=True):
            place[:] = row[t]
        evaluate()
        for result, value in zip(out, found, strict=True):
            result[t] = value
    return [x.reshape(count, j, i).transpose(0, 2, 1) for x, (i, j) in zip(out, shapes, strict=True)]


def bound(function: Any, given: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> Callable[[], bool]:
    """A compiled function that reads and writes these arrays (as CasADi stores: column after column) when called.

    Numbers take no detour through CasADi's matrices, whose conversion costs more than most of these functions. The call
    returns whether all went well: a singular matrix ends it early.
    """
    buffer, evaluate = function.buffer()
    for i, array in enumerate(given):
        buffer.set_arg(i, memoryview(array))  # type: ignore[arg-type]
    for i, array in enumerate(found):
        buffer.set_res(i, memoryview(array))  # type: ignore[arg-type]
    kept = (buffer, given, found)  # they must live as long as the function

    def call() -> bool:
        evaluate()
        return not kept[0].ret()

    return call
