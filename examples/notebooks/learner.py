# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---
# %% [markdown]
# # A learner: which links can be trusted?
# Links say which account belongs to which person. Of some pairs of people it is known whether they share a household;
# no link is ever labelled itself. The query's answers are a layer of PyTorch, so its gradient teaches the links.

# %%
import numpy as np
import pyarrow as pa
import torch

import sharpdnf

rng = np.random.default_rng(1)
people = 24
home = np.arange(people) // 4
links = {(person, int(2 * home[person] + side)): True for person in range(people) for side in (0, 1)}
for person in range(people):
    links.setdefault((person, int(rng.integers(2 * home.max() + 2))), False)  # an account of somebody else
columns = {"person": [p for p, _ in links], "account": [a for _, a in links], "confidence": [0.5] * len(links)}

# %%
db = sharpdnf.connect()
db.register("link", pa.table(columns), prob="confidence")
pairs = db.sql("""
    SELECT DISTINCT x.person AS a, y.person AS b FROM link x JOIN link y USING (account) WHERE x.person < y.person
""")
layer = pairs.module()
print(len(layer.rows), "links,", len(pairs), "pairs")

# %% [markdown]
# The layer maps the probabilities of the links to log P of every pair, exactly where it compiles.

# %%
same = torch.tensor([row["a"] // 4 == row["b"] // 4 for row in pairs])
known = torch.from_numpy(rng.random(len(pairs)) < 0.7)
trust = torch.nn.Parameter(torch.logit(layer.prob))
optimizer = torch.optim.Adam([trust], lr=0.1)
for _ in range(120):
    log_prob = layer(torch.sigmoid(trust))
    log_other = torch.log(-torch.expm1(log_prob.clamp(max=-1e-9)))
    loss = -torch.where(same, log_prob, log_other)[known].mean() + 0.002 * trust.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
learned = torch.sigmoid(trust.detach())
before, after = (((layer(p).exp() > 0.5) == same)[~known].double().mean().item() for p in (layer.prob, learned))
print(f"pairs nobody looked at, judged right: {before:.0%} before, {after:.0%} after learning")
assert after > before

# %% [markdown]
# Gradients are checked like any other: forwards in doubles against finite differences.

# %%
small = sharpdnf.torch.Probability(sharpdnf.DNF.from_clauses([[1, 2], [-1, 3]]))
assert torch.autograd.gradcheck(small, torch.tensor([0.3, 0.5, 0.9], dtype=torch.float64, requires_grad=True))
