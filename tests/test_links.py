"""Every way into a network gives the same network, and every mistake is named with its place."""

from __future__ import annotations

import gzip
from pathlib import Path

import networkx
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse

from sharpdnf.errors import InvalidNetwork, SharpDNFError
from sharpdnf.fronts.links import LinkNetwork, read_network, read_node_prob

ROWS = [(1, 2, 0.9), (2, 3, 0.8), (1, 3, 0.5), (3, 4, 1.0), (2, 3, 0.25)]
COLUMNS = {"source": [u for u, _, _ in ROWS], "target": [v for _, v, _ in ROWS], "prob": [p for *_, p in ROWS]}


def links_of(network: LinkNetwork) -> list[tuple[object, object, float]]:
    ends = zip(network.tail, network.head, network.prob.tolist(), strict=True)
    return [(network.nodes[u], network.nodes[v], p) for u, v, p in ends]


def text(separator: str, header: str = "") -> str:
    return header + "".join(separator.join(map(str, row)) + "\n" for row in ROWS)


FILES = {
    "plain.csv": text(","),
    "header.csv": text(",", "source,target,prob\n"),
    "Names.csv": "P,extra,To,From\n" + "".join(f"{p},x,{v},{u}\n" for u, v, p in ROWS),
    "tabs.tsv": text("\t", "u\tv\tp\n"),
    "blanks.txt": text("   "),
    "semicolons.csv": text(";"),
    "comments.csv": "# a network\n\n" + text(",", "source,target,prob\n") + "\n# the end\n",
    "bom.csv": "\ufeff" + text(",", "source,target,prob\n"),
    "quoted.csv": '"source","target","prob"\n' + "".join(f'"{u}","{v}",{p}\n' for u, v, p in ROWS),
    "crlf.csv": text(",").replace("\n", "\r\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_text_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name].encode())
    assert links_of(read_network(path)) == ROWS
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(FILES[name].encode()))
    assert links_of(read_network(str(packed))) == ROWS


def test_tables_arrays_and_rows(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "links.parquet")
    given = [
        tmp_path / "links.parquet",
        pyarrow.table(COLUMNS),
        pandas.DataFrame(COLUMNS),
        pandas.DataFrame(COLUMNS).sample(frac=1.0, random_state=1).sort_index(),
        polars.DataFrame(COLUMNS),
        np.array(ROWS),
        ROWS,
        iter(ROWS),
        [list(row) for row in ROWS],
        [(np.int64(u), float(v), np.float32(p)) for u, v, p in ROWS[:1]] + ROWS[1:],
    ]
    for edges in given[:-1]:
        assert links_of(read_network(edges)) == ROWS
    mixed = read_network(given[-1])
    assert mixed.nodes == (1, 2, 3, 4) and mixed.prob[0] == pytest.approx(0.9)
    same = read_network(ROWS)
    assert links_of(read_network(same, node_prob={2: 0.5})) == ROWS
    assert read_network(same, node_prob=0.5).node_prob.tolist() == [0.5] * 4
    assert read_network(same, directed=True).directed and not same.directed


def test_names_of_nodes_stay_what_they_are() -> None:
    named = pandas.DataFrame({"from": ["x", "y"], "to": ["y", "z"], "p": [0.5, 0.25], "cost": [7, 8]})
    assert links_of(read_network(named)) == [("x", "y", 0.5), ("y", "z", 0.25)]
    assert read_network([("01", "1", 0.5)]).nodes == ("01", "1")
    network = read_network([(3, "3", 0.5), ((1, 2), 3, 0.5)])
    assert [network.number(n) for n in (3, "3", 3.0, np.int32(3), (1, 2))] == [0, 1, 0, 0, 2]
    assert read_network([(7, 8, 0.5)]).number("7") == 0


def test_networkx_graphs() -> None:
    graph = networkx.Graph()
    graph.add_edge("a", "b", prob=0.5)
    graph.add_node("alone")
    graph.nodes["a"]["prob"] = 0.75
    network = read_network(graph)
    assert network.nodes == ("a", "b", "alone") and network.node_prob.tolist() == [0.75, 1.0, 1.0]
    assert not network.directed
    assert read_network(networkx.DiGraph(graph)).directed
    several = networkx.MultiGraph()
    several.add_edge(1, 2, p=0.5)
    several.add_edge(1, 2, weight=0.1, reliability=0.25)
    assert links_of(read_network(several)) == [(1, 2, 0.5), (1, 2, 0.25)]
    assert read_network(networkx.MultiDiGraph(several)).directed
    with pytest.raises(InvalidNetwork, match="link 'b' - 'c' has no attribute 'prob'"):
        graph.add_edge("b", "c", weight=0.5)
        read_network(graph)


def test_matrices() -> None:
    upper = sparse.csr_matrix(([0.5, 0.25], ([0, 1], [1, 2])), shape=(4, 4))
    for matrix in (upper, sparse.csr_matrix(upper + upper.T), sparse.coo_array(upper), upper.tocsc()):
        assert sorted(links_of(read_network(matrix))) == [(0, 1, 0.5), (1, 2, 0.25)]
        assert read_network(matrix).num_nodes == 4  # node 3 has no link, but it is there
    assert len(links_of(read_network(sparse.csr_matrix(upper + upper.T), directed=True))) == 4
    for matrix, message in (
        (sparse.coo_matrix(([0.5, 0.6], ([0, 1], [1, 0]))), "is the network directed"),
        (sparse.coo_matrix(([0.5, 0.5], ([0, 0], [1, 1])), shape=(2, 2)), "given twice"),
        (sparse.coo_matrix(np.ones((2, 3))), "must be square"),
        (sparse.coo_matrix(np.array([[0.0, 1.5], [0.0, 0.0]])), r"entry \(0, 1\): 1.5"),
    ):
        with pytest.raises(InvalidNetwork, match=message):
            read_network(matrix)


BAD_FILES = [
    ("", "no links"),
    ("# nothing\n\n", "no links"),
    ("source,target,prob\n", "no links"),
    ("a,b,0.5\n# comment\n\nb,c,1.5\n", "line 4: '1.5'"),
    ("source,target,prob\n\na,b,0.5\nb,c,x\n", "line 4: 'x' is not a probability"),
    ("a,b,o.9\na,c,0.5\n", "line 1: 'o.9' is not a probability"),
    ("a,b,nan\n", "line 1: 'nan'"),
    ("a,b,\n", "line 1: ''"),
    ("a,b,0.5\na,b\n", "line 2: expected two nodes"),
    ("a,,0.5,0.7\n", "line 1: '' cannot be the name"),
    ("a,b,-0.1\n", "line 1: '-0.1'"),
    ("a,b,inf\n", "line 1: 'inf'"),
    ("source,prob\na,0.5\n", "line 1: expected the columns"),
    ("p,r,oops\na,b,0.5\n", "line 1: expected the columns"),
    ('a,b,0.5\n"a,b,0.5\n', "line 2"),
]


@pytest.mark.parametrize("content,message", BAD_FILES)
def test_a_mistake_in_a_file_is_named_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(InvalidNetwork, match=message):
        read_network(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"a,b,0.5\nM\xfcnchen,b,0.5\n")
    (tmp_path / "not.gz").write_bytes(b"a,b,0.5\n")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"a,b,0.5\n" * 1000)[:40])
    (tmp_path / "not.parquet").write_bytes(b"a,b,0.5\n")
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "columns.parquet")
    parquet.write_table(pyarrow.table({"u": [1], "v": [2], "p": [None]}), tmp_path / "missing.parquet")
    names = ["latin.csv", "not.gz", "cut.csv.gz", "not.parquet", "columns.parquet", "missing.parquet", "none.csv", "."]
    for name in names:
        with pytest.raises(InvalidNetwork, match=name.replace(".", r"\.") if name != "." else "cannot be read"):
            read_network(tmp_path / name)


