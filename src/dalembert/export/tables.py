"""A model as constant tables of C: what the kernels of `c/step.c` loop over, and which parts of them it needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ModelError
from ..model import Model
from ..model.compile import FAMILY_OF, compile_model
from ..model.elements import Element
from ..model.table import Row, Table
from ..model.tree import Tree
from .plane import Plane, find_plane, wrench_map
from .tapes import tape_functions

Facts = dict[str, Any]

# kinds of rows that the C kernels know, by family: the words of their conditions in the templates
KNOWN = {
    "potentials": {
        "LinearSpring": "linear_spring",
        "PointGravity": "point_gravity",
        "SiteField": "site_field",
        "ConfigSpring": "config_spring",
        "SplineSpring": "spline_spring",
        "TorsionSpring": "torsion",
        "TapePotential": "tape_potential",
    },
    "forces": {"LinearDamper": "linear_damper", "Wrench": "wrench", "TapeForce": "tape_force"},
    "constraints": {
        "Distance": "distance",
        "Direction": "direction",
        "LinearRelation": "linear_relation",
        "Cam": "cam",
        "TapeConstraint": "tape_constraint",
        "Height": "height",
    },
    "velocities": {"Slip": "slip", "TapeVelocity": "tape_velocity"},
}
ON_SITES = {
    "LinearSpring",
    "PointGravity",
    "SiteField",
    "LinearDamper",
    "Wrench",
    "Distance",
    "Direction",
    "Height",
    "Slip",
}
SQUARES = {"LinearSpring", "PointGravity", "LinearDamper", "Distance"}  # functions of half a squared distance


class ExportError(ModelError):
    """Something of a model or of a design cannot be written as C; `culprit` names it."""


class Writer:
    """Numbers and tables as C text, of one precision."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.largest = 1e30 if real == "float" else 1e290

    def number(self, x: float, what: str = "a number") -> str:
        """One number, such that C reads the same one (or the nearest of single precision)."""
        x = float(x)
        if not abs(x) <= self.largest:
            raise ExportError(f"{what} is {x:g}, too large for {self.real}", culprit=what)
        text = repr(float(x)) if self.real == "double" else format(float(np.float32(x)), ".9g")
        if not any(mark in text for mark in ".en"):
            text += ".0"
        return text + ("f" if self.real == "float" else "")

    def numbers(self, values: Iterable[float], what: str = "a number") -> str:
        """A list in braces."""
        return "{" + ", ".join(self.number(x, what) for x in values) + "}"

    def reals(self, name: str, rows: ArrayLike, note: str = "") -> str:
        """A table of reals, one or two dimensions."""
        array = np.asarray(rows, dtype=float)
        sizes = "".join(f"[{n}]" for n in array.shape)
        inside = [self.numbers(r, name) for r in array] if array.ndim == 2 else [self.number(x, name) for x in array]
        return _table("real", name, sizes, inside, note)

    @staticmethod
    def integers(name: str, values: Sequence[int], note: str = "") -> str:
        """A table of whole numbers, in the smallest type that holds them."""
        least, most = min(values, default=0), max(values, default=0)
        kind = "signed char" if least >= -128 and most < 128 else "short"
        if not -32768 <= least <= most < 32768:
            raise ExportError(f"the table {name} needs numbers up to {most}: the model is too large", culprit=name)
        return _table(kind, name, f"[{max(1, len(values))}]", [str(int(i)) for i in values] or ["0"], note)

    def lookup(self, name: str, values: Sequence[float], note: str = "", *, real: bool = False) -> str:
        """A table behind a macro NAME(i); without the table where all values are equal, or those of 0, 1, 2, ... moved by a constant."""
        first = values[0] if values else 0
        note = f" /* {note} */" if note else ""
        if all(x == first for x in values):
            rule = f"R({self.number(first)})" if real else f"{first}"
        elif not real and all(x == first + i for i, x in enumerate(values)):
            rule = f"((i) + {first})" if first else "(i)"
        else:
            table = self.reals(name, values) if real else self.integers(name, [int(x) for x in values])
            return f"{table}#define {name.upper()}(i) {name}[i]{note}\n"
        return f"#define {name.upper()}(i) {rule}{note}\n"


