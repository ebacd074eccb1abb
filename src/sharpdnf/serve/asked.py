"""What a request asks for, checked: in the worker, so that the process that listens does nothing with it."""

from __future__ import annotations

from typing import Any

from sharpdnf.errors import SharpDNFError

GUARANTEES = (None, "exact", "relative", "additive", "bounds")


class OverLimit(SharpDNFError):
    """What was sent, or what would come back, is beyond a limit of size."""


class Fields:
    """The fields of a request, each checked when it is read."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def number(self, name: str, default: float | None = None, low: float = 0.0, high: float = 1e300) -> Any:
        """A number between two ends, or the default where the field is missing or null."""
        value = self.fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"{name} is a number from {low:g} to {high:g}, not {value!r:.80}")
        return float(value)

    def whole(self, name: str, default: int | None = None, low: int = 0, high: int = 2**63 - 1) -> Any:
        """A whole number, likewise."""
        value = self.fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{name} is a whole number from {low} to {high}, not {value!r:.80}")
        return value

    def text(self, name: str, default: str | None = None) -> Any:
        """A text, likewise."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise ValueError(f"{name} is a text, not {value!r:.80}")
        return value

    def choice(self, name: str, known: tuple[Any, ...], default: Any = None) -> Any:
        """One of several words."""
        value = self.fields.get(name, default)
        if value not in known:
            words = ", ".join("null" if word is None else word for word in known)
            raise ValueError(f"{name} is one of {words}, not {value!r:.80}")
        return value

    def probabilities(self, name: str) -> dict[str, float]:
        """A mapping from names to probabilities; empty where the field is missing."""
        value = self.fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ValueError(f"{name} maps names to probabilities, and is not {value!r:.80}")
        for key, p in value.items():
            if isinstance(p, bool) or not isinstance(p, int | float) or not 0.0 <= p <= 1.0:
                raise ValueError(f"{name} of {key!r:.80} is {p!r:.80}: a probability lies in [0, 1]")
        return {str(key): float(p) for key, p in value.items()}

    def promise(self) -> dict[str, Any]:
        """The options of ``count``: guarantee, epsilon, delta, rng, timeout, threads."""
        return {
            "guarantee": self.choice("guarantee", GUARANTEES),
            "epsilon": self.number("epsilon", 0.1),
            "delta": self.number("delta", 0.05),
            "rng": self.whole("seed"),
            "timeout": self.number("seconds"),
            "threads": self.whole("threads", 1),
        }