BAD_ROWS = [
    ([], "no links"),
    (7, "not int"),
    ([(1, 2)], "link 0: expected"),
    ([(1, 2, 0.5), (1, 2, 0.5, 7)], "link 1: expected"),
    ([(1, 2, 0.5), 7], "link 1: expected"),
    ([([1], 2, 0.5)], "link 0: .* cannot be the name"),
    ([((1, [2]), 2, 0.5)], "link 0: .* cannot be the name"),
    ([(None, 2, 0.5)], "link 0: None cannot be the name"),
    ([(1, float("nan"), 0.5)], "link 0: nan cannot be the name"),
    ([(1, "", 0.5)], "link 0: '' cannot be the name"),
    ([(1, 2, None)], "link 0: None is not a prob"),
    ([(1, 2, True)], "link 0: True is not a prob"),
    ([(1, 2, 1j)], "link 0: 1j is not a prob"),
    ([(1, 2, 10**400)], "link 0: .* not a prob"),
    ([(1, 2, float("nan"))], "link 0: nan is not a prob"),
    (np.array([[1.0, 2.0, 0.5], [1.0, 2.0, 1.5]]), "row 1: .*1.5"),
    (np.array([[1.0, np.nan, 0.5]]), "row 0: .*nan.* cannot be the name"),
    (np.ones((2, 4)), "link 0: expected"),
    (pandas.DataFrame({"u": [1, None], "v": [2, 3], "p": [0.5, 0.5]}), "row 1: nan cannot be the name"),
    (pandas.DataFrame({"u": [1, pandas.NA], "v": [2, 3], "p": [0.5, 0.5]}), "row 1: <NA> cannot be the name"),
    (pandas.DataFrame({"u": [1, 2], "v": [2, 3], "p": [0.5, None]}), "row 1: nan is not a prob"),
    (polars.DataFrame({"u": ["a", None], "v": ["b", "c"], "p": [0.5, 0.5]}), "row 1: None cannot be the name"),
    (pandas.DataFrame({"u": [1]}), "expected the columns"),
    (networkx.Graph(), "no links"),
]


