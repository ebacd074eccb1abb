# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---
# %% [markdown]
# # An analyst: which customers are behind these accounts?
# A linkage tool matched customers with accounts and gave every match a score. We never decide which matches are right;
# we ask SQL over all of them and let the answers say how sure they are.

# %%
import numpy as np
import pyarrow as pa

import sharpdnf
from sharpdnf.sql import key

rng = np.random.default_rng(1)
customers, accounts = 40, 60
match = {
    "customer": rng.integers(0, customers, 150),
    "account": rng.integers(0, accounts, 150),
    "score": rng.integers(20, 99, 150),
}
sale = {
    "account": rng.integers(0, accounts, 200),
    "item": rng.choice(["tea", "ink", "pen", "lamp"], 200),
    "price": rng.integers(2, 40, 200),
}
db = sharpdnf.connect()
db.register("match", pa.table(match), prob="score / 100")  # an expression: scores are percentages
db.register("sale", pa.table(sale))  # certain

# %% [markdown]
# The query is ordinary SQL. Every answer has the probability that it is one, and says what is promised.

# %%
buys = db.sql("""
    SELECT DISTINCT customer, item FROM match JOIN sale USING (account)
    ORDER BY prob() DESC LIMIT 5
""")
buys.show()

# %% [markdown]
# Why is the first answer likely? Each row with what it is worth: P(answer | row) - P(answer | no row).

# %%
buys.explain(0).show()

# %% [markdown]
# The lineage behind it is a formula over named rows, and can be drawn.

# %%
print(buys.lineage(0))
picture = buys.lineage_svg(0)
assert picture.startswith("<svg")

# %% [markdown]
# Money spent is not one number when the matches are uncertain: mean, spread and quantiles of each customer's sum.

# %%
spent = db.sql("""
    SELECT customer, SUM(price) AS money FROM match JOIN sale USING (account)
    WHERE customer < 3 GROUP BY customer ORDER BY customer
""")
spent.show()

# %%
print(spent.distribution(0, "money").df())

# %% [markdown]
# What is known changes the answers. Say that no account belongs to two customers.

# %%
question = "SELECT customer FROM match WHERE account = 7"
before, after = db.sql(question), db.sql(question, given=key("match", "account"))
for row, changed in zip(before, after, strict=True):
    print(row["customer"], round(row["prob"], 3), "->", round(changed["prob"], 3))
assert sum(row["prob"] for row in after) <= 1.0 + 1e-9  # at most one of them is right now

# %% [markdown]
# Customers who bought nothing: absence over uncertain rows works as well, and `plan()` says which way it went.

# %%
nothing = db.sql("SELECT DISTINCT customer FROM match EXCEPT SELECT customer FROM match JOIN sale USING (account)")
print(nothing.plan())
nothing.show()
