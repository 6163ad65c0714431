"""`python -m benchmarks --against REF`: is the working tree slower than a revision?

Both are built with the same compiler and options, each runs in a process of its own, both on one core, and short rounds alternate
between them, so that a busy machine disturbs both alike. Every line has the ratio new/old of CPU times with its quartiles, and a
verdict: slower or faster when the median of the ratio is beyond the limit with 95 % confidence, in every start of the processes.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import select
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import lines

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 0.03  # what counts as a change
SAMPLE, TRIES = 1e-3, 4  # seconds of a sample, and of how many the quickest counts
STARTS = 3  # fresh processes: addresses differ from start to start, and with them the speed


# ---- building


def levels() -> str:
    """The best instruction set of this processor, by the names of CMakeLists.txt; one is enough to compare."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split())
    except (OSError, IndexError):
        return "v2"
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return "v4"
    return "v3" if {"avx2", "fma", "bmi2"} <= flags else "v2"


def _run(command: list[str], **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise SystemExit(f"{' '.join(command[:4])} ... failed:\n{tail}")
    return done.stdout.strip()


def commit(ref: str) -> str:
    """The hash of a revision."""
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{ref!r} is not a revision of this repository")
    return done.stdout.strip()


def _compiler() -> str:
    return os.environ.get("CXX") or shutil.which("c++") or "c++"


def _compile(source: Path, folder: Path, level: str) -> Path:
    """Build the core of a source tree and put the package with it into folder/package; returns that folder."""
    options = [
        "-DCMAKE_BUILD_TYPE=Release", f"-DDALEMBERT_LEVELS={level}", f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_CXX_COMPILER={_compiler()}",
    ]  # fmt: skip
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    build = folder / "build"
    _run(["cmake", "-S", str(source), "-B", str(build), *options])
    _run(["cmake", "--build", str(build), "--target", "_core", "--parallel", str(os.cpu_count() or 1)])
    package = folder / "package"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "_core*")
    shutil.copytree(source / "src" / "dalembert", package / "dalembert", ignore=ignored)
    for module in build.glob("_core*.so"):
        shutil.copy2(module, package / "dalembert")
    return package


def build(ref: str | None, cache: Path, say: Callable[[str], None] = print) -> Path:
    """The folder with the package of a revision (None: the working tree), built if it is not there yet."""
    version = _run([_compiler(), "--version"]).splitlines()[0]
    level = levels()
    kit = hashlib.sha256(f"{version} {level} {sys.version}".encode()).hexdigest()[:6]
    if ref is None:
        say(f"building the working tree ({version}, {level})")
        return _compile(ROOT, cache / f"tree-{kit}", level)
    sha = commit(ref)
    folder = cache / f"{sha[:12]}-{kit}"
    if (folder / "complete").exists():
        return folder / "package"
    say(f"building {ref} = {sha[:12]} ({version}, {level})")
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", sha], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")
    package = _compile(source, folder, level)
    (folder / "complete").touch()
    return package


# ---- measuring


class Side:
    """A revision in a process of its own."""

    def __init__(self, package: Path, timeout: float = 120.0, script: str | Path = lines.__file__) -> None:
        self.package, self.timeout, self.script = package, timeout, script
        self.process: subprocess.Popen[str] | None = None

    def ask(self, **request: Any) -> Any:
        if self.process is None:
            one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
            env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(self.script), str(self.package)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**env, **one},
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
            answer = self.process.stdout.readline() if ready else ""
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.close()
            raise RuntimeError(f"the process ended, or gave no answer within {self.timeout:g} s")
        out = json.loads(answer)
        if isinstance(out, dict) and "error" in out:
            raise RuntimeError(out["error"])
        return out

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Line:
    """One measured thing: seconds (old, new) of every round, one list per start."""

    name: str
    way: str = ""
    problem: str = ""
    starts: list[list[tuple[float, float]]] = field(default_factory=list)

    @property
    def rounds(self) -> np.ndarray:
        """(rounds, 2) seconds of old and new."""
        return np.array([pair for start in self.starts for pair in start]).reshape(-1, 2)

    @property
    def ratios(self) -> np.ndarray:
        return self.rounds[:, 1] / self.rounds[:, 0]

    def summary(self) -> dict[str, Any]:
        """Everything the table says."""
        if not len(self.rounds):
            return {"line": self.name, "verdict": "not comparable", "problem": self.problem}
        low, middle, high = (float(x) for x in np.percentile(self.ratios, [25, 50, 75]))
        sure = interval(self.ratios)
        medians = [float(np.median([b / a for a, b in start])) for start in self.starts]
        old, new = (float(x) for x in np.median(self.rounds, axis=0))
        return {
            "line": self.name, "way": self.way, "old": old, "new": new, "ratio": middle, "quartiles": [low, high],
            "interval": list(sure), "starts": medians, "rounds": len(self.rounds), "verdict": verdict(sure, medians),
        }  # fmt: skip


