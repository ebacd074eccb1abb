-- an unqualified name
SELECT a, c FROM u, v
-->
[a=_t1.a, c=_t2.c] reads u, v

-- the probability is not in the star
SELECT * FROM u
-->
[a=_t1.a, b=_t1.b] reads u

-- the probability can be named
SELECT p FROM u
-->
[p=_t1.p] reads u

-- USING shows one column
SELECT * FROM u JOIN v USING (b)
-->
[a=_t1.a, b=_t1.b, c=_t2.c] reads u, v

-- an alias seen by later items
SELECT a + 1 AS z, z * 2 AS y FROM u
-->
[z=_t1.a + 1, y=(_t1.a + 1) * 2] reads u

-- an alias not seen by later items [sqlite]
SELECT a + 1 AS z, z * 2 AS y FROM u
-->
refused: no column 'z' in the FROM items in sight

-- an alias seen by WHERE [sqlite]
SELECT a + 1 AS z FROM u WHERE z > 2
-->
[z=_t1.a + 1 where ((_t1.a + 1) > 2)] reads u

-- a CTE hides a table
WITH u AS (SELECT x AS a FROM s) SELECT a FROM u
-->
certain reads nothing

-- a column alias list
SELECT n FROM (SELECT a, b FROM u) AS d(m, n)
-->
[n=_t3._c1] reads u

-- an outer name in EXISTS
SELECT a FROM u WHERE EXISTS (SELECT c FROM v WHERE v.b = u.b)
-->
[a=_t1.a where EXISTS correlated [c=_t3.c where (_t3.b = _t1.b)]] reads u, v

-- an inner name first
SELECT a FROM u WHERE EXISTS (SELECT b FROM v WHERE b = 2)
-->
[a=_t1.a where EXISTS [b=_t2.b where (_t2.b = 2)]] reads u, v

-- negation is bound too
SELECT a FROM u WHERE NOT EXISTS (SELECT b FROM v)
-->
[a=_t1.a where not EXISTS [b=_t2.b]] reads u, v, not positive

-- two negations are none
SELECT a FROM u WHERE NOT (a > 1 OR NOT b IN (SELECT b FROM v))
-->
[a=_t1.a where not (((_t1.a > 1)) or not _t1.b IN [b=_t2.b])] reads u, v

-- EXCEPT of uncertain rows is not positive
SELECT b FROM u EXCEPT SELECT b FROM v
-->
([b=_t1.b] EXCEPT [b=_t2.b]) reads u, v, not positive

-- a certain query is left alone
SELECT count(*) FROM s GROUP BY x
-->
certain reads nothing

-- an ambiguous name
SELECT b FROM u, v
-->
refused: the column 'b' is ambiguous: say which table it is of

-- an unknown name
SELECT nothing FROM u
-->
refused: no column 'nothing' in the FROM items in sight

-- two items of one name
SELECT 1 FROM u, u
-->
refused: two FROM items are called 'u': give one of them another alias

-- a row's number that nobody listed
SELECT rowid FROM u
-->
refused: 'rowid' may mean a whole row or its number: say of which table it is a column

-- a scalar subquery
SELECT (SELECT b FROM v) FROM u
-->
refused: a subquery over uncertain rows in '(SELECT b FROM v)' is not supported: it may stand as EXISTS, IN or ANY, and compared with a value

-- an item beside GROUP BY
SELECT a FROM u GROUP BY b
-->
refused: 'a' beside GROUP BY is not supported: it is not a function of the grouping columns

-- a file in FROM
SELECT a FROM 'pairs.parquet'
-->
refused: 'pairs.parquet' is a file, which a query cannot name: write db.register('pairs', 'pairs.parquet'), with prob= if its rows are uncertain (on the command line --table pairs=pairs.parquet), and FROM pairs
