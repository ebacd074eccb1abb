"""Kernels of sharpdnf: arrays in, numbers out, the GIL released."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy
import numpy.typing
from numpy.typing import NDArray


class Normalised:
    """Clauses with sorted literals, and what was mended on the way."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def literals(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def repeated_literals(self) -> int:
        """How many literals were merged with an equal one."""

    @property
    def impossible_clauses(self) -> int:
        """
        How many clauses were dropped because they hold a literal and its negation.
        """

def check_formula(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> str: ...

def clause_probs(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """p(C) of every clause: the reference pass."""

def clause_log_probs(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """log p(C) of every clause, in one pass."""

def normalise(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Normalised:
    """
    Sorts the literals of every clause, merges repeated ones and drops impossible clauses.
    """

class Parser:
    """
    Text to DNF arrays in chunks: feed() each, finish(), then take() the arrays.
    """

    def __init__(self, dialect: str) -> None: ...

    def feed(self, chunk: bytes) -> str:
        """Reads a chunk of text: '' or what is wrong with it."""

    def finish(self) -> str:
        """Ends the text and settles the weights: '' or what is wrong."""

    def take(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
        """(indptr, literals, prob), once, after finish() said ''."""

    def names(self) -> list[tuple[int, bytes]]:
        """[(1-based variable, name as bytes)] as declared."""

    @property
    def line(self) -> int: ...

    @property
    def log_scale(self) -> float: ...

    @property
    def repeated_literals(self) -> int: ...

    @property
    def impossible_clauses(self) -> int: ...

    @property
    def rounded_vars(self) -> int: ...

def format_clauses(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], first: int, last: int, negate: bool) -> bytes:
    """Clauses [first, last) as lines of text."""

class Fold:
    """
    P(formula) = F (1 - M (1 - mu)), mu the probability of what remains of it.
    """

    @property
    def log_factor(self) -> float:
        """log F"""

    @property
    def log_cofactor(self) -> float:
        """log(1 - F)"""

    @property
    def log_miss(self) -> float:
        """log M"""

    @property
    def log_hit(self) -> float:
        """log(1 - M)"""

    @property
    def rounding(self) -> float:
        """
        The relative error that rounding may have made in F, 1 - F, M and 1 - M.
        """

    def whole(self, log_mu: float, log_nu: float, direction: int) -> tuple[float, float]:
        """
        (log P, log(1 - P)) of the whole from (log mu, log(1 - mu)) of what remains, rounded down (direction -1), up (1) or to nearest (0).
        """

class SimplifyResult:
    """
    What remains of a formula, how its answer becomes the whole's, what was removed.
    """

    @property
    def unchanged(self) -> bool:
        """Whether nothing was removed: then the arrays are empty."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def literals(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def prob(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def variables(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The original variable of each remaining one."""

    @property
    def fold(self) -> Fold: ...

    @property
    def impossible(self) -> int:
        """Clauses with a literal of probability 0."""

    @property
    def duplicate(self) -> int:
        """Repeated clauses."""

    @property
    def absorbed(self) -> int:
        """Clauses that hold all literals of another one."""

    @property
    def fixed(self) -> int:
        """Variables of probability 0 or 1."""

    @property
    def negated_units(self) -> int:
        """Literals dropped because their negation is a clause of its own."""

    @property
    def factored(self) -> int:
        """Literals common to all clauses."""

    @property
    def solved(self) -> int:
        """Components solved exactly."""

class Interval:
    """Bounds of P and of 1 - P that hold surely."""

    @property
    def log_lower(self) -> float: ...

    @property
    def log_upper(self) -> float: ...

    @property
    def log_complement_lower(self) -> float: ...

    @property
    def log_complement_upper(self) -> float: ...

    @property
    def unate(self) -> bool:
        """Whether no variable occurs with both signs."""

    @property
    def pairs(self) -> bool:
        """Whether pairs of clauses were counted."""

def simplify(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], solve: bool, seconds: float) -> SimplifyResult:
    """Removes what can be removed in linear time."""

def certified_bounds(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], pair_budget: int, seconds: float) -> Interval:
    """
    Bounds from one pass over the clauses, and from their pairs where these are few enough.
    """

class DTreeResult:
    """Bounds of P and of 1 - P that hold surely, and what finding them took."""

    @property
    def log_lower(self) -> float: ...

    @property
    def log_upper(self) -> float: ...

    @property
    def log_complement_lower(self) -> float: ...

    @property
    def log_complement_upper(self) -> float: ...

    @property
    def exact(self) -> bool:
        """
        Whether what is left between the bounds is rounding, or next to nothing.
        """

    @property
    def nodes(self) -> int:
        """How many subformulas were expanded."""

    @property
    def stopped(self) -> str:
        """Why the search ended: done, time, memory, nodes or work."""

class CompiledArrays:
    """
    A finished d-tree, children before parents, the last node the whole; sharpdnf.compiled explains the arrays.
    """

    @property
    def kind(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def a(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def b(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def var(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def literals(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

def dtree(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], node_budget: int, seconds: float, memory: int, relative_epsilon: float, additive_epsilon: float, work_budget: int, tables: bool) -> DTreeResult:
    """
    Decomposes the formula until the bounds meet, are within epsilon, or a budget is spent.
    """

def dtree_compile(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], node_budget: int, seconds: float, memory: int, work_budget: int, tables: bool) -> CompiledArrays | None:
    """The finished d-tree, or None if a limit was met first."""

class Sample:
    """0/1 draws with P(success) = P(formula) / S'."""

    @property
    def draws(self) -> int: ...

    @property
    def successes(self) -> int: ...

    @property
    def complete(self) -> bool:
        """Whether so many successes or draws as asked for were made."""

    @property
    def log_scale(self) -> float:
        """log S'"""

    @property
    def estimator(self) -> int:
        """The estimator that was chosen, by its number."""

    @property
    def operations(self) -> int: ...

    @property
    def true_count(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Per variable: in how many successes it was drawn true; empty if marginals were not asked for.
        """

    @property
    def seen(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per variable: in how many successes it was drawn at all."""

    @property
    def marginal_successes(self) -> int:
        """
        The successes that true_count and seen are over: all of the blocks run, more than `successes`.
        """

def successes_needed(epsilon: float, delta: float) -> int: ...

def additive_draws(epsilon: float, delta: float) -> int: ...

def sample(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, successes: int, max_draws: int, threads: int, seconds: float, estimator: int, marginals: bool) -> Sample:
    """
    Draws until so many successes or so many draws, by the estimator of that number (0: the cheapest).
    """

def sample_models(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, count: int, seconds: float) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], int]:
    """(uint8[count * n] rows of satisfying assignments, how many were made)"""

class KlmResult:
    """The trials of the coverage algorithm of Karp, Luby and Madras."""

    @property
    def trials(self) -> int:
        """How many clause checks were made."""

    @property
    def accepted(self) -> int:
        """How many samples they took."""

    @property
    def log_sum(self) -> float:
        """log S, S the sum of the clauses' probabilities."""

    @property
    def complete(self) -> bool:
        """Whether all trials were made before the deadline."""

def klm(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], trials: int, seed: int, seconds: float) -> KlmResult:
    """Makes so many trials, fewer at the deadline."""

def conditioned(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], variables: int, seconds: float) -> float | None:
    """log of the approximation, or None at the deadline"""

class Placement:
    """Variables placed into the slots of clauses."""

    @property
    def variables(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The variable of each slot, clause after clause."""

    @property
    def tries(self) -> int:
        """How many allocations were drawn."""

    @property
    def done(self) -> bool:
        """Whether one of them fitted: else the variables mean nothing."""

class Paths:
    """Simple paths: path i is edges[indptr[i]:indptr[i + 1]]."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def edges(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def complete(self) -> bool:
        """Whether all paths are there."""

def generate_paper(widths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], num_vars: int, num_privileged: int, privileged_slots: int, strict: bool, seed: int, max_tries: int) -> Placement:
    """
    Draws a placement; the first num_privileged variables are the privileged ones.
    """

def generate_uniform(widths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], num_vars: int, seed: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

def simple_paths(num_nodes: int, tail: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], head: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], source: int, target: int, directed: bool, limit: int) -> Paths:
    """The paths from the source to the target, at most `limit` of them."""

