"""The network without gradients, in bounded memory: the same steps (a)-(d), a block of nodes at a time, in place.

Three arrays per layer are held (state, cell, message), whatever T is; the rest lives for one block. So a million
variables and 750,000 clauses of width 3 need 4.4 GB at k = 128 where keeping old and new states takes twice that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from sharpdnf.dnf import DNF
from sharpdnf.errors import LimitError
from sharpdnf.learn.architectures import Architecture, Memory, States
from sharpdnf.learn.graph import Adjacency, Edges, Graph
from sharpdnf.learn.layers import Perceptron, sum_edges
from sharpdnf.learn.model import Network

BLOCK = 2048
BASE_BYTES = 300 << 20  # the tensor library itself, and the temporaries of one block


def memory_needed(dnf: DNF, k: int) -> int:
    """How many bytes estimating the formula takes: three float32 rows per node, and the edges in both directions."""
    nodes = 2 * dnf.num_vars + dnf.num_clauses
    return BASE_BYTES + 3 * 4 * k * nodes + 32 * nodes + 64 * dnf.num_literals


def gradient_memory_needed(dnf: DNF, k: int, iterations: int) -> int:
    """How many bytes a gradient takes: every iteration keeps 16 rows of k per literal and 24 per conjunction."""
    rows = 16 * 2 * dnf.num_vars + 24 * dnf.num_clauses
    return BASE_BYTES + 4 * k * iterations * rows + 64 * dnf.num_literals


def check_memory(needed: int, limit: int) -> None:
    """Refuses what would exceed the limit, with both figures."""
    if needed > limit:
        raise LimitError(
            f"the formula needs {needed / 2**30:.1f} GB and the memory limit is {limit / 2**30:.1f} GB: "
            "raise the limit, or choose an engine that is not neural"
        )


def run_in_blocks(
    network: Architecture, graph: Graph, after_block: Callable[[], None] = lambda: None
) -> Iterator[tuple[Tensor, Tensor]]:
    """(mean, std) [F] of log P(formula) after each iteration; ``after_block`` may raise to stop the run.

    The paper's network goes block by block; of another architecture only its iterations are known.
    """
    if isinstance(network, Network):
        for states in run_paper(network, graph, network.L_d, after_block):
            yield network.read_out(states)
        return
    for states in network.run(graph):
        after_block()
        yield network.read_out(states)


def run_paper(
    network: Network,
    graph: Graph,
    advance: Callable[[Memory, Tensor], Memory],
    after_block: Callable[[], None] = lambda: None,
) -> Iterator[States]:
    """The steps (a) to (d) of ``Network.iterate``, a block of nodes at a time: the states after (b) of each iteration.

    Step (b) is ``advance(v_d, sum of messages)``: L_d, or something in its place that watches or changes what happens
    to the disjunctions. Literals and conjunctions are written in place, so their states are those of this moment.
    """

    def embed(prob: Tensor) -> Tensor:
        out = prob.new_empty(len(prob), network.config.k)
        for rows in _blocks(0, len(prob)):
            network.f_enc.write(prob[rows], out[rows])
            after_block()
        return out

    start = network.encode(graph, embed)
    (literal, literal_cell), (conjunction, conjunction_cell) = start.literals, start.conjunctions
    disjunction = start.disjunctions
    literal_message, conjunction_message = torch.empty_like(literal), torch.empty_like(conjunction)
    n, m = graph.num_vars, graph.num_clauses

    def send(layer: Perceptron, state: Tensor, message: Tensor) -> None:
        for rows in _blocks(0, len(state)):
            layer.write(state[rows], message[rows])
            after_block()

    for t in range(network.config.iterations):
        send(network.M_l, literal, literal_message)
        for rows in _blocks(0, m):  # (a)
            received = sum_edges(_slice(graph.conjunctions.forward, rows), literal_message)
            network.L_c1.advance((conjunction[rows], conjunction_cell[rows]), received)
            after_block()
        send(network.M_c, conjunction, conjunction_message)
        disjunction = advance(disjunction, sum_edges(graph.disjunctions.forward, conjunction_message))  # (b)
        yield States((literal, literal_cell), (conjunction, conjunction_cell), disjunction)
        if t == network.config.iterations - 1:
            return
        from_disjunction = F.linear(network.M_d(disjunction[0]), network.L_c2.weights[0])
        for rows in _blocks(0, m):  # (c)
            spread = Adjacency(_slice(graph.disjunctions.backward, rows), graph.disjunctions.forward)
            network.L_c2.advance_shared((conjunction[rows], conjunction_cell[rows]), from_disjunction, spread)
            after_block()
        send(network.M_c, conjunction, conjunction_message)
        for rows in (*_blocks(0, n), *_blocks(n, 2 * n)):  # (d)
            received = sum_edges(_slice(graph.conjunctions.backward, rows), conjunction_message)
            other = n if rows.start < n else -n  # the halves are each other's negations
            from_negation = literal_message[rows.start + other : rows.stop + other]
            network.L_l.advance((literal[rows], literal_cell[rows]), received, from_negation)
            after_block()


def _blocks(start: int, stop: int) -> list[slice]:
    return [slice(first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK)]


def _slice(edges: Edges, rows: slice) -> Edges:
    """The edges of some rows."""
    indptr = edges.indptr[rows.start : rows.stop + 1]
    return Edges(indptr - indptr[0], edges.indices[int(indptr[0]) : int(indptr[-1])])
