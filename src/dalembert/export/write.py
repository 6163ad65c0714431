"""`export_c`: a design as C99 for small computers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from numpy.typing import ArrayLike

from ..control import Feedback
from ..errors import ModelError, ModelWarning, user_level
from ..estimate import ExtendedKalmanFilter
from ..files import replacing
from ..integrate import MidpointVI, OneStep, State
from ..integrate.midpoint import FORCING
from ..model import Model
from ..system import System
from ..text import Brief
from .design import Limits, filter_tables, gain_tables, input_limits
from .names import is_taken
from .tables import ExportError, Facts, Writer, model_tables
from .template import fill, template
from .vectors import start_state, vector_tables

_PRECISION = {
    "double": {
        "suffix": "",
        "tolerance": 1e-14,
        "h_tolerance": 1e-14,
        "slack": 1e4,
        "epsilon": 1.1e-16,
        "finish": 1e-13,
        "small_square": 1e-2,
        "largest": 1e290,
    },
    "float": {
        "suffix": "f",
        "tolerance": 1.5e-6,
        "h_tolerance": 1.5e-6,
        "slack": 50,
        "epsilon": 6e-8,
        "finish": 1e-6,
        "small_square": 0.25,
        "largest": 1e30,
    },
}
_SMALL = {
    "double": {
        "tiny": 1e-250,
        "small_turn": 1e-8,
        "least_pivot": 1e-13,
        "rank_tolerance": 1e-12,
        "settle_tolerance": 1e-12,
    },
    "float": {"tiny": 1e-30, "small_turn": 1e-4, "least_pivot": 1e-6, "rank_tolerance": 1e-5, "settle_tolerance": 1e-5},
}


@dataclass(frozen=True, eq=False, repr=False)
class Exported(Brief):
    """What was written: `name` of the C functions, `folder`, `files`; `bound`: how far the code may be from the library along the motion of the
    test vectors, relative to the largest number of a state (or to one), as the header says it and `main.c` asks for it; `loop_bound`: the same
    for the loop of filter and regulator, which may make more of rounding than the motion."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    bound: float
    loop_bound: float


