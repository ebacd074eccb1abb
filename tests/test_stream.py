"""Fresh training formulas: pure functions of their place, drawn ahead by a side thread."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_runs import tiny_config  # noqa: E402

from sharpdnf.engines.sampling import label as sampling_label  # noqa: E402
from sharpdnf.errors import ConfigError  # noqa: E402
from sharpdnf.learn.config import MixConfig  # noqa: E402
from sharpdnf.learn.stream import ahead, draw_batch, draw_formula, num_nodes  # noqa: E402


class Interrupted(Exception):
    pass


def test_batches_are_pure_functions_of_their_index():
    data = tiny_config().data
    first, again = (draw_batch(data, sampling_label, 3, 5, 1, steps=10, marginals=True) for _ in range(2))
    assert [e.log_prob for e in first] == [e.log_prob for e in again]
    for seed, step, number in ((3, 6, 1), (3, 5, 0), (4, 5, 1)):
        other = draw_batch(data, sampling_label, seed, step, number, steps=10, marginals=True)
        assert [e.log_prob for e in first] != [e.log_prob for e in other]
    assert len({e.dnf.num_vars for e in first}) == 1
    assert sum(num_nodes(e.dnf) for e in first) <= data.batch_nodes


def test_sources_take_turns_by_steps_or_by_shares():
    """The same boundary written as a step and as a share of the steps."""
    for boundary in (30, 0.5):
        before = MixConfig(kind="spread", num_vars=(5, 5), widths=(2,), stop=boundary)
        after = MixConfig(kind="spread", num_vars=(7, 7), widths=(2,), start=boundary)
        data = replace(tiny_config().data, mix=(before, after))
        for step, size in ((0, 5), (29, 5), (30, 7), (59, 7)):
            batch = draw_batch(data, sampling_label, 0, step, 0, steps=60, marginals=False)
            assert {example.dnf.num_vars for example in batch} == {size}


def test_errors_of_the_side_thread_reach_the_loop():
    def broken():
        yield []
        raise Interrupted

    with pytest.raises(Interrupted):
        list(ahead(broken, 2))
    endless = ahead(lambda: iter(lambda: [], None), 2)
    next(endless)
    endless.close()  # stops its thread


def test_a_mix_may_ask_for_privileged_variables():
    def most_frequent(privileged):
        mix = MixConfig(kind="spread", num_vars=(100, 100), widths=(4,), mass=(5.0, 5.0), privileged=privileged)
        formulas = [draw_formula(mix, 100, np.random.default_rng(i)) for i in range(40)]
        return np.array([np.bincount(f.literals >> 1).max() / f.num_clauses for f in formulas])

    always, never, either = most_frequent("always"), most_frequent("never"), most_frequent("random")
    assert never.max() < 0.4 < always.min()
    assert 8 <= (either > 0.4).sum() <= 32
    with pytest.raises(ConfigError, match="privileged"):
        MixConfig(privileged="sometimes")


def test_a_mix_may_ask_for_formulas_of_the_authors_program():
    """There one privileged variable stands in nearly all clauses, and two avoid each other."""
    mix = MixConfig(kind="paper", num_vars=(1000, 1000), variant="code", privileged="always")
    formulas = [draw_formula(mix, 1000, np.random.default_rng(i)) for i in range(20)]
    shares = [np.bincount(f.literals >> 1).max() / f.num_clauses for f in formulas]
    assert sum(share > 0.98 for share in shares) >= 5  # that many have one such variable; 0 as the text has it
