"""Questions about a network: how likely it holds, which nodes are reached, which links matter, and where to draw it."""

from __future__ import annotations

from typing import Any

from sharpdnf.errors import LimitError
from sharpdnf.fronts import network as front
from sharpdnf.fronts.links import LinkNetwork, read_network
from sharpdnf.fronts.network_picture import lay_out
from sharpdnf.serve.asked import Fields
from sharpdnf.serve.plain import cell, numbers
from sharpdnf.serve.rounds import Watcher, estimate_json, shrinking

QUESTIONS = ("two-terminal", "k-terminal", "all-terminal", "reach")
DRAWN = 400
"""How many nodes are laid out at most: the forces between all pairs are computed hundreds of times."""


def answer(asked: dict[str, Any], watcher: Watcher | None) -> dict[str, Any]:
    """What is asked about the network of the field ``edges``."""
    request = Fields(asked)
    question = request.choice("question", QUESTIONS, "two-terminal")
    network = _network(asked, bool(asked.get("directed")))
    promise = request.promise()
    if question == "reach":
        return _reached(network, request, promise)
    where = _where(question, asked)
    found = shrinking(lambda **options: front.reliability(network, **where, **options), promise, watcher)
    said = estimate_json(found)
    importance: list[float | None] = [None] * network.num_links
    if asked.get("importance", True):
        try:
            table = front.importance(network, **where, timeout=promise["timeout"])
            for link, value in zip(table["link"].tolist(), numbers(table["birnbaum"]), strict=True):
                importance[link] = value
        except LimitError as error:
            said["notes"] = [str(error)]
    return {**said, "nodes": _nodes(network), "edges": _edges(network, importance)}


def _network(asked: dict[str, Any], directed: bool) -> LinkNetwork:
    edges = asked.get("edges")
    if not isinstance(edges, list) or not all(isinstance(edge, list) and len(edge) == 3 for edge in edges):
        raise ValueError("edges is a list of links, each [node, node, probability]")
    return read_network([tuple(edge) for edge in edges], directed=directed)


def _where(question: str, asked: dict[str, Any]) -> dict[str, Any]:
    if question == "two-terminal":
        if asked.get("source") is None or asked.get("target") is None:
            raise ValueError("a two-terminal question needs a source and a target")
        return {"source": asked["source"], "target": asked["target"]}
    if question == "k-terminal":
        if not isinstance(asked.get("terminals"), list):
            raise ValueError("a k-terminal question needs terminals, a list of nodes")
        return {"terminals": asked["terminals"]}
    return {}


def _reached(network: LinkNetwork, request: Fields, promise: dict[str, Any]) -> dict[str, Any]:
    if request.fields.get("source") is None:
        raise ValueError("the question which nodes are reached needs a source")
    promise["epsilon"] = request.number("epsilon", 0.01)
    table = front.reached(network, request.fields["source"], **promise)
    columns = zip(numbers(table["prob"]), numbers(table["lower"]), numbers(table["upper"]), strict=True)
    nodes = _nodes(network)
    for node, (prob, low, high) in zip(nodes, columns, strict=True):
        node |= {"prob": prob, "low": low, "high": high}
    exact = bool(table["exact"].all())
    said: dict[str, Any] = {"prob": None, "low": None, "high": None, "guarantee": "exact" if exact else "additive"}
    said |= {"met": bool(table["met"]), "seed": table["seed"], "final": True}
    return {**said, "nodes": nodes, "edges": _edges(network, [None] * network.num_links)}


def _nodes(network: LinkNetwork) -> list[dict[str, Any]]:
    """Every node with its place in the unit square, if there are not too many to draw."""
    places = lay_out(network).tolist() if network.num_nodes <= DRAWN else [(None, None)] * network.num_nodes
    return [{"name": cell(node), "x": x, "y": y} for node, (x, y) in zip(network.nodes, places, strict=True)]


def _edges(network: LinkNetwork, importance: list[float | None]) -> list[dict[str, Any]]:
    ends = zip(network.tail.tolist(), network.head.tolist(), network.prob.tolist(), importance, strict=True)
    return [
        {"u": cell(network.nodes[u]), "v": cell(network.nodes[v]), "p": p, "importance": value}
        for u, v, p, value in ends
    ]
