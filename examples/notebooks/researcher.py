# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---
# %% [markdown]
# # A researcher: the paper's network beside sampling with a proof
# Formulas of the paper's family, answered by the trained network, by two engines of ours, and exactly.

# %%
import time

import numpy as np

import sharpdnf
from sharpdnf.generate import PaperSpec, paper, settings

rng = np.random.default_rng(1)
formulas = [paper(PaperSpec(100, clauses, width, "random"), rng) for width, clauses in settings(100) if width <= 8]
print(len(formulas), "formulas")

# %% [markdown]
# References that are tighter than any error that we look at: relative error 0.005, or exact.

# %%
reference = np.array([sharpdnf.count(dnf, epsilon=0.005, delta=1e-3, rng=1).prob for dnf in formulas])

# %%
answers, seconds = {}, {}
for engine in ("neural", "conditioned", "sampling"):
    start = time.process_time()
    answers[engine] = np.array([sharpdnf.count(dnf, engine=engine, rng=1).prob for dnf in formulas])
    seconds[engine] = time.process_time() - start

# %% [markdown]
# The paper's measure is the share of formulas whose answer is within 0.02, 0.05, 0.10 and 0.15 of the label.

# %%
for engine, found in answers.items():
    error = np.abs(found - reference)
    within = [f"{100 * np.mean(error <= limit):.0f} %" for limit in (0.02, 0.05, 0.10, 0.15)]
    print(f"{engine:12}", *within, f"   {1000 * seconds[engine] / len(formulas):.2f} ms a formula")
assert np.mean(np.abs(answers["sampling"] - reference) <= 0.15) == 1.0
assert np.mean(np.abs(answers["neural"] - reference) <= 0.15) > 0.9

# %% [markdown]
# The network shows an interval only where it has earned one, and says why where it does not: a join is not of its
# family.

# %%
from sharpdnf.generate import JoinSpec, join  # noqa: E402

strange = sharpdnf.count(join(JoinSpec(), rng), engine="neural")
print(strange.info["interval"])
assert strange.guarantee == "none"