def _table(kind: str, name: str, sizes: str, inside: list[str], note: str) -> str:
    lines, line = [], ""
    for i, text in enumerate(inside):
        piece = text + ("," if i + 1 < len(inside) else "")
        if line and len(line) + len(piece) > 112:
            lines.append(line)
            line = ""
        line = f"{line} {piece}" if line else piece
    lines.append(line)
    head = f"static const {kind} {name}{sizes} = "
    short = len(lines) == 1 and len(head) + len(lines[0]) < 114
    body = f"{{{lines[0]}}}" if short else "{\n" + "\n".join("    " + x for x in lines) + "}"
    return (f"/* {note} */\n" if note else "") + f"{head}{body};\n"


def model_tables(model: Model, write: Writer, fold: bool = True, linearize: bool = True) -> tuple[str, Facts]:
    """The tables of a model as C text, and the facts that the templates ask for."""
    model = model.without_contacts()  # only limits get here
    plain = compile_model(model)
    tree = Tree(model)
    table = Table(tree)
    rows: dict[str, list[tuple[Element, Row]]] = {family: [] for family in KNOWN}
    for e in model.elements:
        for row in e.compile(table):
            family = FAMILY_OF[row["kind"]]
            its = table.local_q[row["vars"] : row["vars"] + row["n"]]
            if row["tape"][0] >= 0 and min(its, default=0) < 0:
                raise ExportError(
                    f"{e.label}: elements of your own on what balls move are not exported; use da.spherical_euler, da.free_euler",
                    culprit=e.label,
                )
            if row["kind"] not in KNOWN.get(family, {}):
                raise ExportError(f"{e.label}: {row['kind']} is not exported", culprit=e.label)
            rows[family].append((e, row))
    if tree.nm == 0:
        raise ExportError("the model has no mass that moves", culprit=model.name)
    plane = find_plane(plain, table, [row for found in rows.values() for _, row in found]) if fold else None
    text, facts = _joint_tables(model, plain, plane, table, write)
    more, found = _element_tables(model, plain, plane, table, rows, write, linearize)
    return text + more, facts | found


