# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---
# %% [markdown]
# # A logic programmer: a program with circles
# Friends influence each other to smoke, and influence goes both ways, so the ground program has circles.

# %%
from sharpdnf import problog

program = """
0.3::stress(X) :- person(X).
0.2::influences(X, Y) :- person(X), person(Y), friend(X, Y).
smokes(X) :- stress(X).
smokes(X) :- friend(X, Y), influences(Y, X), smokes(Y).
person(ann). person(bob). person(cy).
friend(ann, bob). friend(bob, ann). friend(bob, cy). friend(cy, bob).
query(smokes(ann)).
"""
answer = problog.query(program, guarantee="exact")["smokes(ann)"]
print(answer)

# %% [markdown]
# By hand: ann has stress (0.3), or bob smokes without her and influences her. Without ann, bob smokes if he has stress
# or cy has and influences him: 1 - 0.7 (1 - 0.3 x 0.2) = 0.342. So P = 1 - 0.7 (1 - 0.342 x 0.2) = 0.34788.

# %%
assert abs(answer.prob - 0.34788) < 1e-9

# %% [markdown]
# Evidence: cy smokes. Then bob is more likely to, and ann too.

# %%
given = problog.query(program + "evidence(smokes(cy), true).", guarantee="exact")["smokes(ann)"]
print(given)
assert given.prob > answer.prob

# %% [markdown]
# Ask for a promise, not for a method: within 5 % with probability 99 %. This program compiles, so the answer is better
# than what was asked for; one that does not compile is sampled. Same seed, same answer.

# %%
sampled = problog.query(program, guarantee="relative", epsilon=0.05, delta=0.01, rng=7)["smokes(ann)"]
print(sampled)
assert sampled.lower <= answer.prob <= sampled.upper

# %% [markdown]
# Probabilities from examples of what was seen.

# %%
model = "t(_)::heads1. t(_)::heads2. some :- heads1. some :- heads2."
seen = """
evidence(some, false). evidence(heads1, false).
---
evidence(some). evidence(heads1).
---
evidence(some). evidence(heads1, false).
"""
learned = problog.learn(model, seen, rng=1)
print(learned.program)
assert abs(learned.probabilities["heads2"] - 0.5) < 1e-4
