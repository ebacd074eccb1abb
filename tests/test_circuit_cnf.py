"""pyganak on the CNF of a circuit agrees with enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from circuit_oracle import (
    circuit_fraction,
    circuit_log_prob,
    circuit_of,
    close,
    enumerate_models,
)

from sharpdnf import count

pytestmark = pytest.mark.native


def test_pyganak_on_the_tseitin_cnf_agrees() -> None:
    pytest.importorskip("pyganak")
    for i in (1, 2, 8, 9):
        circuit = circuit_of(i)
        even = circuit.with_prob(np.full(circuit.num_vars, 0.5))
        assert count(even, engine="exact-cnf").count == len(enumerate_models(circuit))
        if circuit_fraction(circuit) > 0:
            assert close(count(circuit, engine="exact-cnf").log_prob, circuit_log_prob(circuit))
