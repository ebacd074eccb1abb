"""A classifier of handwritten digits, learned only from the sums of two of them. Needs scikit-learn for the images.

Nobody says which digit an image shows. A query says what a sum is; its answers are a layer that turns the network's
probabilities of the two digits into the probability of every sum, and its gradient trains the network. 700 pairs of
images with their sums are the training set; the digits themselves are looked at only to judge the other 397 images.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import torch

import sharpdnf

DIGITS = {"digit": list(range(10)), "p": [0.1] * 10, "image": [0] * 10}


def sum_layer() -> torch.nn.Module:
    """Twenty probabilities, of the first digit and of the second, to log P of the sums 0 to 18."""
    db = sharpdnf.connect()
    for name in ("first", "second"):
        db.register(name, pa.table(DIGITS), prob="p", block="image")
    sums = db.sql("SELECT f.digit + s.digit AS total FROM first f, second s ORDER BY total")
    return sums.module(threads=1)


def main(epochs: int = 40, pairs: int = 700) -> float:
    """The share of images that were not used in training whose digit is recognised."""
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    rng, start = np.random.default_rng(0), time.process_time()
    images, digits = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    shown = torch.from_numpy(images[order] / 16.0).float().reshape(-1, 1, 8, 8)
    digits = digits[order]
    pair = rng.permutation(1400).reshape(-1, 2)[:pairs]
    total = torch.from_numpy(digits[pair].sum(axis=1))  # all that training is told

    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(256, 10), torch.nn.Softmax(-1),
    )  # fmt: skip
    layer = sum_layer()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for epoch in range(epochs):
        losses = []
        for batch in torch.randperm(pairs).split(32):
            both = network(shown[pair[batch].ravel()]).reshape(-1, 20)
            loss = -layer(both).gather(1, total[batch, None]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            right = (network(shown[1400:]).argmax(1).numpy() == digits[1400:]).mean()
        seconds = time.process_time() - start
        print(f"epoch {epoch + 1:2d}  loss {np.mean(losses):.3f}  {right:.1%} of the digits right  {seconds:.0f} s")
    return float(right)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
