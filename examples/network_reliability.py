"""Which machines can still reach the server when links fail? Network reliability from an edge list.

Every link works with a probability of its own. A host is connected if a chain of at most three working links leads to
the server; the chains share links, so their probabilities cannot simply be added or multiplied.
"""

from __future__ import annotations

import io

import pyarrow.csv

import sharpdnf

LINKS = """a,b,works
office,switch1,0.99
office,switch2,0.95
lab,switch2,0.90
lab,office,0.80
switch1,core,0.98
switch2,core,0.97
switch1,switch2,0.90
core,server,0.995
warehouse,lab,0.70
"""

CONNECTED = """
WITH link AS (SELECT a, b FROM wire UNION SELECT b, a FROM wire)
SELECT x.a AS host FROM link x WHERE x.b = 'server'
UNION
SELECT x.a FROM link x JOIN link y ON x.b = y.a WHERE y.b = 'server' AND x.a <> 'server'
UNION
SELECT x.a FROM link x JOIN link y ON x.b = y.a JOIN link z ON y.b = z.a WHERE z.b = 'server' AND x.a <> 'server'
ORDER BY prob() DESC
"""


def main() -> sharpdnf.sql.Answers:
    db = sharpdnf.connect()
    db.register("wire", pyarrow.csv.read_csv(io.BytesIO(LINKS.encode())), prob="works")
    answers = db.sql(CONNECTED, guarantee="exact")
    answers.show()
    last = len(answers) - 1
    print("what the weakest host depends on:")
    for reason in answers.explain(last, top=3):
        print(f"  {reason.row}: works with {reason.prob}, changes the answer by {reason.influence:.3f}")
    links = db.sql("SELECT expected_count() AS working_links FROM wire")
    links.show()
    return answers


if __name__ == "__main__":
    main()
