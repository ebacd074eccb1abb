-- operators
SELECT a + b * 2 FROM u
-->
SELECT a + (b * 2) FROM u

-- comparisons and NOT
SELECT 1 FROM u WHERE NOT a = 1 AND b < 2 OR a IS NOT NULL
-->
SELECT 1 FROM u WHERE ((NOT (a = 1)) AND (b < 2)) OR (a IS NOT NULL)

-- a call keeps its name
SELECT strpos(s, 'x'), IFNULL(a, 0) FROM t
-->
SELECT STRPOS(s, 'x'), IFNULL(a, 0) FROM t

-- unary minus before a power [postgres]
SELECT - 2 ^ 2
-->
SELECT POWER((-2), 2)

-- IS NOT is one operator [sqlite]
SELECT a IS NOT b + 1 FROM u
-->
SELECT a IS NOT (b + 1) FROM u

-- an interval keeps its text
SELECT d + INTERVAL '1 day' FROM t
-->
SELECT d + (INTERVAL '1 day') FROM t

-- BETWEEN [sqlite]
SELECT a NOT BETWEEN 1 + 1 AND 2 FROM u
-->
SELECT NOT (a BETWEEN (1 + 1) AND 2) FROM u
