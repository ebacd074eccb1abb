"""Sampling on the shapes where it was weak: passes over the literals, and the error delivered.

Stars, gates, clauses that are nearly the same rare event, and the paper's family beside them, from about 100 to
100,000 literals. A pass is ``_native.clause_probs``, measured in turns with the sampling kernel at (0.1, 0.05) in the
same run, in processor seconds on one thread. Writes benchmarks/results/sampling_weak.csv and sampling_weak.md;
``--before FILE`` puts the passes of an earlier CSV beside its own.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from engines import commit, formula, in_turns, kernel_log_prob, machine, relative_error, sample_kernel

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.front import count

SIZES = (100, 1_000, 10_000, 100_000)
SEEDS = 20
COLUMNS = ("family", "literals", "clauses", "variables", "estimator", "passes", "microseconds", "draws", "mean_error")
ESTIMATORS = ("automatic", "direct", "coverage", "grouped")
Maker = Callable[[int, np.random.Generator], DNF]


def star(hub: float, leaf: float, hubs: int = 1) -> Maker:
    """Each hub with every leaf: clauses of two literals."""

    def make(literals: int, rng: np.random.Generator) -> DNF:
        leaves = max(2, literals // (2 * hubs))
        clauses = [[h + 1, hubs + v + 1] for h in range(hubs) for v in range(leaves)]
        mean = leaf if leaf < 1 else leaf / leaves
        prob = np.r_[np.full(hubs, hub), rng.uniform(0.5, 1.5, leaves) * mean]
        return DNF.from_clauses(clauses, np.minimum(prob, 0.99))

    return make


def gates(fan: int, depth: int, prob: float, rare: float = 1.0) -> Maker:
    """An OR of products of ``depth`` ORs of ``fan`` variables each, written out; ``rare`` stands before all of it."""

    def make(literals: int, rng: np.random.Generator) -> DNF:
        width = depth + (rare < 1.0)
        products = max(1, literals // (width * fan**depth))
        clauses: list[list[int]] = []
        n = int(rare < 1.0)
        for _ in range(products):
            ors = [[n + fan * k + i + 1 for i in range(fan)] for k in range(depth)]
            clauses += [[*([1] if rare < 1.0 else []), *pick] for pick in itertools.product(*ors)]
            n += fan * depth
        inputs = np.clip(rng.uniform(0.8, 1.2, n) * prob, 0.0, 0.99)
        if rare < 1.0:
            inputs[0] = rare
        return DNF.from_clauses(clauses, inputs)

    return make


def near_equal(common: int, rarity: float, private: int, groups: int = 1, pool: int = 0) -> Maker:
    """Clauses that are a common rare conjunction and a few likely literals of their own.

    With ``groups`` there are several such conjunctions below one that all share; with ``pool`` they are drawn from that
    many variables, so that they overlap.
    """

    def make(literals: int, rng: np.random.Generator) -> DNF:
        width = common + private + (groups > 1)
        each = max(2, literals // (width * groups))
        shared = pool or groups * common
        clauses, n = [], 1 + shared
        for g in range(groups):
            picked = rng.choice(shared, common, replace=False) if pool else np.arange(g * common, (g + 1) * common)
            for _ in range(each):
                clauses.append(
                    [*([1] if groups > 1 else []), *(int(v) + 2 for v in picked), *range(n + 1, n + 1 + private)]
                )
                n += private
        prob = np.r_[0.01, np.full(shared, rarity), rng.uniform(0.7, 0.95, n - 1 - shared)]
        return DNF.from_clauses(clauses, prob)

    return make


def paper_formula(width: int, family: str) -> Maker:
    def make(literals: int, rng: np.random.Generator) -> DNF:
        return formula(max(6 * width, math.ceil(literals / (0.75 * width))), width, family, int(rng.integers(1000)))

    return make


MAKERS: dict[str, Maker] = {
    "star, likely leaves": star(0.01, 0.5),
    "star, rare leaves": star(0.3, 0.01),
    "star, rare hub, leaves of total 1": star(1e-9, 1.0),
    "stars, 10 hubs": star(0.05, 0.3, hubs=10),
    "stars, 30 rare hubs": star(1e-6, 0.5, hubs=30),
    "gates, 3 of 3, likely": gates(3, 3, 0.3),
    "gates, 2 of 4": gates(4, 2, 0.1),
    "gates, 5 of 2, unlikely": gates(2, 5, 0.05),
    "gates, 3 of 3 behind a rare one": gates(3, 3, 0.4, rare=1e-6),
    "gates, 6 of 2 behind a rare one": gates(2, 6, 0.6, rare=1e-4),
    "near-equal, one conjunction": near_equal(8, 0.1, 1),
    "near-equal, two literals of their own": near_equal(10, 0.01, 2),
    "near-equal, 10 nested": near_equal(5, 0.05, 1, groups=10),
    "near-equal, 100 nested": near_equal(5, 0.05, 2, groups=100),
    "near-equal, 20 overlapping": near_equal(6, 0.1, 1, groups=20, pool=40),
    "near-equal, far below the doubles": near_equal(10, 1e-40, 1),
    "paper, w = 3": paper_formula(3, "plain"),
    "paper, w = 13": paper_formula(13, "plain"),
    "paper, w = 13, privileged": paper_formula(13, "privileged"),
    "paper, w = 34": paper_formula(34, "plain"),
}


def measure(name: str, literals: int, repeats: int, *, errors: bool) -> dict[str, object]:
    dnf = MAKERS[name](literals, np.random.default_rng([literals, len(name)]))
    seeds = itertools.cycle(range(SEEDS))
    seconds = in_turns(
        {"pass": lambda: _native.clause_probs(*dnf.arrays), "sampling": lambda: sample_kernel(dnf, next(seeds))},
        repeats,
    )
    answers = [kernel_log_prob(dnf, seed) for seed in range(SEEDS if errors else 1)]
    error = math.nan
    if errors:
        reference = count(dnf, epsilon=0.005, delta=0.05, rng=99, threads=1, timeout=60.0).log_prob
        error = float(np.mean([relative_error(log_prob, reference) for _, log_prob in answers]))
    chosen = _native.sample(
        *dnf.arrays, seed=1, successes=1, max_draws=1, threads=1, seconds=math.inf, estimator=0, marginals=False
    ).estimator
    values = (name, dnf.num_literals, dnf.num_clauses, dnf.num_vars, ESTIMATORS[chosen])
    figures = (seconds["sampling"] / seconds["pass"], 1e6 * seconds["sampling"], answers[0][0], error)
    return dict(zip(COLUMNS, values + figures, strict=True))


def rows(families: list[str], sizes: list[int], repeats: int, *, errors: bool) -> Iterator[dict[str, object]]:
    for name in families:
        for literals in sizes:
            row = measure(name, literals, repeats, errors=errors)
            print(f"{name:38} {row['literals']:>8,} {row['estimator']:>9} {row['passes']:8.1f} passes", end="")
            print(
                f" {row['microseconds']:10.1f} us {row['draws']:>8,} draws  error {row['mean_error']:.4f}", flush=True
            )
            yield row


def report(found: list[dict[str, object]], before: dict[tuple[str, str], str]) -> str:
    lines = [
        "# Sampling where it was weak",
        "",
        f"Commit {commit()}, {machine()}. Made by `benchmarks/sampling_weak.py`. Passes over the literals at",
        f"(0.1, 0.05), and the mean relative error over {SEEDS} seeds. Passes before: an earlier commit, another run.",
        "",
        "| family | literals | estimator | passes before | passes | draws | mean error |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in found:
        was = before.get((str(r["family"]), str(r["literals"])), "-")
        lines.append(
            f"| {r['family']} | {r['literals']:,} | {r['estimator']} | {was} | {r['passes']:.0f} | {r['draws']:,} "
            f"| {r['mean_error']:.4f} |"
        )
    most = max(float(str(r["passes"])) for r in found)
    return "\n".join([*lines, "", f"At most {most:.0f} passes.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", help="only families whose name contains this")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="literals, about")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-errors", action="store_true", help="skip the reference counts")
    parser.add_argument("--before", type=Path, help="a CSV of an earlier commit to stand beside")
    parser.add_argument(
        "--out", type=Path, help="a directory for sampling_weak.csv and .md; nothing is written without"
    )
    options = parser.parse_args()
    families = [name for name in MAKERS if not options.family or any(part in name for part in options.family)]
    found = list(rows(families, options.sizes, options.repeats, errors=not options.no_errors))
    before: dict[tuple[str, str], str] = {}
    if options.before:
        with options.before.open(encoding="utf-8", newline="") as file:
            before = {(r["family"], r["literals"]): f"{float(r['passes']):.0f}" for r in csv.DictReader(file)}
    text = report(found, before)
    if options.out:
        with (options.out / "sampling_weak.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(found)
        (options.out / "sampling_weak.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
