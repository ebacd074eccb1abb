"""Reading a network: edge lists, files, data frames, networkx graphs and matrices become one set of arrays."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import InvalidNetwork, MissingExtra

NAMES = {
    "from": ("source", "src", "from", "u", "a", "node1", "tail"),
    "to": ("target", "dst", "to", "v", "b", "node2", "head"),
    "prob": ("prob", "p", "probability", "reliability", "r", "weight"),
}
"""How the columns of an edge list may be called; otherwise its first three are taken in this order."""
MAX_NODES = 2**31 - 2


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Links between numbered nodes: link i leads from ``tail[i]`` to ``head[i]`` and is up with ``prob[i]``."""

    nodes: tuple[Hashable, ...]
    """The name of each node, as it was given."""
    tail: npt.NDArray[np.int32]
    head: npt.NDArray[np.int32]
    prob: FloatArray
    node_prob: FloatArray
    """The probability that each node works; 1 where nothing was said."""
    directed: bool

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)

    @property
    def num_links(self) -> int:
        return len(self.prob)

    def number(self, node: Hashable, role: str = "node") -> int:
        """The number of a node by its name; text is taken for a number where only the number is known."""
        try:
            return self._index()[node]
        except (KeyError, TypeError):
            for name, number in self._index().items():
                if str(name) == str(node):
                    return number
        shown = ", ".join(map(str, self.nodes[:8])) + (", ..." if self.num_nodes > 8 else "")
        raise InvalidNetwork(f"the {role} {node!r} is no node of the network: its nodes are {shown}")

    def _index(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.nodes)}


def read_network(edges: Any, *, directed: bool = False, node_prob: Any = None) -> Network:
    """A network from whatever holds its links.

    ``edges`` is a path to a CSV or Parquet file, a data frame, a networkx graph, a scipy sparse matrix of
    probabilities, an array of three columns, or rows (u, v, p). ``node_prob`` maps nodes to the probability that they
    work. A networkx graph says itself whether it is directed.
    """
    if isinstance(edges, Network):
        return edges
    if hasattr(edges, "is_directed") and hasattr(edges, "edges"):
        directed = directed or bool(edges.is_directed())
        rows, where = _from_networkx(edges), "link"
        if node_prob is None:
            known = {node: _attribute(data) for node, data in edges.nodes(data=True)}
            node_prob = {node: p for node, p in known.items() if p is not None} or None
    elif hasattr(edges, "tocoo"):
        matrix = edges.tocoo()
        keep = slice(None) if directed else matrix.row <= matrix.col
        rows = zip(matrix.row[keep].tolist(), matrix.col[keep].tolist(), matrix.data[keep].tolist(), strict=True)
        where = "entry"
    elif isinstance(edges, str | Path):
        rows, where = _from_file(Path(edges)), f"{edges}: line"
    elif hasattr(edges, "columns") or hasattr(edges, "column_names"):
        rows, where = _from_frame(edges), "row"
    else:
        rows, where = iter(edges), "link"
    network = _build(rows, where, directed)
    return network if node_prob is None else _with_nodes(network, node_prob)


def _build(rows: Iterable[Any], where: str, directed: bool) -> Network:
    number: dict[Hashable, int] = {}
    tail, head, prob = [], [], []
    first = 2 if where.endswith("line") else 0  # a file's lines are counted from 1, and its first one names columns
    for place, row in enumerate(rows, start=first):
        try:
            u, v, p = row
        except (TypeError, ValueError):
            raise InvalidNetwork(f"{where} {place}: expected two nodes and a probability, not {row!r:.80}") from None
        for node in (u, v):
            if not isinstance(node, Hashable) or node is None or node in ("", math.nan) or node != node:  # noqa: PLR0124
                raise InvalidNetwork(f"{where} {place}: {node!r:.80} is no name of a node")
        tail.append(number.setdefault(_plain(u), len(number)))
        head.append(number.setdefault(_plain(v), len(number)))
        prob.append(_probability(p, f"{where} {place}"))
    if not prob:
        raise InvalidNetwork("the network has no links: a link is two nodes and the probability that it is up")
    ones = np.ones(len(number))
    return Network(
        tuple(number), np.array(tail, dtype=np.int32), np.array(head, dtype=np.int32), np.array(prob), ones, directed
    )


