"""The description of the API in OpenAPI 3.1, from which clients can be made."""

from __future__ import annotations

import re
from typing import Any

from sharpdnf.serve.asked import GUARANTEES
from sharpdnf.serve.failure import (
    BAD_REQUEST,
    CONFLICT,
    FORBIDDEN,
    INTERNAL,
    LATE,
    NOT_FOUND,
    TIMEOUT,
    TOO_LARGE,
    TOO_MANY,
    UNAUTHORIZED,
    UNAVAILABLE,
    UNPROCESSABLE,
)

Schema = dict[str, Any]
TEXT, NUMBER, WHOLE, FLAG = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))
PROB: Schema = {"type": "number", "minimum": 0, "maximum": 1}
PROBS: Schema = {"type": "object", "additionalProperties": PROB}
ANYTHING: Schema = {}


def optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def fields(required: str = "", **properties: Schema) -> Schema:
    """An object with these fields; ``required`` names those that must be there."""
    out: Schema = {"type": "object", "properties": properties}
    return out | ({"required": required.split()} if required else {})


PROMISE: dict[str, Schema] = {
    "guarantee": {"enum": list(GUARANTEES)},
    "epsilon": {"type": "number", "exclusiveMinimum": 0, "default": 0.1},
    "delta": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.05},
    "seconds": {"type": "number", "description": "time limit; at most that of the service"},
    "seed": {"type": "integer", "minimum": 0, "description": "the same seed gives the same answer"},
}
ESTIMATE = {
    "prob": optional(NUMBER),
    "low": optional(NUMBER),
    "high": optional(NUMBER),
    "log_prob": optional(NUMBER),
    "complement": NUMBER,
    "guarantee": TEXT,
    "promise": TEXT,
    "met": FLAG,
    "engine": TEXT,
    "samples": WHOLE,
    "seed": optional(WHOLE),
    "seconds": NUMBER,
    "final": FLAG,
}
FORMULA = {"formula": TEXT, "format": TEXT, "probabilities": PROBS, **PROMISE}
SCHEMAS: dict[str, Schema] = {
    "Error": fields(
        "error", error=fields("status message", status=WHOLE, message=TEXT, where=optional({"type": "object"}))
    ),
    "Estimate": fields("prob low high guarantee met", **ESTIMATE),
    "Table": fields(
        "name rows columns preview problems",
        name=TEXT,
        rows=WHOLE,
        columns=listed(fields("name type", name=TEXT, type=TEXT)),
        prob=optional(TEXT),
        block={"anyOf": [TEXT, listed(TEXT), {"type": "null"}]},
        preview=listed(listed(ANYTHING)),
        problems=listed(fields("row column message", row=WHOLE, column=TEXT, message=TEXT)),
        problems_total=WHOLE,
        mounted=FLAG,
    ),
    "Session": fields("session tables", session=TEXT, tables=listed(ref("Table"))),
    "Rows": fields("rows offset total", rows=listed(listed(ANYTHING)), offset=WHOLE, total=WHOLE),
    "Mark": fields(prob=optional(TEXT), block={"anyOf": [TEXT, listed(TEXT), {"type": "null"}]}),
    "Stories": listed(fields("id title text", id=TEXT, title=TEXT, text=TEXT)),
    "Story": fields(
        tables=listed(ref("Table")),
        queries=listed(fields("title sql", title=TEXT, sql=TEXT)),
        network={"type": "object"},
        faulttree={"type": "object"},
    ),
    "Query": fields("query", query=TEXT, given=optional(TEXT), **PROMISE),
    "Answers": fields(
        "run final columns rows prob low high guarantee met way total",
        run=TEXT,
        final=FLAG,
        columns=listed(TEXT),
        rows=listed(listed(ANYTHING)),
        prob=listed(NUMBER),
        low=listed(NUMBER),
        high=listed(NUMBER),
        guarantee=listed(TEXT),
        met=listed(FLAG),
        way=TEXT,
        kind=TEXT,
        notes=listed(TEXT),
        total=WHOLE,
    ),
    "Answer": fields(
        "rows clauses svg prob exact",
        rows=listed({"type": "object"}),
        rows_total=WHOLE,
        clauses=optional(listed(listed(TEXT))),
        clauses_total=WHOLE,
        svg=optional(TEXT),
        prob=NUMBER,
        exact=FLAG,
    ),
    "Changes": fields("prob", prob=PROBS),
    "Formula": fields("formula", **FORMULA),
    "ChangedFormula": fields("formula prob", prob=PROBS, **FORMULA),
    "Variables": fields(
        "variables prob exact met",
        variables=listed({"type": "object"}),
        total=WHOLE,
        prob=NUMBER,
        exact=FLAG,
        met=FLAG,
        svg=optional(TEXT),
    ),
    "Network": fields(
        "edges",
        edges=listed({"type": "array", "minItems": 3, "maxItems": 3}),
        directed=FLAG,
        question={"enum": ["two-terminal", "k-terminal", "all-terminal", "reach"]},
        source=ANYTHING,
        target=ANYTHING,
        terminals=listed(ANYTHING),
        importance=FLAG,
        **PROMISE,
    ),
    "NetworkAnswer": fields("", nodes=listed({"type": "object"}), edges=listed({"type": "object"}), **ESTIMATE),
    "FaultTree": fields("text", text=TEXT, format=TEXT, top=TEXT, mission_time=NUMBER, prob=PROBS, **PROMISE),
    "FaultTreeAnswer": fields(
        "",
        top=TEXT,
        events=listed({"type": "object"}),
        cut_sets=listed({"type": "object"}),
        gates=listed({"type": "object"}),
        **ESTIMATE,
    ),
}
SESSION, RUN = "/api/sessions/{session}", "/api/runs/{run}"
ROUTES: dict[tuple[str, str], tuple[str, str | None, str | None]] = {
    ("POST", "/api/sessions"): ("Starts a session, to which tables and runs belong", None, "Session"),
    ("GET", SESSION): ("A session and its tables", None, "Session"),
    ("DELETE", SESSION): ("Ends a session; its data are deleted", None, None),
    ("POST", f"{SESSION}/tables"): ("Uploads a CSV or Parquet file as a table", "file", "Table"),
    ("GET", f"{SESSION}/tables/{{table}}"): ("Some rows of a table", None, "Rows"),
    ("DELETE", f"{SESSION}/tables/{{table}}"): ("Deletes a table", None, None),
    ("PUT", f"{SESSION}/tables/{{table}}/uncertain"): ("Makes the rows of a table uncertain", "Mark", "Table"),
    ("GET", "/api/stories"): ("The stories that can be loaded", None, "Stories"),
    ("POST", f"{SESSION}/stories/{{story}}"): ("Loads the tables of a story", None, "Story"),
    ("POST", f"{SESSION}/sql"): ("Asks a query: every answer with its probability", "Query", "Answers"),
    ("DELETE", RUN): ("Stops a run", None, None),
    ("GET", f"{RUN}/export"): ("All answers of a run as a file", None, "file"),
    ("GET", f"{RUN}/answers/{{index}}"): ("Lineage of an answer, and the rows that matter", None, "Answer"),
    ("POST", f"{RUN}/answers/{{index}}/whatif"): ("An answer under other probabilities", "Changes", "Estimate"),
    ("POST", "/api/count"): ("The probability of a formula or circuit", "Formula", "Estimate"),
    ("POST", "/api/marginals"): ("Every variable, given that the formula holds", "Formula", "Variables"),
    ("POST", "/api/explain"): ("Which variables matter most", "Formula", "Variables"),
    ("POST", "/api/whatif"): ("A formula under other probabilities", "ChangedFormula", "Estimate"),
    ("POST", "/api/network"): ("The reliability of a network", "Network", "NetworkAnswer"),
    ("POST", "/api/faulttree"): ("A fault tree: top event, importance, cut sets", "FaultTree", "FaultTreeAnswer"),
}
STREAMS = {"/api/count", "/api/whatif", "/api/network", "/api/faulttree", f"{SESSION}/sql"}
"""What also answers with server-sent events, if the client accepts them."""
QUERY: dict[tuple[str, str], dict[str, Schema]] = {
    ("POST", f"{SESSION}/tables"): {"name": TEXT, "format": {"enum": ["csv", "parquet"]}},
    ("GET", f"{SESSION}/tables/{{table}}"): {"offset": WHOLE, "limit": WHOLE},
    ("GET", f"{RUN}/export"): {"format": {"enum": ["csv", "parquet"]}},
}
WRONG = {
    BAD_REQUEST: "The body is not JSON.",
    UNAUTHORIZED: "The token is missing or wrong.",
    FORBIDDEN: "Another web page asks, or the host is not known.",
    NOT_FOUND: "There is no such session, table, run or answer.",
    TIMEOUT: "The body came too slowly.",
    CONFLICT: "The tables have changed since the run.",
    TOO_LARGE: "Too large.",
    UNPROCESSABLE: "What was asked cannot be; the message says why.",
    TOO_MANY: "Too many requests wait, or there are too many sessions.",
    INTERNAL: "The process that worked on it ended.",
    UNAVAILABLE: "The service stops, or is too busy.",
    LATE: "The time limit came first.",
}


