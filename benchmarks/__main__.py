"""`python -m benchmarks`: measure what is installed, write results.json, results.md and work_precision.png.

python -m benchmarks                      all scenarios (about ten minutes)
python -m benchmarks --only scissor ekf   some of them
python -m benchmarks --quick              tiny sizes, one sample each: does everything run?
python -m benchmarks --against main       is the working tree slower than a revision? (only dalembert; see against.py)
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from . import against, lines, report
from .harness import TOOLS, Bench
from .scenarios import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="scenarios to run; with --against: parts of the names of its lines")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="tools to measure")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one sample each")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    revision = parser.add_argument_group("comparison with a revision")
    revision.add_argument(
        "--against", metavar="REF", help="build REF and the working tree, print the ratios of their times"
    )
    revision.add_argument("--rounds", type=int, default=60, help="pairs of samples per line (60)")
    revision.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured")
    revision.add_argument("--cache", type=Path, default=against.ROOT / "build" / "against", help="folder of the builds")
    revision.add_argument(
        "--unjudged", action="store_true", help="simulate without the checks of steps, where they are"
    )
    revision.add_argument("--list", action="store_true", help="print the names of the lines")
    options = parser.parse_args()
    if options.list:
        print("\n".join(lines.lines()))
        return 0
    if options.against:
        if options.unjudged:
            os.environ[lines.UNJUDGED] = "1"
        if options.rounds < 1:
            parser.error("--rounds must be at least 1")
        return against.main(
            options.against, only=options.only, rounds=options.rounds, out=options.json, cache=options.cache
        )
    chosen = options.only or list(SCENARIOS)
    if unknown := [name for name in chosen if name not in SCENARIOS]:
        parser.error(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")

    load = os.getloadavg()[0]
    bench = Bench(quick=options.quick, tools=options.tools)
    try:
        for tool, version in bench.versions.items():
            print(f"{tool}: {version}")
        for tool, reason in bench.absent.items():
            print(f"{tool}: absent ({reason})")
        for name in chosen:
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
