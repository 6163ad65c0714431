"""What a run leaves behind: results.json, results.md and work_precision.png."""

from __future__ import annotations

import json
import math
import os
import platform
from pathlib import Path
from typing import Any

from .harness import Bench

HIDDEN = {
    "scenario",
    "what",
    "tool",
    "method",
    "unit",
    "median",
    "low",
    "high",
    "samples",
    "recorded",
    "note",
    "failure",
}


def _machine() -> str:
    """The processor in general terms."""
    flags = ""
    try:
        text = Path("/proc/cpuinfo").read_text()
        line = next((x for x in text.splitlines() if x.startswith("flags")), "")
        flags = "AVX-512" if " avx512f" in line else "AVX2" if " avx2" in line else "SSE"
    except OSError:
        pass
    return f"{platform.machine()} server processor with {flags}, {os.cpu_count()} cores, {platform.system()}, virtual machine"


def _number(x: Any) -> str:
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return str(x)
    if math.isnan(x):
        return "-"
    if x == 0:
        return "0"
    if 1e-3 <= abs(x) < 1e5:
        return f"{x:.3g}" if abs(x) < 1000 else f"{x:.0f}"
    return f"{x:.1e}"


def _facts(row: dict[str, Any]) -> str:
    parts = [f"{k.replace('_', ' ')} {_number(v)}" for k, v in row.items() if k not in HIDDEN]
    for key in ("note", "failure"):
        if key in row:
            parts.append(str(row[key]))
    return "; ".join(parts)


def data(bench: Bench, load: tuple[float, float]) -> dict[str, Any]:
    """Everything, as it goes into the JSON file."""
    return {
        "machine": _machine(),
        "python": platform.python_version(),
        "load_average": {"before": load[0], "after": load[1]},
        "versions": bench.versions,
        "absent": bench.absent,
        "claims": bench.claims,
        "rows": bench.rows,
    }