def description(routes: list[tuple[str, str]]) -> dict[str, Any]:
    """The whole description of these routes."""
    from importlib.metadata import PackageNotFoundError, version

    from sharpdnf import serve

    try:
        number = version("sharpdnf")
    except PackageNotFoundError:
        number = "0+not-installed"
    paths: dict[str, dict[str, Any]] = {}
    for method, path in routes:
        paths.setdefault(path, {})[method.lower()] = _operation(method, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sharpdnf",
            "version": number,
            "description": (serve.__doc__ or "").partition("\n")[0],
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(method: str, path: str) -> dict[str, Any]:
    summary, body, result = ROUTES[method, path]
    places = [(name, "path", TEXT) for name in re.findall(r"{(\w+)}", path)]
    places += [(name, "query", schema) for name, schema in QUERY.get((method, path), {}).items()]
    operation: dict[str, Any] = {
        "summary": summary,
        "parameters": [
            {"name": name, "in": where, "required": where == "path", "schema": schema} for name, where, schema in places
        ],
        "responses": {
            "200" if result else "204": _result(path, result),
            **{str(status): {"description": text, "content": _json("Error")} for status, text in WRONG.items()},
        },
    }
    if body is not None:
        content = {"application/octet-stream": {}} if body == "file" else _json(body)
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _result(path: str, name: str | None) -> dict[str, Any]:
    if name is None:
        return {"description": "Done."}
    if name == "file":
        return {"description": "The file.", "content": {"text/csv": {}, "application/vnd.apache.parquet": {}}}
    content = _json(name)
    if path in STREAMS:
        content["text/event-stream"] = {"schema": TEXT}
    return {"description": "The answer.", "content": content}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": ref(name)}}
