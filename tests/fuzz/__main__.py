"""Runs the targets in turn until the time is up; every finding is printed with the seed that repeats it."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import secrets
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
TARGETS = ("text", "calls", "engines", "fronts", "queries", "wide", "expressions")


@dataclass
class Tally:
    seeds: int = 0
    cases: int = 0
    refused: int = 0
    found: int = 0


def keep(target: str, case: Any, error: BaseException) -> Path:
    """Writes a finding into the corpus, under a name that is made of its content."""
    name = hashlib.sha256(json.dumps([target, case]).encode()).hexdigest()[:12]
    path = CORPUS / f"{target}-{name}.json"
    words = f"{type(error).__name__}: {error}"[:500]
    path.write_text(json.dumps({"target": target, "was": words, "case": case}, indent=1) + "\n")
    return path


def run_seed(name: str, target: ModuleType, seed: int, tally: Tally) -> None:
    tally.seeds += 1
    for case in target.cases(seed):
        tally.cases += 1
        try:
            tally.refused += target.check(case) is False
        except Exception as error:  # whatever it is, it is a finding
            tally.found += 1
            traceback.print_exc()
            print(f"{name}: found with --seed {seed}, kept as {keep(name, case, error)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="target", help=f"some of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, for all targets together")
    parser.add_argument("--seed", type=int, help="the first seed; the next ones follow it")
    parser.add_argument("--seeds", type=int, help="how many seeds a target gets at the most; 1 repeats a finding")
    asked = parser.parse_args()
    names = asked.targets or TARGETS
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no target is called {', '.join(sorted(unknown))}")
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    print(f"seeds from {seed} on", flush=True)
    tallies = {}
    began = time.monotonic()
    for i, name in enumerate(names):
        target, tally = importlib.import_module(f"fuzz.{name}"), Tally()
        until = began + asked.seconds * (i + 1) / len(names)
        while tally.seeds < (asked.seeds or sys.maxsize) and (tally.seeds == 0 or time.monotonic() < until):
            run_seed(name, target, seed + tally.seeds, tally)
        print(f"{name}: {tally.cases} cases of {tally.seeds} seeds, {tally.refused} refused, {tally.found} found",
              flush=True)  # fmt: skip
        tallies[name] = tally
    return int(any(tally.found for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
