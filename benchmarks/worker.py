"""A process that holds one tool: reads requests as JSON lines, builds and runs cases, answers with CPU seconds.

Tools live in separate processes because their libraries do not get along in one, and a crash must not end the run.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

import numpy as np


def plain(x: Any) -> Any:
    """Something that JSON can say."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if isinstance(x, np.ndarray):
        return x.tolist()
    if isinstance(x, np.generic):
        return x.item()
    return x


def sample(case: Any, least: float, *, wall: bool) -> tuple[float, Any]:
    """Seconds per run, over as many runs as fill `least` seconds, and what the last run returned.

    Cases that time themselves choose their own number of repeats and run once.
    """
    clock = time.perf_counter if wall else time.process_time
    gc.collect()
    gc.disable()
    try:
        runs, spent = 0, 0.0
        while True:
            begun = clock()
            out = case.run()
            spent += clock() - begun
            runs += 1
            if isinstance(out, dict) and "seconds" in out:
                return float(out["seconds"]), out
            if spent >= least or runs >= 1000:
                break
        return spent / runs, out
    finally:
        gc.enable()


def main() -> None:
    # whatever a library prints must not end up among the answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module = importlib.import_module(f"benchmarks.tools.{sys.argv[1]}")
    cases: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "version":
                answer = {"version": module.version()}
            else:
                if request.get("cores"):
                    os.sched_setaffinity(0, request["cores"])
                key = json.dumps([request["case"], request["args"]])
                if key not in cases:
                    cases.clear()  # one at a time: big ones would crowd the cache
                    cases[key] = getattr(module, request["case"])(**request["args"])
                    if request.get("warm", True):
                        cases[key].run()
                seconds, out = sample(cases[key], request["least"], wall=request.get("wall", False))
                read = cases[key].read
                answer = {"seconds": seconds, "result": read(out) if read and request["read"] else {}}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        answers.write(json.dumps(plain(answer)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
