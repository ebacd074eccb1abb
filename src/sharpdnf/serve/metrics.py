"""Numbers about the service in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper ends, in seconds, of the classes of durations."""


@dataclass(slots=True)
class Metrics:
    """Counters since the start."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By route and status."""
    durations: dict[str, list[int]] = field(default_factory=dict)
    """By route: how many requests took at most each of ``BUCKETS``, and any time at all."""
    seconds: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    """Requests that found the queue full."""
    processes_started: int = 0
    uploaded_bytes: int = 0
    sessions_started: int = 0

    def note(self, route: str, status: int, seconds: float) -> None:
        """One request that has been answered."""
        self.requests[route, status] += 1
        self.seconds[route] += seconds  # type: ignore[assignment]  # a Counter adds floats as well
        counts = self.durations.setdefault(route, [0] * (len(BUCKETS) + 1))
        for place, end in enumerate((*BUCKETS, float("inf"))):
            counts[place] += seconds <= end

    def text(self, now: dict[str, float]) -> str:
        """All of it; ``now`` are the numbers that go up and down, by name."""
        lines = [
            "# HELP sharpdnf_requests_total Requests by route and status.",
            "# TYPE sharpdnf_requests_total counter",
        ]
        for (route, status), count in sorted(self.requests.items()):
            lines.append(f'sharpdnf_requests_total{{route="{route}",status="{status}"}} {count}')
        name = "sharpdnf_request_seconds"
        lines += [f"# HELP {name} How long requests took.", f"# TYPE {name} histogram"]
        for route, counts in sorted(self.durations.items()):
            ends = [*(f"{end:g}" for end in BUCKETS), "+Inf"]
            for end, count in zip(ends, counts, strict=True):
                lines.append(f'{name}_bucket{{route="{route}",le="{end}"}} {count}')
            lines.append(f'{name}_sum{{route="{route}"}} {self.seconds[route]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {counts[-1]}')
        totals = {
            "refused_total": (self.refused, "Requests that found the queue full."),
            "processes_started_total": (self.processes_started, "Worker processes started."),
            "uploaded_bytes_total": (self.uploaded_bytes, "Bytes of uploaded files."),
            "sessions_started_total": (self.sessions_started, "Sessions started."),
        }
        for key, (value, about) in totals.items():
            lines += [f"# HELP sharpdnf_{key} {about}", f"# TYPE sharpdnf_{key} counter", f"sharpdnf_{key} {value}"]
        for key, gauge in now.items():
            lines += [f"# TYPE sharpdnf_{key} gauge", f"sharpdnf_{key} {gauge:g}"]
        return "\n".join(lines) + "\n"
