"""Families of random and structured formulas, each a pure function of its specification and a random generator.

``paper`` is the procedure of the appendix of Abboud, Ceylan and Lukasiewicz (AAAI 2020), ``uniform`` that of Meel,
Shrotri and Vardi (2018); ``hub`` has few variables in nearly all clauses. ``reliability`` and ``join`` are what users
meet: s-t paths of a network, and the lineage of the query R(x), S(x,y), T(y). All randomness comes from the ``rng``
handed in.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF, MAX_VARS, FloatArray, IntArray, LitArray
from sharpdnf.errors import InvalidFormula
from sharpdnf.privileged import draw_by_program, draw_privileged, slots_by_text

WIDTHS = (3, 5, 8, 13, 21, 34)
RATIOS = (0.25, 0.375, 0.5, 0.625, 0.75)
Variant = Literal["text", "number", "code"]
VARIANTS = get_args(Variant)
MAX_TRIES = 100_000
MAX_LITERALS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PaperSpec:
    """What the paper's generator is asked for.

    ``privileged`` is True, False or "random" (a fair coin, as in the paper's data). ``variant`` says whom to follow:
    "text" the printed appendix, "code" the authors' program in everything (``privileged.py``), "number" the appendix
    but for the number of privileged variables, which is the program's. ``placement`` says how emptier clauses are
    preferred, which the appendix leaves open: "weighted" draws clauses in proportion to their empty slots, "strict"
    always takes the emptiest ones; "code" has its own way.
    """

    num_vars: int
    """How many variables there are."""
    num_clauses: int
    """How many clauses there are."""
    width: int | tuple[int, int]
    """How many literals a clause has, or the range of that number."""
    privileged: bool | Literal["random"] = "random"
    """Whether some variables are privileged, which stand in many clauses."""
    variant: Variant = "text"
    """Whom to follow: the printed appendix, the authors' program in the number of privileged variables, or in all."""
    placement: Literal["weighted", "strict"] = "weighted"
    """How emptier clauses are preferred, unless the variant is "code"."""


@dataclass(frozen=True, slots=True)
class UniformSpec:
    """Clauses of ``width`` different variables, drawn uniformly."""

    num_vars: int
    """How many variables there are."""
    num_clauses: int
    """How many clauses there are."""
    width: int | tuple[int, int]
    """How many literals a clause has, or the range of that number."""


@dataclass(frozen=True, slots=True)
class HubSpec:
    """Clauses nearly all of which share one to ``max_hubs`` variables, each with one sign: the hubs.

    A hub stands in all clauses but at most three, or, as often, in a share of them that is uniform between
    ``least_share`` and 1. Its probability has the arcsine law, so that values near 0 and 1 are frequent.
    """

    num_vars: int
    """How many variables there are."""
    num_clauses: int
    """How many clauses there are."""
    width: int
    """How many literals a clause has."""
    max_hubs: int = 3
    """How many hubs there are at most."""
    least_share: float = 0.5
    """The smallest share of the clauses that a hub stands in."""


@dataclass(frozen=True, slots=True)
class ReliabilitySpec:
    """Are ``source`` and ``target`` connected? Variables are edges, clauses are the simple paths.

    Without ``edges`` the network is a grid of ``rows`` x ``cols`` nodes between opposite corners. An edge is (u, v)
    or (u, v, p), p a number or a mapping with the key "prob", as networkx lists them; edges without a probability
    get ``prob``, or a uniform one if that is None.
    """

    rows: int = 4
    """How many rows of nodes the grid has."""
    cols: int = 4
    """How many columns of nodes the grid has."""
    prob: float | None = None
    """The probability of edges that have none of their own; None for a uniform draw each."""
    edges: Sequence[tuple[Any, ...]] | None = None
    """The edges of the network; None for a grid."""
    source: Hashable = None
    """Where paths begin."""
    target: Hashable = None
    """Where paths end."""
    directed: bool = False
    """Whether edges lead one way."""
    max_paths: int = 1_000_000
    """How many simple paths are listed at most; more of them are an error."""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """Lineage of R(x), S(x,y), T(y): each pair (x, y) is in S with probability ``density``."""

    num_left: int = 20
    """How many rows R has."""
    num_right: int = 20
    """How many rows T has."""
    density: float = 0.2
    """The probability that a pair is in S."""
    prob: float | None = None
    """The probability of every row; None for a uniform draw each."""


def paper(spec: PaperSpec, rng: np.random.Generator) -> DNF:
    """A formula of the paper's family, under a uniformly random distribution."""
    n = spec.num_vars
    _check_choice("variant", spec.variant, VARIANTS)
    _check_choice("placement", spec.placement, ("weighted", "strict"))
    _check_choice("privileged", spec.privileged, (True, False, "random"))
    widths = _draw_widths(spec, rng)
    slots = int(widths.sum())
    if slots < n:
        raise InvalidFormula(f"{slots} literals are too few for each of {n} variables to appear: more or wider clauses")
    with_privileged = bool(rng.integers(2)) if spec.privileged == "random" else bool(spec.privileged)
    share = draw_privileged(n, spec.variant, rng) if with_privileged else 0.0
    if spec.variant == "code":
        found, num_privileged = draw_by_program(widths, n, share, MAX_TRIES, rng)
    else:
        num_privileged = math.ceil(share)
        own = slots_by_text(n, spec.num_clauses, slots, num_privileged) if with_privileged else 0
        strict = spec.placement == "strict"
        placed = _native.generate_paper(widths, n, num_privileged, own, strict, _draw_seed(rng), MAX_TRIES)
        found = placed.variables if placed.done else None
    if found is None:
        raise InvalidFormula(
            f"no formula with {n} variables and {spec.num_clauses} clauses of width {spec.width} in {MAX_TRIES} "
            "tries: almost every allocation gives some variable more slots than there are clauses; "
            "use more clauses, more variables or narrower clauses"
        )
    negated = rng.integers(2, size=slots, dtype=np.int8)
    sign_of_privileged = rng.integers(2, size=num_privileged, dtype=np.int8)
    is_privileged = found < num_privileged
    negated[is_privileged] = sign_of_privileged[found[is_privileged]]
    renamed = rng.permutation(n).astype(np.int32)[found]
    return _build(widths, 2 * renamed + negated, rng.random(n))


def quarter_shifts(dnf: DNF) -> list[DNF]:
    """The formula under its own distribution p and under p + 1/4, p + 1/2, p + 3/4 modulo 1."""
    return [dnf] + [dnf.with_prob((dnf.prob + j / 4) % 1.0) for j in (1, 2, 3)]


def settings(num_vars: int) -> list[tuple[int, int]]:
    """All valid (width, num_clauses) of the paper for n variables.

    Left out are w=3 with m=n/4, and as in the authors' code the settings where, by a Chernoff and union bound, some
    variable is likely to get more slots than there are clauses: n exp(-(m - mu)^2 / (3 mu)) >= 0.99, mu = m w / n.
    """
    valid = []
    for width in WIDTHS:
        for ratio in RATIOS:
            m = math.ceil(ratio * num_vars)
            mu = m * width / num_vars
            overflow = num_vars * math.exp(-((m - mu) ** 2) / (3 * mu))
            if (width, ratio) != (3, 0.25) and mu < m and overflow < 0.99:
                valid.append((width, m))
    return valid


def uniform(spec: UniformSpec, rng: np.random.Generator) -> DNF:
    """Clauses of different variables, drawn uniformly, with random signs and a uniformly random distribution."""
    widths = _draw_widths(spec, rng)
    variables = _native.generate_uniform(widths, spec.num_vars, _draw_seed(rng))
    negated = rng.integers(2, size=len(variables), dtype=np.int8)
    return _build(widths, 2 * variables + negated, rng.random(spec.num_vars))


def hub(spec: HubSpec, rng: np.random.Generator) -> DNF:
    """A formula that few variables nearly decide; the other variables of a clause are drawn uniformly."""
    if not isinstance(spec.width, int) or not isinstance(spec.max_hubs, int):
        raise InvalidFormula(f"width and max_hubs of a formula with hubs must be integers, not as in {spec}")
    widths = _draw_widths(spec, rng)
    n, m, most = spec.num_vars, spec.num_clauses, min(spec.max_hubs, spec.width - 1)
    if most < 1 or not 0.0 < spec.least_share <= 1.0 or n - most < spec.width:
        raise InvalidFormula(
            "a formula with hubs needs clauses of at least two variables, max_hubs + width variables or more, "
            f"and a least_share in (0, 1], not {spec}"
        )
    hubs = int(rng.integers(1, most, endpoint=True))
    stands = np.zeros((m, hubs), dtype=bool)
    for h in range(hubs):
        missing = int(rng.integers(4)) if rng.integers(2) else round(m * (1.0 - rng.uniform(spec.least_share, 1.0)))
        stands[rng.permutation(m)[min(missing, m - 1) :], h] = True
    rest = widths - stands.sum(axis=1)
    others = hubs + _native.generate_uniform(rest, n - hubs, _draw_seed(rng))
    clause_of_hub, hub_of_place = np.nonzero(stands)
    variables = np.concatenate([others, hub_of_place.astype(np.int32)])
    negated = rng.integers(2, size=len(variables), dtype=np.int8)
    negated[len(others) :] = rng.integers(2, size=hubs, dtype=np.int8)[hub_of_place]
    order = np.argsort(np.concatenate([np.repeat(np.arange(m), rest), clause_of_hub]), kind="stable")
    prob = rng.random(n)
    prob[:hubs] = rng.beta(0.5, 0.5, size=hubs)
    renamed = rng.permutation(n)
    shuffled = np.empty_like(prob)
    shuffled[renamed] = prob
    return _build(widths, (2 * renamed[variables] + negated)[order], shuffled)


def reliability(spec: ReliabilitySpec, rng: np.random.Generator) -> DNF:
    """The paths between two nodes of a network, one clause each; a formula without clauses if there is no path."""
    edges, source, target = _grid(spec.rows, spec.cols) if spec.edges is None else (spec.edges, None, None)
    source = spec.source if spec.source is not None else source
    target = spec.target if spec.target is not None else target
    given: list[float | None] = []
    node: dict[Hashable, int] = {}
    ends = np.zeros((len(edges), 2), dtype=np.int64)
    for i, edge in enumerate(edges):
        if not isinstance(edge, tuple | list) or not 2 <= len(edge) <= 3:
            raise InvalidFormula(f"edge {i} must be (u, v) or (u, v, p), not {edge!r}")
        if not all(isinstance(end, Hashable) for end in edge[:2]):
            raise InvalidFormula(f"edge {i} has an end that is not hashable: {edge!r}")
        ends[i] = [node.setdefault(end, len(node)) for end in edge[:2]]
        given.append(_edge_prob(edge[2], i) if len(edge) == 3 else None)
    for name, end in (("source", source), ("target", target)):
        if end not in node:
            raise InvalidFormula(f"{name} {end!r} is not an end of any edge")
    if source == target:
        raise InvalidFormula(f"source and target are the same node {source!r}")
    paths = _native.simple_paths(
        len(node), ends[:, 0].copy(), ends[:, 1].copy(), node[source], node[target], spec.directed, spec.max_paths
    )
    if not paths.complete:
        raise InvalidFormula(f"more than max_paths={spec.max_paths} simple paths: raise it, or take a smaller network")
    default = _default_probs(spec.prob, len(edges), rng)
    prob = np.array([default[i] if p is None else p for i, p in enumerate(given)], dtype=np.float64)
    names = tuple(f"edge[{edge[0]}:{edge[1]}]" for edge in edges)
    return DNF.from_arrays(paths.indptr, 2 * paths.edges, prob, names=names if len(set(names)) == len(names) else None)


def join(spec: JoinSpec, rng: np.random.Generator) -> DNF:
    """One clause R(x) S(x,y) T(y) per pair in S; variables are R's rows, then T's, then S's."""
    for name, size in (("num_left", spec.num_left), ("num_right", spec.num_right)):
        if not 1 <= size <= 10**6:
            raise InvalidFormula(f"{name} must lie between 1 and a million, not {size}")
    if not 0.0 <= spec.density <= 1.0:
        raise InvalidFormula(f"density must lie in [0, 1], not {spec.density}")
    if spec.num_left * spec.num_right > MAX_LITERALS // 3:
        raise InvalidFormula(f"a join of {spec.num_left} x {spec.num_right} rows is too large")
    pairs = np.flatnonzero(rng.random(spec.num_left * spec.num_right) < spec.density)
    left, right = np.divmod(pairs, spec.num_right)
    rows = spec.num_left + spec.num_right
    variables = np.stack([left, spec.num_left + right, rows + np.arange(len(pairs))], axis=1)
    names = [f"R[{x + 1}]" for x in range(spec.num_left)] + [f"T[{y + 1}]" for y in range(spec.num_right)]
    names += [f"S[{x + 1}:{y + 1}]" for x, y in zip(left.tolist(), right.tolist(), strict=True)]
    indptr = np.arange(0, variables.size + 1, 3, dtype=np.int64)
    prob = _default_probs(spec.prob, rows + len(pairs), rng)
    return DNF.from_arrays(indptr, (2 * variables.ravel()).astype(np.int32), prob, names=tuple(names))


FAMILIES: dict[str, tuple[type[Any], Callable[[Any, np.random.Generator], DNF]]] = {
    "paper": (PaperSpec, paper),
    "uniform": (UniformSpec, uniform),
    "hub": (HubSpec, hub),
    "reliability": (ReliabilitySpec, reliability),
    "join": (JoinSpec, join),
}


def generate(family: str, rng: int | np.random.Generator, **options: Any) -> DNF:
    """A formula of a family by name; options are the fields of its spec, as values or as text.

    ``rng`` is a Generator, or the seed of one.
    """
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        rng = np.random.default_rng(rng)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a seed of 0 or more, or a numpy Generator, not {rng!r}")
    if family not in FAMILIES:
        raise ValueError(f"no family {family!r}: {_hint(family, FAMILIES)}known are {', '.join(FAMILIES)}")
    spec_type, function = FAMILIES[family]
    known = {field.name: str(field.type) for field in fields(spec_type)}
    for name in options:
        if name not in known:
            hint = _hint(name, known)
            raise ValueError(f"family {family!r} has no option {name!r}: {hint}its options are {', '.join(known)}")
    values = {k: _from_text(k, v, known[k]) if isinstance(v, str) else v for k, v in options.items()}
    missing = [field.name for field in fields(spec_type) if field.default is MISSING and field.name not in values]
    if missing:
        raise ValueError(f"family {family!r} needs {', '.join(missing)}")
    return function(spec_type(**values), rng)


def _from_text(name: str, text: str, annotation: str) -> Any:
    """An option as a command line gives it: 3, 3-8 (a range of widths), 0.5, true, a file of edges, or a word."""
    word = text.strip().lower()
    try:
        if name == "width" and "-" in word:
            low, high = word.split("-")
            return int(low), int(high)
        if name == "edges":
            return _read_edges(text)
        if "bool" in annotation and word in ("true", "false"):
            return word == "true"
        if annotation == "bool":
            raise ValueError
        if annotation.startswith("int"):
            return int(word)
        if annotation.startswith("float"):
            return None if word == "none" else float(word)
    except InvalidFormula:
        raise
    except ValueError:
        raise ValueError(f"option {name!r} must be {annotation}, not {text!r}") from None
    return text


def _read_edges(path: str) -> list[tuple[Any, ...]]:
    """Reads one edge per line, ``u v`` or ``u v p`` separated by blanks or commas; # begins a comment. Nodes are words.

    An error names the line but does not quote it: whoever names the file may not be allowed to read it.
    """
    edges: list[tuple[Any, ...]] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            words = line.partition("#")[0].replace(",", " ").split()
            if not words:
                continue
            where = f"{path}:{number}: expected an edge u v or u v p"
            if not 2 <= len(words) <= 3:
                raise InvalidFormula(f"{where}, not {len(words)} words")
            try:
                edges.append((*words[:2], *map(float, words[2:])))
            except ValueError:
                raise InvalidFormula(f"{where}, and the third word is not a number") from None
    return edges


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}? " if close else ""


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")