def _joint_tables(model: Model, plain: Facts, plane: Plane | None, table: Table, write: Writer) -> tuple[str, Facts]:
    joints, nodes = plain["joints"], plain["nodes"]
    turned = [j for j in joints if j["turned"]]
    pitch = any(j["pitch"] for j in joints)
    names = {v: n for n, v in model.configuration.velocity_index.items()}
    comment = ", ".join(f"{i} {names[j['v']]}" for i, j in enumerate(joints))
    parts = [
        f"/* joints, each after its parent: {_wrapped(comment)} */\n",
        write.integers("joint_parent", [j["parent"] for j in joints], "pose of the parent: 0 the world, j + 1 joint j"),
        write.lookup("joint_turns", [int(j["kind"] >= 3) for j in joints], "1 hinge, 0 slider"),
        write.lookup("joint_q", [j["q"] for j in joints]),
        write.lookup("joint_v", [j["v"] for j in joints]),
        write.lookup("joint_node", [j["node"] for j in joints[: plain["nm"]]], "composite body that it carries"),
    ]
    if plane is not None:
        signs = [float(np.sign(plane.axis(j) @ plane.normal)) if j["kind"] >= 3 else 0.0 for j in joints]
        slides = [plane.across @ plane.axis(j) if j["kind"] < 3 else np.zeros(2) for j in joints]
        parts += [
            "/* the mechanism moves in a plane: vectors are in its axes, as at q = 0 */\n",
            write.reals(
                "joint_offset", [plane.flat(j["parent"], j["p0"]) for j in joints], "from the parent to the joint"
            ),
            write.lookup("joint_sign", signs, "of hinges: which way round", real=True),
            write.reals("joint_slide", slides, "of sliders: where to"),
        ]
    else:
        parts += [
            write.integers("joint_axis", [j["kind"] % 3 for j in joints], "0 x, 1 y, 2 z"),
            write.reals(
                "joint_offset", [j["p0"] for j in joints], "from the parent to the joint, in the parent's axes"
            ),
        ]
    if turned and plane is None:
        order = {id(j): i + 1 for i, j in enumerate(turned)}
        parts += [
            write.integers("joint_turned", [order.get(id(j), 0) for j in joints], "row of joint_rotation, from 1"),
            write.reals("joint_rotation", [j["R0"] for j in turned], "from the parent's axes, by columns"),
        ]
    if pitch:
        parts.append(write.reals("joint_pitch", [j["pitch"] for j in joints], "metres per radian"))
    balls = sorted(plain["balls"], key=lambda b: b[1] >= model.nd)  # prescribed ones after the others
    if balls:
        parts += [
            write.integers(
                "joint_ball", [max(0, j["kind"] - 5) for j in joints], "1, 2, 3: the three joints of a ball"
            ),
            write.integers("ball_q", [q for q, _, _ in balls]),
            write.integers("ball_v", [v for _, v, _ in balls]),
            write.integers("number_q", [max(-1, q) for q in plain["v_q"]], "coordinate of a velocity, -1: of a ball"),
        ]
    hinges = [j["q"] for j in joints if 3 <= j["kind"] < 6 and j["v"] < model.nd]
    if hinges:
        parts.append(write.lookup("hinge_q", hinges))
    spread = "second moment about the normal" if plane else "second moments\n   xx, yy, zz, xy, xz, yz"
    parts += [
        f"/* bodies, about the origin of their joint{'' if plane else ' and along its axes'}: mass, mass times centre, {spread};\n"
        "   node_mass is that of the body and all that it carries */\n",
        write.lookup("body_pose", [n["joint"] for n in nodes]),
        write.reals("body_mass", [n["m"] for n in nodes]),
        write.integers("node_parent", [n["parent"] for n in nodes]),
        write.reals("node_mass", [n["mass"] for n in nodes]),
    ]
    slides, axes = plain["ref_q"], np.reshape(plain["ref_axis"], (-1, 3))
    start = np.array(plain["ref0"])
    gravity = np.zeros(2)
    if plane is not None:
        gravity = plane.across @ table.gravity
        parts += [
            write.reals("body_moment", [plane.flat(n["joint"], n["c"]) for n in nodes]),
            write.reals("body_inertia", [[_about(plane, n)] for n in nodes]),
            write.reals("world_rotation", [1.0, 0.0], "cosine and sine"),
            f"#define GRAVITY_X R({write.number(gravity[0])})\n#define GRAVITY_Y R({write.number(gravity[1])})\n",
        ]
        start, axes = plane.across @ start, axes @ plane.across.T
    else:
        parts += [
            write.reals("body_moment", [n["c"] for n in nodes]),
            write.reals("body_inertia", [n["I"] for n in nodes]),
            write.reals("world_rotation", plain["Rg"], "turns gravity to the z axis"),
            f"#define GRAVITY R({write.number(plain['gz'])})\n",
        ]
    parts.append(write.reals("reference_start", start))
    if slides:
        parts += [write.integers("reference_q", slides), write.reals("reference_axis", axes)]
    paths: list[list[int]] = []
    for up in plain["eparent"]:
        paths.append([*paths[up], up] if up >= 0 else [])
    path, offset = [i for p in paths for i in p], np.cumsum([0, *map(len, paths)]).tolist()
    full = all(p == list(range(k)) for k, p in enumerate(paths))
    if full:
        parts.append("/* every variable is coupled with all before it */\n")
        parts.append("#define ABOVE_COUNT(k) (k)\n#define ABOVE(k, i) (i)\n")
    else:
        parts += [
            write.integers("above", path, "variables that a variable is eliminated into, ancestors first"),
            write.integers("above_first", offset),
            "#define ABOVE_COUNT(k) (above_first[(k) + 1] - above_first[k])\n"
            "#define ABOVE(k, i) above[above_first[k] + (i)]\n",
        ]
    facts: Facts = {
        "turned": len(turned),
        "pitch": pitch,
        "hinges": len(hinges),
        "balls": len(balls),
        "dynamic_balls": sum(v < model.nd for _, v, _ in balls),
        "led": any(v >= model.nd for _, v, _ in balls),
        "reference_slides": len(slides),
        "nj": len(joints),
        "nm": plain["nm"],
        "nn": len(nodes),
        "planar": plane is not None,
        "gravity_pull": ("GRAVITY_X * (mass * s[1] - s[0] * c[1]) + " if gravity[0] else "")
        + "GRAVITY_Y * (mass * s[2] + s[0] * c[0])",
        "gravity_fall": ("GRAVITY_X * f[2] " if gravity[0] else "") + "- GRAVITY_Y * f[1]",
        "rotation_size": 2 if plane else 9,
        "rotation_words": "cosine and sine" if plane else "by columns",
        "dp": 2 if plane else 3,
        "da": 1 if plane else 3,
        "dm": 3 if plane else 6,
        "di": 1 if plane else 6,
    }
    return "".join(parts), facts


