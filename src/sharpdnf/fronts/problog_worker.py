"""Grounds a ProbLog program in a process of its own, so that recursion without an end dies at its time limit.

Run by path with ``python -I``: nothing of the current folder is imported. It reads one line of JSON with the program's
text and writes one line of JSON with the ground program: its nodes in order (an atom with its probability and group, a
conjunction or a disjunction of nodes, negative for negation), the queries and the evidence. Node 0 is true, null false.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from typing import Any


def ground(text: str) -> dict[str, Any]:
    """The ground program of a text, cycles and all."""
    from problog.engine import DefaultEngine
    from problog.formula import LogicFormula
    from problog.program import PrologString

    engine = DefaultEngine()
    found = engine.ground_all(engine.prepare(PrologString(text)), target=LogicFormula(avoid_name_clash=True))
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
    """A number; the text of what is to be learned, such as t(0.3); None for a choice that only fills up a group."""
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
        answer = {"error": f"{type(error).__name__}: {message}", "line": line}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
