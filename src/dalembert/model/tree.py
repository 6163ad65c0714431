"""The tree of a model as plain numbers: joints, composite bodies, and where every frame sits on its joint.

Constant frames are multiplied into their joint, masses lumped per joint, joints ordered (massive ones first, in preorder).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .frames import AXES, TURN, Frame
from .parameter import array, present

if TYPE_CHECKING:
    from .model import Model

Matrix = NDArray[np.float64]


class Tree:
    """`joints` and `nodes` (composite bodies) for the core; `frame_at[i]` is (joint or -1, 4x4 pose there) of frame i."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._joints()
        self._nodes()

    def _joints(self) -> None:
        """Lump constant frames: every frame becomes (driving joint, constant pose); every driven frame a joint."""
        model = self.model
        entries = model.frame_entries
        numbers = model.configuration.numbers
        self._first_velocity = dict(zip(numbers[0].tolist(), numbers[1].tolist(), strict=True))
        self._first_velocity |= {place.q.start: place.v.start for place in model.configuration.places}
        at: list[tuple[int, NDArray[Any]]] = [(-1, np.eye(4))]  # frame -> (raw joint, pose in its frame)
        raw: list[dict[str, Any]] = []
        lumps: list[list[tuple[Frame, NDArray[Any]]]] = []
        for entry in entries[1:]:
            frame = entry.frame
            assert frame is not None
            joint, pose = at[entry.parent]
            if frame.variable is None:
                at.append((joint, pose @ frame.constant_pose()))
            else:
                kinds = range(6, 9) if frame.transform == TURN else (AXES.index(frame.transform),)
                q = model.index(frame.coordinates[0])
                for c, kind in enumerate(kinds):  # a ball is three joints, one after the other
                    raw.append({"parent": joint, "pose": pose, "kind": kind, "pitch": frame.pitch, "q": q})
                    raw[-1]["v"] = self._first_velocity[q] + c
                    lumps.append([])
                    joint, pose = len(raw) - 1, np.eye(4)
                at.append((joint, pose))
            joint, pose = at[-1]
            if joint >= 0 and frame.heavy:
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
            turned = _any(pose[:3, :3] - np.eye(3))
            revolute = 3 <= r["kind"] < 6
            above = self.joints[parent - 1] if parent else None
            rot = i + 1 if revolute or turned or r["kind"] == 6 else (above["rot"] if above else 0)
            self.joints.append(
                {
                    "parent": parent,
                    "kind": r["kind"],
                    "q": r["q"],
                    "v": r["v"],
                    "rot": rot,
                    "node": -1,
                    "depth_all": 0 if above is None else above["depth_all"] + 1,
                    "slot": len(self.rev) if revolute else -1,
                    "phi": 0,
                    "leaf": False,
                    "turned": turned,
                    "shifted": _any(pose[:3, 3]),
                    "R0": pose[:3, :3].T.ravel().tolist(),
                    "p0": pose[:3, 3].tolist(),
                    "pitch": r["pitch"],
                }
            )
            if revolute:
                self.rev.append(r["q"])
        self.frame_at = [(new[j], pose) for j, pose in at]
        self.v_joint = [-1] * model.nv
        for i, joint_data in enumerate(self.joints):
            self.v_joint[joint_data["v"]] = i

    def path(self, joint: int) -> list[int]:
        """Joints from the root to this one."""
        path: list[int] = []
        while joint >= 0:
            path.append(joint)
            joint = self.joints[joint]["parent"] - 1
        return path[::-1]

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
            diagonal = not _any(inertia[[0, 0, 1], [1, 2, 2]])
            body = 0 if not self.lumps[j] else 1 if not _any(inertia) else 2 if diagonal else 3
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

    def _lump(self, joint: int) -> tuple[float, NDArray[Any], NDArray[Any]]:
        """Mass, first moment and second moment about the joint origin, in joint axes."""
        m = 0.0
        c: NDArray[Any] = np.zeros(3)
        total: NDArray[Any] = np.zeros((3, 3))
        for frame, pose in self.lumps[joint]:
            rotation = pose[:3, :3]
            r = pose[:3, 3] + rotation @ array(frame.com)
            xx, yy, zz, xy, xz, yz = frame.inertia
            own = array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            m += frame.mass
            c = c + frame.mass * r
            total = total + rotation @ own @ rotation.T + frame.mass * ((r @ r) * np.eye(3) - np.outer(r, r))
        return m, c, total

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


def _any(values: NDArray[Any]) -> bool:
    """Is one of the numbers not zero, or may it become so?"""
    return any(map(present, values.ravel())) if values.dtype == object else bool(np.any(values))