def export_c(
    system: OneStep,
    to: str | PathLike[str],
    *,
    name: str | None = None,
    ekf: ExtendedKalmanFilter | None = None,
    gains: Feedback | None = None,
    limits: Limits | None = None,
    every: int = 1,
    real: str = "double",
    linearize: bool = True,
    fold: bool = True,
    max_iterations: int = 12,
    start: State | ArrayLike | None = None,
    vectors: int = 20,
) -> Exported:
    """Write the variational step of a model, its exact linearization, a Kalman filter and a regulator as C99.

    `system` is a `MidpointVI` (or a `System` of one): model, length of the step, alpha and forcing are its own. `to` is a folder, made if it is
    not there; files that were written there before are written over, those of others are not. `name` begins the names of all functions (the
    model's by default; `m_` comes before names that C or the files use themselves). `real` is "double" or "float". Without `linearize` only the
    step is written. `ekf` (of the same system; sensors of states, frames, expressions of the configuration, velocities, and where there are no
    constraints of accelerations) and `gains` (from `lqr`, or `Feedback.at_point`) go along, the gains with `limits` {input: (least, most)}; of
    gains along a motion every `every`-th is kept, and interpolated between. `fold`: a mechanism that moves in a plane is written with vectors of
    the plane. `max_iterations` bounds Newton's method; a step that needs more returns a status. Beside the code stand an example `main.c`, a
    `CMakeLists.txt` and `vectors` steps of the library from `start` (a State, or x (nx,); by default the reference of the gains or the neutral
    configuration), which the example compares with its own.

    The code is one or two files and a header without allocation, recursion or any library but libm. What cannot be written is an `ExportError`.

    >>> import dalembert as da, tempfile
    >>> vi = da.MidpointVI(da.models.cart_pole(), dt=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in export_c(vi, folder).files]
    ['cart_pole.h', 'cart_pole.c', 'cart_pole_vectors.h', 'main.c', 'CMakeLists.txt']
    """
    vi = _integrator(system)
    vi.model.require_no_contacts("export_c", limits=True)
    if vi.model.limits:
        warnings.warn(
            ModelWarning(f"the exported code takes no notice of limits of joints: {', '.join(vi.model.limits)}"),
            stacklevel=user_level(),
        )
    if real not in _PRECISION:
        raise ValueError(f"real must be 'double' or 'float', not {real!r}")
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or not 1 <= max_iterations <= 1000:
        raise ValueError(f"max_iterations must be a whole number from 1 to 1000, not {max_iterations!r}")
    label = identifier(vi.model.name if name is None else name)
    write = Writer(real)
    facts = _facts(vi, label, write, bool(linearize or ekf), fold, max_iterations)
    sensors, filtering = filter_tables(ekf, vi, write)
    regulator, regulating = gain_tables(gains, limits, every, vi, write)
    facts |= filtering | regulating | {"design": sensors + regulator}
    facts |= _control_facts(facts)
    if isinstance(vectors, bool) or not isinstance(vectors, int) or vectors < 1:
        raise ValueError(f"vectors must be a positive whole number, not {vectors!r}")
    x0 = start_state(vi, start, gains)
    run, words = vector_tables(vi, x0, vectors, ekf, gains, every, input_limits(limits, vi), facts["linearize"], write)
    facts |= {key: fill(text, facts).rstrip("\n") if isinstance(text, str) else text for key, text in words.items()}
    facts["vector_tables"] = fill(run, facts)
    if facts["control"] and facts["loop_bound"] > 0.1:
        warnings.warn(
            ModelWarning(
                f"{real} numbers may leave the loop of filter and regulator wrong by {facts['loop_bound']:.1g} of their size{_advice(real)}"
            ),
            stacklevel=user_level(),
        )
    sources = [f"{label}.c", f"{label}_control.c"] if facts["control"] else [f"{label}.c"]
    facts["sources"] = " ".join(sources)
    files = {f"{label}.h": "header.h", f"{label}.c": "step.c"}
    if facts["control"]:
        files[f"{label}_control.c"] = "control.c"
    files |= {f"{label}_vectors.h": "vectors.h", "main.c": "main.c", "CMakeLists.txt": "CMakeLists.txt"}
    texts = {file: fill(template(source), facts) for file, source in files.items()}
    folder = Path(to)
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder} is a file, not a folder", culprit=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    for file in texts:
        if not _is_ours(folder / file):
            raise ExportError(
                f"{folder / file} was not written by export_c: choose another folder, or remove it", culprit=file
            )
    for file, text in texts.items():
        with replacing(folder / file) as partial:
            partial.write_text(text, encoding="ascii")
    old = folder / f"{label}_control.c"
    if old.name not in texts and old.exists() and _is_ours(old):
        old.unlink()  # of a design that was written here before: it does not fit the new header
    return Exported(label, folder, tuple(folder / file for file in texts), facts["bound"], facts["loop_bound"])


def _integrator(system: OneStep) -> MidpointVI:
    vi = system.one_step if isinstance(system, System) else system
    if not isinstance(vi, MidpointVI):
        raise TypeError(f"export_c needs a MidpointVI or a System of one, not {type(vi).__name__}")
    if vi.scheme.stages > 1:
        raise ExportError("Gauss steps are not written in C: export a MidpointVI of order 2, 4 or 6", culprit="order")
    if not isinstance(vi.dt, float):
        raise ExportError("the steps have different lengths: export a MidpointVI with one dt", culprit="dt")
    return vi


def _is_ours(file: Path) -> bool:
    """Whether a file may be written over: it is not there, or begins as those that are written here do."""
    return not file.exists() or "written by dalembert" in file.read_text(encoding="utf-8", errors="replace")[:200]


def _advice(real: str) -> str:
    return ": real='double' is better by nine digits" if real == "float" else ", as the library's own"


def identifier(text: str) -> str:
    """A name of C that neither the language nor the exported files use for something else.

    >>> identifier("Cart pole 2")
    'cart_pole_2'
    >>> identifier("static"), identifier("element")
    ('m_static', 'm_element')
    """
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    if not name:
        raise ModelError(f"{text!r} makes no name of C: give name=", culprit=text)
    return name if name[0].isalpha() and not is_taken(name) else f"m_{name}"


