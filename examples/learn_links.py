"""How far can each link be trusted? Confidences of a link table, learned from pairs that are known.

Links say which account belongs to which person; some came in wrong. Two people are a household if both are linked to
one account. Of some pairs it is known whether they are a household; that is enough to learn which links to trust, and
then to judge the other pairs. No link is ever labelled itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

import sharpdnf

HOUSEHOLD = """
SELECT DISTINCT x.person AS a, y.person AS b FROM link x JOIN link y USING (account) WHERE x.person < y.person
"""


def made_up_links(people: int, seed: int) -> tuple[pa.Table, np.ndarray]:
    """(links with one confidence for all, whether each is right): households of four share two accounts."""
    rng = np.random.default_rng(seed)
    home = np.arange(people) // 4
    links = {(person, 2 * home[person] + side): True for person in range(people) for side in (0, 1)}
    for person in range(people):  # and an account of somebody else
        links.setdefault((person, int(rng.integers(2 * home.max() + 2))), False)
    person, account = (np.array(column) for column in zip(*links, strict=True))
    table = pa.table({"person": person, "account": account, "confidence": np.full(len(links), 0.5)})
    return table, np.array(list(links.values()))


def names(links: pa.Table) -> list[str]:
    """What the layer calls the rows of the table."""
    rows = zip(links["person"].to_pylist(), links["account"].to_pylist(), strict=True)
    return [f"link(person={person}, account={account})" for person, account in rows]


def main(people: int = 80, steps: int = 150) -> tuple[float, float, float]:
    """The share of unlabelled pairs judged right before and after learning, and of links that are told apart."""
    table, right = made_up_links(people, seed=1)
    db = sharpdnf.connect()
    db.register("link", table, prob="confidence")
    answers = db.sql(HOUSEHOLD)
    pairs = answers.df()
    same = torch.tensor((pairs["a"] // 4 == pairs["b"] // 4).to_numpy())
    known = torch.from_numpy(np.random.default_rng(2).random(len(pairs)) < 0.6)  # the pairs that somebody looked at

    layer = answers.module()
    trust = torch.nn.Parameter(torch.logit(layer.prob))
    optimizer = torch.optim.Adam([trust], lr=0.1)
    for _ in range(steps):
        log_prob = layer(torch.sigmoid(trust))
        log_other = torch.log(-torch.expm1(log_prob.clamp(max=-1e-9)))
        loss = -torch.where(same, log_prob, log_other)[known].mean() + 0.002 * trust.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    learned = torch.sigmoid(trust.detach())
    before, after = (((layer(p).exp() > 0.5) == same)[~known].double().mean().item() for p in (layer.prob, learned))
    print(f"{len(layer.rows)} links, {len(pairs)} pairs, {int(known.sum())} of them known")
    print(f"pairs nobody looked at, judged right: {before:.0%} before, {after:.0%} after learning")
    is_right = dict(zip(names(table), right.tolist(), strict=True))
    told = np.mean([(p > 0.5) == is_right[row] for row, p in zip(layer.rows, learned.tolist(), strict=True)])
    print(f"links told apart that were never labelled: {told:.0%}")
    return before, after, float(told)


if __name__ == "__main__":
    main()
