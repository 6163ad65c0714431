"""Model -> plain numbers for the compiled core: the compile step of the kernels.

The tree becomes joints and composite bodies (`tree`), every element writes its rows (`table`), and the structure of the Newton matrix
(elimination tree) is fixed. Nothing here knows which elements there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import ELEMENT_KINDS
from .parameter import present
from .table import Row, Table
from .tree import Tree

if TYPE_CHECKING:
    from .elements import Element
    from .model import Model

Matrix = NDArray[np.float64]

FAMILIES: tuple[str, ...] = tuple(ELEMENT_KINDS)  # lists of elements that the core has
FAMILY_OF: dict[str, str] = {
    kind: family for family, kinds in ELEMENT_KINDS.items() for kind in kinds
}  # lists of the core
CHAIN_DEPTH = 14  # paths longer than this use the O(n) elimination (no coupling elements allowed)


def compile_gaps(model: Model) -> dict[str, Any]:
    """Plain description of the mechanism with the gaps of its contacts as constraints and nothing else: to evaluate them, not to step."""
    return _for_core(describe(model, [gap.row for gap in model.gaps]))


def compile_model(model: Model) -> dict[str, Any]:
    """Plain description of a model for `dalembert._core.Core`."""
    return _for_core(describe(model))


def _for_core(description: dict[str, Any]) -> dict[str, Any]:
    del description["gravity"]  # which stands in Rg and gz: only derivatives by parameters want it as it was given
    found: dict[str, Any] = _plain(description)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return float(value) if isinstance(value, float) else value


def describe(model: Model, elements: Iterable[Element] | None = None) -> dict[str, Any]:
    """The same, or that of the mechanism with other elements, where numbers that depend on parameters say so (`Quantity`)."""
    tree = Tree(model)
    table = Table(tree)
    rows: dict[str, list[Row]] = {family: [] for family in FAMILIES}
    for e in model.elements if elements is None else elements:
        for row in e.compile(table):
            rows[FAMILY_OF[row["kind"]]].append(row)
    constraints = rows["constraints"] + rows["velocities"]
    rotation, gz = gravity_axes(table.gravity.astype(np.float64))
    io = max([max(t["n_in"], t["n_out"]) for t in table.tapes], default=0)
    return {
        "nq": model.nq,
        "nqd": model.nqd,
        "nv": model.nv,
        **_coordinates(tree),
        "nd": model.nd,
        "nu": model.nu,
        "nm": tree.nm,
        "nf": len(model.frame_entries),
        "joints": tree.joints,
        "nodes": tree.nodes,
        "sites": table.sites,
        "gravity": table.gravity.tolist(),
        "Rg": rotation.T.ravel().tolist(),
        "gz": gz,
        "rev": tree.rev,
        "v_joint": tree.v_joint,
        **rows,
        "local_q": table.local_q,
        "local_v": table.local_v,
        "local_joint": table.local_joint,
        "path_flag": table.path_flag,
        "tape_inputs": table.tape_inputs,
        "tapes": table.tapes,
        "splines": table.splines,
        "damping": table.dampings,
        "has_damping": any(map(present, table.dampings)),
        "force_v": [q for q, _, _ in table.pushes],
        "force_u": [u for _, u, _ in table.pushes],
        "force_gear": [gear for _, _, gear in table.pushes],
        "relation": table.relation,
        "max_local": table.max_local,
        "max_tape_work": max([t["n_work"] for t in table.tapes], default=0),
        "max_tape_io": io + 2 * table.max_local + model.nu,
        **tree.reference(),
        **_seen_by_constraints(tree, table, constraints),
        **_structure(tree, table, rows["potentials"], rows["forces"], constraints),
    }


def gravity_axes(g: Matrix) -> tuple[Matrix, float]:
    """Rotation world -> internal axes that puts g along internal z, and its component there."""
    size = float(np.linalg.norm(g))
    if size == 0.0 or (g[0] == 0.0 and g[1] == 0.0):
        return np.eye(3), float(g[2])
    z = -g / size  # internal z points up
    x = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = x - z * (x @ z)
    x /= np.linalg.norm(x)
    return np.array([x, np.cross(z, x), z]), -size


def _coordinates(tree: Tree) -> dict[str, Any]:
    """Coordinate of every velocity component (-1 - b: of ball b), and (coordinate, component, joint) of every ball."""
    configuration = tree.model.configuration
    v_q = [0] * configuration.nv
    for q, v in zip(*configuration.numbers, strict=True):
        v_q[v] = int(q)
    balls: list[tuple[int, int, int]] = []
    for place in configuration.places:
        v_q[place.v] = [-1 - len(balls)] * 3
        balls.append((place.q.start, place.v.start, tree.v_joint[place.v.start]))
    return {"v_q": v_q, "balls": balls}


def _seen_by_constraints(tree: Tree, table: Table, constraints: list[Row]) -> dict[str, Any]:
    """Joints that constraints see: only these are placed at both ends of a step."""
    seen: set[int] = set()
    for e in constraints:
        for key in ("site_a", "site_b", "site_c"):
            if e[key] >= 0:
                seen.update(tree.path(table.sites[e[key]]["pose"] - 1))
    joints = sorted(seen)
    crev: list[int] = []
    cslot: list[int] = []
    for j in joints:
        turning = 3 <= tree.joints[j]["kind"] < 6
        cslot.append(len(crev) if turning else -1)
        if turning:
            crev.append(tree.joints[j]["q"])
    return {"cjoints": joints, "crev": crev, "cslot": cslot}


def _structure(
    tree: Tree, table: Table, potentials: list[Row], forces: list[Row], constraints: list[Row]
) -> dict[str, Any]:
    """Structure of the Newton matrix: the elimination tree, and which variables elements couple (the core makes the lists of these)."""
    model = tree.model
    nd = model.nd
    dyn_joint = [tree.v_joint[d] for d in range(nd)]
    # nearest dynamic variable at or above each joint, then the dynamic kinematic tree
    nearest: list[int] = []
    for joint in tree.joints:
        above = nearest[joint["parent"] - 1] if joint["parent"] else -1
        nearest.append(joint["v"] if joint["v"] < nd else above)
    parents = [tree.joints[j]["parent"] - 1 if j >= 0 else -1 for j in dyn_joint]
    kparent = [nearest[j] if j >= 0 else -1 for j in parents]

    def cliques(found: list[Row]) -> list[list[int]]:
        out = []
        for e in found:
            local = table.local_v[e["vars"] : e["vars"] + e["n"]]
            rows = table.local_v[e["rows"] : e["rows"] + e["nrow"]] if e["nrow"] else []
            out.append(sorted({*local, *rows}))
        return out

    coupling = [c for c in cliques(potentials + forces) if len(c) > 1]
    eparent = _elimination_tree(kparent, [[v for v in c if v < nd] for c in coupling])
    depth: list[int] = []
    for up in eparent:
        depth.append(depth[up] + 1 if up >= 0 else 0)
    diagonal = not forces and all(e["n"] <= 1 for e in potentials)
    return {
        "dyn_joint": dyn_joint,
        "kparent": kparent,
        "eparent": eparent,
        "phi_slots": tree.phi_slots,
        "coupled": eparent != kparent,
        "chain_solver": eparent == kparent and diagonal and max(depth, default=0) >= CHAIN_DEPTH,
        "coupling": [v for c in coupling for v in c],
        "coupling_off": _offsets(coupling),
    }


def _elimination_tree(kparent: list[int], cliques: list[list[int]]) -> list[int]:
    """Parents in the elimination tree of the union of paths to the root and cliques, leaves (large numbers) first."""
    if not cliques:
        return kparent
    lower: list[set[int]] = []
    for up in kparent:
        lower.append(lower[up] | {up} if up >= 0 else set())
    for clique in cliques:
        for i, a in enumerate(clique):
            lower[a].update(clique[:i])
    eparent = [-1] * len(kparent)
    for k in range(len(kparent) - 1, -1, -1):
        if lower[k]:
            eparent[k] = max(lower[k])
            lower[eparent[k]] |= lower[k] - {eparent[k]}
    return eparent


def _offsets(rows: list[list[int]]) -> list[int]:
    out = [0]
    for r in rows:
        out.append(out[-1] + len(r))
    return out
