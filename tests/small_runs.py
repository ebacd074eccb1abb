"""What the tests of training share: a run of seconds, and a dataset of a few formulas."""

from __future__ import annotations

from dataclasses import replace

from sharpdnf.learn.config import (
    Config,
    DatasetConfig,
    LossConfig,
    MixConfig,
    NetworkConfig,
    OptimizerConfig,
)

TINY = MixConfig(kind="spread", num_vars=(4, 8), widths=(1, 2), mass=(0.3, 3.0), max_clauses=12, epsilon=0.1)


def tiny_config(steps=40, **changes):
    base = Config()
    config = replace(
        base,
        network=NetworkConfig(k=16, iterations=3),
        data=replace(base.data, mix=(TINY,), batch_nodes=400, validation=0, prefetch=0),
        loss=LossConfig(kind="robust", dense=1.0),
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_steps=10),
        run=replace(base.run, steps=steps, checkpoint_minutes=0.0),
    )
    return replace(config, **changes)


SMALL = DatasetConfig(
    splits=("train", "size-10000"), scale=0.0002, train_epsilon=0.2, test_epsilon=0.3, shard_size=6, marginals=True
)