def _element_tables(
    model: Model,
    plain: Facts,
    plane: Plane | None,
    table: Table,
    rows: dict[str, list[tuple[Element, Row]]],
    write: Writer,
    linearize: bool,
) -> tuple[str, Facts]:
    numbers: list[float] = []
    inputs: list[int] = []
    columns: list[int] = []
    maps: list[float] = []
    ancestors: list[int] = []
    kinds: list[str] = []
    lists: list[str] = []
    held: list[str] = []
    out = argument = 1
    for family, found in rows.items():
        lines = []
        before: tuple[Any, ...] | None = None
        for e, row in found:
            kind, n = row["kind"], row["n"]
            word = KNOWN[family][kind]
            kinds += [] if word in kinds else [word]
            start, count, first, at = len(numbers), row["nin"], len(inputs), len(columns)
            numbers += _numbers(row, table, plane)
            if kind == "Direction":
                numbers.append(_length(row, table, plain["joints"]))
            axes = 0
            if kind == "Wrench":
                axes = int(row["par"][6])
                maps += [] if plane is None else wrench_map(plane, table, row).ravel().tolist()
                driven = [i for i in row["input"] if i >= 0]
                columns += [driven.index(i) if i >= 0 else -1 for i in row["input"]]
                inputs += driven
                count = len(driven)
            else:
                inputs += table.tape_inputs[row["in0"] : row["in0"] + row["nin"]]
            forced = family == "forces"
            nrow = (row["nrow"] if kind == "TapeForce" else n) if forced else 0
            where = row["rows"] if kind == "TapeForce" else row["vars"]
            out = max(out, nrow + 2 * nrow * n + nrow * count if forced else 0, 1 + 2 * n + n * n)
            argument = max(argument, 2 * n + count if "Tape" in kind else 0, n + n * n if kind == "LinearDamper" else 0)
            fields = (row["site_a"], row["site_b"], row["site_c"], row["length_var"], start, row["spline"])
            same = (kind, row["site_a"], row["site_b"], table.local_v[row["vars"] : row["vars"] + n])
            again = int(kind in ("Direction", "Height") and same == before)
            before = same
            rest = (row["tape"][0], row["tape"][1], nrow, where, count, first, at, axes, again)
            values = ", ".join(map(str, (n, row["vars"], len(ancestors), *fields, *rest)))
            joints = [j - 1 for j in table.local_joint[row["vars"] : row["vars"] + n]]
            above = [set(table.tree.path(j)) for j in joints]
            ancestors += [int(joints[i] >= 0 and joints[i] in above[k]) for i in range(n) for k in range(n)]
            lines.append(f"    {{{ENUM.get(word, word.upper())}, {values}}}, /* {_comment(e.label)} */\n")
        if family == "constraints":
            held, lines = lines, []
        elif family == "velocities":
            family, lines = "constraints", held + lines  # after the others
        if lines:
            lists.append(f"static const element {family}[{len(lines)}] = {{\n{''.join(lines)}}};\n")
    words = set(kinds)
    sites = any(r["kind"] in ON_SITES for f in rows.values() for _, r in f)
    bound = [r for family in ("constraints", "velocities") for _, r in rows[family]]
    seen = plain["cjoints"] if any(r["kind"] in ON_SITES for r in bound) else []
    locals_of = [table.local_v[r["vars"] : r["vars"] + r["n"]] for r in bound]
    repeats = any(len(set(v)) < len(v) for v in locals_of)  # a variable that counts twice
    axes_move = "height" in words or any(
        r["kind"] == "Direction" and any(table.path_flag[r["vars"] + i] & 4 for i in range(r["n"])) for r in bound
    )
    derived = any(r["kind"] != "Direction" or axes_move for _, r in rows["constraints"])  # see `constraint` of step.c
    differences = {"linear_spring", "point_gravity", "site_field", "linear_damper", "distance", "direction", "height"}
    bent = (differences | {"slip"}) - (set() if linearize or axes_move else {"direction"})  # by second derivatives
    turned_sites = bool(words & {"torsion", "wrench"})
    parts: list[str] = []
    if lists:
        names = ", ".join(ENUM.get(k, k.upper()) for k in kinds)
        parts += [
            "/* elements: their local variables are n entries of local_v and so on from `local`, whether one is above another\n"
            "   n x n entries of `ancestor` from `pair` */\n",
            f"enum {{ {names} }};\n",
            "typedef struct {\n"
            "  signed char kind;\n"
            "  short n, local, pair, site_a, site_b, site_c, length, number, spline, tape, tape_first, rows, row, inputs, input;\n"
            "  short columns, axes, again;\n"
            "} element;\n",
            *lists,
            write.integers("local_v", table.local_v),
        ]
        by_variable = words & {"config_spring", "spline_spring", "linear_relation", "cam", "distance"}
        if by_variable or any("Tape" in r["kind"] for f in rows.values() for _, r in f):
            parts.append(write.integers("local_q", table.local_q))
        if numbers:
            parts.append(write.reals("number", numbers))
        if inputs:
            parts.append(write.integers("element_input", inputs))
    if sites or "torsion" in words:
        parts += [
            write.integers("local_joint", [j - 1 for j in table.local_joint]),
            write.integers("local_path", table.path_flag, "bits: moves site a, b, c"),
            *([write.integers("ancestor", ancestors)] if words & bent else []),
            write.integers("site_pose", [s["pose"] for s in table.sites], "points on joints"),
        ]
        if sites:
            places = [s["p"] if plane is None else plane.flat(s["pose"], s["p"]) for s in table.sites]
            parts.append(write.reals("site_offset", places))
        if turned_sites and plane is None:
            parts.append(write.reals("site_rotation", np.ravel([s["R"] for s in table.sites]), "by columns"))
    if "wrench" in words:
        parts.append(
            write.integers("wrench_column", columns, "of force x, y, z, torque x, y, z: which input, -1 a number")
        )
    if maps:
        parts.append(write.reals("wrench_map", maps, "3 x 6 each: moment and force in the plane of force, torque"))
    some_seen = 0 < len(seen) < len(plain["joints"])
    if some_seen:
        marks = [int(j in seen) for j in range(len(plain["joints"]))]
        parts.append(write.integers("joint_seen", marks, "1: a joint that constraints see"))
    if table.splines:
        counts = [len(s["ends"]) for s in table.splines]
        parts += [
            write.integers("spline_first", np.cumsum([0, *counts]).tolist(), "pieces of polynomials of degree 5"),
            write.reals("spline_end", [x for s in table.splines for x in s["ends"]]),
            write.reals("spline_c", np.concatenate([np.reshape(s["c"], (-1, 6)) for s in table.splines])),
        ]
    damping = any(table.dampings)
    if damping:
        parts.append(write.reals("damping", table.dampings, "viscous coefficients"))
    if table.pushes:
        parts += [
            write.integers("push_v", [v for v, _, _ in table.pushes], "inputs that push variables"),
            write.integers("push_u", [u for _, u, _ in table.pushes]),
            write.reals("push_gear", [gear for _, _, gear in table.pushes], "force per unit of the input"),
        ]
    used = sorted({t for f in rows.values() for _, r in f for t in r["tape"][:2] if t >= 0})
    facts: Facts = dict.fromkeys(kinds, True) | {
        "potentials": len(rows["potentials"]),
        "forces": len(rows["forces"]),
        "elements": any(rows.values()),
        "nh": len(rows["constraints"]),
        "nvc": len(rows["velocities"]),
        "directions": bool(words & {"direction", "height"}),
        "turned_directions": axes_move,
        "fixed_directions": "direction" in words and not axes_move,
        "derived": derived,
        "derived_rows": derived or bool(rows["velocities"]),
        "first_sites": bool(words & (differences | {"wrench"})),
        "second_sites": bool(words & (differences - {"direction"})) or axes_move,
        "sites": sites,
        "squares": bool(SQUARES & {r["kind"] for f in rows.values() for _, r in f}),
        "chains": bool(words & {"linear_spring", "point_gravity", "linear_damper"}),
        "splines": len(table.splines),
        "tapes": tape_functions(table.tapes, used, write) if used else "",
        "numbers": len(numbers),
        "element_inputs": len(inputs),
        "seen": len(seen),
        "some_seen": some_seen,
        "or_seen": " (or those that constraints see)" if some_seen else "",
        "seen_argument": ", int only_seen" if some_seen else "",
        "only_seen": ", 1" if some_seen else "",
        "not_only_seen": ", 0" if some_seen else "",
        "pushes": len(table.pushes),
        "damping": damping,
        "force_slopes": bool(rows["forces"] or damping or plain["balls"]),
        "repeats": repeats,
        "plus_if_repeats": "+" if repeats else "",
        "axes_move": axes_move,
        "any_force": bool(rows["forces"] or table.pushes or damping),
        "out_size": out,
        "arguments": argument > 1 or "tape_potential" in words or bool(words & {"tape_constraint", "tape_velocity"}),
        "argument_size": argument,
        "max_local": table.max_local,
        "damping_torque": "-dt * damping[v + i] * m->v[v + i]" if damping else "0",
        "atan2_used": bool(plain["balls"]) or "torsion" in words,
        "damping_force": "-damping[i] * m->v[i]" if damping else "0",
        "wrench_input": "m->u[element_input[e->input + column]]" if inputs else "0",
        "end": "m->end" if seen else "m->mid",
    }
    return "".join(parts), facts


