# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---
# %% [markdown]
# # A safety engineer: what does the top event owe to each part?
# Two trains of a pump and a valve, a common power supply, and a group of three sensors of which two must work.

# %%
from sharpdnf import faulttree

tree = faulttree.reads("""
top := trains | power | @(2, [s1, s2, s3])
trains := train1 & train2
train1 := pump1 | valve1
train2 := pump2 | valve2
p(pump1) = 0.09
p(pump2) = 0.09
p(valve1) = 0.02
p(valve2) = 0.02
p(power) = 0.001
p(s1) = 0.03
p(s2) = 0.03
p(s3) = 0.03
""")

# %% [markdown]
# The exact probability, and what tools that add up cut sets would say.

# %%
answer = tree.probability()
sets = tree.cut_sets()
print(f"exact {answer.prob:.6f}, rare event {sets.rare_event:.6f}, min-cut upper bound {sets.mcub:.6f}")
assert answer.guarantee == "exact" and answer.prob < sets.mcub < sets.rare_event

# %% [markdown]
# By hand: a train fails with 1 - 0.91 x 0.98 = 0.1082, both with 0.01170724; two of three sensors with
# 3 x 0.03^2 x 0.97 + 0.03^3 = 0.002646; nothing happens with (1 - 0.01170724)(1 - 0.001)(1 - 0.002646).

# %%
train = 1 - 0.91 * 0.98
by_hand = 1 - (1 - train**2) * (1 - 0.001) * (1 - (3 * 0.03**2 * 0.97 + 0.03**3))
assert abs(answer.prob - by_hand) < 1e-12

# %%
for events, share in zip(sets.events, sets.share, strict=True):
    print(f"{share:.4f}", *events)

# %% [markdown]
# Importances of all events come from one backward pass.

# %%
table = tree.importance()
for event, birnbaum, raw, rrw in zip(table["event"], table["birnbaum"], table["raw"], table["rrw"], strict=True):
    print(f"{event:8} Birnbaum {birnbaum:.4f}  RAW {raw:7.2f}  RRW {rrw:.4f}")

# %% [markdown]
# What if the power were backed up? Only the probability changes, so the tree is read again with another one.

# %%
text_of_change = {"power": 1e-6}
backed = faulttree.reads("top := a & b | power\np(a) = 0.1\np(b) = 0.1\np(power) = 0.001", prob=text_of_change)
assert abs(backed.probability().prob - (1 - (1 - 0.01) * (1 - 1e-6))) < 1e-12
