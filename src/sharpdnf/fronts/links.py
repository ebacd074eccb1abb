"""Reading a network: edge lists, files, data frames, networkx graphs and matrices become one set of arrays."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import InvalidNetwork, needs_extra

NAMES = {
    "from": ("source", "src", "from", "u", "a", "node1", "tail"),
    "to": ("target", "dst", "to", "v", "b", "node2", "head"),
    "prob": ("prob", "p", "probability", "reliability", "r", "weight"),
}
"""How the columns of an edge list may be called; otherwise its first three are taken in this order."""
Row = tuple[str, object, object, object]
"""Where a link stands, in words; its two nodes; the probability that it is up."""
Edges = Any
"""What holds links: a path, a data frame, a networkx graph, a sparse matrix, an array, or rows (u, v, p)."""
NodeProb = Mapping[Any, float] | float | None
"""The probability that nodes work: of some by their name, or one for all; None if all work for certain."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkNetwork:
    """Links between numbered nodes: link i leads from ``tail[i]`` to ``head[i]`` and is up with ``prob[i]``."""

    nodes: tuple[Hashable, ...]
    """The name of each node, as it was given."""
    tail: npt.NDArray[np.int32]
    head: npt.NDArray[np.int32]
    prob: FloatArray
    node_prob: FloatArray
    """The probability that each node works; 1 where nothing was said."""
    directed: bool
    _number: dict[Hashable, int] = field(default_factory=dict, repr=False)
    """The number of each node by its name, and by its name as text unless another node has that name. It is made when
    it is first needed."""

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)

    @property
    def num_links(self) -> int:
        return len(self.prob)

    def number(self, node: Hashable, role: str = "node") -> int:
        """The number of a node by its name; text is taken for a number where only the number is known."""
        if not self._number:
            self._number.update({str(name): number for number, name in enumerate(self.nodes)})
            self._number.update({name: number for number, name in enumerate(self.nodes)})
        try:
            return self._number[_plain(node)]
        except (KeyError, TypeError):
            shown = ", ".join(f"{name!s:.40}" for name in self.nodes[:8]) + (", ..." if self.num_nodes > 8 else "")
            raise InvalidNetwork(f"the {role} {node!r:.80} is not in the network: its nodes are {shown}") from None


def read_network(edges: Edges, *, directed: bool = False, node_prob: NodeProb = None) -> LinkNetwork:
    """A network from whatever holds its links.

    ``edges`` is a path to a CSV or Parquet file, a data frame, a networkx graph, a scipy sparse matrix of
    probabilities, an array of three columns, or rows (u, v, p). ``node_prob`` maps nodes to the probability that they
    work, or is one number for all. A networkx graph says itself whether it is directed, and its nodes may have an
    attribute ``prob``.
    """
    nodes: Iterable[object] = ()
    if isinstance(edges, LinkNetwork):
        network = replace(edges, directed=edges.directed or directed)
    elif hasattr(edges, "is_directed") and hasattr(edges, "edges"):
        nodes = edges.nodes()
        if node_prob is None:
            known = {node: _attribute(data) for node, data in edges.nodes(data=True)}
            node_prob = {node: p for node, p in known.items() if p is not None} or None
        network = _build(_from_networkx(edges), directed or bool(edges.is_directed()), nodes)
    elif hasattr(edges, "tocoo"):
        network = _build(_from_matrix(edges, directed), directed, range(edges.shape[0]))
    elif isinstance(edges, str | Path):
        network = _build(_from_file(Path(edges)), directed)
    elif hasattr(edges, "columns") or hasattr(edges, "column_names"):
        network = _from_columns(_columns(edges), "row", directed)
    elif isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.shape[1] == 3:
        network = _from_columns([edges[:, i] for i in range(3)], "row", directed)
    else:
        network = _build(_from_rows(edges), directed)
    return network if node_prob is None else _with_nodes(network, node_prob)


def _build(rows: Iterable[Row], directed: bool, nodes: Iterable[object] = ()) -> LinkNetwork:
    """Numbers the nodes in the order in which they come; ``nodes`` come first, and need not have links."""
    number: dict[Hashable, int] = {}
    for node in nodes:
        number.setdefault(_name(node, "nodes"), len(number))
    tail, head, prob = [], [], []
    for where, u, v, p in rows:
        tail.append(number.setdefault(_name(u, where), len(number)))
        head.append(number.setdefault(_name(v, where), len(number)))
        prob.append(_probability(p, where))
    if not prob:
        raise InvalidNetwork("the network has no links: a link is two nodes and the probability that it is up")
    ends = np.array(tail, dtype=np.int32), np.array(head, dtype=np.int32)
    return LinkNetwork(tuple(number), *ends, np.array(prob), np.ones(len(number)), directed)


