"""A relaxed DNF contains the circuit's event."""

from __future__ import annotations

import numpy as np
import pytest
from circuit_oracle import RANDOM, assignments

from sharpdnf import Circuit
from sharpdnf.relax import relax

pytestmark = pytest.mark.native


def test_a_relaxed_dnf_contains_the_event() -> None:
    for circuit in RANDOM:
        for limit in (3, 20, 100):
            for negated in (False, True):
                dnf, equal = relax(circuit, limit, negated=negated)
                inside = circuit.evaluate(assignments(circuit.num_vars))[:, 0] != negated
                outer = Circuit.from_dnf(dnf).evaluate(assignments(circuit.num_vars))[:, 0]
                assert np.all(outer[inside])
                assert not equal or np.array_equal(outer, inside)