def _draw_widths(spec: PaperSpec | UniformSpec | HubSpec, rng: np.random.Generator) -> IntArray:
    """int64[m]: clause widths uniform in [minW, maxW], once the request is known to be possible."""
    low, high = spec.width if isinstance(spec.width, tuple | list) else (spec.width, spec.width)
    sizes = (("num_vars", spec.num_vars), ("num_clauses", spec.num_clauses), ("width", low), ("width", high))
    for name, value in sizes:
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InvalidFormula(f"{name} must be a positive integer, not {value!r}")
    if high < low:
        raise InvalidFormula(f"the widths must go from a smaller to a larger number, not from {low} to {high}")
    if high > spec.num_vars:
        raise InvalidFormula(f"a clause of width {high} needs {high} different variables, there are {spec.num_vars}")
    if spec.num_vars > MAX_VARS or spec.num_clauses * high > MAX_LITERALS:
        raise InvalidFormula(f"{spec.num_vars} variables and {spec.num_clauses} clauses of {high} are too many")
    return rng.integers(low, high, size=spec.num_clauses, endpoint=True, dtype=np.int64)


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**64, dtype=np.uint64))


def _build(widths: IntArray, literals: LitArray, prob: FloatArray) -> DNF:
    indptr = np.zeros(len(widths) + 1, dtype=np.int64)
    np.cumsum(widths, out=indptr[1:])
    return DNF.from_arrays(indptr, literals.astype(np.int32), prob)


