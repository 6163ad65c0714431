"""`python -m benchmarks`: measure what is installed, write results.json, results.md and work_precision.png.

python -m benchmarks                      all scenarios (about ten minutes)
python -m benchmarks --only scissor ekf   some of them
python -m benchmarks --quick              tiny sizes, one sample each: does everything run?
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from . import report
from .harness import TOOLS, Bench
from .scenarios import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS), help="scenarios to run")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="tools to measure")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one sample each")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    options = parser.parse_args()

    load = os.getloadavg()[0]
    bench = Bench(quick=options.quick, tools=options.tools)
    try:
        for tool, version in bench.versions.items():
            print(f"{tool}: {version}")
        for tool, reason in bench.absent.items():
            print(f"{tool}: absent ({reason})")
        for name in options.only:
            begun = time.perf_counter()
            SCENARIOS[name](bench)
            print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    except KeyboardInterrupt:
        print("stopped; what was measured is written", file=sys.stderr)
    finally:
        bench.close()
    results = report.data(bench, (load, os.getloadavg()[0]))
    report.write(results, options.out)
    print()
    for claim in bench.claims:
        mark = "pass" if claim["passed"] else "FAIL"
        note = f" ({claim['note']})" if claim["note"] else ""
        print(f"{mark}  {claim['claim']}: {claim['value']:.3g}, target {claim['target']}{note}")
    print(f"\nresults: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
