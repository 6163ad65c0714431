"""Scheme: what made a motion, in five numbers; a Trajectory carries it, files keep it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..arrays import Array
    from ..model import Model
    from .midpoint import MidpointVI


@dataclass(frozen=True)
class Scheme:
    """The discrete equations that a motion satisfies: those of `MidpointVI(model, dt, order=..., alpha=..., forcing=...)` or, with more than
    one stage, of `GaussVI(model, dt, order=...)`.

    `dt` is None for steps of varying length (the times tell them). `forcing` is None where it was not recorded.

    >>> Scheme(4, dt=0.1)
    Scheme(order=4, alpha=0.5, forcing='split', dt=0.1, stages=1)
    >>> print(Scheme(forcing="left", dt=0.01))
    order 2, forcing 'left', dt = 0.01
    """

    order: int = 2
    alpha: float = 0.5
    forcing: str | None = "split"
    dt: float | None = None
    stages: int = 1

    def __str__(self) -> str:
        words = [f"order {self.order}" if self.stages == 1 else f"order {self.order} (Gauss)"]
        if self.alpha != 0.5:
            words.append(f"alpha = {self.alpha:g}")
        if self.forcing != "split":
            words.append("forcing unknown" if self.forcing is None else f"forcing {self.forcing!r}")
        words.append("steps of varying length" if self.dt is None else f"dt = {self.dt:g}")
        return ", ".join(words)

    def same_equations(self, other: Scheme) -> bool:
        """Whether order, alpha, forcing and stages agree with those of `other` (the lengths of the steps are compared by their times).

        >>> Scheme(4, dt=0.1).same_equations(Scheme(4, dt=0.2))
        True
        """
        return replace(self, dt=None) == replace(other, dt=None)

    def integrator(self, model: Model, dt: float | Array) -> MidpointVI:
        """The integrator of these equations, of a model, with steps of the length dt or the lengths dt (N,).

        >>> import dalembert as da
        >>> Scheme(4, stages=2).integrator(da.models.n_link(2), 0.1)
        GaussVI('n_link_2', dt=0.1, order=4)
        """
        from .gauss import GaussVI
        from .midpoint import MidpointVI

        if self.stages > 1:
            return GaussVI(model, dt, order=self.order)
        if self.forcing is None:
            return MidpointVI(model, dt, order=self.order, alpha=self.alpha)
        return MidpointVI(model, dt, order=self.order, alpha=self.alpha, forcing=self.forcing)
