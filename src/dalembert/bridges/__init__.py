"""Other frameworks: `dalembert.bridges.torch`, `.jax`, `.gymnasium`, `.casadi`. Each needs its package, an extra of the same name.

They see a `System` through its `motions`: whole batches in one call of the core, exact derivatives of first and second order, float64.
"""

from .casadi import to_casadi

__all__ = ["to_casadi"]
