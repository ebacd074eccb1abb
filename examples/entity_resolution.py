"""Who is the same person, and with which probability? Entity resolution from match probabilities.

A record-linkage tool leaves pairs of records with a match_probability. Two records are the same person if they match
directly or through a third record; the answer counts both ways at once. Then: which customers probably already have an
order under another record?
"""

from __future__ import annotations

import sharpdnf

MATCHES = {
    "left_id": [1, 1, 2, 4, 4, 5],
    "right_id": [2, 3, 3, 5, 6, 6],
    "match_probability": [0.92, 0.40, 0.75, 0.85, 0.30, 0.60],
}
PEOPLE = {
    "id": [1, 2, 3, 4, 5, 6],
    "name": ["Ann Smith", "A. Smith", "Anne Smyth", "Bo Lee", "B. Lee", "Robert Leigh"],
}
ORDERS = {"person": [3, 6], "item": ["lamp", "desk"]}

SAME = """
WITH match AS (SELECT left_id AS a, right_id AS b FROM pair UNION SELECT right_id, left_id FROM pair)
SELECT a, b FROM match
UNION
SELECT x.a, y.b FROM match x JOIN match y ON x.b = y.a WHERE x.a <> y.b
"""


def main() -> sharpdnf.sql.Answers:
    import pyarrow as pa

    db = sharpdnf.connect()
    db.register("pair", pa.table(MATCHES), prob="match_probability")
    db.register("person", pa.table(PEOPLE))
    db.register("purchase", pa.table(ORDERS))
    same = db.sql(f"SELECT * FROM ({SAME}) AS s WHERE a < b HAVING prob() > 0.5 ORDER BY prob() DESC")
    same.show()
    likely = db.sql(
        f"SELECT p.name, o.item FROM ({SAME}) AS s JOIN person p ON p.id = s.a JOIN purchase o ON o.person = s.b "
        "ORDER BY prob() DESC LIMIT 3"
    )
    likely.show()
    return same


if __name__ == "__main__":
    main()