class BatchAnswers:
    """Columns with one entry a formula, named as the fields of Estimate."""

    @property
    def log_prob(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def log_lower(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def log_upper(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def log_certified_lower(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def log_certified_upper(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def log_complement(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def log_complement_lower(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def log_complement_upper(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def guarantee(self) -> Annotated[NDArray[numpy.int8], dict(shape=(None,))]:
        """A place in GUARANTEES."""

    @property
    def engine(self) -> Annotated[NDArray[numpy.int8], dict(shape=(None,))]:
        """A place in METHODS."""

    @property
    def of(self) -> Annotated[NDArray[numpy.int8], dict(shape=(None,))]:
        """A place in OF."""

    @property
    def samples(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def met(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def details(self) -> list[dict[str, Any]]:
        """How each answer came about; empty if it was not asked for."""

def count_batch(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], formula_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], promise: int, complement: bool, epsilon: float, delta: float, successes: int, third_successes: int, draws: int, threads: int, seconds: float, memory: int, details: bool) -> BatchAnswers:
    """Counts every formula of a batch."""

def aggregate(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def transpose(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_columns: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]: ...

def lstm_forward(gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], cell: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], gain: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], shift: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], state: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], new_cell: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def lstm_backward(gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], cell: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], gain: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], shift: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], dstate: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], dnew_cell: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], dgates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], dcell: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], dgain: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], dshift: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class Lineage:
    """Rows of lineage as clauses, sorted by their keys, NULLs last."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def literals(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """
        Clause c has literals[indptr[c]:indptr[c + 1]], different ones in increasing order.
        """

    @property
    def identity(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The identity columns, row after row."""

    @property
    def starts(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Where the clauses of each distinct key begin, and the number of rows."""

    @property
    def first(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The first row of each distinct key."""

    @property
    def order(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The row at each place; empty if it was not asked for."""

def lineage(keys: Sequence[numpy.typing.NDArray[numpy.signedinteger[Any]]], nulls: Sequence[numpy.typing.NDArray[numpy.uint8]], numbers: Sequence[numpy.typing.NDArray[numpy.int32]], identity: Sequence[numpy.typing.NDArray[numpy.int32]], rows: int, with_order: bool) -> Lineage:
    """
    Sorts rows by their keys and makes a clause of each row's numbers, of which -1 stands for none.
    """

def clause_order(starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    The order that sorts the clauses of every formula by their literals; empty if they are sorted.
    """

def at_least(needed: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
    """
    P(at least so many of the independent events of each group), and 1 minus it; event i has prob[rows[i]].
    """

def repeats(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], known: int) -> bool:
    """Whether a row stands twice in one group."""

class CreationScale:
    """
    An upper bound B on P(failure), and the rates that draws below it need.
    """

    @property
    def complete(self) -> bool:
        """Whether it was found before the deadline: else it says nothing."""

    @property
    def log_scale(self) -> float:
        """log B"""

    @property
    def cut(self) -> float: ...

    @property
    def trees(self) -> float: ...

    @property
    def base(self) -> float: ...

    @property
    def step(self) -> float: ...

class CreationSample:
    """0/1 draws with P(success) = P(failure) / B."""

    @property
    def draws(self) -> int: ...

    @property
    def successes(self) -> int: ...

    @property
    def complete(self) -> bool: ...

    @property
    def looks(self) -> int: ...

def creation_scale(start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], rate: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], terminal: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], seconds: float) -> CreationScale:
    """
    An upper bound on P(terminals not connected), and the line of rates that draws under it need
    """

