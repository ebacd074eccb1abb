"""The paper's sets of formulas: what example i of each set is, rebuilt alone from (seed, set, i).

Table 1 gives the training sizes; every valid (width, clauses) setting of a size is represented equally, half of the
formulas have privileged variables, and each has four distributions. The structure test set has 13,080 formulas of the
same composition, as have ``fully-privileged`` and ``uniform``; the size sets have one distribution per formula, 12 and
4 formulas per setting. ``structure-code`` and ``size-code`` are the same, drawn as by the authors' program.

``joins``, ``networks``, ``fault-trees`` and ``lineage`` are not the paper's (``outside.py``): 200 formulas each, of all
sizes.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from itertools import accumulate
from typing import cast

from sharpdnf.dnf import DNF
from sharpdnf.generate import PaperSpec, UniformSpec, Variant, paper, quarter_shifts, settings, uniform
from sharpdnf.paper.outside import OUTSIDE
from sharpdnf.streams import Stream, random_stream

TRAINING_SIZES = {50: 30_000, 100: 20_000, 250: 16_000, 500: 12_000, 750: 10_000, 1000: 8_000, 2500: 6_000, 5000: 3_000}
"""Table 1: formulas by number of variables. The rows sum to 105,000; the text says 100K."""
STRUCTURE_SIZES = {n: round(13_080 * count / 105_000) for n, count in TRAINING_SIZES.items()}
SETS: dict[str, dict[int, int]] = {
    "train": TRAINING_SIZES,
    "structure": STRUCTURE_SIZES,
    "size-10000": {10_000: 348},
    "size-15000": {15_000: 116},
    "fully-privileged": STRUCTURE_SIZES,
    "uniform": STRUCTURE_SIZES,
    "structure-code": STRUCTURE_SIZES,
    "size-code": {10_000: 348, 15_000: 116},
}
OUTSIDE_SIZE = 200
SPLITS = {name: number for number, name in enumerate([*SETS, *OUTSIDE])}


@dataclass(frozen=True, slots=True)
class SetMember:
    """One formula of a set under one of its distributions."""

    set: str
    index: int
    shift: int
    num_vars: int
    num_clauses: int
    width: int
    family: str
    """How its variables are chosen: "plain", "privileged" or "uniform"; "outside" if it is of another family."""


def num_distributions(name: str) -> int:
    return 1 if name.startswith("size-") else 4


def member(name: str, index: int, shift: int, seed: int = 0) -> SetMember:
    """What example ``index`` of a set is, without drawing it."""
    if name in OUTSIDE:
        if not 0 <= index < OUTSIDE_SIZE:
            raise IndexError(f"formula {index} of {OUTSIDE_SIZE} in set {name!r}")
        dnf = _draw_outside(name, index, seed)
        return SetMember(name, index, 0, dnf.num_vars, dnf.num_clauses, int(dnf.widths.max()), "outside")
    sizes = SETS[name]
    ends = list(accumulate(sizes.values()))
    if not 0 <= index < ends[-1]:
        raise IndexError(f"formula {index} of {ends[-1]} in set {name!r}")
    place = bisect.bisect_right(ends, index)
    n = list(sizes)[place]
    valid = settings(n)
    # Settings take turns, so that any first part of a size is stratified by setting.
    width, num_clauses = valid[(index - (ends[place] - sizes[n])) % len(valid)]
    family = "plain"
    if name == "uniform":
        family = "uniform"
    elif name == "fully-privileged" or random_stream(seed, Stream.SET_FAMILY, SPLITS[name], index).integers(2):
        family = "privileged"
    return SetMember(name, index, shift, n, num_clauses, width, family)


def _draw_outside(name: str, index: int, seed: int) -> DNF:
    return OUTSIDE[name](random_stream(seed, Stream.SET_FORMULA, SPLITS[name], index))


def draw(what: SetMember, seed: int = 0, variant: str = "text") -> DNF:
    """The formula of a member: pure in (seed, set, index, shift)."""
    if what.set in OUTSIDE:
        return _draw_outside(what.set, what.index, seed)
    rng = random_stream(seed, Stream.SET_FORMULA, SPLITS[what.set], what.index)
    if what.family == "uniform":
        dnf = uniform(UniformSpec(what.num_vars, what.num_clauses, what.width), rng)
    else:
        privileged = what.family == "privileged"
        chosen = "code" if what.set.endswith("-code") else variant
        spec = PaperSpec(what.num_vars, what.num_clauses, what.width, privileged, cast(Variant, chosen))
        dnf = paper(spec, rng)
    return quarter_shifts(dnf)[what.shift]


def subset(name: str, size: int | None, seed: int = 0) -> list[SetMember]:
    """``size`` examples stratified by number of variables and setting, one distribution each; None for the whole set.

    The strata keep the set's proportions. Taking one distribution per formula keeps the examples independent.
    """
    if name in OUTSIDE:
        return [member(name, i, 0, seed) for i in range(OUTSIDE_SIZE if size is None else min(size, OUTSIDE_SIZE))]
    sizes, shifts = SETS[name], num_distributions(name)
    total = sum(sizes.values())
    if size is None or size >= total * shifts:
        return [member(name, i, shift, seed) for i in range(total) for shift in range(shifts)]
    out, start = [], 0
    for n, count in sizes.items():
        taken, turn = min(count, max(1, round(size * count / total))), len(settings(n))
        for j in range(taken):
            # A turn of settings has 23 or 29, both prime. Steps of 12 visit each once a turn, neighbours far apart,
            # so that also a part of a turn has narrow and wide clauses.
            first = j - j % turn
            place = first + 12 * j % turn if first + turn <= count else j
            out.append(member(name, start + place, place % shifts, seed))
        start += count
    return out
