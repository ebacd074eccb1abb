"""The border of the kernels: what comes from outside is refused there, and never crashes the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.native

ATTACK = """
import numpy as np, sharpdnf
from sharpdnf import DNF, Batch, _native
base = np.zeros(30, dtype=np.int32)
view = base.view(); view.flags.writeable = False
f = DNF(np.arange(31), view, np.full(4, 0.5))
base[:] = 1 << 30
sharpdnf.count(f); sharpdnf.marginals(f); sharpdnf.influence(f, exact=False, rng=1)
b = Batch(f, np.array([0, 10, 30]))
try: b.formula_indptr[1] = 1 << 40
except ValueError: pass
sharpdnf.count_many(b)
# Arrays that are no formula, straight to the kernels.
half = np.full(4, 0.5)
bad = [
    (np.array([0, 1]), np.array([1 << 30], np.int32)),
    (np.array([0, 1]), np.array([-5], np.int32)),
    (np.array([0, 1]), np.array([8], np.int32)),
    (np.array([0, 1 << 40, 1]), np.array([0], np.int32)),
    (np.array([0, -(1 << 40), 1]), np.array([0], np.int32)),
]
refused = 0
for indptr, literals in bad:
    for call in (
        lambda i, l: _native.clause_probs(i, l, half),
        lambda i, l: _native.sample(i, l, half, 1, 10, 1000, 1, 1.0, 0, True),
        lambda i, l: _native.dtree_compile(i, l, half, 10, 1.0, 1 << 20, 1000, True),
        lambda i, l: _native.count_pivots(i, l, half, 1, 0, 4, True, 1.0),
        lambda i, l: _native.certified_bounds(i, l, half, 1000, 1.0),
    ):
        try: call(indptr, literals)
        except ValueError: refused += 1
print("refused", refused)
"""


def test_nothing_from_outside_crashes_the_kernels() -> None:
    done = subprocess.run([sys.executable, "-c", ATTACK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "refused 25\n"), done.stderr
