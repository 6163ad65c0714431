"""What identification found, how sure it is, and what it cannot know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arrays import Array
from ..model import Model


@dataclass(frozen=True, eq=False)
class Identifiability:
    """How much records tell of the parameters `names`. Directions are measured in units of `scales` (typical sizes of the parameters).

    `singular` (n,): singular values of the scaled sensitivities, largest first; `rank`: how many of them count (above `tolerance` of the
    largest); `null` (n, n - rank): an
    orthonormal basis of the directions that change nothing (scaled); `unknown`: parameters of which nothing can be said, `tied`: those known
    only in combination with others.
    """

    names: tuple[str, ...]
    scales: Array
    singular: Array
    rank: int
    null: Array
    basis: Array  # (n, rank), of what is known
    tolerance: float

    @property
    def known(self) -> tuple[str, ...]:
        """Parameters that are known by themselves."""
        return tuple(n for n, x in zip(self.names, self._lost(), strict=True) if x <= 1e-6)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Parameters that change nothing."""
        return tuple(n for n, x in zip(self.names, self._lost(), strict=True) if x >= 1 - 1e-6)

    @property
    def tied(self) -> tuple[str, ...]:
        """Parameters that are known only in combination with others."""
        return tuple(n for n, x in zip(self.names, self._lost(), strict=True) if 1e-6 < x < 1 - 1e-6)

    def _lost(self) -> Array:
        """Share (n,) of each parameter's direction that cannot be seen, 0 .. 1."""
        return np.asarray((self.null**2).sum(axis=1))

    @property
    def combinations(self) -> tuple[str, ...]:
        """The directions that cannot be known, as text: change these parameters together, by these amounts, and nothing happens."""
        return tuple(_sentence(self.names, column * self.scales) for column in _sparse(self.null).T)

    def covariance(self, information: Array) -> Array:
        """Inverse (n, n) of an information matrix on what is known; infinite for parameters that are not known by themselves."""
        D = self.scales[:, None] * self.basis
        inner = np.linalg.inv(D.T @ information @ D) if self.rank else np.zeros((0, 0))
        out = D @ inner @ D.T
        lost = self._lost() > 1e-6
        out[np.ix_(lost, lost)] += np.diag(np.full(int(lost.sum()), np.inf))
        return np.asarray(out)

    def weakest(self, count: int = 3) -> tuple[str, ...]:
        """The `count` directions that are known worst, with their singular values relative to the best one: another motion would help these."""
        out = []
        for k in range(self.rank - 1, max(self.rank - 1 - count, -1), -1):
            text = _sentence(self.names, self.basis[:, k] * self.scales)
            out.append(f"{self.singular[k] / self.singular[0]:.1e}: {text}")
        return tuple(out)

    def __str__(self) -> str:
        n = len(self.names)
        lines = [f"{self.rank} of {n} directions can be known (singular values from 1 to {self._last():.1e})"]
        if self.unknown:
            lines.append(f"unknown: {', '.join(self.unknown)}")
        if self.tied:
            lines.append(f"known only in combination: {', '.join(self.tied)}")
            lines += [f"  nothing changes with {c}" for c in self.combinations]
        if self.rank:
            lines += ["known worst:", *(f"  {w}" for w in self.weakest())]
        return "\n".join(lines)

    def _last(self) -> float:
        return float(self.singular[self.rank - 1] / self.singular[0]) if self.rank else 0.0


def identifiability_of(
    names: tuple[str, ...], scales: Array, information: Array, tolerance: float = 1e-6
) -> Identifiability:
    """The report that an information matrix (n, n) gives."""
    scaled = information * np.outer(scales, scales)
    size, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    singular = np.sqrt(np.maximum(size[::-1], 0.0))
    vectors = vectors[:, ::-1]
    rank = int((singular > tolerance * max(float(singular.max(initial=0.0)), 1e-300)).sum())
    return Identifiability(names, scales, singular, rank, vectors[:, rank:], vectors[:, :rank], tolerance)


