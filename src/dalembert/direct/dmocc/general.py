"""Constrained mechanics given by functions: section 3 of the DMOCC paper for any system with a constant mass matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...arrays import Named, matrix, vector
from ...errors import ModelError

SX = Any  # casadi.SX; casadi is imported on use


class ConstrainedSystem:
    """A system of your own: coordinates q (n) with constant `mass` (n, n), and functions that return CasADi columns.

    - `constraints(q)`: g(q) = 0, (m,), checked, and kept with multipliers when there is no `reparameterization`.
    - `reparameterization(u, q)`: F of eq. (11), a configuration (n,) on the constraints from coordinates u, relative to
      q; at `reference` q_00 (n,) it gives the absolute one. A function that ignores q serves as an absolute one only.
      `coordinates` names u.
    - `nullspace(q)`: P(q), (n, nd), whose columns span the null space of Dg; an F that uses q can do without it, then
      its derivative at u = 0 is taken.
    - `closures(q)`: rows that F does not fulfil, kept with multipliers.
    - `force(q, v, tau)`: redundant forces f (n,), of the inputs tau named in `inputs`. `potential(q)`: V.

    Without a `reparameterization` the coordinates are q itself and all constraints are kept with multipliers.

    >>> import casadi as ca
    >>> bead = ConstrainedSystem(  # on a circle in the xy plane
    ...     np.eye(2), lambda q: 0.5 * (ca.dot(q, q) - 1), coordinates=("angle",), inputs=("push",), reference=(1, 0),
    ...     reparameterization=lambda u, q: ca.vertcat(ca.cos(u) * q[0] - ca.sin(u) * q[1],
    ...                                                ca.sin(u) * q[0] + ca.cos(u) * q[1]),
    ...     force=lambda q, v, tau: tau * ca.vertcat(-q[1], q[0]),
    ... )
    >>> bead.n, bead.m, bead.nd, bead.nu
    (2, 1, 1, 1)
    >>> from dalembert.direct.dmocc import simulate
    >>> simulate(bead, dt=0.1, steps=10, velocity=[1.0]).u[-1].round(3).tolist()  # chords: 20 asin(0.05)
    [1.002]
    """

    def __init__(
        self,
        mass: ArrayLike,
        constraints: Callable[[Any], Any] | None = None,
        *,
        coordinates: Sequence[str] = (),
        inputs: Sequence[str] = (),
        reference: ArrayLike | None = None,
        reparameterization: Callable[[Any, Any], Any] | None = None,
        nullspace: Callable[[Any], Any] | None = None,
        closures: Callable[[Any], Any] | None = None,
        force: Callable[[Any, Any, Any], Any] | None = None,
        potential: Callable[[Any], Any] | None = None,
        name: str = "constrained system",
    ) -> None:
        self.name = name
        given = np.atleast_2d(np.asarray(mass, dtype=float))
        self.mass_matrix = matrix(given, (given.shape[0], given.shape[0]), f"{name}: mass")
        if np.abs(self.mass_matrix - self.mass_matrix.T).max() > 1e-9 * np.abs(self.mass_matrix).max():
            raise ModelError(f"{name}: mass is not symmetric", culprit=name)
        self.n = len(self.mass_matrix)
        own = reparameterization is None
        self.coordinates = tuple(coordinates) or tuple(f"q{i}" for i in range(self.n if own else 0))
        self.inputs = tuple(inputs)
        self.reference = np.zeros(self.n) if reference is None else matrix(reference, (self.n,), f"{name}: reference")
        if own and len(self.coordinates) != self.n:
            raise ModelError(f"{name}: without reparameterization, coordinates needs {self.n} names", culprit=name)
        if not self.coordinates:
            raise ModelError(f"{name}: name the coordinates u of the reparameterization", culprit=name)
        if own and nullspace is not None:
            raise ModelError(f"{name}: a nullspace needs a reparameterization in as many coordinates", culprit=name)
        self.constraints, self.reparameterization, self.nullspace = constraints, reparameterization, nullspace
        self.closures, self.force, self.potential = closures, force, potential
        if force is None and self.inputs:
            raise ModelError(f"{name}: inputs need a force(q, v, tau)", culprit=name)

    @property
    def nd(self) -> int:
        """Number of coordinates u."""
        return len(self.coordinates)

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return len(self.inputs)

    @property
    def m(self) -> int:
        """Number of constraints that the coordinates u fulfil."""
        return 0 if self.reparameterization is None else self.n - self.nd

    def vector(self, value: Named | None, what: str = "u") -> np.ndarray:
        """Coordinates (nd,) from an array or from a dict by name (others zero)."""
        return vector(value, self.coordinates, what)

    def __repr__(self) -> str:
        return (
            f"ConstrainedSystem {self.name!r}: {self.n} coordinates, {self.m} constraints, "
            f"u = ({', '.join(self.coordinates)}), {self.nu} inputs"
        )


class General:
    """The functions of a `ConstrainedSystem` in the form that the scheme asks for; same contract as `Multibody`."""

    nref = 0
    unreferred = np.zeros(0)
    winding = False
    turning: tuple[int, ...] = ()

    def __init__(self, system: ConstrainedSystem) -> None:
        import casadi as ca

        self.system = system
        self.n, self.nd, self.nu, self.m = system.n, system.nd, system.nu, system.m
        self.mass = ca.sparsify(ca.DM(system.mass_matrix))
        self.reduced = system.reparameterization is not None
        q = ca.SX.sym("q", self.n)
        self.nc = int(self.closures(q).numel())
        rows = int(self.constraints(q).numel())
        if self.reduced and rows != self.m:
            raise ModelError(
                f"{system.name}: {self.n} coordinates q and {self.nd} coordinates u ask for {self.m} independent "
                f"constraints, not {rows}",
                culprit=system.name,
            )
        shape = (self.n, self.nd)
        if system.nullspace is not None and ca.SX(system.nullspace(q)).shape != shape:
            raise ModelError(f"{system.name}: nullspace(q) must be a matrix of shape {shape}", culprit=system.name)
        self._check()

    def _column(self, value: Any, size: int | None, what: str) -> SX:
        import casadi as ca

        column = ca.vertcat(*value) if isinstance(value, (list, tuple)) else ca.vec(ca.SX(value))
        if size is not None and column.numel() != size:
            raise ModelError(
                f"{self.system.name}: {what} returned {column.numel()} values, not {size}", culprit=self.system.name
            )
        return ca.SX(column)

    def _check(self) -> None:
        """The reparameterization must fulfil the constraints, and P span their null space; tried at one place."""
        import casadi as ca

        if not self.reduced:
            return
        u, q = ca.SX.sym("u", self.nd), ca.SX.sym("q", self.n)
        trial = np.random.default_rng(0).normal(size=self.nd) * 0.3
        place = ca.Function("place", [u], [self.place(u)])
        at = place(trial)
        g = ca.Function("g", [q], [self.constraints(q), ca.jacobian(self.constraints(q), q)])
        if np.abs(g(at)[0].full()).max(initial=0.0) > 1e-8:
            raise ModelError(f"{self.system.name}: the reparameterization violates the constraints")
        if self.system.nullspace is None and self.advance is None:
            raise ModelError(f"{self.system.name}: an absolute reparameterization (that ignores q) needs nullspace(q)")
        P = ca.Function("P", [q], [self.nullspace(q)])(at).full()
        if np.abs(g(at)[1].full() @ P).max(initial=0.0) > 1e-8 * np.abs(P).max():
            raise ModelError(f"{self.system.name}: the columns of nullspace(q) are not tangent to the constraints")

    # ---- the contract

    def place(self, u: SX, ref: SX = None) -> SX:
        """Absolute reparameterization."""
        import casadi as ca

        if not self.reduced:
            return u
        given: Any = self.system.reparameterization
        return self._column(given(u, ca.DM(self.system.reference)), self.n, "reparameterization")

    def orthonormal(self, q: SX) -> SX:
        """q (n,) as it is: which of it are rotations is not known."""
        return q

    @cached_property
    def advance(self) -> Callable[[SX, SX], SX] | None:
        """Relative reparameterization (du, q) -> q, or None where F is an absolute one."""
        import casadi as ca

        if not self.reduced:
            return lambda du, q: q + du
        given: Any = self.system.reparameterization
        trial = np.random.default_rng(1).normal(size=self.nd) * 0.3
        u, q = ca.SX.sym("u", self.nd), ca.SX.sym("q", self.n)
        F = ca.Function("F", [u, q], [self._column(given(u, q), self.n, "reparameterization")])
        at = F(trial, self.system.reference)
        if np.abs((F(np.zeros(self.nd), at) - at).full()).max() > 1e-10:
            return None
        return lambda du, q: F(du, q)

    @cached_property
    def tangent(self) -> Callable[[SX], SX]:
        """q -> derivative of advance(du, q) by du at zero, (n, nd)."""
        import casadi as ca

        assert self.advance is not None
        du, q = ca.SX.sym("du", self.nd), ca.SX.sym("q", self.n)
        slope = ca.substitute(ca.jacobian(self.advance(du, q), du), du, ca.SX.zeros(self.nd))
        return ca.Function("tangent", [q], [slope])

    def nullspace(self, q: SX) -> SX:
        """P(q), (n, nd)."""
        import casadi as ca

        if self.system.nullspace is not None:
            return ca.SX(self.system.nullspace(q))
        return self.tangent(q)

    def project(self, q: SX, x: SX, load: SX = None) -> SX:
        """P(q)'(x + load)."""
        return self.nullspace(q).T @ (x if load is None else x + load)

    def lift(self, q: SX, load: SX) -> SX:
        """Loads are redundant forces already."""
        return load

    def loads(self, q0: SX, q1: SX, tau: SX, h: SX) -> tuple[SX, SX]:
        """f at both nodes, with the mean velocity of the step."""
        import casadi as ca

        if self.system.force is None:
            return ca.SX(self.n, 1), ca.SX(self.n, 1)
        v = (q1 - q0) / h
        first, second = (self._column(self.system.force(q, v, tau), self.n, "force") for q in (q0, q1))
        return first, second

    def potential(self, q: SX, near: SX) -> SX:
        """V(q)."""
        import casadi as ca

        return ca.SX(0) if self.system.potential is None else self._column(self.system.potential(q), 1, "potential")

    def constraints(self, q: SX) -> SX:
        """Those that the coordinates fulfil."""
        import casadi as ca

        if not self.reduced or self.system.constraints is None:
            return ca.SX(0, 1)
        return self._column(self.system.constraints(q), None, "constraints")

    def closures(self, q: SX, near: SX = None) -> SX:
        """Those that are kept with multipliers."""
        import casadi as ca

        functions = [self.system.closures] if self.reduced else [self.system.constraints, self.system.closures]
        return ca.vertcat(ca.SX(0, 1), *(self._column(f(q), None, "closures") for f in functions if f is not None))

    def coordinates(self, q: SX, near: SX) -> SX:
        """Known where they are q itself."""
        return None if self.reduced else q

    def difference(self, q0: SX, q1: SX) -> SX:
        """D(q1, q0): the deviation along the null space at q0, (nd,)."""
        return self.project(q0, q1 - q0)

    def turn_cosines(self, q0: SX, q1: SX) -> SX:
        """Nothing is known of bodies."""
        import casadi as ca

        return ca.SX(0, 1)

    def spin(self, v: SX) -> SX:
        """Nothing is known of bodies."""
        import casadi as ca

        return ca.SX(0)
