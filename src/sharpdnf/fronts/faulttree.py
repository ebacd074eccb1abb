"""Fault trees: the probability of a top event, exactly, and what contributes to it.

>>> from sharpdnf import faulttree
>>> tree = faulttree.reads("top := (pump & valve) | power\\np(pump) = 0.1\\np(valve) = 0.2\\np(power) = 0.01")
>>> round(tree.probability().prob, 6)
0.0298
>>> tree.cut_sets().events
[('pump', 'valve'), ('power',)]

The tree becomes a circuit, whose probability needs no cut sets; those come from a decision diagram of their own
(:mod:`sharpdnf.fronts.cutsets`). Files are Open-PSA models, Aralia text or lists of cut sets.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Never

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import FloatArray
from sharpdnf.engines.front import Seed, count, make_limit, make_rng
from sharpdnf.engines.registry import refuse_options
from sharpdnf.errors import InvalidFormula, LimitError, did_you_mean
from sharpdnf.estimate import Estimate, Limit
from sharpdnf.fronts.cutsets import MAX_NODES, CutSets, find_cut_sets, is_coherent, restricted
from sharpdnf.fronts.implicants import find_implicants
from sharpdnf.fronts.importance import exact_importance, sampled_importance
from sharpdnf.fronts.quantities import Evaluator, constant, is_random
from sharpdnf.fronts.safexml import shown
from sharpdnf.fronts.treefiles import contents, read_model
from sharpdnf.fronts.treemodel import (
    MANY_NAMES,
    BasicEvent,
    Model,
    assemble,
    variable_events,
    why_not_coherent,
)

Table = dict[str, Any]
LISTED = 1000
"""How many cut sets are listed, unless the caller says otherwise."""
BATCH = 1 << 20
"""How many probabilities one batch of an uncertainty analysis holds."""
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True, eq=False)
class CutSetTable:
    """Minimal cut sets in falling probability, or from the smallest on where probabilities are missing."""

    events: list[tuple[str, ...]]
    """The names of the events of each cut set that is listed."""
    prob: FloatArray
    """float64[k]: the probability that all events of the cut set happen; nan where one is missing."""
    share: FloatArray
    """float64[k]: P(all of them happened, given that the top event did); nan where that is not known."""
    total: int
    """How many cut sets there are within the order and the cut-off; ``events`` may list fewer."""
    rare_event: float
    """The sum of the probabilities of all of them, listed or not."""
    mcub: float | None
    """The min-cut upper bound 1 - prod (1 - P(C)) over all of them; None where it is too hard to sum up."""
    complete: bool
    """Whether these are all minimal cut sets: neither order nor cut-off was asked for."""

    def __len__(self) -> int:
        return len(self.events)

    @property
    def order(self) -> list[int]:
        """How many events each cut set has."""
        return [len(names) for names in self.events]

    def table(self) -> Table:
        """The columns: events, order, prob, share."""
        return {"events": self.events, "order": self.order, "prob": self.prob, "share": self.share}


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """The probability of the top event where the basic events' own probabilities are uncertain."""

    mean: float
    """The mean probability of the top event over the draws."""
    sd: float
    """The standard deviation of these probabilities."""
    quantiles: dict[float, float]
    """The values below which 5, 50 and 95 percent of the draws lie."""
    std_error: float
    """The standard error of the mean, which falls with the number of draws."""
    values: FloatArray = field(repr=False)
    """float64[samples]: the probability of the top event in each draw."""
    clipped: int
    """How many drawn probabilities lay outside [0, 1] and were moved to its nearer end."""
    seed: int
    """The seed that repeats the draws when it is passed as ``rng``."""


