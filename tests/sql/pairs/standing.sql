-- nothing of ours
SELECT a FROM u;
-->
SELECT a FROM u

-- HAVING prob() is cut off
SELECT a FROM u HAVING prob() > 0.5
-->
SELECT a FROM u

-- ORDER BY prob() too
SELECT a FROM u ORDER BY prob() DESC LIMIT 3
-->
SELECT a FROM u  LIMIT 3

-- an expected value is a count
SELECT b, expected_count() FROM u GROUP BY b
-->
SELECT b, count(*) FROM u GROUP BY b

-- an expected sum is a count of the same
SELECT expected_sum(a + 1) FROM u
-->
SELECT count(a + 1) FROM u
