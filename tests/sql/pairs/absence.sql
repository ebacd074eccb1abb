-- NOT EXISTS that is correlated
SELECT a FROM u WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.b = u.b)
-->
make k4: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0, _t1.b AS _c1, _t1.id AS _l0 FROM u_rows AS _t1) AS _r
decide k4: none of (SELECT _t5.id AS _c0, _t3.id AS _l0 FROM k4 AS _t5, v_rows AS _t3 WHERE (_t3.b = _t5._c1))
ask: SELECT _t5._c0 AS _c0, _t5.id AS _l0 FROM k4 AS _t5

-- NOT EXISTS that stands alone
SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM v)
-->
make k3: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0 FROM s AS _t1) AS _r
decide k3: none of for all (SELECT 1 AS _c0, _t2.id AS _l0 FROM v_rows AS _t2)
ask: SELECT _t4._c0 AS _c0, _t4.id AS _l0 FROM k3 AS _t4

-- NOT IN counts comparisons that are NULL
SELECT a FROM s WHERE x NOT IN (SELECT c FROM v)
-->
make k3: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0, _t1.x AS _c1 FROM s AS _t1) AS _r
decide k3: none of (WITH q5 AS (SELECT _t2.c AS _c0, _t2.id AS _l0 FROM v_rows AS _t2) SELECT _t4.id AS _c0, _t6._l0 AS _l0 FROM k3 AS _t4, q5 AS _t6 WHERE (_t4._c1) = (_t6._c0) UNION ALL SELECT _t4.id AS _c0, _t6._l0 AS _l0 FROM k3 AS _t4, q5 AS _t6 WHERE (_t6._c0) IS NULL UNION ALL SELECT _t4.id AS _c0, _t6._l0 AS _l0 FROM k3 AS _t4, q5 AS _t6 WHERE (_t4._c1) IS NULL)
ask: SELECT _t4._c0 AS _c0, _t4.id AS _l0 FROM k3 AS _t4

-- ALL is the negation of ANY
SELECT a FROM s WHERE x > ALL (SELECT c FROM v)
-->
make k3: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0, _t1.x AS _c1 FROM s AS _t1) AS _r
decide k3: none of (WITH q5 AS (SELECT _t2.c AS _c0, _t2.id AS _l0 FROM v_rows AS _t2) SELECT _t4.id AS _c0, _t6._l0 AS _l0 FROM k3 AS _t4, q5 AS _t6 WHERE (_t4._c1) <= (_t6._c0) UNION ALL SELECT _t4.id AS _c0, _t6._l0 AS _l0 FROM k3 AS _t4, q5 AS _t6 WHERE (_t6._c0) IS NULL UNION ALL SELECT _t4.id AS _c0, _t6._l0 AS _l0 FROM k3 AS _t4, q5 AS _t6 WHERE (_t4._c1) IS NULL)
ask: SELECT _t4._c0 AS _c0, _t4.id AS _l0 FROM k3 AS _t4

-- an inner NOT under an outer one
SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = s.a AND NOT EXISTS (SELECT 1 FROM v WHERE v.b = u.b AND v.c = s.x))
-->
make k6: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0, _t1.x AS _c1 FROM s AS _t1) AS _r
make k8: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t7.id AS _c0, _t3.b AS _c1, _t7._c1 AS _c2, _t3.id AS _l0 FROM k6 AS _t7, u_rows AS _t3 WHERE ((_t3.a = _t7._c0))) AS _r
decide k8: none of (SELECT _t9.id AS _c0, _t5.id AS _l0 FROM k8 AS _t9, v_rows AS _t5 WHERE ((_t5.b = _t9._c1) AND (_t5.c = _t9._c2)))
decide k6: none of (SELECT _t9._c0 AS _c0, _t9.id AS _l0 FROM k8 AS _t9)
ask: SELECT _t7._c0 AS _c0, _t7.id AS _l0 FROM k6 AS _t7