def _facts(vi: MidpointVI, label: str, write: Writer, linearize: bool, fold: bool, max_iterations: int) -> Facts:
    model, real = vi.model, write.real
    tables, facts = model_tables(model, write, fold, linearize)
    nu, nk, nc = model.nu, model.nkv, model.nc
    minus, plus = FORCING[vi.forcing]
    precision = _PRECISION[real]
    f = precision["suffix"]
    short = {key: f"{x:g}" for key, x in (precision | _SMALL[real]).items() if key != "suffix"}
    forced = facts["any_force"]
    upper = label.upper()
    parts = [] if vi.order == 2 else vi.parts.tolist()
    if facts["led"] and parts:
        raise ExportError(
            "prescribed balls are exported with steps of order 2: MidpointVI(..., order=2)", culprit="order"
        )
    if parts:
        tables += write.reals("part_length", parts, f"lengths of the midpoint steps that make one of order {vi.order}")
    by_line = "c0 * m->a[row * NX + ND + j - NU] + c1 * m->b[row * NW + j]"
    by_input = f"(j < NU ? m->b[row * NW + j] : {by_line})" if nu else by_line
    enums = _index_enum(upper, "Q", model.variables) + _index_enum(upper, "U", model.inputs)
    return {
        **facts,
        **short,
        "n": label,
        "N": upper,
        "model": _plain(model.name),
        "title": f"{label}: written by dalembert; change the model and write it again, not this file",
        "real": real,
        "tables": tables,
        "sin": f"sin{f}",
        "cos": f"cos{f}",
        "sqrt": f"sqrt{f}",
        "fabs": f"fabs{f}",
        "atan2": f"atan2{f}",
        "alpha": f"{vi.alpha!r}",
        "minus": f"{minus!r}",
        "plus": f"{plus!r}",
        "forcing": vi.forcing,
        "order": vi.order,
        "dt": f"(({label}_real){vi.dt!r})",
        "max_iterations": max_iterations,
        "linearize": linearize,
        "nq": model.nq,
        "nqd": model.nqd,
        "nv": model.nv,
        "nd": model.nd,
        "nk": nk,
        "nu": nu,
        "nc": nc,
        "nw": nu + nk,
        "ndx": vi.ndx,
        "floor": f"floor{f}",
        "small_angle": "1e-4" if real == "double" else "1e-2",
        "index_enums": enums,
        "struct_note": "known size",
        "q_names": _plain(", ".join(model.variables)),
        "rho_names": _plain(": " + ", ".join(model.kinematic)) if nk else "",
        "u_names": _plain(": " + ", ".join(model.inputs)) if nu else "",
        "u_argument": f", const {label}_real *u" if nu else "",
        "rho_argument": f", const {label}_real *rho" if nk else "",
        "u_example": ", u" if nu else "",
        "rho_example": ", rho" if nk else "",
        "lam_example": ", m.lam" if nc else "",
        "u_doc": f" under the inputs u ({upper}_NU)" if nu else "",
        "rho_doc": _rho_doc(upper, nk, facts["led"]),
        "linearize_example": f" *   status = {label}_linearize(&m);   then m.a{', m.b' if nu + nk else ''}\n"
        if linearize
        else "",
        "and_linearization": " and its exact linearization" if linearize else "",
        "of_velocities": f", the last {facts['nvc']} of them on velocities" if facts["nvc"] else "",
        "axes_by": facts.get("axes_move", False) or facts.get("height", False) or facts.get("slip", False),
        "row_length": _row_length(model, write, model.nc),
        "result_length": _row_length(model, write, 0),
        "four_columns": real == "double",
        "no_finish": bool(facts["balls"] or facts["nvc"]),
        "and_multipliers": ", multipliers" if nc else "",
        "and_x_columns": ", and X = N^-1 C0'" if nc else "",
        "minus_constraint": " - Dh(q_k)' lambda" if facts["nh"] else "",
        "minus_velocities": " - a(q_k)' lambda" if facts["nvc"] else "",
        "constraint_equation": "   h(q_k+1) = 0," if facts["nh"] else "",
        "blocks": linearize or facts["balls"],
        "keep_p": bool(parts) or facts["balls"],
        "bends": model.nc and linearize,
        "g": "g" if facts["balls"] else "f",
        "plus_force": " + m->force[v + c]" if forced else "",
        "and_others": "with `all` also e11 and e22" if linearize else "of the dynamic variables",
        "all_argument": ", int all" if linearize or facts["balls"] else "",
        "all_zero": ", 0" if linearize or facts["balls"] else "",
        "skip_prescribed": (
            "if (!all && vd >= ND) continue;" if linearize or facts["balls"] else "if (vd >= ND) continue;"
        )
        if nk
        else "",
        "plus_push": " + dt * MINUS * m->force[i]" if forced else "",
        "plus_push_after": " + dt * PLUS * m->force[i]" if forced else "",
        "and_jacobians": ", or with `all` a_i F_q + b_i F_v into fx, fy and F_u into fu" if linearize else "",
        "and_schur": ", and X = N^-1 C0'" if nc else "",
        "parts": len(parts),
        "part_by_input": by_input if nk else "m->b[row * NW + j]",
        "momentum_by_input": _momentum_by_input(nu, nk, "g" if facts["balls"] else "f"),
    }


