"""The one core type: an immutable weighted DNF in CSR form.

Literal ``2v`` is variable ``v`` (0-based), ``2v + 1`` its negation, so ``lit ^ 1`` negates and ``lit >> 1`` is the
variable. Signed 1-based integers exist only at the border: in :meth:`DNF.from_clauses` and the text formats.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, SupportsFloat

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.errors import InvalidFormula, did_you_mean

IntArray = npt.NDArray[np.int64]
LitArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]
MAX_VARS = 2**30 - 1  # literal 2v + 1 must fit into 32 bits with a sign
_LITERAL = re.compile(r"([~!\s]*)([^\W\d][\w.:\[\]]*)")


@dataclass(frozen=True, slots=True, eq=False)
class DNF:
    """A disjunction of clauses (conjunctions) over independent variables.

    Clause ``c`` is ``literals[indptr[c]:indptr[c + 1]]``, strictly increasing by variable; ``prob[v]`` is the
    probability that variable ``v`` is true. Weights (w+, w-) are held as prob = w+ / (w+ + w-) and
    ``log_scale`` = sum of log(w+ + w-): the weighted model count is exp(log_scale) * P(formula).
    """

    indptr: IntArray
    """int64[m + 1]: where the literals of each clause begin and end."""
    literals: LitArray
    """int32[indptr[m]]: 2 v is variable v, 2 v + 1 its negation; variables are counted from 0."""
    prob: FloatArray
    """float64[n]: the probability that each variable is true."""
    log_scale: float = 0.0
    """The logarithm of the factor that turns the probability into the weighted model count; 0 without weights."""
    names: tuple[str, ...] | None = None
    """The names of the variables, or None if they have none."""
    notes: tuple[str, ...] = field(default=())
    """What normalisation changed on the way in, in words."""

    def __post_init__(self) -> None:
        for name, dtype in (("indptr", np.int64), ("literals", np.int32), ("prob", np.float64)):
            array = plain_array(name, getattr(self, name), dtype)
            if array.ndim != 1:
                raise InvalidFormula(f"{name} must be one-dimensional, not of shape {array.shape}")
            object.__setattr__(self, name, own(array))
        problem = _native.check_formula(self.indptr, self.literals, self.prob)
        if problem:
            raise InvalidFormula(problem)
        if self.names is not None:
            object.__setattr__(self, "names", tuple(self.names))
            _check_names(self.names, self.num_vars)
        object.__setattr__(self, "log_scale", _finite("log_scale", self.log_scale))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied through ``trusted``, so that the arrays stay read-only."""
        return type(self).trusted, tuple(getattr(self, name) for name in DNF.__slots__)

    @classmethod
    def trusted(
        cls,
        indptr: IntArray,
        literals: LitArray,
        prob: FloatArray,
        log_scale: float = 0.0,
        names: tuple[str, ...] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Self:
        """Wraps arrays that our own code made and nobody else holds: no check, no copy."""
        self = object.__new__(cls)
        frozen = [_freeze(array) for array in (indptr, literals, prob)]
        for name, value in zip(cls.__slots__, (*frozen, log_scale, names, notes), strict=True):
            object.__setattr__(self, name, value)
        return self

    @classmethod
    def from_arrays(cls, indptr: IntArray, literals: LitArray, prob: FloatArray, **rest: Any) -> Self:
        """Builds from CSR arrays in any literal order: sorts, merges repeats, drops impossible clauses."""
        indptr = plain_array("indptr", indptr, np.int64)
        literals = plain_array("literals", literals, np.int32)
        if indptr.ndim != 1 or len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != len(literals):
            raise InvalidFormula("indptr must start at 0 and end at the number of literals")
        if np.any(np.diff(indptr) < 0):
            raise InvalidFormula("indptr must not decrease")
        clean = _native.normalise(indptr, literals)
        notes = []
        if clean.repeated_literals:
            notes.append(f"{clean.repeated_literals} repeated literals merged")
        if clean.impossible_clauses:
            notes.append(f"{clean.impossible_clauses} clauses with a literal and its negation dropped")
        return cls(clean.indptr, clean.literals, prob, notes=tuple(rest.pop("notes", ())) + tuple(notes), **rest)

    @classmethod
    def from_clauses(
        cls,
        clauses: Iterable[Sequence[int]],
        prob: Mapping[int, float] | npt.ArrayLike | None = None,
        num_vars: int | None = None,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Builds from signed 1-based literals: ``[[1, -2], [3]]`` is (x1 and not x2) or x3.

        ``prob`` maps variables to probabilities, and those it leaves out are 1/2; or it lists all of them. ``clauses``
        may also be a scipy sparse matrix with one row per clause: 1 in the column of a variable, -1 for its negation.
        """
        if hasattr(clauses, "tocsr"):
            clauses = _from_matrix(clauses)
        rows = [list(clause) for clause in clauses]
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=indptr[1:])
        signed = plain_array("clauses", [lit for row in rows for lit in row] or np.zeros(0, np.int64), np.int64)
        if np.any(signed == 0):
            raise InvalidFormula("literal 0: variables are numbered from 1")
        used = int(np.abs(signed).max(initial=0))
        values = _fill_probs(prob, used, None if num_vars is None else _whole("num_vars", num_vars))
        literals = (2 * (np.abs(signed) - 1) + (signed < 0)).astype(np.int32)
        return cls.from_arrays(indptr, literals, values, names=None if names is None else tuple(names))

    @classmethod
    def parse(cls, text: str, prob: Mapping[str, float] | None = None) -> Self:
        """Builds from ``a & b | ~c``: ``|`` joins clauses, ``&`` literals, ``~`` or ``!`` negates; parentheses are
        multiplied out.

        Variables are numbered in the order in which they appear. ``prob`` gives the probability of every name in the
        text, or is left out, and all are 1/2; names in it that the text does not use become variables at the end.
        ``true`` is the empty clause; an empty text or ``false`` has no clause.
        """
        if not isinstance(text, str):
            raise TypeError(f"expected text such as 'a & b | ~c', not {type(text).__name__}")
        if prob is not None and not isinstance(prob, Mapping):
            raise TypeError(f"prob must map names to probabilities, not be of type {type(prob).__name__}")
        index: dict[str, int] = {}
        clauses: list[list[int]] = []
        body = text.strip()
        if "(" in body or ")" in body:
            from sharpdnf.algebra import expand

            clauses, body = expand(text, index), ""
        for number, part in enumerate(body.split("|") if body and body != "false" else [], start=1):
            clause: list[int] = []
            for token in [] if part.strip() == "true" else part.split("&"):
                match = _LITERAL.fullmatch(token.strip())
                if match is None or match[2] in ("true", "false"):
                    shown = token.strip() if len(token.strip()) <= 40 else token.strip()[:40] + "..."
                    raise InvalidFormula(f"expected a literal such as a or ~a, not {shown!r} in clause {number}")
                variable = index.setdefault(match[2], len(index) + 1)
                clause.append(-variable if (match[1].count("~") + match[1].count("!")) % 2 else variable)
            clauses.append(clause)
        if prob is None:
            return cls.from_clauses(clauses, num_vars=len(index), names=tuple(index))
        for name in index:
            if name not in prob:
                hint = did_you_mean(name, [other for other in prob if isinstance(other, str)])
                raise InvalidFormula(f"prob says nothing about {name!r}{hint}")
        for name in prob:
            index.setdefault(name, len(index) + 1)
        by_number = {index[name]: p for name, p in prob.items()}
        return cls.from_clauses(clauses, by_number, num_vars=len(index), names=tuple(index))

    @property
    def num_vars(self) -> int:
        """How many variables there are, also those that no clause reads."""
        return len(self.prob)

    @property
    def num_clauses(self) -> int:
        """How many clauses there are."""
        return len(self.indptr) - 1

    @property
    def num_literals(self) -> int:
        """How many literals all clauses have together."""
        return len(self.literals)

    @property
    def widths(self) -> IntArray:
        """int64[m]: literals per clause."""
        return np.diff(self.indptr)

    @property
    def arrays(self) -> tuple[IntArray, LitArray, FloatArray]:
        """(indptr, literals, prob): what the kernels take."""
        return self.indptr, self.literals, self.prob

    def clause_log_probs(self) -> FloatArray:
        """float64[m]: log p(C) of every clause."""
        return _native.clause_log_probs(*self.arrays)

    def clauses(self) -> list[list[int]]:
        """The clauses as signed 1-based literals, for small formulas and for people."""
        signed = ((self.literals >> 1) + 1) * np.where(self.literals & 1, -1, 1)
        return [signed[a:b].tolist() for a, b in zip(self.indptr[:-1], self.indptr[1:], strict=True)]

    def with_prob(self, prob: npt.ArrayLike) -> DNF:
        """The same clauses under other probabilities."""
        values = plain_array("prob", prob, np.float64)
        if values.shape != self.prob.shape:
            raise InvalidFormula(f"expected {self.num_vars} probabilities, not an array of shape {values.shape}")
        values = own(values)
        problem = _native.check_formula(np.zeros(1, np.int64), np.zeros(0, np.int32), values)
        if problem:
            raise InvalidFormula(problem)
        return DNF.trusted(self.indptr, self.literals, values, self.log_scale, self.names, self.notes)

    def __or__(self, other: DNF) -> DNF:
        """The formula that is true where either is.

        Variables with the same name are one variable; without names, variables with the same number are.
        """
        from sharpdnf.algebra import disjunction

        return disjunction(self, other) if isinstance(other, DNF) else NotImplemented

    def __and__(self, other: DNF) -> DNF:
        """The formula that is true where both are, as a DNF: every pair of clauses joined."""
        from sharpdnf.algebra import conjunction

        return conjunction(self, other) if isinstance(other, DNF) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DNF):
            return NotImplemented
        same = np.array_equal(self.indptr, other.indptr) and np.array_equal(self.literals, other.literals)
        same = same and np.array_equal(self.prob, other.prob)
        return same and self.log_scale == other.log_scale and self.names == other.names

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DNF(num_vars={self.num_vars}, num_clauses={self.num_clauses}, num_literals={self.num_literals})"

    def _repr_html_(self) -> str:
        from sharpdnf.notebook import facts_table

        facts = [("variables", f"{self.num_vars:,}"), ("clauses", f"{self.num_clauses:,}")]
        text = str(self) if self.num_literals <= 200 else f"{self.num_literals:,} literals"
        return facts_table("DNF", [*facts, ("formula" if self.num_literals <= 200 else "size", text)])

    def __str__(self) -> str:
        if self.num_literals > 200:
            return repr(self)
        names = self.names or tuple(f"x{v + 1}" for v in range(self.num_vars))

        def literal(lit: int) -> str:
            return ("~" if lit & 1 else "") + names[lit >> 1]

        parts = [
            " & ".join(literal(int(lit)) for lit in self.literals[a:b]) or "true"
            for a, b in zip(self.indptr[:-1], self.indptr[1:], strict=True)
        ]
        return " | ".join(parts) or "false"


def require_dnf(dnf: object) -> DNF:
    """The formula itself; anything else is the caller's mistake."""
    if not isinstance(dnf, DNF):
        raise TypeError(f"expected a DNF, not {type(dnf).__name__}: build one with DNF.from_clauses or sharpdnf.read")
    return dnf


def plain_array(name: str, values: npt.ArrayLike, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
    """A contiguous array of ``dtype``; what the type would round or wrap around is refused, never changed."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidFormula(f"{name} has masked entries: fill them or leave them out")
    array = np.asarray(values)
    if issubclass(dtype, np.integer):
        if array.size and array.dtype.kind not in "iu":
            raise InvalidFormula(f"{name} must hold integers, not {array.dtype}")
        limits = np.iinfo(dtype)
        outside = array.size and not np.can_cast(array.dtype, dtype)
        if outside and (array.min() < limits.min or array.max() > limits.max):
            raise InvalidFormula(f"{name} must lie between {limits.min} and {limits.max}")
    elif array.dtype.kind not in "biufO":
        raise InvalidFormula(f"{name} must hold numbers, not {array.dtype}")
    try:
        return np.asarray(array, dtype=dtype, order="C")
    except (TypeError, ValueError):
        raise InvalidFormula(f"{name} must hold numbers, not {array.dtype}") from None


def own(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of a one-dimensional array, read-only for good: its memory is a bytes object, which nobody can change.

    That a caller's array is read-only says nothing: it may be a view of memory that changes, or be unlocked later, and
    the kernels read literals without asking. An array that is a bytes object's already is taken as it is.
    """
    if isinstance(array.base, bytes):
        return array
    return np.frombuffer(array.tobytes(), dtype=array.dtype)


def _freeze(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, read-only; as a view where it owns its memory, because an owner could be unlocked again."""
    array.flags.writeable = False
    return array.view() if array.flags.owndata else array


def _from_matrix(matrix: Any) -> list[list[int]]:
    """The signed literals of each row of a sparse matrix with entries 1 and -1."""
    rows = matrix.tocsr()
    if not np.all(np.isin(rows.data, (-1, 0, 1))):
        raise InvalidFormula("a matrix of clauses holds 1 for a variable and -1 for its negation, and nothing else")
    signed = (rows.indices.astype(np.int64) + 1) * rows.data.astype(np.int64)
    return [signed[a:b][signed[a:b] != 0].tolist() for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidFormula(f"{name} must be a whole number, not {value!r}") from None


def _finite(name: str, value: object) -> float:
    if isinstance(value, bool | str) or not isinstance(value, SupportsFloat) or not math.isfinite(float(value)):
        raise InvalidFormula(f"{name} must be a finite number, not {value!r}")
    return float(value)


def _fill_probs(prob: Mapping[int, float] | npt.ArrayLike | None, used: int, num_vars: int | None) -> FloatArray:
    """float64[n]: the probabilities of ``num_vars`` variables, or of as many as the clauses use and ``prob`` names."""
    if isinstance(prob, Mapping):
        given = {_whole("a variable of prob", variable): p for variable, p in prob.items()}
        if given and min(given) < 1:
            raise InvalidFormula(f"prob names variable {min(given)}: variables are numbered from 1")
        listed = None
        largest = max(given, default=0)
    else:
        listed = None if prob is None else plain_array("prob", prob, np.float64)
        if listed is not None and listed.ndim != 1:
            raise InvalidFormula(f"prob must map or list probabilities, not be of shape {listed.shape}")
        given = {}
        largest = 0 if listed is None else len(listed)
    n = max(used, largest) if num_vars is None else num_vars
    if n < max(used, largest, 0):
        raise InvalidFormula(f"variable {max(used, largest)} is beyond num_vars={n}")
    if n > MAX_VARS:
        raise InvalidFormula(f"{n} variables are more than the {MAX_VARS} that literals can number")
    if listed is not None:
        if len(listed) < n:
            raise InvalidFormula(
                f"prob lists {len(listed)} probabilities for {n} variables: list all, or map variables to probabilities"
            )
        return listed
    values = np.full(n, 0.5)
    for variable, p in given.items():
        values[variable - 1] = _finite(f"the probability of variable {variable}", p)
    return values


def _check_names(names: tuple[str, ...], num_vars: int) -> None:
    if len(names) != num_vars:
        raise InvalidFormula(f"{len(names)} names for {num_vars} variables")
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidFormula("names must be strings, none of them empty")
    if len(set(names)) != num_vars:
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise InvalidFormula(f"two variables have the name {twice!r}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Many formulas as one bigger formula: formula ``f`` is clauses ``formula_indptr[f]:formula_indptr[f + 1]``.

    All of them share one variable space, so the answers of a query share the database's rows.
    """

    dnf: DNF
    """All clauses of all formulas, as one formula over the common variables."""
    formula_indptr: IntArray
    """int64[k + 1]: where the clauses of each of the k formulas begin and end."""

    def __post_init__(self) -> None:
        if not isinstance(self.dnf, DNF):
            raise TypeError(f"expected a DNF, not {type(self.dnf).__name__}: stack formulas with Batch.of")
        indptr = plain_array("formula_indptr", self.formula_indptr, np.int64)
        if indptr.ndim != 1 or len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != self.dnf.num_clauses:
            raise InvalidFormula("formula_indptr must start at 0 and end at the number of clauses")
        if np.any(np.diff(indptr) < 0):
            raise InvalidFormula("formula_indptr must not decrease")
        object.__setattr__(self, "formula_indptr", own(indptr))

    def __len__(self) -> int:
        return len(self.formula_indptr) - 1

    def __getitem__(self, index: int) -> DNF:
        """Formula ``index`` over the shared variables."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"formula {index} of {len(self)}")
        first, last = self.formula_indptr[index % len(self)], self.formula_indptr[index % len(self) + 1]
        start, stop = self.dnf.indptr[first], self.dnf.indptr[last]
        indptr = self.dnf.indptr[first : last + 1] - start
        return DNF.trusted(indptr, self.dnf.literals[start:stop], self.dnf.prob, names=self.dnf.names)

    @classmethod
    def one(cls, dnf: DNF) -> Batch:
        """A batch of one formula. The formula is valid already, so nothing is checked again."""
        self = object.__new__(cls)
        object.__setattr__(self, "dnf", dnf)
        object.__setattr__(self, "formula_indptr", _freeze(np.array([0, dnf.num_clauses], dtype=np.int64)))
        return self

    @classmethod
    def of(cls, formulas: Iterable[DNF]) -> Batch:
        """Stacks formulas side by side: the variables of each are renumbered so that no two formulas share one."""
        parts = list(formulas)
        for part in parts:
            if not isinstance(part, DNF):
                raise TypeError(f"expected formulas, not {type(part).__name__}: build them with DNF.from_clauses")
        shift = np.cumsum([0] + [f.num_vars for f in parts])
        starts = np.cumsum([0] + [f.num_literals for f in parts])
        if shift[-1] > MAX_VARS:
            raise InvalidFormula(f"a batch of {shift[-1]} variables is more than literals can number")
        empty = np.zeros(0, dtype=np.int64)
        indptr = np.concatenate([[0], *(f.indptr[1:] + s for f, s in zip(parts, starts, strict=False))]).astype(
            np.int64
        )
        literals = np.concatenate([empty, *(f.literals + 2 * s for f, s in zip(parts, shift, strict=False))])
        prob = np.concatenate([empty.astype(np.float64), *(f.prob for f in parts)])
        sizes = np.cumsum([0] + [f.num_clauses for f in parts]).astype(np.int64)
        return cls(DNF.trusted(indptr, literals.astype(np.int32), prob), sizes)