ENUM = {"torsion": "TORSION_SPRING"}


def _about(plane: Plane, node: dict[str, Any]) -> float:
    """Second moment of a body about the normal of the plane."""
    xx, yy, zz, xy, xz, yz = node["I"]
    axis = plane.rotation[node["joint"]].T @ plane.normal
    return float(axis @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ axis)


def _length(row: Row, table: Table, joints: list[Facts]) -> float:
    """The longest piece between the points of a constraint: its positions are no more exact than that."""
    moving = [j for j in table.local_joint[row["vars"] : row["vars"] + row["n"]] if j > 0]
    pieces = [joints[j - 1]["p0"] for j in moving if joints[j - 1]["parent"] in moving]
    pieces += [table.sites[row[site]]["p"] for site in ("site_a", "site_b") if row[site] >= 0]
    return max(float(np.linalg.norm(p)) for p in pieces)


def _numbers(row: Row, table: Table, plane: Plane | None) -> list[float]:
    """What the C kernel of a kind reads as its numbers."""
    par, n = row["par"], row["n"]
    if plane is not None and row["kind"] in ("SiteField", "Direction"):
        pose = table.sites[row["site_c"]]["pose"] if row["kind"] == "Direction" else 0
        return [float(x) for x in plane.flat(pose, par[:3])]
    if row["kind"] == "LinearRelation":
        start = int(par[1])
        return [par[0], *table.relation[start : start + n]]
    if row["kind"] == "Slip":
        start = int(par[0])
        return list(table.relation[start : start + 10])
    if row["kind"] == "TorsionSpring":
        return [*par[:7], math.cos(par[7]), math.sin(par[7])]
    sizes = {"LinearSpring": 2, "PointGravity": 1, "SiteField": 3, "ConfigSpring": 2, "SplineSpring": 2}
    sizes |= {"LinearDamper": 1, "Wrench": 6, "Distance": 1, "Direction": 3, "Height": 7}
    return list(par[: sizes.get(row["kind"], 0)])


def _comment(text: str) -> str:
    """Text that may stand in a comment of C."""
    plain = "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


def _wrapped(text: str, width: int = 100) -> str:
    import textwrap

    return "\n   ".join(textwrap.wrap(_comment(text), width))
