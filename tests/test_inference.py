"""The network in blocks: the same numbers, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from networks import formula  # noqa: E402

from sharpdnf.errors import LimitError  # noqa: E402
from sharpdnf.learn import inference  # noqa: E402
from sharpdnf.learn.counter import NeuralCounter  # noqa: E402
from sharpdnf.learn.graph import Graph  # noqa: E402


@pytest.mark.parametrize("block", [7, 64, 10**6])
def test_blocks_change_nothing(counter: NeuralCounter, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dnfs = [formula(40, 5, seed) for seed in range(3)]
    with torch.inference_mode():
        expected = counter.network.trace(Graph.of(dnfs)).numpy()
        monkeypatch.setattr(inference, "BLOCK", block)
        found = np.stack([mean.numpy() for mean, _ in inference.run_in_blocks(counter.network, Graph.of(dnfs))])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_formula_beyond_the_memory_limit_is_refused_with_the_figure(counter: NeuralCounter) -> None:
    small = NeuralCounter(counter.network, memory=1 << 20)
    for call in (small.predict, small.trace, small.gradient, lambda dnf: small.predict_many([dnf])):
        with pytest.raises(LimitError, match=r"needs 0\.3 GB and the memory limit is 0\.0 GB"):
            call(formula())


def test_a_million_variables_fit_eight_gigabytes() -> None:
    class Shape:
        num_vars, num_clauses, num_literals = 10**6, 750_000, 2_250_000

    assert inference.memory_needed(Shape(), 128) < 8 << 30  # type: ignore[arg-type]