def _plain(node: Any) -> Hashable:
    """Numbers of numpy and of data frames become Python's, so that 3 and np.int64(3) are one node."""
    value: Hashable = node.item() if isinstance(node, np.generic) else node
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _probability(value: Any, where: str) -> float:
    try:
        p = float(value)
    except (TypeError, ValueError):
        raise InvalidNetwork(f"{where}: {value!r:.80} is no probability") from None
    if isinstance(value, bool) or not 0.0 <= p <= 1.0:
        raise InvalidNetwork(f"{where}: {value!r:.80} is no probability: it must lie between 0 and 1")
    return p


def _with_nodes(network: Network, node_prob: Any) -> Network:
    values = np.ones(network.num_nodes)
    if isinstance(node_prob, Mapping):
        for node, p in node_prob.items():
            values[network.number(node)] = _probability(p, f"node {node!r}")
    elif np.ndim(node_prob) == 0:
        values[:] = _probability(node_prob, "node_prob")
    else:
        raise InvalidNetwork("node_prob maps nodes to probabilities, or is one number for all of them")
    return Network(network.nodes, network.tail, network.head, network.prob, values, network.directed)


def read_node_prob(path: Path) -> dict[Hashable, float]:
    """Nodes and the probability that each works, from a CSV file of two columns."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError as error:
        raise InvalidNetwork(f"{path} cannot be read: {error.strerror or error}") from None
    out: dict[Hashable, float] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.replace("\t", ",").split(",")]
        if not line or line.startswith("#") or (number == 1 and not _is_number(cells[-1])):
            continue
        if len(cells) != 2:
            raise InvalidNetwork(f"{path}: line {number}: expected a node and a probability")
        out[_node(cells[0])] = _probability(cells[1], f"{path}: line {number}")
    return out


def _attribute(data: Mapping[str, Any]) -> Any:
    return next((data[name] for name in NAMES["prob"][:4] if name in data), None)


def _from_networkx(graph: Any) -> Iterator[tuple[Any, Any, Any]]:
    for u, v, data in graph.edges(data=True):
        p = _attribute(data)
        if p is None:
            raise InvalidNetwork(f"link {u!r} - {v!r} has no attribute 'prob'")
        yield u, v, p


def _from_file(path: Path) -> Iterator[tuple[Any, Any, Any]]:
    """The rows of a CSV file with a header, of a list of ``u v p`` without one, or of a Parquet file."""
    if path.suffix in (".parquet", ".pq"):
        try:
            from pyarrow import parquet
        except ImportError:
            raise MissingExtra("reading Parquet", "sql") from None
        try:
            yield from _from_frame(parquet.read_table(path))
        except (OSError, ValueError) as error:
            raise InvalidNetwork(f"{path} cannot be read: {error}") from None
        return
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            lines = [line for line in file if line.strip() and not line.lstrip().startswith("#")]
    except OSError as error:
        raise InvalidNetwork(f"{path} cannot be read: {error.strerror or error}") from None
    separator = "," if lines and "," in lines[0] else "\t" if lines and "\t" in lines[0] else " "
    table = [[cell.strip() for cell in row if cell.strip()] for row in csv.reader(lines, delimiter=separator)]
    places = (0, 1, 2)
    if table and not _is_number(table[0][-1]):
        places, table = _places(table[0]), table[1:]
    for number, row in enumerate(table, start=2):
        if len(row) <= max(places):
            raise InvalidNetwork(f"{path}: line {number}: expected two nodes and a probability")
        yield _node(row[places[0]]), _node(row[places[1]]), row[places[2]]


def _node(text: str) -> Hashable:
    """A node in a file: a whole number where it is one, else text."""
    return int(text) if text.isdecimal() and (text == "0" or not text.startswith("0")) else text


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _places(columns: Iterable[Any]) -> tuple[int, int, int]:
    """Where the two nodes and the probability stand, by the names of the columns."""
    names = [str(column).strip().lower() for column in columns]
    found = []
    for default, role in enumerate(("from", "to", "prob")):
        places = [names.index(name) for name in NAMES[role] if name in names]
        found.append(places[0] if places else default)
    if len(set(found)) < 3 or max(found) >= len(names):
        raise InvalidNetwork(f"expected the columns source, target and prob, not {', '.join(names)[:200]}")
    return found[0], found[1], found[2]


def _from_frame(frame: Any) -> Iterator[tuple[Any, Any, Any]]:
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    columns = [frame[names[place]] for place in _places(names)]
    lists = [c.to_pylist() if hasattr(c, "to_pylist") else c.to_list() for c in columns]
    return zip(*lists, strict=True)