def _rho_doc(upper: str, nk: int, led: bool) -> str:
    """What the header says about the argument rho."""
    if not nk:
        return ""
    return f", the prescribed variables going to rho ({upper}_NK{'; of a ball its angular velocity along body axes' if led else ''})"


def _momentum_by_input(nu: int, nk: int, force: str) -> str:
    """How p_k+1 changes with entry j of (inputs, prescribed values) while q_k+1 stands still."""
    by_u, by_rho = f"PLUS * dt * m->{force}u[i * NU + j]", "m->e22[i * NV + ND + j - NU] * rate"
    if nu and nk:
        return f"j < NU ? {by_u} : {by_rho}"
    return by_u if nu else by_rho


def _row_length(model: Model, write: Writer, multipliers: int) -> int:
    """Columns of the linear systems of a linearization, with so many of multipliers; in double precision whole fours, taken at once."""
    columns = model.nv + model.nd + model.nu + model.nkv + multipliers
    return columns + -columns % 4 if write.real == "double" else columns


def _control_facts(facts: Facts) -> Facts:
    """What the templates say about the filter and the regulator."""
    n, upper = facts["n"], facts["N"]
    ekf, gains, moving = facts.get("ekf"), facts.get("gains"), facts.get("moving_gains")
    names = _plain(", ".join(facts.get("z_names", ())))
    time = ", t" if moving else ""
    inputs = facts["u_example"] + facts["rho_example"]
    example = f" *   {n}_filter_start(&m, q, p, variances);\n" if ekf else ""
    if ekf:
        example += f" *   status = {n}_predict(&m{inputs}, {upper}_DT);   then {n}_update(&m, z)\n"
    if gains:
        example += f" *   status = {n}_control(&m{time}, w);   then w is the input of the next step\n"
    what = [word for word, there in (("Kalman filter", ekf), ("regulator", gains)) if there]
    return {
        "control": bool(ekf or gains),
        "plus_speeds": f" + {2 if facts.get('accelerated') else 1} * {upper}_NV" if facts.get("speeds") else "",
        "minus_force": " - m->force[i]" if facts["any_force"] else "",
        "minus_damped_x": " - damping[v] * w[1]" if facts["damping"] else "",
        "minus_damped_y": " + damping[v + 1] * w[0]" if facts["damping"] else "",
        "minus_damped_z": "-damping[v + 2] * w[0]" if facts["damping"] else "0",
        "ball_control": bool((ekf or gains) and facts["balls"]),
        "along": bool(facts.get("tied") or facts.get("gauged") or (facts.get("speeds") and facts["nc"])),
        "all_masses": ", 1" if facts.get("speeds") and facts["nk"] else facts["all_zero"],
        "ball_momentum": "own" if facts["nc"] else "p",
        "plus_gauge": " + C' nu" if facts["nc"] else "",
        "along_constraints": ", C v + b = 0" if facts["nc"] else "",
        "plus_gauge_slope": " + C' dnu" if facts["nc"] else "",
        "minus_gauge_turn": " - nu.dC dq" if facts["nc"] else "",
        "nz_sizes": f",\n  {upper}_NZ = {facts['nz']} /* measured: {names} */" if ekf else "",
        "nz_local": f",\n  NZ = {upper}_NZ" if ekf else "",
        "control_title": " and ".join(what).capitalize(),
        "control_example": example,
        "u_pass": facts["u_example"],
        "rho_pass": facts["rho_example"],
        "time_argument": f", {n}_real t" if moving else "",
        "time_doc": " at the time t (s) along the motion" if moving else "",
    }


def _plain(text: str) -> str:
    """Text that may stand in a comment of C."""
    ascii_text = "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
    return ascii_text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


def _index_enum(upper: str, letter: str, names: Sequence[str]) -> str:
    """Where a named entry of an array is."""
    if not names:
        return ""
    used: dict[str, int] = {}
    for i, name in enumerate(names):
        word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or f"N{i}"
        while word in used:
            word += f"_{i}"
        used[word] = i
    entries = ", ".join(f"{upper}_{letter}_{word} = {i}" for word, i in used.items())
    what = {"Q": "places of the coordinates in q", "U": "places of the inputs in u"}[letter]
    return f"/* {what} */\nenum {{ {entries} }};\n"
