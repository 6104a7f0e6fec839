"""python -m benchmarks: every benchmark in a process of its own, one after the other, and one table of what came out.

A benchmark is a package here with a `__main__`: it takes `--quick` where it has a smaller size, ends with 0 where its
goals are met, and its last line of output says what it found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """How one benchmark ended."""

    name: str
    met: bool
    seconds: float
    said: str


def names() -> list[str]:
    """The benchmarks there are."""
    return sorted(path.parent.name for path in HERE.glob("*/__main__.py"))


def run(name: str, arguments: Sequence[str]) -> Outcome:
    """Run one, showing its output as it comes."""
    began, last = time.monotonic(), ""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
            last = line.strip() or last
    return Outcome(name, process.returncode == 0, time.monotonic() - began, last)


def takes_quick(name: str) -> bool:
    """Whether a benchmark has a smaller size."""
    return '"--quick"' in (HERE / name / "__main__.py").read_text()


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes, for a person."""
    rows = [("benchmark", "goals", "seconds", "in its own words")]
    rows += [(o.name, "met" if o.met else "MISSED", f"{o.seconds:.0f}", o.said) for o in outcomes]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(names())} (default: all)")
    parser.add_argument("--quick", action="store_true", help="the smaller size of those that have one")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in names()]:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(names())}")
    outcomes = []
    for name in options.names or names():
        print(f"{name}:", flush=True)
        outcomes.append(run(name, ["--quick"] if options.quick and takes_quick(name) else []))
    print(f"\n{table(outcomes)}")
    return 0 if all(outcome.met for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