def _name(node: object, where: str) -> Hashable:
    try:
        plain = _plain(node)
        hash(plain)
        if plain is None or plain == "" or bool(plain != plain):  # noqa: PLR0124 (not a number)
            raise TypeError
    except (TypeError, ValueError):  # missing values of some libraries cannot even be compared
        raise InvalidNetwork(f"{where}: {node!r:.80} cannot be the name of a node") from None
    return plain


def _plain(node: object) -> Hashable:
    """Numbers of numpy and of data frames become Python's, so that 3 and np.int64(3) are one node."""
    value: Hashable = node.item() if isinstance(node, np.generic) else node
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _probability(value: Any, where: str) -> float:
    try:
        p = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidNetwork(f"{where}: {value!r:.80} is not a probability") from None
    if isinstance(value, bool | np.bool_) or not 0.0 <= p <= 1.0:
        raise InvalidNetwork(f"{where}: {value!r:.80} is not a probability: it must lie between 0 and 1")
    return p


def _with_nodes(network: LinkNetwork, node_prob: Mapping[Any, float] | float) -> LinkNetwork:
    values = np.ones(network.num_nodes)
    if isinstance(node_prob, Mapping):
        for node, p in node_prob.items():
            values[network.number(node, "node of node_prob")] = _probability(p, f"node {node!r:.80}")
    elif np.ndim(node_prob) == 0:
        values[:] = _probability(node_prob, "node_prob")
    else:
        raise InvalidNetwork("node_prob maps nodes to probabilities, or is one number for all of them")
    return replace(network, node_prob=values)


def _from_rows(rows: Iterable[Any]) -> Iterator[Row]:
    try:
        numbered = enumerate(rows)
    except TypeError:
        kind = type(rows).__name__
        raise InvalidNetwork(f"a network is a path, a frame, a graph, a matrix or rows (u, v, p), not {kind}") from None
    for i, row in numbered:
        try:
            u, v, p = row
        except (TypeError, ValueError):
            raise InvalidNetwork(f"link {i}: expected two nodes and a probability, not {row!r:.80}") from None
        yield f"link {i}", u, v, p


def _attribute(data: Mapping[str, Any]) -> Any:
    return next((data[name] for name in NAMES["prob"][:4] if name in data), None)


def _from_networkx(graph: Any) -> Iterator[Row]:
    for u, v, data in graph.edges(data=True):
        p = _attribute(data)
        if p is None:
            raise InvalidNetwork(f"link {u!r:.80} - {v!r:.80} has no attribute 'prob'")
        yield f"link {u!r:.80} - {v!r:.80}", u, v, p


def _from_matrix(matrix: Any, directed: bool) -> Iterator[Row]:
    """The entries of a matrix; an undirected link is one entry, or two equal ones."""
    if matrix.shape[0] != matrix.shape[1]:
        raise InvalidNetwork(f"a matrix of links must be square, not {matrix.shape[0]} x {matrix.shape[1]}")
    found = matrix.tocoo()
    entries = dict(zip(zip(found.row.tolist(), found.col.tolist(), strict=True), found.data.tolist(), strict=True))
    if len(entries) < found.nnz:
        raise InvalidNetwork("an entry of the matrix is given twice: call its sum_duplicates() first")
    for (u, v), p in entries.items():
        where = f"entry ({u}, {v})"
        if not directed and (v, u) in entries:
            if entries[v, u] != p:
                raise InvalidNetwork(f"{where}: {p} is not the {entries[v, u]} of ({v}, {u}): is the network directed?")
            if v < u:
                continue
        yield where, u, v, p


def _from_columns(columns: list[Any], where: str, directed: bool) -> LinkNetwork:
    """Three columns of equal length. Whole numbers are taken as arrays; all else, mistakes included, row by row."""
    arrays = [np.asarray(column) for column in columns]
    if all(a.dtype.kind in "iuf" for a in arrays) and len(arrays[2]):
        u, v, p = arrays
        whole = all(np.isfinite(a).all() and (a == np.floor(a)).all() and (np.abs(a) < 2**53).all() for a in (u, v))
        if whole and bool(((p >= 0.0) & (p <= 1.0)).all()):
            both = np.stack([u.astype(np.int64), v.astype(np.int64)], axis=1).ravel()
            names, first, place = np.unique(both, return_index=True, return_inverse=True)
            order = np.argsort(first)  # nodes are numbered in the order in which they come
            rank = np.empty(len(order), dtype=np.int32)
            rank[order] = np.arange(len(order), dtype=np.int32)
            ends = rank[place.ravel()].reshape(-1, 2)
            tail, head = np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])
            return LinkNetwork(
                tuple(names[order].tolist()), tail, head, p.astype(np.float64), np.ones(len(names)), directed
            )
    lists = [c.to_pylist() if hasattr(c, "to_pylist") else c.to_list() if hasattr(c, "to_list") else c for c in columns]
    return _build(((f"{where} {i}", *row) for i, row in enumerate(zip(*lists, strict=True))), directed)


