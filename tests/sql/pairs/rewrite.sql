-- a scan notes the row
SELECT a FROM u
-->
SELECT _t1.a AS _c0, _t1.id AS _l0 FROM u_rows AS _t1

-- a join notes a row of either side
SELECT u.a, c FROM u JOIN v ON u.b = v.b
-->
SELECT _t1.a AS _c0, _t2.c AS _c1, _t1.id AS _l0, _t2.id AS _l1 FROM u_rows AS _t1 JOIN v_rows AS _t2 ON _t1.b = _t2.b

-- DISTINCT is left to the clauses
SELECT DISTINCT b FROM u
-->
SELECT _t1.b AS _c0, _t1.id AS _l0 FROM u_rows AS _t1

-- GROUP BY without aggregates is DISTINCT
SELECT b FROM u GROUP BY b
-->
SELECT _t1.b AS _c0, _t1.id AS _l0 FROM u_rows AS _t1

-- a certain table adds no lineage
SELECT x FROM u, s WHERE u.a = s.a
-->
SELECT _t2.x AS _c0, _t1.id AS _l0 FROM u_rows AS _t1, s AS _t2 WHERE (_t1.a = _t2.a)

-- EXISTS that stands alone is a join
SELECT x FROM s WHERE EXISTS (SELECT 1 FROM v WHERE c > 7)
-->
WITH q3 AS (SELECT 1 AS _c0, _t2.id AS _l0 FROM v_rows AS _t2 WHERE (_t2.c > 7)) SELECT _t1.x AS _c0, _t4._l0 AS _l0 FROM s AS _t1, q3 AS _t4

-- EXISTS that is correlated brings its FROM items
SELECT a FROM u WHERE EXISTS (SELECT 1 FROM v WHERE v.b = u.b)
-->
SELECT _t1.a AS _c0, _t1.id AS _l0, _t3.id AS _l1 FROM u_rows AS _t1, v_rows AS _t3 WHERE (_t3.b = _t1.b)

-- IN is a join with a comparison
SELECT a FROM u WHERE b IN (SELECT b FROM v)
-->
WITH q3 AS (SELECT _t2.b AS _c0, _t2.id AS _l0 FROM v_rows AS _t2) SELECT _t1.a AS _c0, _t1.id AS _l0, _t4._l0 AS _l1 FROM u_rows AS _t1, q3 AS _t4 WHERE (_t1.b) = (_t4._c0)

-- ANY compares as it says
SELECT a FROM u WHERE b < ANY (SELECT b FROM v)
-->
WITH q3 AS (SELECT _t2.b AS _c0, _t2.id AS _l0 FROM v_rows AS _t2) SELECT _t1.a AS _c0, _t1.id AS _l0, _t4._l0 AS _l1 FROM u_rows AS _t1, q3 AS _t4 WHERE (_t1.b) < (_t4._c0)

-- OR around subqueries is UNION ALL
SELECT a FROM s WHERE x > 5 OR a IN (SELECT a FROM u)
-->
WITH q3 AS (SELECT _t2.a AS _c0, _t2.id AS _l0 FROM u_rows AS _t2) SELECT _t1.a AS _c0, CAST(NULL AS BIGINT) AS _l0 FROM s AS _t1 WHERE ((_t1.x > 5)) UNION ALL SELECT _t1.a AS _c0, _t4._l0 AS _l0 FROM s AS _t1, q3 AS _t4 WHERE (_t1.a) = (_t4._c0)

-- NOT over OR is AND of NOTs
SELECT a FROM u WHERE NOT (a = 1 OR NOT EXISTS (SELECT 1 FROM v))
-->
WITH q3 AS (SELECT 1 AS _c0, _t2.id AS _l0 FROM v_rows AS _t2) SELECT _t1.a AS _c0, _t1.id AS _l0, _t4._l0 AS _l1 FROM u_rows AS _t1, q3 AS _t4 WHERE NOT (((_t1.a = 1)))

-- UNION pads the shorter lineage
SELECT a FROM u UNION SELECT u.a FROM u JOIN v ON u.b = v.b
-->
SELECT _t1.a AS _c0, _t1.id AS _l0, CAST(NULL AS BIGINT) AS _l1 FROM u_rows AS _t1 UNION ALL SELECT _t2.a AS _c0, _t2.id AS _l0, _t3.id AS _l1 FROM u_rows AS _t2 JOIN v_rows AS _t3 ON _t2.b = _t3.b