class FaultTree:
    """A model: ``tops`` are the gates that no other gate reads, ``sequence_names`` the ends of its event trees.

    Every question takes ``top``, one of these names, which may be left out if there is one top only, and
    ``mission_time``, which models with failure rates need.
    """

    def __init__(self, model: Model, prob: Mapping[str, float] | None = None, file: str = "<model>") -> None:
        self.model = model
        """What the file says: gates, events, parameters, event trees."""
        self._given(prob or {})
        self.circuit = assemble(model, file)
        """All tops and sequences as outputs of one circuit. Its own probabilities have no meaning: those of a question
        depend on the mission time."""
        self._compiled: dict[str, Compiled] = {}

    def _given(self, prob: Mapping[str, float]) -> None:
        for name, value in prob.items():
            if name not in self.model.events:
                raise InvalidFormula(f"no basic event is named {name!r}{did_you_mean(name, self.model.events)}")
            if not 0.0 <= float(value) <= 1.0:
                raise InvalidFormula(f"the probability of {name!r} must lie in [0, 1], not {value}")
            place = self.model.events[name].place
            self.model.events[name] = BasicEvent(name, place, constant(float(value), place))

    @property
    def tops(self) -> tuple[str, ...]:
        """The names of the gates that no other gate reads."""
        return self.model.tops()

    @property
    def sequence_names(self) -> tuple[str, ...]:
        """The names of the ends of the event trees."""
        return tuple(sequence.name for sequence in self.model.sequences)

    @property
    def notes(self) -> tuple[str, ...]:
        """What reading the model left as it was although it may matter, in words."""
        return tuple(self.model.notes)

    @cached_property
    def _events(self) -> dict[str, BasicEvent]:
        return variable_events(self.model)

    def __repr__(self) -> str:
        counts = f"{len(self.model.gates)} gates, {len(self.model.events)} basic events"
        return f"FaultTree({counts}, tops {list(self.tops[:MANY_NAMES])}, {len(self.model.sequences)} sequences)"

    # --- questions ------------------------------------------------------------------------------------------------

    def probability(self, top: str | None = None, mission_time: float | None = None, **asked: Any) -> Estimate:
        """The probability of the top event. ``asked`` is what :func:`sharpdnf.count` takes; the guarantee is exact
        unless it names another."""
        name = self._top(top)
        circuit = self._quantified(name, mission_time)
        return count(circuit, **{"guarantee": "exact", **asked})

    def sequences(self, mission_time: float | None = None, **asked: Any) -> Table:
        """The sequences of the event trees: their probability given the initiating event, and their frequency, which is
        nan where the initiating event has none."""
        names = self.sequence_names
        estimates = [self.probability(name, mission_time, **asked) for name in names]
        evaluator = Evaluator(self.model.parameters, _checked_time(mission_time))
        rates = [math.nan if s.frequency is None else float(evaluator.value(s.frequency)) for s in self.model.sequences]
        return {
            "sequence": list(names),
            "prob": np.array([estimate.prob for estimate in estimates]),
            "lower": np.array([estimate.lower for estimate in estimates]),
            "upper": np.array([estimate.upper for estimate in estimates]),
            "met": np.array([estimate.met for estimate in estimates]),
            "frequency": np.array([rate * e.prob for rate, e in zip(rates, estimates, strict=True)]),
        }

    def importance(
        self,
        top: str | None = None,
        mission_time: float | None = None,
        timeout: float | None = None,
        *,
        epsilon: float = 0.02,
        delta: float = 0.05,
        rng: Seed = None,
    ) -> Table:
        """Importance of every basic event below the top, most critical first, from one backward pass.

        With Q = P(top), P1 = P(top | event), P0 = P(top | not event) and p = P(event): ``birnbaum`` P1 - P0,
        ``criticality`` p (P1 - P0) / Q, ``raw`` (risk achievement worth) P1 / Q, ``rrw`` (risk reduction worth) Q / P0,
        and ``fussell_vesely`` P(some minimal cut set with the event happens) / Q where the cut sets can be counted,
        else 1 - P0 / Q: the column ``fussell_vesely_by`` says which. Ratios are nan where Q is 0.

        A tree that cannot be compiled within half the time limit, or within the memory limit, is sampled: then
        ``error`` is one standard error of the criticality, which is 0 where the table is exact. ``epsilon`` and
        ``delta`` are those of Q, on whose samples all the measures rest.
        """
        name, limit = self._top(top), make_limit(timeout, None)
        circuit = self._quantified(name, mission_time)
        compiled = self._compiled.get(name) or compile_circuit(circuit, _half(limit))
        if compiled is None:
            return sampled_importance(circuit, epsilon, delta, rng, limit)
        self._compiled[name] = compiled
        return exact_importance(circuit, compiled, limit)

    def cut_sets(
        self,
        order: int | None = None,
        cutoff: float | None = None,
        limit: int = LISTED,
        *,
        top: str | None = None,
        mission_time: float | None = None,
        timeout: float | None = None,
        max_nodes: int = MAX_NODES,
    ) -> CutSetTable:
        """The minimal cut sets, the likeliest ``limit`` of them listed: all, or those of at most ``order`` events and
        of probability at least ``cutoff``. A tree with negations has none and is refused."""
        if order is not None and order < 1:
            raise ValueError(f"the order of a cut set is at least 1, not {order}")
        if cutoff is not None and not 0.0 <= cutoff <= 1.0:
            raise ValueError(f"the cut-off is a probability, not {cutoff}")
        name, clock = self._top(top), make_limit(timeout, None)
        known = cutoff is not None or self._has_numbers(name)
        circuit = self._quantified(name, mission_time) if known else restricted(self.circuit[name])
        if not is_coherent(circuit):
            raise InvalidFormula(
                f"{name!r} is not coherent ({why_not_coherent(self.model, name)}): it has no minimal cut sets but "
                "prime implicants, prime_implicants(); its probability and importances are exact all the same"
            )
        found = find_cut_sets(circuit, order=order, cutoff=cutoff, limit=clock, max_nodes=max_nodes)
        log_q = self._log_top(name, circuit, clock) if known and limit > 0 else math.nan
        names, complete = list(circuit.names or ()), order is None and not cutoff
        return _listed(found, names, circuit.prob, limit, cutoff, log_q, known, complete=complete)

    def prime_implicants(
        self,
        limit: int = LISTED,
        *,
        top: str | None = None,
        mission_time: float | None = None,
        timeout: float | None = None,
    ) -> CutSetTable:
        """The prime implicants, the likeliest ``limit`` of them listed: what is just enough for the top event, an event
        that must not happen written "not event". Without negations they are the minimal cut sets."""
        name, clock = self._top(top), make_limit(timeout, None)
        known = self._has_numbers(name)
        circuit = self._quantified(name, mission_time) if known else restricted(self.circuit[name])
        found = find_implicants(circuit, clock)
        names = [word for event in circuit.names or () for word in (event, f"not {event}")]
        prob = np.stack([circuit.prob, 1.0 - circuit.prob], axis=1).reshape(-1)
        log_q = self._log_top(name, circuit, clock) if known and limit > 0 else math.nan
        return _listed(found, names, prob, limit, None, log_q, known, complete=True)

    def uncertainty(
        self,
        samples: int = 10_000,
        rng: Seed = None,
        *,
        top: str | None = None,
        mission_time: float | None = None,
        timeout: float | None = None,
        **unknown: Never,
    ) -> Uncertainty:
        """Draws the uncertain probabilities and parameters ``samples`` times and computes P(top) exactly each time."""
        refuse_options(self.uncertainty, unknown)
        if samples < 2:
            raise ValueError(f"samples must be at least 2, not {samples}")
        name, limit = self._top(top), make_limit(timeout, None)
        circuit = self._quantified(name, mission_time)
        events = [self._events[event] for event in circuit.names or ()]
        if not any(e.expression and is_random(e.expression, self.model.parameters) for e in events):
            raise InvalidFormula(
                f"no basic event below {name!r} has a distribution: there is no uncertainty to propagate"
            )
        compiled = self._compile(name, circuit, limit)
        generator, seed = make_rng(rng)
        values, clipped = [], 0
        step = max(1, BATCH // max(1, circuit.num_vars))
        for start in range(0, samples, step):
            if limit.expired:
                raise LimitError(f"the time limit came after {start} of {samples} samples")
            size = min(step, samples - start)
            evaluator = Evaluator(self.model.parameters, _checked_time(mission_time), generator, size)
            rows = np.stack([np.broadcast_to(_drawn(evaluator, e), (size,)) for e in events], axis=1)
            inside = np.clip(rows, 0.0, 1.0)
            clipped += int(np.count_nonzero(inside != rows))
            values.append(np.exp(compiled.evaluate(inside)))
        drawn = np.concatenate(values)
        sd = float(drawn.std(ddof=1))
        quantiles = {q: float(v) for q, v in zip(QUANTILES, np.quantile(drawn, QUANTILES), strict=True)}
        return Uncertainty(float(drawn.mean()), sd, quantiles, sd / math.sqrt(samples), drawn, clipped, seed)

    # --- the circuit of one question ------------------------------------------------------------------------------

    def _top(self, top: str | None) -> str:
        names = (*self.tops, *self.sequence_names)
        if top is not None:
            if top not in names and top in self.model.gates:
                raise InvalidFormula(f"{top!r} is a gate below a top: the tops are {', '.join(self.tops[:MANY_NAMES])}")
            if top not in names:
                raise InvalidFormula(f"no top event or sequence is named {top!r}{did_you_mean(top, names)}")
            return top
        choice = self.tops or names
        if len(choice) != 1:
            more = ", ..." if len(choice) > MANY_NAMES else ""
            raise InvalidFormula(
                f"there are {len(choice)} tops: choose with top=, of {', '.join(choice[:MANY_NAMES])}{more}"
            )
        return choice[0]

    def _quantified(self, top: str, mission_time: float | None) -> Circuit:
        circuit = restricted(self.circuit[top])
        evaluator = Evaluator(self.model.parameters, _checked_time(mission_time))
        return circuit.with_prob([_chance(evaluator, self._events[name]) for name in circuit.names or ()])

    def _has_numbers(self, top: str) -> bool:
        return all(self._events[name].expression is not None for name in restricted(self.circuit[top]).names or ())

    def _compile(self, name: str, circuit: Circuit, limit: Limit) -> Compiled:
        if name not in self._compiled:
            found = compile_circuit(circuit, limit)
            if found is None:
                raise LimitError(
                    f"{name!r} could not be compiled within the time or memory limit: raise timeout=, "
                    "or ask for its probability with guarantee='relative'"
                )
            self._compiled[name] = found
        return self._compiled[name]

    def _log_top(self, name: str, circuit: Circuit, limit: Limit) -> float:
        """log P(top) exactly; nan if the limit comes first."""
        try:
            return float(self._compile(name, circuit, limit).evaluate(circuit.prob)[0])
        except LimitError:
            return math.nan


def _listed(
    found: CutSets,
    names: list[str],
    chance_of: FloatArray,
    limit: int,
    cutoff: float | None,
    log_q: float,
    known: bool,
    *,
    complete: bool,
) -> CutSetTable:
    prob = chance_of if known else None
    events, chances = [], []
    for variables, chance in found.likeliest(prob) if limit > 0 else ():
        if cutoff is not None and chance < cutoff:
            break
        events.append(tuple(names[v] for v in sorted(variables)))
        chances.append(chance)
        if len(events) >= limit:
            break
    column = np.array(chances, dtype=np.float64)
    share = np.minimum(column / math.exp(log_q), 1.0) if log_q > -math.inf else np.full(len(events), math.nan)
    rare = found.rare_event(chance_of) if known else math.nan
    mcub = found.min_cut_upper_bound(chance_of) if known else None
    return CutSetTable(events, column, share, found.count(), rare, mcub, complete)


def _half(limit: Limit) -> Limit:
    """A limit that ends in the middle of the time that is left."""
    return limit if math.isinf(limit.deadline) else make_limit(limit.seconds_left / 2.0, None)


def _checked_time(mission_time: float | None) -> float | None:
    if mission_time is not None and not 0.0 <= mission_time < math.inf:
        raise ValueError(f"the mission time must not be negative, and finite, not {mission_time}")
    return mission_time


def _chance(evaluator: Evaluator, event: BasicEvent) -> float:
    if event.expression is None:
        raise event.place.error(f"the basic event {shown(event.name)} has no probability")
    value = float(np.asarray(evaluator.value(event.expression)))
    if not 0.0 <= value <= 1.0:
        when = "" if evaluator.mission_time is None else f" at mission time {evaluator.mission_time:g}"
        raise event.place.error(f"the probability of {shown(event.name)} must lie in [0, 1], not {value}{when}")
    return value


def _drawn(evaluator: Evaluator, event: BasicEvent) -> Any:
    assert event.expression is not None, "the mean was computed before"
    values = evaluator.value(event.expression)
    if not np.all(np.isfinite(values)):
        raise event.place.error(
            f"a drawn probability of {shown(event.name)} is not a number: its parameters vary too far"
        )
    return values


def read(
    path: str | os.PathLike[str], *more: str | os.PathLike[str], prob: Mapping[str, float] | None = None
) -> FaultTree:
    """Reads a model from a file, gzipped or not, or from several that belong together (Open-PSA models only).

    ``prob`` gives, or replaces, probabilities of basic events by name.
    """
    parts = [(contents(p), os.fspath(p)) for p in (path, *more)]
    return FaultTree(read_model(parts), prob, parts[0][1])


def reads(text: str | bytes, prob: Mapping[str, float] | None = None, file: str = "<text>") -> FaultTree:
    """Reads a model from text; ``file`` is what errors call it."""
    return FaultTree(read_model([(text.encode() if isinstance(text, str) else text, file)]), prob, file)


__all__ = ["CutSetTable", "FaultTree", "Uncertainty", "read", "reads"]
