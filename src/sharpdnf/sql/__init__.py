"""Probabilistic SQL: tables with a probability column in, answers with probabilities out.

tables + query -> rewrite -> lineage rows in the database -> one DNF per answer -> count_many -> Answers
"""

from __future__ import annotations

import logging

from sharpdnf.errors import MissingExtra

try:
    from sharpdnf.sql.answers import Answers
    from sharpdnf.sql.database import ProbDB
    from sharpdnf.sql.evidence import Evidence, denial, key
    from sharpdnf.sql.reasons import Reason, Reasons
    from sharpdnf.sql.sandbox import Limits, Sandbox
    from sharpdnf.sql.source import connect
except ImportError as error:
    if (error.name or "").split(".")[0] != "sqlglot":  # the others are imported where they are needed
        raise
    raise MissingExtra("probabilistic SQL", "sql") from None

logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # what it cannot parse is an error of ours

__all__ = ["Answers", "Evidence", "Limits", "ProbDB", "Reason", "Reasons", "Sandbox", "connect", "denial", "key"]
