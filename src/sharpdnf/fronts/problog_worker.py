"""Grounds a ProbLog program in a process of its own, so that recursion without an end dies at its time limit.

Run by path with ``python -I``: nothing of the current folder is imported. It reads one line of JSON with the program's
text and writes one line of JSON with the ground program: its nodes in order (an atom with its probability and group, a
conjunction or a disjunction of nodes, negative for negation), the queries and the evidence. Node 0 is true, null false.
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
            if given is None or not given.is_constant() or not isinstance(given.compute_value(), int | float):
                continue
            p = float(given.compute_value())
            line = program.lineno(head.location)
            if not 0.0 <= p <= 1.0:
                raise Refused(f"{head} has the probability {p:g}: expected a number between 0 and 1", line)
            total += p
        if total > 1.0 + 1e-9:
            raise Refused(f"the probabilities of an annotated disjunction add up to {total:g}, more than 1", line)


def ground(text: str) -> dict[str, Any]:
    """The ground program of a text, cycles and all."""
    from problog.engine import DefaultEngine
    from problog.formula import LogicFormula
    from problog.program import PrologString

    guard_loading()
    program = PrologString(text)
    check_probabilities(program)
    engine = DefaultEngine()
    found = engine.ground_all(engine.prepare(program), target=LogicFormula(avoid_name_clash=True))
    groups: dict[str, int] = {}
    nodes: list[Any] = []
    for _, node, kind in found:
        if kind == "atom":
            group = None if node.group is None else groups.setdefault(str(node.group), len(groups))
            extra = bool(getattr(node, "is_extra", False))
            nodes.append(["atom", _probability(node.probability), group, str(node.name), extra])
        else:
            nodes.append([kind, list(node.children), None if node.name is None else str(node.name)])
    queries = [[str(name), node] for name, node in found.queries()]
    evidence = [[str(name), node] for name, node in found.evidence()]
    return {"nodes": nodes, "queries": queries, "evidence": evidence}


def _probability(value: Any) -> float | str | None:
    """A probability as a number, the text of one that is to be learned, such as t(0.3), or None for the choice that
    only fills up a group to 1."""
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
            answer = ground(job["text"])
    except RecursionError:
        answer = {"error": "the program recurses too deeply", "line": None}
    except Exception as error:  # ProbLog has many kinds, and all are the program's
        location = getattr(error, "location", None)
        line = location[1] if isinstance(location, tuple) and len(location) > 1 else getattr(error, "lineno", None)
        message = getattr(error, "base_message", None) or str(error) or type(error).__name__
        kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
        answer = {"error": f"{kind}{message}", "line": line}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
