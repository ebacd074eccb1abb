"""Named streams of random numbers: every purpose in the package has a tag of its own, so no two share their draws.

A stream is decided by (seed, tag, place): formula 7 of a set, batch 3 of step 90. Anything can therefore be rebuilt
alone, and the number of workers changes nothing. Lists of integers do not do as seeds: numpy pads them with zeros, so
``[seed, 0, i]`` and ``[seed, 0, i, 0]`` are one stream. Here the tag and the place are a spawn key, which numpy
mixes in after the padded seed, word by word, so that its length counts.
"""

from __future__ import annotations

from enum import IntEnum, unique

import numpy as np


@unique
class Stream(IntEnum):
    """What a stream of random numbers is for. Numbers are never used again, so that old seeds keep their meaning."""

    TRAIN_MIX = 1
    """which kind and size of formulas a training batch holds"""
    TRAIN_FORMULA = 2
    """one training formula and its label"""
    VALIDATION = 3
    """one formula of a run's validation slice and its label"""
    EPOCH_ORDER = 4
    """the order of a dataset's batches in one epoch"""
    EPOCH_SHUFFLE = 5
    """the order of examples within one row group in one epoch"""
    SET_FAMILY = 6
    """whether a formula of one of the paper's sets has privileged variables"""
    SET_FORMULA = 7
    """one formula of one of the paper's sets"""
    DATASET_LABEL = 8
    """the labels of one formula in a dataset"""
    EVALUATION_LABEL = 9
    """the label that an evaluation compares with"""
    RUNTIME_FORMULA = 10
    """one formula of the runtime tables"""
    HOLD_ROWS = 12  # 11 had been in use
    """which recorded formulas a step of learning to hold takes"""


def random_stream(seed: int, tag: Stream, *place: int) -> np.random.Generator:
    """The stream of one purpose at one place; every number of the place is below 2^32, the seed below 2^128."""
    if not 0 <= seed < 2**128:  # numpy pads a seed to 128 bits: a longer one would run into the tag
        raise ValueError(f"a seed is a number from 0 to 2^128 - 1, not {seed}")
    if not all(0 <= number < 2**32 for number in place):
        raise ValueError(f"a place in a stream is a row of numbers from 0 to 2^32 - 1, not {place}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(tag), *map(int, place))))
