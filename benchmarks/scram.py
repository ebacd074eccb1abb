"""Fault trees beside SCRAM: the models that SCRAM's own package brings, from the file to the exact top probability.

Run by hand: ``python benchmarks/scram.py FOLDER`` with the folder of SCRAM's inputs (/usr/share/scram/input where
Debian puts them) and ``scram`` on PATH. SCRAM compiles a BDD and lists only cut sets of one event (``--limit-order
1``), so that listing costs nothing. Seconds are those of the processor: SCRAM's of its whole process, ours of reading
and solving in a process that has started. Writes results/scram.csv.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from sharpdnf import faulttree
from sharpdnf.errors import SharpDNFError

MISSION = 8760.0
SECONDS = 60.0
MODELS = {
    "BSCU": ["BSCU/BSCU.xml"],
    "baobab1": ["Baobab/baobab1.xml", "Baobab/baobab1-basic-events.xml"],
    "baobab2": ["Baobab/baobab2.xml", "Baobab/baobab2-basic-events.xml"],
    "CEA9601": ["CEA9601/CEA9601.xml", "CEA9601/CEA9601-basic-events.xml"],
    "chinese": ["Chinese/chinese.xml", "Chinese/chinese-basic-events.xml"],
    "HIPPS": ["HIPPS/HIPPS.xml"],
    "lift": ["Lift/lift.xml"],
    "SmallTree": ["SmallTree/SmallTree.xml"],
    "theatre": ["Theatre/theatre.xml"],
    "three_motor": ["ThreeMotor/three_motor.xml"],
    "two_train": ["TwoTrain/two_train.xml"],
    "ne574": ["ne574/ne574.xml"],
}


def together(files: list[Path], out: Path) -> Path:
    """One file with what several say: our reader takes one."""
    first, *others = (ET.parse(file).getroot() for file in files)
    for other in others:
        first.extend(list(other))
    ET.ElementTree(first).write(out)
    return out


def by_scram(files: list[Path], report: Path) -> tuple[dict[str, float], float | None]:
    """(probability of every top, processor seconds, None where the limit came first)."""
    command = ["scram", "--bdd", "--probability", "1", "--limit-order", "1", "--mission-time", str(MISSION)]
    before = os.times()
    try:
        subprocess.run(
            [*command, "-o", str(report), *map(str, files)], check=True, capture_output=True, timeout=SECONDS
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return {}, None
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    found = re.findall(r'<sum-of-products name="([^"]+)"[^>]* probability="([^"]+)"', report.read_text())
    return {name: float(value) for name, value in found}, spent


def by_us(file: Path) -> tuple[dict[str, float | None], float]:
    """(probability of every top, None where it was not exact in time; processor seconds)."""
    start = time.process_time()
    tree = faulttree.read(file)
    found: dict[str, float | None] = {}
    for top in tree.tops:
        answer = tree.probability(top, MISSION, guarantee="exact", timeout=SECONDS)
        found[top] = answer.prob if answer.met else None
    return found, time.process_time() - start


def main(folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as made,
        (Path(__file__).parent / "results" / "scram.csv").open("w", newline="") as out,
    ):
        table = csv.writer(out)
        table.writerow(["model", "top", "scram", "ours", "scram_seconds", "ours_alone_seconds"])
        for name, parts in MODELS.items():
            files = [folder / part for part in parts]
            theirs, their_seconds = by_scram(files, Path(made) / "report.xml")
            try:
                ours, our_seconds = by_us(together(files, Path(made) / "model.xml"))
            except SharpDNFError as error:
                print(name, error)
                ours, our_seconds = {}, float("nan")
            shown = "not in time" if their_seconds is None else f"{their_seconds:.2f}"
            for top in {*theirs, *ours} or {""}:
                row = [name, top, theirs.get(top, ""), ours.get(top, ""), shown, f"{our_seconds:.3f}"]
                print(*row, sep="\t", flush=True)
                table.writerow(row)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
