"""Measuring: workers pinned to one core, interleaved rounds, medians with quartiles."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("dalembert", "mujoco", "drake", "pinocchio", "exudyn", "dart", "bullet", "crocoddyl", "casadi", "filterpy")


class Failed(Exception):
    """A tool that could not do what was asked; the message goes into the table."""


class Worker:
    """A tool in its own process, started when first needed."""

    def __init__(self, tool: str, timeout: float = 400.0) -> None:
        self.tool, self.timeout = tool, timeout
        self.process: subprocess.Popen[str] | None = None

    def ask(self, **request: Any) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
            path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", self.tool],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
                env={**os.environ, **one, "PYTHONPATH": path},
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
            line = self.process.stdout.readline() if ready else None
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise Failed(f"no answer within {self.timeout:g} s" if line is None else "the process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"].splitlines()[0][:300])
        return answer

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Entry:
    """One thing to measure: a case of a tool, under the name it has in the table."""

    tool: str
    label: str
    case: str
    args: dict[str, Any]
    samples: list[float] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @property
    def median(self) -> float:
        return float(np.median(self.samples)) if self.samples else float("nan")

    @property
    def quartiles(self) -> tuple[float, float]:
        if not self.samples:
            return float("nan"), float("nan")
        low, high = np.percentile(self.samples, [25, 75])
        return float(low), float(high)


class Bench:
    """All workers, what is installed, and the rows and claims collected so far."""

    def __init__(self, *, quick: bool = False, tools: Iterable[str] = TOOLS) -> None:
        self.quick = quick
        self.cores = sorted(os.sched_getaffinity(0))
        if not quick:
            os.sched_setaffinity(0, {self.cores[-1]})  # children inherit it
        self.workers = {tool: Worker(tool) for tool in tools}
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.rows: list[dict[str, Any]] = []
        self.claims: list[dict[str, Any]] = []
        for tool, worker in self.workers.items():
            try:
                self.versions[tool] = worker.ask(op="version")["version"]
            except Failed as reason:
                self.absent[tool] = str(reason)
                worker.close()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
        os.sched_setaffinity(0, set(self.cores))

    def has(self, tool: str) -> bool:
        return tool in self.versions

    def measure(
        self,
        entries: list[Entry],
        *,
        rounds: int = 5,
        least: float = 0.02,
        budget: float = 4.0,
        cores: int = 1,
        wall: bool = False,
        warm: bool = True,
    ) -> list[Entry]:
        """Rounds over all entries, each entry until it has `rounds` samples or has used `budget` seconds; tools that are
        absent or fail keep the reason. `cores` > 1 lifts the pinning (and then wall time is what counts)."""
        if self.quick:
            rounds, least, budget = 1, 0.0, 0.0
        entries = [e for e in entries if self.has(e.tool)]
        spent = {id(e): 0.0 for e in entries}
        for turn in range(rounds):
            for e in entries:
                if e.failure or (turn and spent[id(e)] > budget):
                    continue
                begun = time.perf_counter()
                try:
                    answer = self.workers[e.tool].ask(
                        op="run", case=e.case, args=e.args, least=least, read=turn == 0, wall=wall,
                        warm=warm and not self.quick, cores=self.cores if self.quick else self.cores[-cores:],
                    )  # fmt: skip
                except Failed as reason:
                    e.failure = str(reason)
                    continue
                spent[id(e)] += time.perf_counter() - begun
                e.samples.append(answer["seconds"])
                if turn == 0:
                    e.result = answer["result"]
        return entries

    def row(self, scenario: str, what: str, e: Entry, *, per: float = 1.0, unit: str = "s", **facts: Any) -> None:
        """Keep a measurement: its time divided by `per`, in the unit, with facts beside it."""
        scale = {"s": 1.0, "ms": 1e3, "us": 1e6, "x": 1.0}[unit] / per
        low, high = e.quartiles
        self.rows.append(
            {
                "scenario": scenario, "what": what, "tool": e.tool, "method": e.label, "unit": unit,
                "median": e.median * scale, "low": low * scale, "high": high * scale, "samples": len(e.samples),
                **({"failure": e.failure} if e.failure else {}), **facts,
            }
        )  # fmt: skip

    def recorded(self, scenario: str, what: str, tool: str, value: float, unit: str, note: str) -> None:
        """A figure from elsewhere, marked as such."""
        self.rows.append(
            {"scenario": scenario, "what": what, "tool": tool, "method": tool, "unit": unit, "median": value,
             "recorded": True, "note": note}
        )  # fmt: skip

    def claim(
        self, text: str, value: float, target: float, *, at_least: bool = True, unit: str = "x", note: str = ""
    ) -> None:
        """A target with its measured value; NaN counts as not shown."""
        passed = bool(value >= target if at_least else value <= target)
        sign = ">=" if at_least else "<="
        self.claims.append(
            {"claim": text, "value": value, "target": f"{sign} {target:g} {unit}".strip(), "unit": unit, "passed": passed,
             "shown": bool(np.isfinite(value) or np.isinf(value)), "note": note}
        )  # fmt: skip
