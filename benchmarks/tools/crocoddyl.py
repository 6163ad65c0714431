"""Crocoddyl: DDP on forward dynamics in C++ (symplectic Euler or RK4 of the continuous equations)."""

from __future__ import annotations

from typing import Any

import crocoddyl
import numpy as np
import pinocchio

from .. import machines
from . import Case


def version() -> str:
    # with some versions of Pinocchio it drops gravity without a word
    action = _action(machines.n_link(2), [1.0, 1.0], [0.0, 0.0], 1e-3, 1.0)
    data = action.createData()
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=4), rng.normal(size=2)
    action.calc(data, x, u)
    model = action.state.pinocchio
    expected = pinocchio.aba(model, model.createData(), x[:2], x[2:], u)
    error = float(np.abs(data.xout - expected).max())
    if error > 1e-9:
        raise RuntimeError(f"its accelerations differ from those of Pinocchio {pinocchio.__version__} by {error:.1e}")
    numeric = crocoddyl.DifferentialActionModelNumDiff(action, False)
    check = numeric.createData()
    for a, d in ((action, data), (numeric, check)):
        a.calc(d, x, u)
        a.calcDiff(d, x, u)
    error = max(float(np.abs(getattr(data, k) - getattr(check, k)).max()) for k in ("Fx", "Fu", "Lx", "Lu"))
    if error > 1e-5:
        raise RuntimeError(f"its derivatives differ from its own differences by {error:.1e}")
    return f"{crocoddyl.__version__} with Pinocchio {pinocchio.__version__}"


def _action(m: machines.Machine, weights: Any, goal: Any, effort: Any, scale: float) -> Any:
    """Differential action with 1/2 |x - goal|^2 weighted (position, velocity) and 1/2 effort u^2."""
    model = pinocchio.Model()
    model.gravity.linear = np.array([0.0, 0.0, -machines.GRAVITY])
    turn = {"x": pinocchio.JointModelRX, "y": pinocchio.JointModelRY, "z": pinocchio.JointModelRZ}
    slide = {"x": pinocchio.JointModelPX, "y": pinocchio.JointModelPY, "z": pinocchio.JointModelPZ}
    for link in m.links:
        joint = (turn if link.kind == "r" else slide)[link.axis]()
        place = pinocchio.SE3(np.eye(3), np.array(link.offset, dtype=float))
        index = model.addJoint(link.parent + 1, joint, place, f"j_{link.name}")
        inertia = pinocchio.Inertia(link.mass, np.array(link.com, dtype=float), np.diag(link.inertia))
        model.appendBodyToJoint(index, inertia, pinocchio.SE3.Identity())
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFull(state)
    costs = crocoddyl.CostModelSum(state, actuation.nu)
    n = m.n
    target = np.concatenate([goal, np.zeros(n)])
    quad = crocoddyl.ActivationModelWeightedQuad(np.array([weights[0]] * n + [weights[1]] * n, dtype=float))
    costs.addCost(
        "state", crocoddyl.CostModelResidual(state, quad, crocoddyl.ResidualModelState(state, target, n)), scale
    )
    if effort is not None:
        force = crocoddyl.ActivationModelWeightedQuad(np.broadcast_to(np.asarray(effort, dtype=float), (n,)).copy())
        costs.addCost(
            "effort", crocoddyl.CostModelResidual(state, force, crocoddyl.ResidualModelControl(state, n)), scale
        )
    return crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)


def optimize(machine: str, size: int, problem: dict[str, Any], solver: str = "FDDP", integrator: str = "Euler") -> Case:
    """Go from `start` to `goal` in `knots` steps with quadratic costs."""
    m = getattr(machines, machine)(size)
    N, n = problem["knots"], m.n
    make = getattr(crocoddyl, f"IntegratedActionModel{integrator}")
    args = () if integrator == "Euler" else (crocoddyl.RKType.four,)
    running = make(_action(m, problem["running"], problem["goal"], problem["effort"], 1.0), *args, problem["dt"])
    final = make(_action(m, problem["final"], problem["goal"], None, 1.0), *args, 0.0)
    x0 = np.concatenate([problem["start"], np.zeros(n)])
    shooting = crocoddyl.ShootingProblem(x0, [running] * N, final)
    shooting.nthreads = 1
    us = [np.array(problem["guess"], dtype=float)] * N
    xs = list(shooting.rollout(us))
    search = getattr(crocoddyl, f"Solver{solver}")(shooting)
    search.th_stop = 1e-9

    def run() -> Any:
        search.solve(xs, us, problem["limit"], False)
        return search.iter, search.cost, search.stop

    def read(r: Any) -> dict[str, Any]:
        log = crocoddyl.CallbackLogger()  # it copies the motion in every iteration: not while time is taken
        search.setCallbacks([log])
        run()
        search.setCallbacks([])
        return {
            "iterations": int(r[0]) + 1,
            "cost": float(r[1]),
            "status": f"stop {r[2]:.1e}",
            "costs": list(log.costs),
        }

    return Case(run, read)
