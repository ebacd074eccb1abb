"""The four stories that the page can load: small data, and questions to begin with."""

from __future__ import annotations

import importlib.resources
from importlib.resources.abc import Traversable
from typing import Any

SAME = """WITH match AS (SELECT left_id AS a, right_id AS b FROM pair UNION SELECT right_id, left_id FROM pair),
same AS (SELECT a, b FROM match
         UNION SELECT x.a, y.b FROM match x JOIN match y ON x.b = y.a WHERE x.a <> y.b)"""

STORIES: dict[str, dict[str, Any]] = {
    "linkage": {
        "title": "Record linkage: who is the same person?",
        "text": "A matching program has compared customer records and left pairs with a match probability. Two records "
        "are one person if they match directly or through a third record. Who is, and whose orders belong together?",
        "tables": [
            {"name": "pair", "file": "pair.csv", "prob": "match_probability", "block": None},
            {"name": "person", "file": "person.csv"},
            {"name": "purchase", "file": "purchase.csv"},
        ],
        "queries": [
            {
                "title": "Records that are probably one person",
                "sql": f"{SAME}\nSELECT p.name AS one, q.name AS other\nFROM same s JOIN person p ON p.id = s.a "
                "JOIN person q ON q.id = s.b\nWHERE s.a < s.b\nHAVING prob() > 0.5\nORDER BY prob() DESC",
            },
            {
                "title": "Customers who have bought a lamp, perhaps under another record",
                "sql": f"{SAME}\nSELECT p.name\nFROM same s JOIN person p ON p.id = s.a "
                "JOIN purchase o ON o.person = s.b\nWHERE o.item = 'lamp'\nORDER BY prob() DESC",
            },
            {
                "title": "Records that match no other record",
                "sql": "SELECT p.name FROM person p\nWHERE NOT EXISTS "
                "(SELECT 1 FROM pair m WHERE m.left_id = p.id OR m.right_id = p.id)",
            },
            {
                "title": "How many matches are real?",
                "sql": "SELECT expected_count() AS matches FROM pair",
            },
        ],
    },
    "network": {
        "title": "Network: are Lisbon and Berlin connected?",
        "text": "A backbone of links that each work with a probability of their own. How likely is a connection, and "
        "which link matters most?",
        "network": {
            "edges": [
                ["Lisbon", "Madrid", 0.97], ["Madrid", "Barcelona", 0.98], ["Barcelona", "Marseille", 0.95],
                ["Madrid", "Bordeaux", 0.96], ["Bordeaux", "Paris", 0.98], ["Marseille", "Lyon", 0.97],
                ["Lyon", "Paris", 0.99], ["Paris", "London", 0.96], ["Paris", "Brussels", 0.98],
                ["Brussels", "Amsterdam", 0.99], ["London", "Amsterdam", 0.94], ["Amsterdam", "Hamburg", 0.97],
                ["Hamburg", "Berlin", 0.98], ["Brussels", "Frankfurt", 0.97], ["Frankfurt", "Berlin", 0.96],
                ["Frankfurt", "Zurich", 0.98], ["Zurich", "Lyon", 0.95], ["Zurich", "Milan", 0.97],
                ["Milan", "Marseille", 0.93], ["Milan", "Vienna", 0.95], ["Vienna", "Prague", 0.97],
                ["Prague", "Berlin", 0.96],
            ],
            "directed": False,
            "question": "two-terminal",
            "source": "Lisbon",
            "target": "Berlin",
        },
    },
    "sensors": {
        "title": "Sensors: was the store room too warm?",
        "text": "Each reading of a sensor is known up to noise: for each sensor and hour there are a few candidate "
        "values with probabilities, and at most one of them is true. In which hours was a limit exceeded?",
        "tables": [
            {"name": "reading", "file": "reading.csv", "prob": "p", "block": ["sensor", "hour"]},
            {"name": "sensor", "file": "sensor.csv"},
        ],
        "queries": [
            {
                "title": "Hours in which some sensor was above its limit",
                "sql": "SELECT r.hour\nFROM reading r JOIN sensor s ON s.sensor = r.sensor\n"
                "WHERE r.celsius > s.warm\nORDER BY prob() DESC",
            },
            {
                "title": "Hours in which two sensors of one room were above 8 degrees",
                "sql": "SELECT a.hour, s.room\nFROM reading a JOIN reading b ON a.hour = b.hour AND a.sensor < b.sensor"
                "\nJOIN sensor s ON s.sensor = a.sensor JOIN sensor t ON t.sensor = b.sensor AND t.room = s.room\n"
                "WHERE a.celsius > 8 AND b.celsius > 8",
            },
            {
                "title": "Rooms where no reading above 9 degrees was taken",
                "sql": "SELECT DISTINCT s.room FROM sensor s\nWHERE NOT EXISTS (SELECT 1 FROM reading r JOIN sensor t "
                "ON t.sensor = r.sensor\n                  WHERE t.room = s.room AND r.celsius > 9)",
            },
            {
                "title": "The expected temperature by sensor at 14 o'clock",
                "sql": "SELECT sensor, expected_sum(celsius) AS celsius FROM reading WHERE hour = 14 GROUP BY sensor",
            },
        ],
    },
    "faulttree": {
        "title": "Fault tree: does the emergency cooling fail?",
        "text": "Three pumps of which two are needed, two power supplies, and a control system. How likely does the "
        "cooling fail when it is called, and which part contributes most?",
        "faulttree": {"file": "cooling.xml", "format": "openpsa"},
    },
}  # fmt: skip


def story_files() -> Traversable:
    """The folder with the stories' files."""
    return importlib.resources.files(__name__)
