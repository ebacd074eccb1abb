"""Grounds a ProbLog program in a process of its own, so that recursion without an end dies at its time limit.

Run by path with ``python -I``: nothing of the current folder is imported. It reads one line of JSON with the program's
text and writes one line of JSON with the ground program: its nodes in order (an atom with its probability and group, a
conjunction or a disjunction of nodes, negative for negation), the queries and the evidence. Node 0 is true, null false.
If the request has examples (interpretations to learn from), there is one ground program for each, and the probability
of an atom that is to be learned is a list with the number of its parameter.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import warnings
from typing import Any

LIBRARIES = {
    *("aggregate", "apply", "assert", "builtin", "collect", "control", "cut", "lists", "record", "scope", "string"),
}
"""What use_module may load: ProbLog's own, without those that open databases or change what a probability is."""


class Refused(Exception):
    """The program asks for what is not done here. ``location`` is (file, line, column), as in ProbLog's own errors."""

    def __init__(self, message: str, location: Any) -> None:
        super().__init__(message)
        self.location = location


def guard_loading() -> None:
    """From now on a program loads ProbLog's own libraries only: a Python file would run as it is read."""
    import problog
    from problog.clausedb import ClauseDB

    folders = {os.path.realpath(path) for path in problog.library_paths}

    def guarded(load: Any) -> Any:
        @functools.wraps(load)
        def checked(self: Any, filename: Any, *args: Any, **named: Any) -> Any:
            path = os.path.realpath(str(self.resolve_filename(filename)).strip("'"))
            stem = os.path.splitext(os.path.basename(path))[0]
            if os.path.dirname(path) not in folders or stem not in LIBRARIES:
                raise Refused(
                    f"{filename} is not loaded: only ProbLog's own libraries are ({', '.join(sorted(LIBRARIES))}), "
                    "because foreign code would run; put the clauses into the program",
                    self.lineno(named.get("location")),
                )
            return load(self, filename, *args, **named)

        return checked

    ClauseDB.use_module, ClauseDB.consult = guarded(ClauseDB.use_module), guarded(ClauseDB.consult)


def check_probabilities(program: Any) -> None:
    """Checks that numbers written as probabilities lie in [0, 1], whether or not a query needs them."""
    from problog.logic import Or

    for statement in program:
        heads = getattr(statement, "heads", None) or [getattr(statement, "head", statement)]
        if isinstance(statement, Or):  # an annotated disjunction without a body
            heads = statement.to_list()
        total = 0.0
        for head in heads:
            given = getattr(head, "probability", None)
            if to_be_learned(head):
                message = (
                    f"the probability of {head.with_probability()} is to be learned from examples: learn() does it"
                )
                raise Refused(message, program.lineno(head.location))
            if given is None or not given.is_constant() or not isinstance(given.compute_value(), int | float):
                continue
            p = float(given.compute_value())
            line = program.lineno(head.location)
            if not 0.0 <= p <= 1.0:
                raise Refused(f"{head} has the probability {p:g}: expected a number between 0 and 1", line)
            total += p
        if total > 1.0 + 1e-9:
            raise Refused(f"the probabilities of an annotated disjunction add up to {total:g}, more than 1", line)


def to_be_learned(head: Any) -> bool:
    """Whether a head is written t(...)::head."""
    return getattr(getattr(head, "probability", None), "functor", None) == "t"


def ground(text: str) -> dict[str, Any]:
    """The ground program of a text, cycles and all."""
    from problog.engine import DefaultEngine
    from problog.formula import LogicFormula
    from problog.program import PrologString

    program = PrologString(text)
    check_probabilities(program)
    engine = DefaultEngine()
    return nodes_of(engine.ground_all(engine.prepare(program), target=LogicFormula(avoid_name_clash=True)))


def nodes_of(found: Any, parameters: Parameters | None = None) -> dict[str, Any]:
    """A ground program as lists."""
    groups: dict[str, int] = {}
    nodes: list[Any] = []
    for _, node, kind in found:
        if kind == "atom":
            group = None if node.group is None else groups.setdefault(str(node.group), len(groups))
            extra = bool(getattr(node, "is_extra", False))
            chance = parameters.number(node.probability) if parameters else None
            nodes.append(["atom", chance or _probability(node.probability), group, str(node.name), extra])
        else:
            nodes.append([kind, list(node.children), None if node.name is None else str(node.name)])
    queries = [[str(name), node] for name, node in found.queries()]
    evidence = [[str(name), node] for name, node in found.evidence()]
    return {"nodes": nodes, "queries": queries, "evidence": evidence}