@pytest.mark.parametrize("edges,message", BAD_ROWS)
def test_a_mistake_in_rows_is_named_with_its_place(edges: object, message: str) -> None:
    with pytest.raises(InvalidNetwork, match=message):
        read_network(edges)


def test_node_probabilities_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("# nodes\nnode,prob\n\na,0.5\n7,0.25\n")
    assert read_node_prob(path) == {"a": 0.5, 7: 0.25}
    for content, message in (
        ("a,0.5\nb\n", "line 2: expected a node"),
        ("a,0.5\n\nb,2\n", "line 3: '2'"),
        ("a,x\n", "line 1: 'x'"),
        ("a,0.5\na,0.5\n", "line 2: the node 'a' has"),
    ):
        path.write_text(content)
        with pytest.raises(InvalidNetwork, match=message):
            read_node_prob(path)


def test_random_bytes_never_give_anything_but_a_network_or_our_error(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "fuzz.csv"
    good = b"source,target,prob\na,b,0.5\nb,c,0.25\n# x\n1,2,1\n"
    pieces = [
        b",",
        b"\n",
        b'"',
        b"\t",
        b";",
        b"prob",
        b"nan",
        b"1e400",
        b"-",
        b"\xff",
        b"\x00",
        b"#",
        b" ",
        b"0.5",
        b"_",
    ]
    read = 0
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(int(rng.integers(1, 5))):
            at = int(rng.integers(len(data) + 1))
            data[at : at + int(rng.integers(0, 4))] = pieces[int(rng.integers(len(pieces)))]
        path.write_bytes(bytes(data))
        try:
            network = read_network(path)
        except SharpDNFError:
            continue
        read += 1
        assert ((network.prob >= 0.0) & (network.prob <= 1.0)).all() and network.num_links >= 1
    assert 100 < read < 1400


def test_whole_columns_and_single_rows_give_the_same_network() -> None:
    rng = np.random.default_rng(1)
    array = np.stack([rng.integers(1000, size=5000), rng.integers(1000, size=5000), rng.random(5000)], axis=1)
    fast, slow = read_network(array), read_network(array.tolist())
    assert fast.nodes == slow.nodes and links_of(fast) == links_of(slow)
