"""What goes wrong, as a client hears of it: a status of HTTP, a sentence that says what to do, and where."""

from __future__ import annotations

import re
from typing import Any

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, TIMEOUT, CONFLICT = 400, 401, 403, 404, 408, 409
TOO_LARGE, UNPROCESSABLE, TOO_MANY, INTERNAL, UNAVAILABLE, LATE = 413, 422, 429, 500, 503, 504
STATUS_OF = {"SQLTimeout": LATE, "OverLimit": TOO_LARGE, "IndexError": NOT_FOUND}
"""The status of errors of the library that are not 422."""


class Failure(Exception):
    """An error with its status; ``where`` is a place in what was sent, such as ``{"line": 2}``."""

    def __init__(self, status: int, message: str, where: dict[str, Any] | None = None) -> None:
        self.status, self.message, self.where = status, message, where
        super().__init__(message)

    def as_json(self) -> dict[str, Any]:
        return {"error": {"status": self.status, "message": self.message, "where": self.where}}


def failure_of(said: dict[str, Any]) -> Failure:
    """The failure that a worker reports."""
    name, message = str(said["error"]), str(said.get("message", ""))
    message = re.sub(r"^<text>(?::\d+)?: ", "", message)
    where = said.get("where") or ({"line": said["line"]} if said.get("line") else None)
    return Failure(STATUS_OF.get(name, UNPROCESSABLE), message or name, where)