def markdown(results: dict[str, Any]) -> str:
    """Claims first, then one table per scenario; ratios are times over dalembert's first row of the same job."""
    out = ["# Benchmark results", ""]
    load = results["load_average"]
    out += [
        f"Machine: {results['machine']}; Python {results['python']}; load average {load['before']:.2f} before, {load['after']:.2f} after.",
        "CPU time of processes pinned to one core (wall time where threads are compared), rounds interleaved between the",
        "tools; median and quartiles. Ratio: time over dalembert's for the same job (above 1: dalembert is faster).",
        "",
        "Versions: " + ", ".join(f"{k} {v}" for k, v in results["versions"].items()) + ".",
        "",
    ]
    for tool, reason in results["absent"].items():
        out.append(f"Absent: {tool} ({reason}).")
    out += ["", "## Must show", "", "| claim | measured | target | |", "| --- | --- | --- | --- |"]
    for c in results["claims"]:
        note = f" ({c['note']})" if c["note"] else ""
        verdict = "pass" if c["passed"] else "**fail**"
        out.append(f"| {c['claim']}{note} | {_number(c['value'])} {c['unit']} | {c['target']} | {verdict} |")
    for scenario in dict.fromkeys(r["scenario"] for r in results["rows"]):
        rows = [r for r in results["rows"] if r["scenario"] == scenario]
        out += [
            "",
            f"## {scenario}",
            "",
            "| job | tool | median | quartiles | ratio | facts |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for r in rows:
            job = [
                x for x in rows if x["what"] == r["what"] and x["tool"] == "dalembert" and x.get("dt") == r.get("dt")
            ]
            same = bool(job) and job[0]["unit"] == r["unit"] and r is not job[0]
            ratio = _number(r["median"] / job[0]["median"]) if same and job[0]["median"] > 0 else ""
            spread = f"{_number(r['low'])} - {_number(r['high'])}" if r.get("samples", 0) > 1 else ""
            shown = f"{_number(r['median'])} {r['unit']}" + (" (recorded)" if r.get("recorded") else "")
            out.append(f"| {r['what']} | {r['method']} | {shown} | {spread} | {ratio} | {_facts(r)} |")
    return "\n".join(out) + "\n"


COLOURS = {
    "dalembert": "#c1272d", "dalembert order 4": "#c1272d", "dalembert order 6": "#7f0d14",
    "dalembert plain": "#e79a9d", "dalembert at 1e-10": "#d9666b",
    "dalembert plain at 1e-10": "#e79a9d", "mujoco": "#1f77b4", "drake": "#2ca02c", "pinocchio": "#9467bd",
    "exudyn": "#ff7f0e", "dart": "#8c564b", "bullet": "#7f7f7f",
}  # fmt: skip


def figure(results: dict[str, Any], path: Path) -> None:
    """Work and precision of pendulum and lift, and time per step against the number of links."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    fig, axes = plt.subplots(2, 2, figsize=(11, 10), layout="constrained")
    markers = "osd^vP*XDh<>"

    def curve(axis: Any, what: str, x: str, title: str) -> None:
        rows = [r for r in results["rows"] if r["what"] == what and not r.get("recorded")]
        methods = list(dict.fromkeys(r["method"] for r in rows))
        # of Gauss steps with two tolerances the one that users would take; below 1e-13 is rounding
        for i, method in enumerate(m for m in methods if f"{m} loose" not in methods):
            points = [r for r in rows if r["method"] == method and 1e-13 < (r.get("error") or math.nan) < math.inf]
            if not points:
                continue
            colour = "#c2007a" if "gauss" in method else COLOURS.get(method, COLOURS.get(points[0]["tool"], "black"))
            points.sort(key=lambda r: r["median"])
            main = method == "dalembert" or "order" in method or "gauss" in method
            axis.loglog(
                [r["median"] * (1e-3 if r["unit"] == "ms" else 1) for r in points], [r["error"] for r in points],
                marker=markers[i % len(markers)], ms=6 if main else 4, lw=2.2 if main else 1, color=colour, label=method.removesuffix(" loose"),
                ls="-" if main or "RK" in method else "--", zorder=3 if main else 2,
            )  # fmt: skip
        axis.set(xlabel=x, ylabel="largest error (rad)", title=title)
        axis.grid(alpha=0.25)
        if axis.lines:
            axis.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))

    curve(axes[0, 0], "error at t = 1 s, N = 2", "CPU time (s)", "two-link pendulum, 1 s")
    curve(axes[0, 1], "error at t = 1 s, N = 8", "CPU time (s)", "eight-link pendulum, 1 s")
    curve(axes[1, 0], "10 s, 5 segments", "CPU time (s)", "scissor lift, five segments, 10 s")

    axis = axes[1, 1]
    rows = [r for r in results["rows"] if r["what"].startswith("step, N = ")]
    for i, method in enumerate(dict.fromkeys(r["method"] for r in rows)):
        points = [
            (int(r["what"].split("=")[1]), r["median"])
            for r in rows
            if r["method"] == method and math.isfinite(r["median"])
        ]
        tool = next(r["tool"] for r in rows if r["method"] == method)
        main = method == "dalembert"
        axis.loglog(
            *zip(*points, strict=True), marker=markers[i % len(markers)], ms=6 if main else 4, lw=2.2 if main else 1,
            color=COLOURS.get(method, COLOURS.get(tool, "black")), label=method, ls="-" if main or "RK" in method else "--",
        )  # fmt: skip
    axis.set(xlabel="links", ylabel="time per step (µs)", title="N-link pendulum, dt = 0.01 s")
    axis.set_xticks([1, 2, 4, 8, 16, 32, 64, 128], labels=["1", "2", "4", "8", "16", "32", "64", "128"])
    axis.grid(alpha=0.25)
    axis.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    fig.savefig(path, dpi=130)
    plt.close(fig)


def write(results: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "results.md").write_text(markdown(results))
    if any(r["what"].startswith("step, N = ") for r in results["rows"]):
        figure(results, folder / "work_precision.png")
