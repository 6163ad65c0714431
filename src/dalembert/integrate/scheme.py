"""Scheme: what made a motion, in four numbers; a Trajectory carries it, files keep it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scheme:
    """The discrete equations that a motion satisfies: those of `MidpointVI(model, dt, order=..., alpha=..., forcing=...)`.

    `dt` is None for steps of varying length (the times tell them). `forcing` is None where it was not recorded.

    >>> Scheme(4, dt=0.1)
    Scheme(order=4, alpha=0.5, forcing='split', dt=0.1)
    >>> print(Scheme(forcing="left", dt=0.01))
    order 2, forcing 'left', dt = 0.01
    """

    order: int = 2
    alpha: float = 0.5
    forcing: str | None = "split"
    dt: float | None = None

    def __str__(self) -> str:
        words = [f"order {self.order}"]
        if self.alpha != 0.5:
            words.append(f"alpha = {self.alpha:g}")
        if self.forcing != "split":
            words.append("forcing unknown" if self.forcing is None else f"forcing {self.forcing!r}")
        words.append("steps of varying length" if self.dt is None else f"dt = {self.dt:g}")
        return ", ".join(words)

    def same_equations(self, other: Scheme) -> bool:
        """Whether order, alpha and forcing agree with those of `other` (the lengths of the steps are compared by their times).

        >>> Scheme(4, dt=0.1).same_equations(Scheme(4, dt=0.2))
        True
        """
        return (self.order, self.alpha, self.forcing) == (other.order, other.alpha, other.forcing)