-- EXCEPT
SELECT b FROM u EXCEPT SELECT b FROM v
-->
make k3: SELECT DENSE_RANK() OVER (ORDER BY _r._c0) + (base - 1) AS id, _r.* FROM (SELECT _t1.b AS _c0, _t1.id AS _l0 FROM u_rows AS _t1 UNION ALL SELECT _t2.b AS _c0, _t2.id AS _l0 FROM v_rows AS _t2 WHERE 1 = 0) AS _r
make k7: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t4._c0 AS _c0, _t4.id AS _l0 FROM (SELECT DISTINCT ON (id) _c0, id FROM k3 AS _s) AS _t4) AS _r
decide k7: none of (WITH q5 AS (SELECT _t2.b AS _c0, _t2.id AS _l0 FROM v_rows AS _t2 UNION ALL SELECT _t1.b AS _c0, _t1.id AS _l0 FROM u_rows AS _t1 WHERE 1 = 0) SELECT _t8.id AS _c0, _t6._l0 AS _l0 FROM k7 AS _t8, q5 AS _t6 WHERE _t8._c0 IS NOT DISTINCT FROM _t6._c0)
ask: SELECT _t8._c0 AS _c0, _t8.id AS _l0 FROM k7 AS _t8

-- LEFT JOIN
SELECT s.x, u.b FROM s LEFT JOIN u ON u.a = s.a
-->
make k4: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.x AS _c0, _t2.b AS _c1, _t1.a AS _c2, _t2.id AS _l0 FROM s AS _t1 LEFT JOIN u_rows AS _t2 ON 1 = 0) AS _r
decide k4: none of (SELECT _t5.id AS _c0, _t3.id AS _l0 FROM k4 AS _t5, u_rows AS _t3 WHERE _t3.a = _t5._c2)
ask: SELECT _t1.x AS _c0, _t2.b AS _c1, _t2.id AS _l0 FROM s AS _t1 CROSS JOIN u_rows AS _t2 WHERE _t2.a = _t1.a UNION ALL SELECT _t5._c0 AS _c0, _t5._c1 AS _c1, _t5.id AS _l0 FROM k4 AS _t5

-- an anti-join
SELECT s.a FROM s ANTI JOIN u ON u.a = s.a
-->
make k4: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0 FROM s AS _t1) AS _r
decide k4: none of (SELECT _t5.id AS _c0, _t3.id AS _l0 FROM k4 AS _t5, u_rows AS _t3 WHERE _t3.a = _t5._c0)
ask: SELECT _t5._c0 AS _c0, _t5.id AS _l0 FROM k4 AS _t5

-- HAVING COUNT
SELECT a FROM u GROUP BY a HAVING count(*) >= 2
-->
make k2: SELECT DENSE_RANK() OVER (ORDER BY _r._c0) + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0, _t1.id AS _l0 FROM u_rows AS _t1) AS _r
decide k2: rows >= 2 of (SELECT _t4.id AS _c0, _t4._l0 AS _l0 FROM k2 AS _t4)
ask: SELECT _t3._c0 AS _c0, _t3.id AS _l0 FROM (SELECT DISTINCT ON (id) _c0, id FROM k2 AS _s) AS _t3

-- HAVING COUNT DISTINCT and MAX
SELECT a FROM u GROUP BY a HAVING count(DISTINCT b) < 2 AND max(b) <= a
-->
make k2: SELECT DENSE_RANK() OVER (ORDER BY _r._c0) + (base - 1) AS id, _r.* FROM (SELECT _t1.a AS _c0, _t1.b AS _c1, _t1.b AS _c2, _t1.id AS _l0 FROM u_rows AS _t1) AS _r
decide k2: all of [values < 2 of (SELECT _t4.id AS _c0, _t4._l0 AS _l0, DENSE_RANK() OVER (ORDER BY _t4._c1) AS _i0 FROM k2 AS _t4 WHERE NOT (_t4._c1) IS NULL), all of [(SELECT _t4.id AS _c0, _t4._l0 AS _l0 FROM k2 AS _t4 WHERE (_t4._c2) <= (_t4._c0)), none of (SELECT _t4.id AS _c0, _t4._l0 AS _l0 FROM k2 AS _t4 WHERE (_t4._c2) > (_t4._c0))]]
ask: SELECT _t3._c0 AS _c0, _t3.id AS _l0 FROM (SELECT DISTINCT ON (id) _c0, _c1, _c2, id FROM k2 AS _s) AS _t3

