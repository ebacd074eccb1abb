"""Fault trees with too many cut sets to list: exact probability, cut sets and importance, with error and time.

Run by hand. "Nested k of n": k of n parts fail, each of which fails if k of its own parts do, and so on; its chance is
a recursion, so the error is known. "Shared" trees let neighbours share one event in each group. Processor seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from sharpdnf import faulttree
from sharpdnf.errors import LimitError

SHAPES = [(2, 5, 3, 0.1), (2, 5, 4, 0.1), (3, 6, 3, 0.2), (2, 3, 7, 0.2), (4, 8, 3, 0.3)]


def nested(k: int, n: int, depth: int, p: float, shared: bool) -> str:
    """The tree as Aralia text."""
    below = [f"e{i}" for i in range(n**depth)]
    lines = [f"p({name}) = {p}" for name in below]
    for level in range(depth):
        above = [f"g{level}_{i}" for i in range(len(below) // n)]
        for i, name in enumerate(above):
            group = below[i * n : (i + 1) * n]
            if shared and level == 0:
                group[-1] = below[((i + 1) % len(above)) * n]  # the first of the next group
            lines.append(f"{name} := @({k}, [{', '.join(group)}])")
        below = above
    return "\n".join(lines)


def by_recursion(k: int, n: int, depth: int, p: float) -> float:
    for _ in range(depth):
        p = math.fsum(math.comb(n, j) * p**j * (1.0 - p) ** (n - j) for j in range(k, n + 1))
    return p


def timed(question: Callable[[], object]) -> tuple[object, float]:
    started = time.process_time()
    try:
        answer = question()
    except LimitError:
        answer = None
    return answer, time.process_time() - started


def main() -> None:
    print(
        f"{'tree':<34}{'events':>7}{'P(top)':>13}{'rel. error':>12}{'s':>7}{'cut sets':>13}{'s':>7}{'importance s':>14}"
    )
    for k, n, depth, p in SHAPES:
        for shared in (False, True):
            tree = faulttree.reads(nested(k, n, depth, p, shared))
            found, seconds = timed(lambda tree=tree: tree.probability(timeout=60))  # type: ignore[misc]
            sets, cut_seconds = timed(lambda tree=tree: tree.cut_sets(limit=0, timeout=60))  # type: ignore[misc]
            table, importance = timed(lambda tree=tree: tree.importance(timeout=60))  # type: ignore[misc]
            assert found is not None
            error = "" if shared else f"{abs(found.prob / by_recursion(k, n, depth, p) - 1.0):.1e}"  # type: ignore[attr-defined]
            total = "-" if sets is None else f"{float(sets.total):.3g}"  # type: ignore[attr-defined]
            name = f"nested {k} of {n}, depth {depth}{', shared' if shared else ''}"
            prob = f"{found.prob:.6g}" if found.met else "not met"  # type: ignore[attr-defined]
            shown = f"{importance:.2f}" if table is not None else "-"
            print(
                f"{name:<34}{n**depth:>7}{prob:>13}{error:>12}{seconds:>7.2f}{total:>13}{cut_seconds:>7.2f}{shown:>14}"
            )


if __name__ == "__main__":
    main()
