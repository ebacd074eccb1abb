"""Pictures of networks: well-formed, the same every time, and their colours tell links apart."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from sharpdnf.errors import LimitError
from sharpdnf.fronts import network, network_picture
from sharpdnf.fronts.links import read_network

LINKS = [("a", "<b&>", 0.9), ("a", "c", 0.8), ("<b&>", "c", 0.5), ("<b&>", "d", 0.8), ("c", "d", 0.9), ("d", "d", 0.5)]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("directed", [False, True])
def test_svg_is_well_formed_and_the_same_every_time(directed: bool, tmp_path: Path) -> None:
    texts = []
    for i in range(2):
        network.draw(LINKS, tmp_path / f"{i}.svg", "a", "d", directed=directed)
        texts.append((tmp_path / f"{i}.svg").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    root = ElementTree.fromstring(texts[0])
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert len(titles) == len(LINKS) + 4 and any("<b&>" in str(title) for title in titles)
    assert len(list(root.iter(f"{SVG}line"))) == 5  # the loop is a circle
    assert (len(list(root.iter(f"{SVG}marker"))) == 1) == directed
    numbers = [float(x) for line in root.iter(f"{SVG}line") for x in (line.get("x1"), line.get("y2")) if x]
    assert all(0.0 <= x <= network_picture.SIZE for x in numbers)


def test_png_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for directed in (False, True):
        network.draw(LINKS, tmp_path / "x.png", "a", "d", directed=directed)
        assert (tmp_path / "x.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_colours_tell_links_apart_over_powers_of_ten() -> None:
    shades = [network_picture.colour(network_picture.strength(10.0**-i, 1.0)) for i in range(5)]
    assert len(set(shades[:4])) == 4 and shades[3] == shades[4] == network_picture.colour(0.0)
    assert network_picture.strength(0.0, 0.0) == 0.0 and network_picture.strength(2.0, 1.0) == 1.0


def test_places_are_apart_and_within_the_square() -> None:
    place = network_picture.lay_out(read_network(LINKS))
    assert place.min() == 0.0 and place.max() == 1.0
    gaps = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2))
    assert gaps[~np.eye(4, dtype=bool)].min() > 0.1


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.svg or \.png"):
        network.draw(LINKS, tmp_path / "x.gif", "a", "d")
    many = read_network([(i, i + 1, 0.5) for i in range(network_picture.MAX_NODES)])
    with pytest.raises(LimitError, match="could not be read"):
        network_picture.lay_out(many)
