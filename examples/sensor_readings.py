"""Is the room too warm? Sensor readings with exclusive alternatives.

A sensor reports one value at a time, but we know it only up to noise: each (sensor, hour) has a few candidate values
whose probabilities add up to at most 1, and at most one of them is true. That is a block of exclusive rows.
"""

from __future__ import annotations

import sharpdnf

READINGS = {
    "sensor": ["door"] * 5 + ["wall"] * 5,
    "hour": [9, 9, 10, 10, 10, 9, 9, 9, 10, 10],
    "celsius": [21, 24, 22, 25, 27, 20, 23, 26, 24, 25],
    "p": [0.7, 0.3, 0.2, 0.5, 0.3, 0.3, 0.4, 0.2, 0.6, 0.4],
}
LIMITS = {"sensor": ["door", "wall"], "warm": [24, 23]}


def main() -> sharpdnf.sql.Answers:
    import pyarrow as pa

    db = sharpdnf.connect()
    db.register("reading", pa.table(READINGS), prob="p", block=["sensor", "hour"])
    db.register("limits", pa.table(LIMITS))
    warm = db.sql(
        "SELECT r.hour FROM reading r JOIN limits l ON r.sensor = l.sensor WHERE r.celsius >= l.warm GROUP BY r.hour"
    )
    warm.show()
    both = db.sql(
        "SELECT a.hour FROM reading a JOIN reading b ON a.hour = b.hour AND a.sensor < b.sensor "
        "WHERE a.celsius >= 24 AND b.celsius >= 24"
    )
    both.show()
    db.sql("SELECT sensor, expected_sum(celsius) AS celsius FROM reading WHERE hour = 10 GROUP BY sensor").show()
    return warm


if __name__ == "__main__":
    main()
