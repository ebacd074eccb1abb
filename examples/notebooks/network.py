# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---
# %% [markdown]
# # A network engineer: how often is the backbone in one piece?
# Links fail independently. Which sites can still talk, and which link should be made better first?

# %%
from pathlib import Path

import networkx as nx

from sharpdnf import network

graph = nx.Graph()
for row, column in ((r, c) for r in range(4) for c in range(5)):
    graph.add_node((row, column))
    for other in ((row + 1, column), (row, column + 1)):
        if other[0] < 4 and other[1] < 5:
            graph.add_edge((row, column), other, prob=0.95 if row % 2 else 0.9)

# %% [markdown]
# A grid of 20 sites has thousands of paths between its corners. None of them is listed: the cost grows with the width.

# %%
corner = network.reliability(graph, (0, 0), (3, 4))
everyone = network.reliability(graph)
print(corner)
print(everyone)
assert corner.guarantee == everyone.guarantee == "exact" and everyone.prob < corner.prob

# %% [markdown]
# The probability that each site is reached from the first one, and how many sites that makes on average.

# %%
reached = network.reached(graph, (0, 0))
expected = network.expected_reached(graph, (0, 0))
print(expected)
assert abs(sum(reached["prob"]) - expected.value) < 1e-9

# %% [markdown]
# Importance is the derivative of the reliability by a link's probability.

# %%
links = network.importance(graph, (0, 0), (3, 4))
for tail, head, slope in list(zip(links["tail"], links["head"], links["birnbaum"], strict=True))[:5]:
    print(tail, head, round(slope, 4))

# %%
better = network.strengthen(graph, 3, (0, 0), (3, 4))
print(better["reliability"])
assert better["reliability"][-1] > corner.prob

# %% [markdown]
# Where failures are rare, ask about the failure: a factor of 1.1 of R says nothing when R is 0.999999.

# %%
strong = [(u, v, 0.9999) for u, v in graph.edges]
failure = network.reliability(strong, (0, 0), (3, 4), of="complement")
print(failure.complement, failure.complement_lower, failure.complement_upper)

# %% [markdown]
# A picture, with links coloured by importance.

# %%
network.draw(graph, "grid.svg", (0, 0), (3, 4))
assert Path("grid.svg").read_text().lstrip().startswith(("<?xml", "<svg"))