-- INTERSECT is a join
SELECT b FROM u INTERSECT SELECT b FROM v
-->
WITH q3 AS (SELECT _t1.b AS _c0, _t1.id AS _l0 FROM u_rows AS _t1), q5 AS (SELECT _t2.b AS _c0, _t2.id AS _l0 FROM v_rows AS _t2), q7 AS (SELECT _t4._c0 AS _c0, 0 AS _c1, _t4._l0 AS _l0, CAST(NULL AS BIGINT) AS _l1 FROM q3 AS _t4 UNION ALL SELECT _t6._c0 AS _c0, 1 AS _c1, CAST(NULL AS BIGINT) AS _l0, _t6._l0 AS _l1 FROM q5 AS _t6) SELECT _t9._c0 AS _c0, _t9._l0 AS _l0, _t10._l1 AS _l1 FROM q7 AS _t9, q7 AS _t10 WHERE _t9._c1 = 0 AND _t10._c1 = 1 AND _t9._c0 IS NOT DISTINCT FROM _t10._c0

-- INTERSECT compares bare values [sqlite]
SELECT b FROM u INTERSECT SELECT b FROM v
-->
WITH q3 AS (SELECT _t1.b AS _c0, _t1.id AS _l0 FROM u_rows AS _t1), q5 AS (SELECT _t2.b AS _c0, _t2.id AS _l0 FROM v_rows AS _t2) SELECT _t4._c0 AS _c0, _t4._l0 AS _l0, _t6._l0 AS _l1 FROM q3 AS _t4, q5 AS _t6 WHERE COALESCE(_t4._c0, NULL) IS COALESCE(_t6._c0, NULL)

-- EXCEPT of certain rows is an anti-join
SELECT a FROM u EXCEPT SELECT a FROM s
-->
WITH q2(_c0) AS (SELECT a FROM s), q5 AS (SELECT _t1.a AS _c0, _t1.id AS _l0 FROM u_rows AS _t1), q7 AS (SELECT _t4._c0 AS _c0 FROM q2 AS _t4), q9 AS (SELECT _t6._c0 AS _c0, 0 AS _c1, _t6._l0 AS _l0 FROM q5 AS _t6 UNION ALL SELECT _t8._c0 AS _c0, 1 AS _c1, CAST(NULL AS BIGINT) AS _l0 FROM q7 AS _t8) SELECT _t11._c0 AS _c0, _t11._l0 AS _l0 FROM q9 AS _t11 WHERE _t11._c1 = 0 AND NOT EXISTS(SELECT 1 FROM q9 AS _t12 WHERE _t12._c1 = 1 AND _t11._c0 IS NOT DISTINCT FROM _t12._c0)

-- a CTE is rewritten once
WITH q AS (SELECT a, b FROM u) SELECT q.a FROM q JOIN q AS r ON q.a = r.b
-->
WITH q2 AS (SELECT _t1.a AS _c0, _t1.b AS _c1, _t1.id AS _l0 FROM u_rows AS _t1) SELECT _t3._c0 AS _c0, _t3._l0 AS _l0, _t4._l0 AS _l1 FROM q2 AS _t3 JOIN q2 AS _t4 ON _t3._c0 = _t4._c1

-- a view is expanded
SELECT a FROM w
-->
WITH q2 AS (SELECT _t1.a AS _c0, _t1.b AS _c1, _t1.id AS _l0 FROM u_rows AS _t1 WHERE ((_t1.a > 1))) SELECT _t3._c0 AS _c0, _t3._l0 AS _l0 FROM q2 AS _t3

-- a derived table is a CTE
SELECT d.z FROM (SELECT a + 1 AS z FROM u) AS d
-->
WITH q2 AS (SELECT _t1.a + 1 AS _c0, _t1.id AS _l0 FROM u_rows AS _t1) SELECT _t3._c0 AS _c0, _t3._l0 AS _l0 FROM q2 AS _t3

-- a left join over certain rows stays
SELECT u.a, x FROM u LEFT JOIN s ON u.a = s.a
-->
SELECT _t1.a AS _c0, _t2.x AS _c1, _t1.id AS _l0 FROM u_rows AS _t1 LEFT JOIN s AS _t2 ON _t1.a = _t2.a

-- a semi-join over uncertain rows is a join
SELECT a FROM u SEMI JOIN v ON u.b = v.b
-->
SELECT _t1.a AS _c0, _t1.id AS _l0, _t2.id AS _l1 FROM u_rows AS _t1 INNER JOIN v_rows AS _t2 ON _t1.b = _t2.b

-- EXISTS in ON goes to WHERE
SELECT u.a FROM u JOIN s ON u.a = s.a AND EXISTS (SELECT 1 FROM v)
-->
WITH q4 AS (SELECT 1 AS _c0, _t3.id AS _l0 FROM v_rows AS _t3) SELECT _t1.a AS _c0, _t1.id AS _l0, _t5._l0 AS _l1 FROM u_rows AS _t1 CROSS JOIN s AS _t2, q4 AS _t5 WHERE ((_t1.a = _t2.a))