def _sparse(null: Array) -> Array:
    """Another basis of the same space with many zeros: reduced echelon form with the largest pivots."""
    M = null.T.copy()
    taken: list[int] = []
    for row in range(len(M)):
        left = [c for c in range(M.shape[1]) if c not in taken]
        rest = np.abs(M[row:][:, left])
        i, j = np.unravel_index(int(rest.argmax()), rest.shape)
        pivot = left[int(j)]
        M[[row, row + int(i)]] = M[[row + int(i), row]]
        M[row] /= M[row, pivot]
        for other in range(len(M)):
            if other != row:
                M[other] -= M[other, pivot] * M[row]
        taken.append(pivot)
    M[np.abs(M) < 1e-7] = 0.0
    return np.asarray(M.T)


def _sentence(names: tuple[str, ...], direction: Array) -> str:
    order = np.argsort(-np.abs(direction))
    largest = max(float(np.abs(direction).max(initial=0.0)), 1e-300)
    parts = [f"{direction[i] / largest:+.3g} {names[i]}" for i in order if abs(direction[i]) > 1e-3 * largest]
    return " ".join(parts[:8]) + (f" ... ({len(parts) - 8} more)" if len(parts) > 8 else "")


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """Estimates of parameters. `fit["m"]` is a value; `fit.deviation["m"]` its standard deviation; `fit.model` has the estimates.

    `values` (n,), `covariance` (n, n) in the order of `names`; `residuals`: per record, measured minus expected (N+1, ny); `noise` (ny,): standard
    deviations of the measurements, given or estimated; `history`: cost (half the weighted sum of squares) of every iteration; `gap`:
    what is left open between shooting segments; `times`: of the residuals; `reason`: why the search ended; `identifiability`: what can and
    cannot be known from these records.
    """

    model: Model
    names: tuple[str, ...]
    values: Array
    covariance: Array
    identifiability: Identifiability
    residuals: tuple[Array, ...]
    times: tuple[Array, ...]
    measured: tuple[str, ...]
    noise: Array
    cost: float
    history: tuple[float, ...]
    gap: float
    reason: str

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.names.index(name)])

    @property
    def parameters(self) -> Mapping[str, float]:
        """The estimates by name."""
        return MappingProxyType(dict(zip(self.names, self.values.tolist(), strict=True)))

    @property
    def deviation(self) -> Mapping[str, float]:
        """Standard deviations by name; infinite where a parameter is not known by itself."""
        return MappingProxyType(dict(zip(self.names, np.sqrt(np.diag(self.covariance)).tolist(), strict=True)))

    def confidence(self, name: str, probability: float = 0.95) -> tuple[float, float]:
        """The interval that holds the parameter `name` with this `probability` (Gaussian)."""
        from statistics import NormalDist

        if not 0 < probability < 1:
            raise ValueError("probability must be between 0 and 1")
        half = NormalDist().inv_cdf((1 + probability) / 2) * self.deviation[name]
        return self[name] - half, self[name] + half

    @property
    def converged(self) -> bool:
        """Did the iteration end at a minimum?"""
        return self.reason == "converged"

    def __repr__(self) -> str:
        head = f"Identification: {self.reason} after {len(self.history) - 1} iterations, cost {self.cost:.6g}"
        width = max(map(len, self.names))
        rows = []
        for name in self.names:
            unit = self.model.parameters[name].unit
            spread = self.deviation[name]
            known = f"+- {spread:.2g}" if np.isfinite(spread) else "not known by itself"
            rows.append(f"  {name:<{width}}  {self[name]:.6g} {known} {unit}".rstrip())
        return "\n".join([head, *rows, str(self.identifiability)])

    def plot(self) -> Any:
        """A figure of the residuals over time, one row per measurement, with bands of two standard deviations."""
        import matplotlib.pyplot as plt

        count = len(self.measured)
        figure, axes = plt.subplots(count, 1, sharex=True, squeeze=False, figsize=(7, 1.2 + 1.1 * count))
        for i, (name, ax) in enumerate(zip(self.measured, axes[:, 0], strict=True)):
            for k, (t, r) in enumerate(zip(self.times, self.residuals, strict=True)):
                ax.plot(t[: len(r)], r[:, i], ".", ms=2, label=f"record {k}")
            ax.axhspan(-2 * self.noise[i], 2 * self.noise[i], color="0.9", zorder=0)
            ax.set_ylabel(name, rotation=0, ha="right")
        axes[-1, 0].set_xlabel("time (s)")
        axes[0, 0].set_title("residuals: measured minus expected; band: two standard deviations", fontsize=9)
        figure.tight_layout()
        return figure