class Parameters:
    """The probabilities of a program that are to be learned: one for each head t(...)::head and binding of the
    variables that the t(...) names after its first argument. ``program`` has a marker in the place of each."""

    MARKER = "sharpdnf_parameter"

    def __init__(self, program: Any) -> None:
        from problog.program import SimpleProgram

        self.program = SimpleProgram()
        self.clauses: list[tuple[Any, list[Any]]] = []
        """(statement with markers, its heads as they were) of every clause with something to learn."""
        self.lines: list[Any] = []
        """The program in order: the text of a statement, or the number of a clause with something to learn."""
        self.known: dict[tuple[int, tuple[str, ...]], dict[int, int]] = {}
        """The parameter of each head to be learned, of a clause and a binding."""
        self.table: list[dict[str, Any]] = []
        for statement in program:
            self._add(statement, program)

    def _add(self, statement: Any, program: Any) -> None:
        from problog.logic import AnnotatedDisjunction, Clause, Constant, Or, Term

        heads = getattr(statement, "heads", None) or [getattr(statement, "head", statement)]
        if isinstance(statement, Or):
            heads = statement.to_list()
        tunable = [head for head in heads if to_be_learned(head)]
        if not tunable:
            self.program += statement
            if str(getattr(statement, "functor", "")) not in ("query", "evidence"):
                self.lines.append(f"{statement}.")
            return
        named = [str(head.probability.args[1:]) for head in tunable]
        if len(set(named)) > 1:
            raise Refused(
                "the t(...) of one annotated disjunction must name the same variables",
                program.lineno(heads[0].location),
            )
        number = len(self.clauses)
        marked = [
            head.with_probability(Term(self.MARKER, Constant(number), Constant(i), *head.probability.args[1:]))
            if to_be_learned(head)
            else head
            for i, head in enumerate(heads)
        ]
        if isinstance(statement, AnnotatedDisjunction):
            statement = AnnotatedDisjunction(marked, statement.body)
        elif isinstance(statement, Clause):
            statement = Clause(marked[0], statement.body)
        else:
            statement = Or.from_list(marked) if len(marked) > 1 else marked[0]
        self.clauses.append((statement, heads))
        self.lines.append(number)
        self.program += statement

    def number(self, probability: Any) -> list[int] | None:
        """[parameter] if a ground atom has one; those of the other heads of its clause are made with it."""
        if getattr(probability, "functor", None) != self.MARKER:
            return None
        clause, head, *bound = probability.args
        key = (int(clause), tuple(str(term) for term in bound))
        if key not in self.known:
            self.known[key] = self._instance(int(clause), bound)
        return [self.known[key][int(head)]]

    def _instance(self, clause: int, bound: list[Any]) -> dict[int, int]:
        statement, heads = self.clauses[clause]
        tunable = [i for i, head in enumerate(heads) if to_be_learned(head)]
        variables = [str(term) for term in heads[tunable[0]].probability.args[1:]]
        text = str(statement.apply(_Bound(dict(zip(variables, bound, strict=True)))))
        fixed = [float(h.probability) for i, h in enumerate(heads) if i not in tunable and h.probability is not None]
        made = {}
        for i in tunable:
            made[i] = len(self.table)
            try:
                start = float(heads[i].probability.args[0])
            except Exception:  # t(_): ProbLog has several errors for what has no value
                start = None
            name = self._name(heads[i], statement, _Bound(dict(zip(variables, bound, strict=True))))
            marker = f"{self.MARKER}({','.join([str(clause), str(i), *(str(term) for term in bound)])})"
            self.table.append({"name": name, "start": start, "marker": marker, "text": f"{text}.", "clause": clause})
        for number in made.values():
            self.table[number] |= {"heads": list(made.values()), "fixed": sum(fixed), "fixed_heads": len(fixed)}
        return made

    def _name(self, head: Any, statement: Any, bound: _Bound) -> str:
        """The head with its body, and a number if the program has such a clause already."""
        body = getattr(statement, "body", None)
        name = str(head.with_probability().apply(bound)) + ("" if body is None else f" :- {body.apply(bound)}")
        taken = sum(entry["name"].split(" #")[0] == name for entry in self.table)
        return name if not taken else f"{name} #{taken + 1}"

    def unseen(self, clause: int) -> str:
        """The text of a clause of which no example needs a parameter."""
        from problog.logic import AnnotatedDisjunction, Clause, Or

        statement, heads = self.clauses[clause]
        if isinstance(statement, AnnotatedDisjunction):
            return f"{AnnotatedDisjunction(heads, statement.body)}."
        if isinstance(statement, Clause):
            return f"{Clause(heads[0], statement.body)}."
        return f"{Or.from_list(heads) if len(heads) > 1 else heads[0]}."


class _Bound(dict[str, Any]):
    """A substitution that leaves other variables as they are."""

    def __missing__(self, name: str) -> Any:
        from problog.logic import Var

        return Var(name)


def ground_examples(text: str, examples: list[str]) -> dict[str, Any]:
    """A ground program for each example, and the parameters that they share."""
    from problog.engine import DefaultEngine
    from problog.formula import LogicFormula
    from problog.learning.lfi import extract_evidence
    from problog.program import PrologString

    parameters = Parameters(PrologString(text))
    engine = DefaultEngine()
    database = engine.prepare(parameters.program)
    programs = []
    for number, example in enumerate(examples, start=1):
        try:
            evidence = [(atom, value) for atom, value in extract_evidence(PrologString(example)) if value is not None]
            found = engine.ground_all(
                database, target=LogicFormula(avoid_name_clash=True), queries=[], evidence=evidence
            )
        except Exception as error:
            raise Refused(f"example {number}: {type(error).__name__}: {error}", None) from error
        programs.append(nodes_of(found, parameters))
    seen = {entry["clause"] for entry in parameters.table}
    lines = [parameters.unseen(x) if isinstance(x, int) and x not in seen else x for x in parameters.lines]
    return {"programs": programs, "parameters": parameters.table, "lines": lines}


def _probability(value: Any) -> float | str | None:
    """A probability as a number, the text of what is no number, or None for the choice that only fills up a group."""
    if value is True:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def main() -> None:
    """Answers one request: the ground program, or what is wrong with it and in which line."""
    job = json.loads(sys.stdin.readline())
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guard_loading()
            examples = job.get("examples")
            answer = ground(job["text"]) if examples is None else ground_examples(job["text"], examples)
    except RecursionError:
        answer = {"error": "the program recurses too deeply", "line": None}
    except Exception as error:  # ProbLog has many kinds of errors, and each is about the program that it reads
        location = getattr(error, "location", None)
        line = location[1] if isinstance(location, tuple) and len(location) > 1 else getattr(error, "lineno", None)
        message = getattr(error, "base_message", None) or str(error) or type(error).__name__
        kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
        answer = {"error": f"{kind}{message}", "line": line}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
