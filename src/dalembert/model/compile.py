"""Model -> plain numbers for the compiled core: the compile step of the kernels.

Constant frames are multiplied into their joint, masses lumped per joint, joints ordered (massive ones first, in preorder), element
paths listed, and the structure of the Newton matrix (elimination tree) fixed. Knows names only to forget them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import elements as el
from .elements import Element
from .frames import AXES, Frame, Kinematic

if TYPE_CHECKING:
    from .model import Model

Matrix = NDArray[np.float64]

# kinds of the core: cpp/elements/all.hpp
LINEAR_SPRING, POINT_GRAVITY, SITE_FIELD = "LinearSpring", "PointGravity", "SiteField"
CONFIG_SPRING, SPLINE_SPRING, TAPE_POTENTIAL = "ConfigSpring", "SplineSpring", "TapePotential"
LINEAR_DAMPER, WRENCH, TAPE_FORCE = "LinearDamper", "Wrench", "TapeForce"
DISTANCE, DIRECTION, LINEAR_RELATION = "Distance", "Direction", "LinearRelation"
CAM, TAPE_CONSTRAINT = "Cam", "TapeConstraint"

CHAIN_DEPTH = 14  # paths longer than this use the O(n) elimination (no coupling elements allowed)


def _transform(frame: Frame) -> Matrix:
    """4x4 of a constant frame."""
    if frame.transform == "se3":
        return np.array(frame.value, dtype=float)
    g = np.eye(4)
    x = float(frame.value)  # type: ignore[arg-type]
    k = AXES.index(frame.transform)
    if k < 3:
        g[k, 3] = x
        return g
    i, j = (k - 2) % 3, (k - 1) % 3
    g[i, i] = g[j, j] = math.cos(x)
    g[j, i], g[i, j] = math.sin(x), -math.sin(x)
    g[k - 3, 3] = frame.pitch * x
    return g


def _gravity_axes(g: Matrix) -> tuple[Matrix, float]:
    """Rotation world -> internal axes that puts g along internal z, and its component there."""
    size = float(np.linalg.norm(g))
    if size == 0.0 or (g[0] == 0.0 and g[1] == 0.0):
        return np.eye(3), float(g[2])
    z = -g / size  # internal z points up
    x = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = x - z * (x @ z)
    x /= np.linalg.norm(x)
    return np.array([x, np.cross(z, x), z]), -size


class _Compiler:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.local_q: list[int] = []
        self.local_joint: list[int] = []
        self.path_flag: list[int] = []
        self.anc: list[int] = []
        self.tapes: list[dict[str, Any]] = []
        self.splines: list[dict[str, Any]] = []
        self.tape_inputs: list[int] = []
        self.relation: list[float] = []
        self.max_local = 1
        self._joints()
        self._nodes()

    # ---- joints

    def _joints(self) -> None:
        """Lump constant frames: every frame becomes (driving joint, constant pose); every driven frame a joint."""
        model = self.model
        entries = model.frame_entries
        at: list[tuple[int, Matrix]] = [(-1, np.eye(4))]  # frame -> (raw joint, pose in its frame)
        raw: list[dict[str, Any]] = []
        lumps: list[list[tuple[Frame, Matrix]]] = []
        for entry in entries[1:]:
            frame = entry.frame
            assert frame is not None
            joint, pose = at[entry.parent]
            if frame.variable is None:
                at.append((joint, pose @ _transform(frame)))
            else:
                raw.append(
                    {"parent": joint, "pose": pose, "kind": AXES.index(frame.transform), "pitch": frame.pitch}
                    | {"q": model.index(frame.variable)}
                )
                lumps.append([])
                at.append((len(raw) - 1, np.eye(4)))
            joint, pose = at[-1]
            if joint >= 0 and (frame.mass or any(frame.inertia)):
                lumps[joint].append((frame, pose))
        heavy = [bool(x) for x in lumps]
        for j in range(len(raw) - 1, -1, -1):
            if heavy[j] and raw[j]["parent"] >= 0:
                heavy[raw[j]["parent"]] = True
        order = [j for j in range(len(raw)) if heavy[j]] + [j for j in range(len(raw)) if not heavy[j]]
        new = {old: i for i, old in enumerate(order)}
        new[-1] = -1
        self.nm = sum(heavy)
        self.joints: list[dict[str, Any]] = []
        self.lumps = [lumps[old] for old in order]
        self.rev: list[int] = []
        for i, old in enumerate(order):
            r = raw[old]
            parent = new[r["parent"]] + 1
            pose = r["pose"]
            turned = not np.array_equal(pose[:3, :3], np.eye(3))
            revolute = r["kind"] >= 3
            above = self.joints[parent - 1] if parent else None
            rot = i + 1 if revolute or turned else (above["rot"] if above else 0)
            self.joints.append(
                {
                    "parent": parent,
                    "kind": r["kind"],
                    "q": r["q"],
                    "v": r["q"],
                    "rot": rot,
                    "node": -1,
                    "depth_all": 0 if above is None else above["depth_all"] + 1,
                    "slot": len(self.rev) if revolute else -1,
                    "phi": 0,
                    "leaf": False,
                    "turned": turned,
                    "shifted": bool(np.any(pose[:3, 3])),
                    "R0": pose[:3, :3].T.ravel().tolist(),
                    "p0": pose[:3, 3].tolist(),
                    "pitch": float(r["pitch"]),
                }
            )
            if revolute:
                self.rev.append(r["q"])
        self.frame_at = [(new[j], pose) for j, pose in at]
        self.q_joint = [-1] * model.nq
        for i, joint_data in enumerate(self.joints):
            self.q_joint[joint_data["q"]] = i
        self.sites = [self._site_of(f) for f in range(len(entries))]

    def _site_of(self, frame: int) -> dict[str, Any]:
        joint, pose = self.frame_at[frame]
        return {"pose": joint + 1, "p": pose[:3, 3].tolist(), "R": pose[:3, :3].T.ravel().tolist()}

    def _path(self, joint: int) -> list[int]:
        """Joints from the root to this one."""
        path: list[int] = []
        while joint >= 0:
            path.append(joint)
            joint = self.joints[joint]["parent"] - 1
        return path[::-1]

    # ---- composite bodies

    def _nodes(self) -> None:
        nm = self.nm
        children = [0] * nm
        only = [-1] * nm
        for j in range(nm):
            parent = self.joints[j]["parent"] - 1
            if parent >= 0:
                children[parent] += 1
                only[parent] = j
        # slots of the O(n) elimination: an only child leaves its matrices where its parent finds them
        self.phi_slots = 0
        for j in range(nm - 1, -1, -1):
            self.joints[j]["leaf"] = children[j] == 0
            if children[j] == 1:
                self.joints[j]["phi"] = self.joints[only[j]]["phi"]
            else:
                self.joints[j]["phi"] = self.phi_slots
                self.phi_slots += 1
        # a joint without own inertia and with one massive child shares the child's composite
        share = [not self.lumps[j] and children[j] == 1 for j in range(nm)]
        self.nodes: list[dict[str, Any]] = []
        order: list[int] = []  # joint of each node; nodes in preorder so that parents come first
        node = [-1] * nm
        for j in range(nm):
            if not share[j]:
                node[j] = len(order)
                order.append(j)
        for j in range(nm - 1, -1, -1):
            if share[j]:
                node[j] = node[only[j]]
        for j in range(nm):
            self.joints[j]["node"] = node[j]
        for n, j in enumerate(order):
            m, c, inertia = self._lump(j)
            top = j
            while self.joints[top]["parent"] and node[self.joints[top]["parent"] - 1] == n:
                top = self.joints[top]["parent"] - 1
            above = self.joints[top]["parent"] - 1
            diagonal = not inertia[0, 1] and not inertia[0, 2] and not inertia[1, 2]
            body = 0 if not self.lumps[j] else 1 if not inertia.any() else 2 if diagonal else 3
            self.nodes.append(
                {
                    "parent": node[above] if above >= 0 else -1,
                    "joint": j + 1,
                    "body": body,
                    "m": m,
                    "c": c.tolist(),
                    "I": [inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]],
                    "mass": m,
                }
            )
        for n in range(len(self.nodes) - 1, -1, -1):
            up = self.nodes[n]["parent"]
            if up >= 0:
                self.nodes[up]["mass"] += self.nodes[n]["mass"]

    def _lump(self, joint: int) -> tuple[float, Matrix, Matrix]:
        """Mass, first moment and second moment about the joint origin, in joint axes."""
        m, c, total = 0.0, np.zeros(3), np.zeros((3, 3))
        for frame, pose in self.lumps[joint]:
            rotation = pose[:3, :3]
            r = pose[:3, 3] + rotation @ np.array(frame.com)
            xx, yy, zz, xy, xz, yz = frame.inertia
            own = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            m += frame.mass
            c = c + frame.mass * r
            total = total + rotation @ own @ rotation.T + frame.mass * ((r @ r) * np.eye(3) - np.outer(r, r))
        return m, c, total

    # ---- elements

    def _element(
        self, kind: str, variables: list[int], joints: list[int], flags: list[int], **fields: Any
    ) -> dict[str, Any]:
        n = len(variables)
        self.max_local = max(self.max_local, n)
        start, pair = len(self.local_q), len(self.anc)
        self.local_q += variables
        self.local_joint += [j + 1 if j >= 0 else 0 for j in joints]
        self.path_flag += flags
        above = [set(self._path(j)) if j >= 0 else set() for j in joints]
        self.anc += [int(joints[i] >= 0 and joints[i] in above[k]) for i in range(n) for k in range(n)]
        par = [float(x) for x in fields.pop("par", ())]
        base = {
            "kind": kind,
            "n": n,
            "vars": start,
            "pair": pair,
            "site_a": -1,
            "site_b": -1,
            "site_c": -1,
            "length_var": -1,
            "par": par + [0.0] * (8 - len(par)),
            "input": [-1] * 6,
            "tape": [-1] * 3,
            "spline": -1,
            "nin": 0,
            "in0": 0,
            "nrow": 0,
            "rows": 0,
        }
        return base | fields

    def _sites(self, kind: str, frames: list[str], drop_common: bool, **fields: Any) -> dict[str, Any]:
        """Element on one to three frames: the union of their paths is its list of local variables."""
        index = [self.model.frame_index(f) for f in frames]
        paths = [self._path(self.frame_at[f][0]) for f in index]
        if drop_common:
            common = set(paths[0]) & set(paths[1])
            paths = [[j for j in p if j not in common] for p in paths]
        joints = sorted(set().union(*paths))
        flags = [sum(1 << i for i, p in enumerate(paths) if j in p) for j in joints]
        variables = [self.joints[j]["q"] for j in joints]
        extra = fields.pop("extra", None)
        if extra is not None:
            fields["length_var"] = len(variables)
            variables, joints, flags = [*variables, extra], [*joints, -1], [*flags, 0]
        names = ("site_a", "site_b", "site_c")
        return self._element(kind, variables, joints, flags, **dict(zip(names, index, strict=False)), **fields)

    def _plain(self, kind: str, variables: list[int], **fields: Any) -> dict[str, Any]:
        return self._element(kind, variables, [-1] * len(variables), [0] * len(variables), **fields)

    def _spline(self, spline: Any) -> int:
        ends, c = spline.pieces()
        area = np.zeros(len(ends))
        for i in range(1, len(ends) - 1):
            h = ends[i + 1] - ends[i]
            area[i + 1] = area[i] + sum(c[i, j] * h ** (j + 1) / (j + 1) for j in range(6))
        self.splines.append({"ends": ends.tolist(), "c": c.ravel().tolist(), "area": area.tolist()})
        return len(self.splines) - 1

    def _tape(self, program: Any) -> int:
        self.tapes.append(
            {
                "n_work": int(program.n_work),
                "n_in": int(program.n_in),
                "n_out": int(program.n_out),
                "code": np.asarray(program.code).ravel().tolist(),
                "constants": np.asarray(program.constants, dtype=float).ravel().tolist(),
            }
        )
        return len(self.tapes) - 1

    def _user(self, kind: str, e: Element) -> dict[str, Any]:
        from .user import derivative_tapes

        d = derivative_tapes(e, self.model)
        model = self.model
        tape = [self._tape(d.value), self._tape(d.first), self._tape(d.second)]
        element = self._plain(kind, [model.index(v) for v in d.variables], tape=tape)
        if kind == TAPE_FORCE:
            element |= {
                "nrow": len(d.rows),
                "rows": len(self.local_q),
                "nin": len(d.inputs),
                "in0": len(self.tape_inputs),
            }
            self.local_q += [model.index(v) for v in d.rows]
            self.local_joint += [0] * len(d.rows)
            self.path_flag += [0] * len(d.rows)
            self.tape_inputs += [model.input_index(u) for u in d.inputs]
        return element

    def potentials(self) -> tuple[list[dict[str, Any]], Matrix]:
        found: list[dict[str, Any]] = []
        uniform = np.zeros(3)
        q = self.model.index
        for e in self.model.elements:
            if isinstance(e, el.Gravity):
                if e.masses is None:
                    uniform = uniform + np.array(e.acceleration)
                else:
                    found += [self._field(name, e.acceleration) for name in e.masses]
            elif isinstance(e, el.LinearSpring):
                par = (e.stiffness, e.rest_length)
                found.append(self._sites(LINEAR_SPRING, [e.frame1, e.frame2], True, par=par))
            elif isinstance(e, el.PointGravity):
                found.append(self._sites(POINT_GRAVITY, [e.frame1, e.frame2], True, par=(e.strength,)))
            elif isinstance(e, el.ConfigSpring):
                found.append(self._plain(CONFIG_SPRING, [q(e.variable)], par=(e.stiffness, e.rest)))
            elif isinstance(e, el.NonlinearConfigSpring):
                spline = self._spline(e.spline)
                found.append(self._plain(SPLINE_SPRING, [q(e.variable)], par=(e.scale, e.offset), spline=spline))
            elif isinstance(e, el.Potential):
                found.append(self._user(TAPE_POTENTIAL, e))
        return found, uniform

    def _field(self, name: str, acceleration: tuple[float, float, float]) -> dict[str, Any]:
        """Gravity on one frame's mass: a constant force at its centre of mass."""
        entry = self.model.frame_entries[self.model.frame_index(name)]
        assert entry.frame is not None
        joint, pose = self.frame_at[entry.index]
        site = {"pose": joint + 1, "p": (pose[:3, 3] + pose[:3, :3] @ np.array(entry.frame.com)).tolist()}
        element = self._sites(SITE_FIELD, [name], False, par=tuple(entry.frame.mass * g for g in acceleration))
        self.sites.append(site | {"R": np.eye(3).ravel().tolist()})
        return element | {"site_a": len(self.sites) - 1}

    def forces(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        model = self.model
        for e in model.elements:
            if isinstance(e, el.LinearDamper):
                found.append(self._sites(LINEAR_DAMPER, [e.frame1, e.frame2], True, par=(e.coefficient,)))
            elif isinstance(e, el.Wrench):
                parts = (*e.force, *e.torque)
                par = [0.0 if isinstance(c, str) else c for c in parts] + [("body", "mixed", "world").index(e.axes)]
                inputs = [model.input_index(c) if isinstance(c, str) else -1 for c in parts]
                found.append(self._sites(WRENCH, [e.frame], False, par=par, input=inputs))
            elif isinstance(e, el.Force):
                found.append(self._user(TAPE_FORCE, e))
        return found

    def constraints(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        q = self.model.index
        for e in self.model.elements:
            if isinstance(e, el.Distance):
                if isinstance(e.length, float):
                    found.append(self._sites(DISTANCE, [e.frame1, e.frame2], True, par=(e.length,)))
                else:
                    extra = q(e.length.name if isinstance(e.length, Kinematic) else e.length)
                    found.append(self._sites(DISTANCE, [e.frame1, e.frame2], True, extra=extra))
            elif isinstance(e, el.PointToPoint):
                frames = [e.frame1, e.frame2, e.axes_of]
                found += [self._direction(frames, n) for n in e.directions]
            elif isinstance(e, el.PointOnPlane):
                found.append(self._direction([e.point, e.plane, e.plane], e.normal))
            elif isinstance(e, el.LinearRelation):
                par = (e.offset, len(self.relation))
                self.relation += [k for _, k in e.coefficients]
                found.append(self._plain(LINEAR_RELATION, [q(v) for v, _ in e.coefficients], par=par))
            elif isinstance(e, el.Cam):
                found.append(self._plain(CAM, [q(e.driver), q(e.follower)], spline=self._spline(e.profile)))
            elif isinstance(e, el.Constraint):
                found.append(self._user(TAPE_CONSTRAINT, e))
        return found

    def _direction(self, frames: list[str], n: tuple[float, float, float]) -> dict[str, Any]:
        """The direction is given in the axes of the third frame; the core wants it in its joint's axes."""
        pose = self.frame_at[self.model.frame_index(frames[2])][1]
        return self._sites(DIRECTION, frames, False, par=pose[:3, :3] @ np.array(n))

    # ---- structure of the Newton matrix

    def structure(self, elements: list[dict[str, Any]], constraints: list[dict[str, Any]]) -> dict[str, Any]:
        model = self.model
        nd, nq = model.nd, model.nq
        dyn_joint = [self.q_joint[d] for d in range(nd)]
        # dynamic kinematic tree: nearest dynamic ancestor
        kparent, kdepth, kpath = [], [], []
        for d in range(nd):
            path = [self.joints[j]["q"] for j in self._path(dyn_joint[d])[:-1]]
            path = [p for p in path if p < nd]
            kpath.append(path)
            kparent.append(path[-1] if path else -1)
            kdepth.append(len(path))

        def cliques(found: list[dict[str, Any]]) -> list[list[int]]:
            out = []
            for e in found:
                local = self.local_q[e["vars"] : e["vars"] + e["n"]]
                rows = self.local_q[e["rows"] : e["rows"] + e["nrow"]] if e["nrow"] else []
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
        diagonal = all(e["n"] == 1 and e["kind"] in (CONFIG_SPRING, SPLINE_SPRING) for e in elements)
        chain = not coupled and diagonal and max(edepth, default=0) >= CHAIN_DEPTH
        slot_map: list[int] = []
        slot_off: list[int] = []
        for k in range(nd):
            slot_off.append(len(slot_map))
            slot_map += [edepth[a] for a in kpath[k]] + [edepth[k]]
        # structurally non-zero columns of each row of the second derivatives, over all variables
        columns: list[set[int]] = [{i} for i in range(nq)]
        for j in range(self.nm):
            path = [self.joints[i]["q"] for i in self._path(j)]
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
        massive = [[self.joints[i]["q"] for i in self._path(j)] for j in range(self.nm)]
        return {
            "path_v": [v for p in massive for v in p],
            "path_off": _offsets(massive),
            "dyn_joint": dyn_joint,
            "eparent": eparent,
            "edepth": edepth,
            "eoff": offsets,
            "packed": at,
            "phi_slots": self.phi_slots,
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

    def reference(self) -> dict[str, Any]:
        """A point that follows the base: where the first turning (or last) joint of the first massive path sits."""
        position, rotation = np.zeros(3), np.eye(3)
        variables: list[int] = []
        axes: list[float] = []
        j = 0
        while j < self.nm:
            joint = self.joints[j]
            position = position + rotation @ np.array(joint["p0"])
            rotation = rotation @ np.array(joint["R0"]).reshape(3, 3).T
            if joint["kind"] >= 3:
                break
            variables.append(joint["q"])
            axes += rotation[:, joint["kind"]].tolist()
            below = [i for i in range(j + 1, self.nm) if self.joints[i]["parent"] == j + 1]
            if not below:
                break
            j = below[0]
        return {"ref0": position.tolist(), "ref_q": variables, "ref_axis": axes}

    def result(self) -> dict[str, Any]:
        model = self.model
        potentials, uniform = self.potentials()
        forces = self.forces()
        constraints = self.constraints()
        rotation, gz = _gravity_axes(uniform)
        seen: set[int] = set()
        for e in constraints:
            for key in ("site_a", "site_b", "site_c"):
                if e[key] >= 0:
                    seen.update(self._path(self.sites[e[key]]["pose"] - 1))
        cjoints = sorted(seen)
        crev: list[int] = []
        cslot: list[int] = []
        for j in cjoints:
            turning = self.joints[j]["kind"] >= 3
            cslot.append(len(crev) if turning else -1)
            if turning:
                crev.append(self.joints[j]["q"])
        damping = [0.0] * model.nd
        force_q, force_u = [], []
        for given in model.elements:
            if isinstance(given, el.Damping):
                for i, name in enumerate(model.dynamic):
                    damping[i] += given.coefficient(name)
            elif isinstance(given, el.ConfigForce):
                force_q.append(model.index(given.variable))
                force_u.append(model.input_index(given.input))
        io = max([max(t["n_in"], t["n_out"]) for t in self.tapes], default=0)
        return {
            "nq": model.nq,
            "nqd": model.nd,
            "nv": model.nq,
            "v_q": list(range(model.nq)),
            "balls": [],
            "nd": model.nd,
            "nu": model.nu,
            "nm": self.nm,
            "nf": len(model.frame_entries),
            "joints": self.joints,
            "nodes": self.nodes,
            "sites": self.sites,
            "Rg": rotation.T.ravel().tolist(),
            "gz": gz,
            "rev": self.rev,
            "cjoints": cjoints,
            "crev": crev,
            "cslot": cslot,
            "v_joint": self.q_joint,
            "potentials": potentials,
            "forces": forces,
            "constraints": constraints,
            "local_q": self.local_q,
            "local_v": self.local_q,
            "local_joint": self.local_joint,
            "path_flag": self.path_flag,
            "anc": self.anc,
            "tape_inputs": self.tape_inputs,
            "tapes": self.tapes,
            "splines": self.splines,
            "damping": damping,
            "has_damping": any(damping),
            "force_v": force_q,
            "force_u": force_u,
            "relation": self.relation,
            "max_local": self.max_local,
            "max_tape_work": max([t["n_work"] for t in self.tapes], default=0),
            "max_tape_io": io + 2 * self.max_local + model.nu,
            **self.reference(),
            **self.structure(potentials + forces, constraints),
        }


def _offsets(rows: list[list[int]]) -> list[int]:
    out = [0]
    for r in rows:
        out.append(out[-1] + len(r))
    return out


def compile_model(model: Model) -> dict[str, Any]:
    """Plain description of a model for `dalembert._core.Core`."""
    return _Compiler(model).result()