def _grid(rows: int, cols: int) -> tuple[list[tuple[Any, ...]], Hashable, Hashable]:
    """The edges of a grid of rows x cols nodes, and two opposite corners."""
    if rows < 1 or cols < 1 or rows * cols < 2 or rows * cols > 10**6:
        raise InvalidFormula(f"a grid of {rows} x {cols} nodes: between 2 and a million nodes are needed")
    right: list[tuple[Any, ...]] = [(f"{r}.{c}", f"{r}.{c + 1}") for r in range(rows) for c in range(cols - 1)]
    down: list[tuple[Any, ...]] = [(f"{r}.{c}", f"{r + 1}.{c}") for r in range(rows - 1) for c in range(cols)]
    return right + down, "0.0", f"{rows - 1}.{cols - 1}"


def _edge_prob(value: object, index: int) -> float | None:
    value = value.get("prob") if isinstance(value, Mapping) else value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 <= float(value) <= 1.0:
        raise InvalidFormula(f"edge {index} has probability {value!r}, expected a number in [0, 1]")
    return float(value)


def _default_probs(prob: float | None, size: int, rng: np.random.Generator) -> FloatArray:
    if prob is not None and not 0.0 <= prob <= 1.0:
        raise InvalidFormula(f"prob must lie in [0, 1], not {prob}")
    return rng.random(size) if prob is None else np.full(size, float(prob))