-- a subquery that is one aggregate
SELECT x FROM s WHERE x > (SELECT count(*) FROM u WHERE u.a = s.a)
-->
make k4: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.x AS _c0, _t1.a AS _c1 FROM s AS _t1) AS _r
make g6: SELECT _r.* FROM (SELECT _t5.id AS _c0, _t5._c0 AS _c1, _t3.id AS _l0 FROM k4 AS _t5, u_rows AS _t3 WHERE (_t3.a = _t5._c1)) AS _r
decide k4: rows < SELECT _t5.id AS _c0, CASE WHEN (_t5._c0) IS NULL THEN 0 ELSE 1 END AS _c1, COALESCE(CAST(_t5._c0 AS DOUBLE), 0) AS _c2 FROM k4 AS _t5 of (SELECT _t7._c0 AS _c0, _t7._l0 AS _l0 FROM g6 AS _t7)
ask: SELECT _t5._c0 AS _c0, _t5.id AS _l0 FROM k4 AS _t5

-- MIN against a constant
SELECT x FROM s WHERE (SELECT min(c) FROM v) = 7
-->
make k3: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t1.x AS _c0 FROM s AS _t1) AS _r
make g5: SELECT _r.* FROM (SELECT 0 AS _c0, _t2.c AS _c1, _t2.id AS _l0 FROM v_rows AS _t2) AS _r
decide k3: all of [for all (SELECT 0 AS _c0, _t6._l0 AS _l0 FROM g5 AS _t6 WHERE (_t6._c1) = (7)), none of for all (SELECT 0 AS _c0, _t6._l0 AS _l0 FROM g5 AS _t6 WHERE (_t6._c1) < (7))]
ask: SELECT _t4._c0 AS _c0, _t4.id AS _l0 FROM k3 AS _t4

-- EXCEPT ALL as a bag
SELECT a FROM s WHERE (SELECT count(*) FROM (SELECT b FROM u EXCEPT ALL SELECT b FROM v) d) > 1
-->
refused: EXCEPT ALL over uncertain rows is not supported

-- HAVING without GROUP BY
SELECT 1 FROM u HAVING count(*) > 1
-->
make k2: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT 1 AS _c0) AS _r
make g4: SELECT _r.* FROM (SELECT 0 AS _c0, _t1.id AS _l0 FROM u_rows AS _t1) AS _r
decide k2: rows > 1 of (SELECT 0 AS _c0, _t5._l0 AS _l0 FROM g4 AS _t5)
ask: SELECT 1 AS _c0, _t3.id AS _l0 FROM k2 AS _t3

-- a truth value in the select list
SELECT EXISTS (SELECT 1 FROM u WHERE u.a = s.a) AS m FROM s
-->
make k7: SELECT ROW_NUMBER() OVER () + (base - 1) AS id, _r.* FROM (SELECT _t4.a AS _c0 FROM s AS _t4) AS _r
decide k7: none of (SELECT _t8.id AS _c0, _t6.id AS _l0 FROM k7 AS _t8, u_rows AS _t6 WHERE (_t6.a = _t8._c0))
ask: SELECT TRUE AS _c0, _t3.id AS _l0 FROM s AS _t1, u_rows AS _t3 WHERE (_t3.a = _t1.a) UNION ALL SELECT FALSE AS _c0, _t8.id AS _l0 FROM k7 AS _t8

-- NOT IN over a correlated UNION
SELECT a FROM s WHERE x NOT IN (SELECT b FROM u WHERE u.a = s.a UNION SELECT c FROM v)
-->
refused: NOT IN over a correlated UNION is not supported