def creation_sample(start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], rate: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], terminal: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], base: float, step: float, seed: int, successes: int, max_draws: int, threads: int, seconds: float) -> CreationSample:
    """0/1 draws whose mean is P(terminals not connected) / scale"""

class FrontierRun:
    """A run of the frontier method."""

    @property
    def yes(self) -> float:
        """The probability of what is decided: connected."""

    @property
    def no(self) -> float:
        """The probability of what is decided: not connected."""

    @property
    def complete(self) -> bool:
        """Whether everything is decided."""

    @property
    def width(self) -> int: ...

    @property
    def states(self) -> int: ...

    @property
    def too_wide(self) -> bool: ...

    @property
    def diagram(self) -> CompiledArrays | None:
        """What leads to a yes, if it was kept."""

def frontier_order(num_nodes: int, tail: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Sequence[int], seconds: float) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """
    int32[e]: an order of the links that keeps the frontier narrow; empty at the deadline
    """

def frontier(tail: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], both_ways: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], terminal: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], fails: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], complement: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], partition: bool, hops: int, keep_nodes: int, max_states: int, memory: int, seconds: float) -> FrontierRun:
    """Runs the frontier method over the links in their order."""

class ReachSample:
    """Worlds of a network that were searched from the source."""

    @property
    def draws(self) -> int: ...

    @property
    def successes(self) -> int: ...

    @property
    def complete(self) -> bool: ...

    @property
    def impossible(self) -> bool:
        """Whether some terminal cannot be reached in any world."""

    @property
    def looks(self) -> int: ...

    @property
    def reached(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per node: in how many draws it was reached; empty if not asked for."""

def reach(tail: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], directed: bool, link_prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], node_prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], source: int, terminals: Sequence[int], hops: int, seed: int, successes: int, max_draws: int, of_failure: bool, count_nodes: bool, threads: int, seconds: float) -> ReachSample:
    """
    Draws worlds until so many successes or draws: how many there were, and how often each node was reached
    """

class CircuitSample:
    """0/1 draws of a circuit's outputs with P(success) = P(output) / S'."""

    @property
    def draws(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per output, up to its last success that was asked for."""

    @property
    def successes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per output."""

    @property
    def complete(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """Per output: 1 if so many successes or draws as asked for were made."""

    @property
    def log_scale(self) -> float:
        """log S', 0 without a cover."""

    @property
    def operations(self) -> int:
        """Gate inputs read, each for a whole block of draws."""

    @property
    def true_count(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Per variable: in how many successes it is true, -1 where the output does not read it.
        """

    @property
    def marginal_successes(self) -> int:
        """The successes that true_count is over."""

class CircuitResult:
    """Bounds of P and of 1 - P that hold surely, and what finding them took."""

    @property
    def log_lower(self) -> float: ...

    @property
    def log_upper(self) -> float: ...

    @property
    def log_complement_lower(self) -> float: ...

    @property
    def log_complement_upper(self) -> float: ...

    @property
    def exact(self) -> bool:
        """Whether what is left between the bounds is rounding."""

    @property
    def nodes(self) -> int:
        """How many subcircuits were expanded."""

    @property
    def work(self) -> int:
        """How many gate inputs were looked at."""

    @property
    def stopped(self) -> str:
        """Why the search ended: done, time, memory or work."""

    @property
    def compiled(self) -> CompiledArrays | None:
        """The finished d-tree, if it was asked for and no limit was met first."""

def circuit_sample(kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], arg: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], inputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], outputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], cover_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cover_literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, first_block: int, successes: int, max_draws: int, threads: int, seconds: float, marginals: bool) -> CircuitSample:
    """
    Draws until every output has so many successes, or so many draws are made.
    """

def circuit_models(kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], arg: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], inputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], output: int, cover_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cover_literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, count: int, seconds: float) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], int]:
    """(uint8[count * n] rows of satisfying assignments, how many were made)"""

def circuit_compile(kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], arg: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], inputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], output: int, work: int, seconds: float, memory: int, relative_epsilon: float, additive_epsilon: float, compile: bool) -> CircuitResult:
    """
    Narrows the bounds of an output until they meet, are within epsilon, or a limit is met.
    """

class CutSetDiagram:
    """
    Minimal cut sets as a decision diagram; entry i is node i + 2, 0 and 1 are constants.
    """

    @property
    def level(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def lo(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The node of the sets without the level's variable."""

    @property
    def hi(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The node of the sets with it."""

    @property
    def root(self) -> int: ...

    @property
    def stopped(self) -> str:
        """"done", or the limit that was met: "time" or "nodes"."""

def cut_sets(kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], arg: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], inputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], output: int, level: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], order: int, log_cutoff: float, max_nodes: int, seconds: float) -> CutSetDiagram:
    """The minimal cut sets of an output up to an order and a probability."""

class FixpointSample:
    """
    Worlds of a ground program. Those in which the evidence holds are its trials.
    """

    @property
    def successes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per output: the trials in which it is true."""

    @property
    def trials(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per output: the trials up to its last success that was asked for."""

    @property
    def done(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """Per output: 1 if so many successes or trials as asked for were made."""

    @property
    def worlds(self) -> int:
        """How many worlds were drawn."""

    @property
    def accepted(self) -> int:
        """In how many of them the evidence holds."""

    @property
    def looks(self) -> int: ...

    @property
    def in_circles(self) -> int:
        """How many gates depend on themselves."""

class FixpointOrder:
    """
    The components of what the outputs need, inputs first: gates[start[c]:start[c + 1]].
    """

    @property
    def gates(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def start(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def circle(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """Per component: 1 if its gates depend on each other."""

def fixpoint(kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], arg: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], inputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], outputs: Sequence[int], evidence: int, seed: int, successes: int, trials: int, max_worlds: int, seconds: float) -> FixpointSample:
    """Draws worlds until every output has so many successes or trials."""

def fixpoint_order(kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], arg: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], inputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], outputs: Sequence[int]) -> FixpointOrder:
    """Puts the gates that the outputs need into an order of evaluation."""

class EliminationCost:
    """What elimination along the best order found would take."""

    @property
    def operations(self) -> float:
        """About a nanosecond each; inf if more than were allowed."""

    @property
    def bytes(self) -> float:
        """Of all tables that are alive at once, at most."""

    @property
    def largest_bag(self) -> int:
        """The most variables that one table is over."""

class ExactResult:
    """Bounds of P and of 1 - P that hold surely, and what finding them took."""

    @property
    def log_lower(self) -> float: ...

    @property
    def log_upper(self) -> float: ...

    @property
    def log_complement_lower(self) -> float: ...

    @property
    def log_complement_upper(self) -> float: ...

    @property
    def solved(self) -> bool:
        """Whether what is left between the bounds is rounding."""

    @property
    def method(self) -> str:
        """The method that solved it."""

    @property
    def nodes(self) -> int:
        """How many nodes it expanded."""

    @property
    def operations(self) -> float:
        """How many operations it took."""

    @property
    def stopped(self) -> str:
        """Why the search ended: done or the limit that was met."""

def elimination_operations(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], max_operations: float, seconds: float) -> EliminationCost:
    """
    Looks for a cheap elimination order, and gives up beyond max_operations.
    """

def exact(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], method: str, max_operations: float, seconds: float, memory: int, threads: int) -> ExactResult:
    """
    Solves the formula exactly by one method or by the cheapest, within the limits.
    """

def exact_compile(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], method: str, max_operations: float, seconds: float, memory: int) -> CompiledArrays | None:
    """The smallest circuit found, or None if a limit was met first."""

def eliminate_factors(start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], scope: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], tables: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], max_operations: float, seconds: float, memory: int, threads: int) -> tuple[float, float] | None:
    """
    (log of the sum over all assignments of the product of factors and weights, operations), or None at a limit
    """

def compiled_batch(kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], a: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], var: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], outputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], probs: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: int, num_vars: int, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], slopes: bool, of_log: bool, threads: int) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))], float]:
    """
    (float64[k o] log P of o nodes under k rows of probabilities; float64[k n] the sum over the outputs of their weight, 1 if none are given, times d P / d prob or d log P / d prob; the largest absolute value of these). Arrays are flat.
    """

class PivotCounts:
    """In how many of the worlds drawn each variable decides the formula."""

    @property
    def worlds(self) -> int: ...

    @property
    def operations(self) -> int: ...

    @property
    def log_scale(self) -> float:
        """log S where worlds are drawn inside clauses, else 0."""

    @property
    def up(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per variable: the worlds in which setting it makes the formula true."""

    @property
    def down(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Per variable: the worlds in which setting it makes the formula false."""

def count_pivots(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], literals: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, first: int, blocks: int, coverage: bool, seconds: float) -> PivotCounts:
    """
    Draws blocks of worlds, from block `first` on, and counts the pivotal variables of each.
    """
