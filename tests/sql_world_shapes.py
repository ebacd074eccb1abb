"""Query shapes that only worlds answer, over the tables of ``sql_worlds.random_world``, and the ways that may overlap.

Every shape has one result in each world: what LIMIT and windows keep is ordered by all columns that are shown.
"""

from __future__ import annotations

from sql_shapes import Shape

RICH = ("duckdb", "postgres")
DUCK = ("duckdb",)

WINDOWS = [
    Shape("SELECT a, b, row_number() OVER (ORDER BY a NULLS LAST, b NULLS LAST) AS n FROM e"),
    Shape("SELECT a, rank() OVER (ORDER BY a) FROM e"),
    Shape("SELECT a, b, dense_rank() OVER (PARTITION BY a ORDER BY b) FROM e"),
    Shape("SELECT a, count(*) OVER () FROM e"),
    Shape("SELECT a, sum(b) OVER (PARTITION BY a) FROM e"),
    Shape("SELECT a, b, sum(b) OVER (ORDER BY a NULLS FIRST, b NULLS FIRST ROWS UNBOUNDED PRECEDING) FROM e"),
    Shape("SELECT a, avg(b) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM e WHERE a IS NOT NULL"),
    Shape("SELECT a, lag(b) OVER (ORDER BY a, b) FROM e WHERE a IS NOT NULL AND b IS NOT NULL"),
    Shape("SELECT a, lead(a, 1, 0) OVER (ORDER BY a, b) FROM e WHERE a IS NOT NULL AND b IS NOT NULL"),
    Shape("SELECT a, first_value(b) OVER (PARTITION BY a ORDER BY b) FROM e WHERE b IS NOT NULL"),
    Shape("SELECT k, max(x) OVER (PARTITION BY k) FROM r"),
    Shape("SELECT e.a, count(*) OVER (PARTITION BY u.c) FROM e JOIN u ON e.a = u.a"),
    Shape("SELECT a FROM (SELECT a, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM e) d WHERE n = 2"),
    Shape("SELECT a, ntile(2) OVER (ORDER BY a, b) FROM e WHERE a IS NOT NULL AND b IS NOT NULL"),
    Shape("SELECT a, sum(b) OVER w FROM e WINDOW w AS (PARTITION BY a)"),
    Shape("SELECT a, rank() OVER (ORDER BY count(*)) FROM e GROUP BY a"),
    Shape("SELECT a FROM e QUALIFY row_number() OVER (ORDER BY a, b) = 1", on=DUCK),
    Shape("SELECT a, b FROM e QUALIFY b = max(b) OVER (PARTITION BY a)", on=DUCK),
    Shape("SELECT x, k FROM r QUALIFY rank() OVER (ORDER BY x DESC NULLS LAST) = 1", on=DUCK),
    Shape("SELECT a FROM ve WHERE (SELECT count(*) FROM vv) < 2"),
    Shape("SELECT n, count(*) OVER () FROM vv"),
]
RECURSION = [
    Shape("WITH RECURSIVE w(a) AS (SELECT a FROM e UNION SELECT e.b FROM e JOIN w ON e.a = w.a) SELECT a FROM w"),
    Shape(
        "WITH RECURSIVE w(a, d) AS (SELECT a, 0 FROM u UNION ALL SELECT e.b, d + 1 FROM e JOIN w ON e.a = w.a WHERE "
        "d < 3) SELECT a, max(d) FROM w GROUP BY a"
    ),
    Shape(
        "WITH RECURSIVE w(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM w WHERE n < 3) SELECT w.n, e.b FROM w JOIN e "
        "ON e.a = w.n"
    ),
    Shape(
        "WITH RECURSIVE w(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM w WHERE n < (SELECT count(*) FROM e)) SELECT n "
        "FROM w"
    ),
    Shape("WITH RECURSIVE w(a) AS (SELECT 1 UNION SELECT x FROM r JOIN w ON r.k = w.a) SELECT count(*) FROM w"),
    Shape(
        "SELECT s.a FROM s WHERE s.y IN (WITH RECURSIVE w(a) AS (SELECT 1 UNION SELECT e.b FROM e JOIN w ON "
        "e.a = w.a) SELECT a FROM w)"
    ),
]
LIMITS = [
    Shape("SELECT a, b FROM e ORDER BY a, b LIMIT 1"),
    Shape("SELECT DISTINCT a FROM e ORDER BY a DESC LIMIT 2"),
    Shape("SELECT a FROM (SELECT a, b FROM e ORDER BY b, a LIMIT 2) d"),
    Shape("SELECT DISTINCT a FROM e ORDER BY a LIMIT 1 OFFSET 1"),
    Shape("SELECT y FROM s WHERE y IN (SELECT DISTINCT a FROM e ORDER BY a LIMIT 1)"),
    Shape("SELECT a FROM s UNION SELECT b FROM e ORDER BY 1 LIMIT 2"),
    Shape("SELECT s.a, (SELECT e.b FROM e WHERE e.a = s.a ORDER BY e.b LIMIT 1) FROM s"),
    Shape("WITH w AS (SELECT x FROM r ORDER BY x LIMIT 1) SELECT x FROM w"),
    Shape("SELECT a FROM (SELECT a FROM e LIMIT 0) d"),
    Shape("SELECT DISTINCT ON (a) a, b FROM e ORDER BY a, b", on=RICH),
    Shape("SELECT DISTINCT ON (a) a, b FROM e ORDER BY a, b DESC", on=RICH),
    Shape("SELECT DISTINCT ON (u.c) u.c, e.b FROM e JOIN u ON e.a = u.a ORDER BY u.c, e.b", on=RICH),
    Shape("SELECT b FROM (SELECT DISTINCT ON (a) a, b FROM e ORDER BY a, b) d WHERE b > 1", on=RICH),
    Shape("SELECT k, x FROM r ORDER BY x DESC, k LIMIT 1"),
    Shape("SELECT a FROM e ORDER BY a, b FETCH FIRST 1 ROWS ONLY", on=("postgres",)),
]
JOINS = [
    Shape("SELECT s.a, e.b FROM s LEFT JOIN e ON e.a = s.a"),
    Shape("SELECT e.a, u.c FROM e FULL JOIN u ON e.a = u.a", on=RICH),
    Shape("SELECT e.b, u.c FROM e NATURAL JOIN u", world="SELECT e.b, u.c FROM e JOIN u ON e.a = u.a"),
    Shape("SELECT a FROM e EXCEPT SELECT a FROM u"),
    Shape("SELECT a FROM e EXCEPT ALL SELECT c FROM u", on=RICH),
    Shape("SELECT a FROM e INTERSECT ALL SELECT c FROM u", on=RICH),
    Shape("SELECT a FROM s WHERE a NOT IN (SELECT a FROM e)"),
    Shape("SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.a = s.a)"),
    Shape("SELECT a FROM s WHERE a > ALL (SELECT a FROM e)", on=RICH),
    Shape("SELECT e.a, q.c FROM e, LATERAL (SELECT c FROM u WHERE u.a = e.a) q", on=RICH),
    Shape("SELECT s.a, q.n FROM s CROSS JOIN LATERAL (SELECT count(*) AS n FROM e WHERE e.a = s.a) q", on=RICH),
    Shape(
        "SELECT s.a, q.b FROM s LEFT JOIN LATERAL (SELECT b FROM e WHERE e.a = s.a ORDER BY b LIMIT 1) q ON true",
        on=RICH,
    ),
    Shape("SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = e.a) FROM e"),
    Shape("SELECT a, CASE WHEN b IN (SELECT c FROM u) THEN 1 ELSE 0 END FROM e"),
    Shape("SELECT a FROM e ANTI JOIN u USING (a)", on=DUCK),
    Shape("SELECT a FROM e WHERE b = (SELECT max(b) FROM e)"),
    Shape("SELECT a FROM e x WHERE b >= (SELECT avg(b) FROM e y WHERE y.a = x.a)"),
    Shape("SELECT a FROM e UNION BY NAME SELECT c AS a FROM u", on=DUCK),
    Shape("SELECT a, unnest([b, 7]) FROM e", on=DUCK),
    Shape("SELECT e.a, q.v FROM e, unnest([e.a, e.b]) AS q(v)", on=DUCK),
    Shape("SELECT e.a, q.v FROM e, unnest(ARRAY[e.a, e.b]) AS q(v)", on=("postgres",)),
    Shape("SELECT a, generate_series(1, a) FROM e", on=("postgres",)),
    Shape("SELECT e.a, j.value FROM e, json_each('[1, 2]') AS j WHERE j.value = e.b", on=("sqlite",)),
    Shape("SELECT unnest([a, c]) AS v FROM u WHERE c > 1", on=DUCK),
    Shape("SELECT a FROM s WHERE a IN (SELECT unnest([e.a, e.b]) FROM e)", on=DUCK),
    Shape("SELECT a FROM s WHERE a IN (SELECT unnest(ARRAY[e.a, e.b]) FROM e)", on=("postgres",)),
    Shape("SELECT g.i, e.b FROM e JOIN generate_series(1, 3) AS g(i) ON g.i = e.a", on=RICH),
    Shape("SELECT e.a, j.value FROM e, json_each(json_array(e.a, e.b)) AS j", on=("sqlite",)),
    Shape("SELECT count(*) FROM e, json_each('[1, 2]') AS j WHERE j.value >= e.b", on=("sqlite",)),
    Shape("SELECT s.a, q.n FROM s, LATERAL (SELECT max(x) AS n FROM r WHERE r.k <= s.a) q WHERE q.n > 1", on=RICH),
    Shape("SELECT a FROM e EXCEPT ALL SELECT a FROM u EXCEPT ALL SELECT x FROM r", on=RICH),
    Shape("SELECT a, b FROM e INTERSECT ALL SELECT a, c FROM u", on=RICH),
    Shape("SELECT a, NOT EXISTS (SELECT 1 FROM u WHERE u.a = s.a) FROM s"),
    Shape("SELECT a, a IN (SELECT c FROM u) FROM s"),
    Shape("SELECT EXISTS (SELECT 1 FROM e EXCEPT SELECT 1 FROM u)"),
    Shape("SELECT a, b NOT IN (SELECT x FROM r) FROM e"),
    Shape("SELECT a, b FROM e EXCEPT SELECT s.a, NULL FROM s LEFT JOIN u ON s.a = u.a"),
    Shape("SELECT * REPLACE (b + 1 AS b) FROM e", on=DUCK, world="SELECT a, b + 1 FROM e"),
    Shape("SELECT COLUMNS('a|b') FROM e", on=DUCK, world="SELECT a, b FROM e"),
    Shape("SELECT * FROM (SELECT a, b FROM e) PIVOT (count(b) FOR a IN (1, 2))", on=DUCK),
]
AGGREGATES = [
    Shape("SELECT count(*) FROM e"),
    Shape("SELECT a, count(*), sum(b), min(b), max(b) FROM e GROUP BY a"),
    Shape("SELECT avg(b) FROM e"),
    Shape("SELECT count(DISTINCT b) FROM e"),
    Shape("SELECT a, count(*) FILTER (WHERE b > 1) FROM e GROUP BY a"),
    Shape("SELECT sum(b) FROM e JOIN u ON e.a = u.a"),
    Shape("SELECT k, sum(x), count(x) FROM r GROUP BY k"),
    Shape("SELECT string_agg(CAST(a AS VARCHAR), ',' ORDER BY a, b) FROM e", on=RICH),
    Shape("SELECT group_concat(a, ',') FROM (SELECT DISTINCT a FROM e ORDER BY a) d", on=("sqlite",)),
    Shape("SELECT a, string_agg(CAST(b AS VARCHAR), '-' ORDER BY b DESC) FROM e GROUP BY a", on=RICH),
    Shape("SELECT string_agg(DISTINCT CAST(x AS VARCHAR), ',' ORDER BY CAST(x AS VARCHAR)) FROM r", on=RICH),
    Shape("SELECT group_concat(b, '-') FROM (SELECT a, b FROM e ORDER BY a, b) d GROUP BY a", on=("sqlite",)),
    Shape("SELECT group_concat(x) FROM (SELECT x FROM r ORDER BY k, x) d", on=("sqlite",)),
    Shape("SELECT list(a ORDER BY a, b) FROM e", on=DUCK),
    Shape("SELECT array_agg(a ORDER BY a, b) FROM e", on=RICH),
    Shape("SELECT a, array_agg(b ORDER BY b) FROM e GROUP BY a", on=RICH),
    Shape("SELECT array_agg(x ORDER BY k, x) FILTER (WHERE x > 1) FROM r", on=RICH),
    Shape("SELECT json_group_array(a) FROM (SELECT a FROM e ORDER BY a, b) d", on=("sqlite",)),
    Shape("SELECT a, json_group_array(b) FROM (SELECT a, b FROM e ORDER BY a, b) d GROUP BY a", on=("sqlite",)),
    Shape("SELECT json_group_array(x) FROM (SELECT x FROM r ORDER BY k, x) d", on=("sqlite",)),
    Shape("SELECT sum(b) FILTER (WHERE a > 1), avg(b) FILTER (WHERE b > 1) FROM e"),
    Shape("SELECT min(b), max(b) - min(b) FROM e WHERE a NOT IN (SELECT a FROM u)"),
    Shape("SELECT e.a, count(DISTINCT u.c), sum(u.c) FROM e JOIN u ON e.a = u.a GROUP BY e.a"),
    Shape("SELECT sum(DISTINCT b) FROM e"),
    Shape("SELECT e.a FROM e JOIN u ON e.a = u.a GROUP BY e.a HAVING count(DISTINCT u.c) = count(*)"),
    Shape("SELECT median(b) FROM e", on=DUCK),
    Shape("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY b) FROM e", on=RICH),
    Shape("SELECT bool_and(b > 1), bool_or(a > 1) FROM e", on=RICH),
    Shape("SELECT a FROM e GROUP BY a HAVING count(*) > 1"),
    Shape("SELECT a FROM e GROUP BY a HAVING sum(b) > 2 OR min(b) IS NULL"),
    Shape("SELECT a, b, count(*) FROM e GROUP BY ROLLUP (a, b)", on=RICH),
    Shape("SELECT a, b, count(*) FROM e GROUP BY GROUPING SETS ((a), (b))", on=RICH),
    Shape("SELECT max(n) FROM (SELECT a, count(*) AS n FROM e GROUP BY a) d"),
    Shape("SELECT count(*) * 10 + (SELECT count(*) FROM u) FROM e"),
    Shape("SELECT a, (SELECT count(*) FROM u WHERE u.a = e.a) AS n FROM e"),
    Shape("SELECT s.a, count(e.b) FROM s LEFT JOIN e ON e.a = s.a GROUP BY s.a"),
    Shape("SELECT a % 2, count(*) FROM e GROUP BY 1"),
    Shape("SELECT count(*) FROM e WHERE p > 0.4"),
]
WORLD_SHAPES = [*WINDOWS, *RECURSION, *LIMITS, *JOINS, *AGGREGATES]
