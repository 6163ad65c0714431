"""GaussVI: variational steps of order 4, 6 and 8 with stages at the Gauss points (docs/kernels.md 21).

    Q_i = q_k + dt sum_j a_ij V_j,  P_i = L_v(Q_i, V_i) = p_k + dt sum_j a_ij G_j,  G = L_q + F
    q_k+1 = q_k + dt sum_i b_i V_i,  p_k+1 = p_k + dt sum_i b_i G_i

The action of polynomials of degree s is made stationary, so the steps are symplectic, symmetric, and keep the momenta of symmetries.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from .. import _core
from ..arrays import Array
from ..errors import ModelError
from ..model import Model
from .midpoint import MidpointVI
from .scheme import Scheme

STAGES = {4: 2, 6: 3, 8: 4}


class GaussVI(MidpointVI):
    """Variational integrator of order 4, 6 or 8 for models without constraints: 2, 3 or 4 stages that are solved together.

    For smooth motions of open chains it takes half to a quarter of the time of `MidpointVI(model, dt, order=...)`, whose steps are composed, at
    the same error. All that an integrator does, it does as well: `simulate`, exact derivatives of first and second order, `System`, regulators,
    filters, optimization, identification. Inputs are held during a step; prescribed variables follow straight lines between the ends of
    the steps, so that the order along curved ones is 2. `dt`, `tolerance`, `max_iterations`: as in `MidpointVI`.

    Refused with a ModelError: constraints, contacts and limits, balls and floating bodies (`MidpointVI` takes all of them, at order 4 and 6 too).

    >>> import dalembert as da
    >>> ends = {}
    >>> for order in (4, 6, 8):
    ...     vi = da.GaussVI(da.models.n_link(2), dt=0.05, order=order)
    ...     ends[order] = vi.simulate(vi.state(q=[1.0, 0.5]), time=1.0).q[-1]
    >>> [f"{abs(ends[order] - ends[8]).max():.0e}" for order in (4, 6)]
    ['2e-06', '1e-09']
    """

    def __init__(
        self,
        model: Model,
        dt: float | ArrayLike,
        *,
        order: int = 4,
        tolerance: float = 1e-13,
        max_iterations: int = 40,
    ) -> None:
        if isinstance(order, bool) or order not in tuple(STAGES):
            raise ValueError(f"order must be 4, 6 or 8, not {order!r}")
        self.stages = STAGES[order]
        super().__init__(model, dt, tolerance=tolerance, max_iterations=max_iterations)
        self.order = int(order)
        self._make_options()

    def _make_options(self) -> None:
        what, name = _refused(self.model)
        if what:
            raise ModelError(f"GaussVI takes no {what}: use MidpointVI(model, dt, order=4) or order=6", culprit=name)
        super()._make_options()
        self._scheme = Scheme(self.order, dt=self.dt if isinstance(self.dt, float) else None, stages=self.stages)

    def _options(self, order: int, rule: tuple[float, float, float] | None = None) -> _core.Options:
        return _core.Options(
            0.5, 0.5, 0.5, self.tolerance, self.tolerance, self.max_iterations, False, stages=self.stages
        )  # fmt: skip

    def _fractions(self, adapt: float) -> Array:
        if adapt:
            raise ValueError(
                "steps that adapt are those of MidpointVI: leave adapt= out, or take MidpointVI(model, dt)"
            )
        return super()._fractions(adapt)

    def __repr__(self) -> str:
        dt = f"{self.dt:g}" if isinstance(self.dt, float) else f"array of {len(self.dt)}"
        return f"GaussVI({self.model.name!r}, dt={dt}, order={self.order})"


def _refused(model: Model) -> tuple[str, str | None]:
    """What of a model Gauss steps cannot do, and its name."""
    if model.configuration.places:
        return "balls", model.configuration.places[0].name
    if model.nc:
        return "constraints", model.constraints[0]
    if model.gaps:
        return "limits and contacts", None
    return "", None
