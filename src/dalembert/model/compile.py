"""Model -> plain numbers for the compiled core: the compile step of the kernels.

The tree becomes joints and composite bodies (`tree`), every element writes its rows (`table`), and the structure of the Newton matrix
(elimination tree) is fixed. Nothing here knows which elements there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import ELEMENT_KINDS
from .parameter import present
from .table import Row, Table
from .tree import Tree

if TYPE_CHECKING:
    from .model import Model

Matrix = NDArray[np.float64]

FAMILIES: tuple[str, ...] = tuple(ELEMENT_KINDS)  # lists of elements that the core has
FAMILY_OF: dict[str, str] = {
    kind: family for family, kinds in ELEMENT_KINDS.items() for kind in kinds
}  # lists of the core
CHAIN_DEPTH = 14  # paths longer than this use the O(n) elimination (no coupling elements allowed)


def compile_model(model: Model) -> dict[str, Any]:
    """Plain description of a model for `dalembert._core.Core`."""
    return _plain(describe(model)) if model.parameters else describe(model)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return float(value) if isinstance(value, float) else value


def describe(model: Model) -> dict[str, Any]:
    """The same, where numbers that depend on parameters say so (`Quantity`)."""
    tree = Tree(model)
    table = Table(tree)
    rows: dict[str, list[Row]] = {family: [] for family in FAMILIES}
    for e in model.elements:
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
        "anc": table.anc,
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
    """Structure of the Newton matrix: the elimination tree, and which second derivatives can differ from zero."""
    model = tree.model
    elements = potentials + forces
    nd, nv = model.nd, model.nv
    dyn_joint = [tree.v_joint[d] for d in range(nd)]
    # dynamic kinematic tree: nearest dynamic ancestor
    kparent, kpath = [], []
    for d in range(nd):
        path = [tree.joints[j]["v"] for j in tree.path(dyn_joint[d])[:-1]]
        path = [p for p in path if p < nd]
        kpath.append(path)
        kparent.append(path[-1] if path else -1)

    def cliques(found: list[Row]) -> list[list[int]]:
        out = []
        for e in found:
            local = table.local_v[e["vars"] : e["vars"] + e["n"]]
            rows = table.local_v[e["rows"] : e["rows"] + e["nrow"]] if e["nrow"] else []
            out.append(sorted({*local, *rows}))
        return out

    # elimination tree of the union pattern, leaves (large indices) first
    lower: list[set[int]] = [set(p) for p in kpath]
    for clique in cliques(elements):
        dynamic = [v for v in clique if v < nd]
        for i, a in enumerate(dynamic):
            lower[a].update(dynamic[:i])
    eparent = [-1] * nd
    for k in range(nd - 1, -1, -1):
        if lower[k]:
            eparent[k] = max(lower[k])
            lower[eparent[k]] |= lower[k] - {eparent[k]}
    epath: list[list[int]] = []
    for k in range(nd):
        epath.append([] if eparent[k] < 0 else [*epath[eparent[k]], eparent[k]])
    edepth = [len(p) for p in epath]
    below: list[list[int]] = [[] for _ in range(nd)]
    for k in range(nd):
        for a in epath[k]:
            below[a].append(k)
    coupled = eparent != kparent
    offsets, at = [], 0
    for k in range(nd):
        offsets.append(at)
        at += (edepth[k] + 1 + 7) // 8 * 8
    diagonal = not forces and all(e["n"] <= 1 for e in potentials)
    chain = not coupled and diagonal and max(edepth, default=0) >= CHAIN_DEPTH
    slot_map: list[int] = []
    slot_off: list[int] = []
    for k in range(nd):
        slot_off.append(len(slot_map))
        slot_map += [edepth[a] for a in kpath[k]] + [edepth[k]]
    # structurally non-zero columns of each row of the second derivatives, over all variables
    columns: list[set[int]] = [{i} for i in range(nv)]
    for j in range(tree.nm):
        path = [tree.joints[i]["v"] for i in tree.path(j)]
        for a in path:
            columns[a].add(path[-1])
            columns[path[-1]].add(a)
    for clique in cliques(elements):
        for a in clique:
            columns[a].update(clique)
    lnbr = [sorted(c) for c in columns]
    for clique in cliques(constraints):
        for a in clique:
            columns[a].update(clique)
    nbr = [sorted(c) for c in columns]
    massive = [[tree.joints[i]["v"] for i in tree.path(j)] for j in range(tree.nm)]
    return {
        "path_v": [v for p in massive for v in p],
        "path_off": _offsets(massive),
        "dyn_joint": dyn_joint,
        "eparent": eparent,
        "edepth": edepth,
        "eoff": offsets,
        "packed": at,
        "phi_slots": tree.phi_slots,
        "epath": [a for p in epath for a in p],
        "epath_off": _offsets(epath),
        "edesc": [d for r in below for d in r],
        "edesc_off": _offsets(below),
        "coupled": coupled,
        "chain_solver": chain,
        "slot_map": slot_map,
        "slot_off": slot_off,
        "nbr": [i for r in nbr for i in r],
        "nbr_off": _offsets(nbr),
        "lnbr": [i for r in lnbr for i in r],
        "lnbr_off": _offsets(lnbr),
    }


def _offsets(rows: list[list[int]]) -> list[int]:
    out = [0]
    for r in rows:
        out.append(out[-1] + len(r))
    return out
