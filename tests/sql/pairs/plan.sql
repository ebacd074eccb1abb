-- a threshold
SELECT a FROM u HAVING prob() > 0.25
-->
prob > 0.25

-- a threshold from the other side
SELECT a FROM u HAVING 0.25 < prob()
-->
prob > 0.25

-- between
SELECT a FROM u HAVING prob() BETWEEN 0.1 AND 0.9
-->
prob >= 0.1; prob <= 0.9

-- the best
SELECT a FROM u ORDER BY prob() DESC LIMIT 3
-->
_prob desc; limit 3

-- the worst, then by column
SELECT a, b FROM u ORDER BY prob(), b DESC LIMIT 1
-->
_prob asc; _c1 desc; limit 1

-- a threshold and the best
SELECT a FROM u HAVING prob() >= 0.5 ORDER BY prob() DESC LIMIT 2
-->
prob >= 0.5; _prob desc; limit 2

-- by position and expression
SELECT a, b + 1 FROM u ORDER BY 2, a
-->
_c1 asc; _c0 asc

-- expected values
SELECT b, expected_count() AS n, expected_sum(a) FROM u GROUP BY b ORDER BY n DESC
-->
_e0 desc; n of rows; expected_sum of measure 0

-- no order, no cut
SELECT a FROM u
-->
nothing

-- LIMIT without prob()
SELECT a FROM u LIMIT 3
-->
refused: LIMIT or OFFSET without prob() is not supported: which rows it keeps differs from world to world

-- an aggregate
SELECT count(*) FROM u
-->
refused: the aggregate count() is not supported: its value depends on which uncertain rows exist; over them only expected_count() and expected_sum(x), alone in the select list, are defined

-- LIMIT of an expression
SELECT a FROM u ORDER BY prob() DESC LIMIT 1 + 1
-->
refused: LIMIT 1 + 1 is not supported: write LIMIT, and OFFSET, with a whole number
