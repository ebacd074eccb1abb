"""Random inputs against oracles, for as long as one asks: ``make fuzz``, or ``PYTHONPATH=tests python -m fuzz``.

A target is a module with two functions. ``cases(seed)`` yields inputs that JSON can hold, the same for the same seed;
``check(case)`` raises where the package is wrong, and returns False where the input was refused, as it may be. What is
found is written to ``corpus/``, one file a finding, and ``tests/test_fuzz_corpus.py`` replays these in every test run.
"""