def _columns(frame: Any) -> list[Any]:
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    return [frame[names[place]] for place in _places(names, "the frame")]


def _places(columns: Iterable[object], where: str) -> tuple[int, int, int]:
    """Where the two nodes and the probability stand, by the names of the columns."""
    names = [str(column).strip().lower() for column in columns]
    found = []
    for default, role in enumerate(("from", "to", "prob")):
        places = [names.index(name) for name in NAMES[role] if name in names]
        found.append(places[0] if places else default)
    if len(set(found)) < 3 or max(found) >= len(names):
        shown = ", ".join(names)[:200]
        raise InvalidNetwork(f"{where}: expected the columns source, target and prob, not {shown}")
    return found[0], found[1], found[2]


def _from_file(path: Path) -> Iterator[Row]:
    """The rows of a CSV file with a header, of a list of ``u v p`` without one, or of a Parquet file."""
    if path.suffix in (".parquet", ".pq"):
        with needs_extra("reading Parquet", "sql"):
            from pyarrow import parquet
        try:
            columns = _columns(parquet.read_table(path))
        except OSError as error:
            raise InvalidNetwork(f"{path} cannot be read: {error}") from None
        except ValueError as error:  # pyarrow's own errors are of this kind, and so are ours about columns
            raise InvalidNetwork(f"{path}: {error}") from None
        lists = (column.to_pylist() for column in columns)
        yield from ((f"{path}: row {i}", *row) for i, row in enumerate(zip(*lists, strict=True)))
        return
    places = None
    for number, cells in _lines(path):
        where = f"{path}: line {number}"
        if places is None:
            header = not (len(cells) > 2 and _is_number(cells[2])) and any(c.lower() in NAMES["prob"] for c in cells)
            places = _places(cells, where) if header else (0, 1, 2)
            if header:
                continue
        if len(cells) <= max(places):
            raise InvalidNetwork(f"{where}: expected two nodes and a probability, not {','.join(cells)!r:.80}")
        yield where, _node(cells[places[0]]), _node(cells[places[1]]), cells[places[2]]


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of every line but comments and blank ones; separated by commas, tabs or blanks."""
    number = 0

    def filled(file: IO[str]) -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(file, start=1):  # noqa: B007 (read by the outer loop)
            if line.strip() and not line.lstrip().startswith("#"):
                yield line

    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="") as file
        ):
            lines = filled(file)
            first = next(lines, "")
            separator = next((mark for mark in (",", "\t", ";") if mark in first), None)
            for line in _chain(first, lines):
                cells = line.split() if separator is None else next(csv.reader([line], delimiter=separator))
                yield number, [cell.strip() for cell in cells]
    except UnicodeDecodeError:
        raise InvalidNetwork(f"{path}: line {number + 1}: this is not text in UTF-8") from None
    except (OSError, EOFError) as error:
        raise InvalidNetwork(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except csv.Error as error:
        raise InvalidNetwork(f"{path}: line {number}: {error}") from None


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
        yield from rest


def read_node_prob(path: Path) -> dict[Hashable, float]:
    """Nodes and the probability that each works, from a CSV file of two columns."""
    out: dict[Hashable, float] = {}
    for i, (number, cells) in enumerate(_lines(path)):
        where = f"{path}: line {number}"
        if len(cells) != 2:
            raise InvalidNetwork(f"{where}: expected a node and a probability, not {','.join(cells)!r:.80}")
        if i == 0 and cells[1].lower() in NAMES["prob"]:
            continue
        node = _name(_node(cells[0]), where)
        if node in out:
            raise InvalidNetwork(f"{where}: the node {node!r:.80} has a probability already")
        out[node] = _probability(cells[1], where)
    return out


def _node(text: str) -> Hashable:
    """A node in a file: a whole number where it is one, else text."""
    return int(text) if text.isdecimal() and len(text) < 19 and (text == "0" or text[0] != "0") else text


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False