def interval(ratios: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of the median by order statistics: no assumption about how the noise is spread."""
    x, n = np.sort(ratios), len(ratios)
    mass, k = 0.0, 0  # the most that may be cut off at either end
    while k < n // 2 and (mass := mass + math.comb(n, k) / 2.0**n) <= (1 - confidence) / 2:
        k += 1
    k = max(k - 1, 0)
    return float(x[k]), float(x[n - 1 - k])


def verdict(sure: tuple[float, float], medians: Iterable[float]) -> str:
    """slower, faster, same; or unclear when the noise hides a change of the size that matters."""
    starts = list(medians)
    if sure[0] > 1 + LIMIT and min(starts) > 1 + LIMIT:
        return "slower"
    if sure[1] < 1 - LIMIT and max(starts) < 1 - LIMIT:
        return "faster"
    return "same" if sure[1] <= 1 + LIMIT and sure[0] >= 1 - LIMIT else "unclear"


def _way(sides: tuple[Side, Side], name: str) -> str:
    """The first way that both know."""
    known = []
    for label, side in zip(("old", "new"), sides, strict=True):
        try:
            known.append(side.ask(do="ways", line=name))
        except RuntimeError as error:
            raise RuntimeError(f"{label}: {error}") from None
    for way in known[0]:
        if not known[0][way] and not known[1][way]:
            return str(way)
    preferred = next(iter(known[0]))
    reasons = [answer[preferred] or "runs" for answer in known]
    raise RuntimeError(f"old: {reasons[0]}; new: {reasons[1]}")


def _measure(sides: tuple[Side, Side], line: Line, rounds: int) -> None:
    """One start's rounds of a line."""
    way = _way(sides, line.name)
    line.way = way

    def seconds(side: Side, repeats: int, tries: int) -> float:
        """CPU seconds of one repeat."""
        return float(side.ask(do="run", line=line.name, way=way, repeats=repeats, tries=tries))

    repeats, once = 1, seconds(sides[0], 1, 2)
    while repeats * once < SAMPLE / 2 and repeats < 1_000_000:
        repeats = min(max(2 * repeats, int(SAMPLE / max(once, 1e-9))), 1_000_000)
        once = seconds(sides[0], repeats, 2)
    tries = TRIES if once < 10 * SAMPLE else 1
    rounds = max(min(rounds, int(1.0 / (tries * repeats * once))), min(rounds, 5))  # a second for the longest lines
    pairs = []
    for turn in range(rounds):
        spent = [0.0, 0.0]
        for i in (turn % 2, 1 - turn % 2):
            spent[i] = seconds(sides[i], repeats, tries)
        pairs.append((spent[0], spent[1]))
    line.starts.append(pairs)
    for side in sides:
        side.ask(do="drop")


def compare(
    old: Path, new: Path, *, only: list[str] | None = None, rounds: int = 60, say: Callable[[str], None] = print
) -> list[Line]:
    """Measure the lines whose names contain one of `only` in two packages (folders that hold `dalembert`)."""
    chosen = {name: Line(name) for name in lines.lines() if not only or any(part in name for part in only)}
    if not chosen:
        raise SystemExit(f"no line contains {' or '.join(only or [])}; --list shows them")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})  # the processes inherit it
    starts = min(STARTS, rounds)
    try:
        for start in range(starts):
            sides = Side(old), Side(new)
            share = rounds // starts + (start < rounds % starts)
            try:
                for line in chosen.values():
                    if line.problem:
                        continue
                    try:
                        _measure(sides, line, share)
                    except RuntimeError as error:
                        line.problem = str(error)
            finally:
                for side in sides:
                    side.close()
            if start + 1 < starts:
                say(f"start {start + 1} of {starts} done")
    finally:
        os.sched_setaffinity(0, cores)
    return list(chosen.values())


# ---- telling


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def table(found: list[Line]) -> str:
    """The lines as text, with a count of verdicts."""
    rows = [line.summary() for line in found]
    width = max(len(r["line"]) for r in rows)
    out = [f"{'':{width}}  {'old':>9} {'new':>9}  new/old  quartiles"]
    for r in rows:
        if "ratio" not in r:
            out.append(f"{r['line']:{width}}  not comparable ({r['problem']})")
            continue
        low, high = r["quartiles"]
        mark = {"slower": "  SLOWER", "faster": "  faster", "same": "", "unclear": "  unclear"}[r["verdict"]]
        way = f"  ({r['way']})" if r["way"] == "public call" else ""
        out.append(
            f"{r['line']:{width}}  {_time(r['old']):>9} {_time(r['new']):>9}  {r['ratio']:7.3f}  {low:.3f} {high:.3f}{mark}{way}"
        )
    verdicts = [r["verdict"] for r in rows]
    count = ", ".join(
        f"{verdicts.count(v)} {v}" for v in ("slower", "unclear", "same", "faster", "not comparable") if v in verdicts
    )
    return "\n".join([*out, "", f"{len(rows)} lines: {count}"])


def main(ref: str, *, only: list[str] | None, rounds: int, out: Path | None, cache: Path) -> int:
    """Build, measure, print; 1 when a line is slower."""
    old, new = build(ref, cache), build(None, cache)
    found = compare(old, new, only=only, rounds=rounds)
    print(table(found))
    if out is not None:
        facts = {"old": commit(ref), "new": _run(["git", "describe", "--always", "--dirty"], cwd=ROOT), "limit": LIMIT}
        rows = [{**line.summary(), "samples": asdict(line)["starts"]} for line in found]
        out.write_text(json.dumps({**facts, "lines": rows}, indent=1) + "\n")
    return int(any(line.summary()["verdict"] == "slower" for line in found))
