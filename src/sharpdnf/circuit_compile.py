"""Circuits into d-trees, and certified bounds on the way (``native/kernels/circuit_compile.hpp`` says how).

Several orders of the variables are tried in turns with growing budgets of work, so answers depend on counted operations
only, never on the clock, unless a deadline ends the search.
"""

from __future__ import annotations

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.compiled import Compiled
from sharpdnf.estimate import Limit

UNLIMITED = 2**62


def bound_circuit(
    circuit: Circuit,
    limit: Limit,
    *,
    work: int | None = None,
    relative: float = 0.0,
    additive: float = 0.0,
) -> _native.CircuitResult:
    """Narrows the bounds of the first output until they meet, are within epsilon, or a limit is reached.

    ``work`` limits the gate inputs looked at. Where they meet, what is left between them is rounding.
    """
    return _native.circuit_compile(
        *circuit.arrays,
        circuit.prob,
        output=int(circuit.outputs[0]),
        work=UNLIMITED if work is None else work,
        seconds=limit.seconds_left,
        memory=limit.memory,
        relative_epsilon=relative,
        additive_epsilon=additive,
        compile=False,
    )


def compile_circuit(circuit: Circuit, limit: Limit | None = None, *, work: int | None = None) -> Compiled | None:
    """The first output as a d-tree, good for any probabilities; None if a limit is met first."""
    limit = limit or Limit()
    found = _native.circuit_compile(
        *circuit.arrays,
        circuit.prob,
        output=int(circuit.outputs[0]),
        work=UNLIMITED if work is None else work,
        seconds=limit.seconds_left,
        memory=limit.memory,
        relative_epsilon=0.0,
        additive_epsilon=0.0,
        compile=True,
    )
    return Compiled.from_native(found.compiled, circuit.num_vars)
