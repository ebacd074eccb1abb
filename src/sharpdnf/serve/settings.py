"""What the service may use: limits per request and in all, and whom it listens to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sharpdnf.engines.front import available_cores

MIB = 2**20


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Limits, each of which a request meets with an error that names it."""

    seconds: float = 30.0
    """How many seconds one piece of work may take; a request can only ask for less."""
    memory: int = 1024 * MIB
    """How many bytes a worker process may use beyond what its libraries take."""
    body_bytes: int = 64 * MIB
    """How large the body of a request may be."""
    body_seconds: float = 60.0
    """How many seconds a client may take to send the body."""
    formula_bytes: int = 16 * MIB
    """How many bytes the text of a formula or fault tree may have."""
    links: int = 100_000
    """How many links a network may have."""
    rows: int = 2_000_000
    """How many rows an uploaded table may have."""
    answer_bytes: int = 64 * MIB
    """How many bytes an answer or export may have."""
    tables: int = 50
    """How many tables a session may have, those that are mounted not counted."""
    session_bytes: int = 512 * MIB
    """How many bytes the tables of a session may take together."""
    disk_bytes: int = 4096 * MIB
    """How many bytes the tables of all sessions may take together."""
    sessions: int = 500
    """How many sessions there may be."""
    session_seconds: float = 3600.0
    """After how many seconds without a request a session ends and its data go."""
    workers: int = field(default_factory=available_cores)
    """How many pieces of work run at once."""
    queue: int = 128
    """How many requests may wait for their turn; the next one is told to come back later."""
    waiting_seconds: float = 60.0
    """How long a request may wait for its turn."""
    session_workers: int = 8
    """How many sessions keep a process of their own with their tables loaded; others load them again when they ask."""
    stop_seconds: float = 5.0
    """How long running work may go on once the service is told to stop."""
    threads: int = 1
    """How many threads one piece of work may use."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ValueError(f"the limit {name} must be positive, not {value}")
        if self.memory < 64 * MIB:
            raise ValueError(f"a worker needs 64 MiB, not {self.memory / MIB:g}")

    def public(self) -> dict[str, Any]:
        """What a client may want to know before it asks."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the service listens, and what it serves."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    """What a request must show as ``Authorization: Bearer``; None asks for nothing."""
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the service may be asked for, beside its own address: those of a proxy in front of it."""
    mounts: tuple[tuple[str, str], ...] = ()
    """(name of the table, path of the file) of each file that every session can read as a table."""
    limits: ServiceLimits = field(default_factory=ServiceLimits)
