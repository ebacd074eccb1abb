"""The registry: an engine is one file with one decorated function, found by itself."""

from __future__ import annotations

import difflib
import importlib
import inspect
import numbers
import pkgutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sharpdnf.errors import UnknownEngine, did_you_mean
from sharpdnf.estimate import SERVES, Estimate

EngineFunction = Callable[..., Estimate]
TYPES = {"int": numbers.Integral, "float": numbers.Real, "bool": bool, "str": str, "None": type(None)}
COMMON = ("guarantee", "epsilon", "delta", "rng", "limit")
ENTRY_POINTS = "sharpdnf.engines"
"""The group under which another package names the modules that register its engines."""
_ENGINES: dict[str, Engine] = {}


@dataclass(frozen=True, slots=True)
class Engine:
    """A counting algorithm: what it promises, what it may be asked, and its function.

    The function takes ``(dnf, *, guarantee, epsilon, delta, rng, limit, **its own options)`` and returns an Estimate
    of a formula that has at least one clause and no empty one. ``rng`` is a numpy Generator.
    """

    name: str
    run: EngineFunction
    guarantees: tuple[str, ...]
    """What it can promise, its default first; "none" for engines without a guarantee."""
    summary: str
    simplify: bool = True
    """Whether the front door hands it the simplified formula."""
    extra: str | None = None
    """The extra of the package that it needs, as in ``pip install sharpdnf[extra]``; None if it needs none."""
    run_many: Callable[..., list[Estimate]] | None = None
    """A function that counts a list of formulas at once, for engines that are faster so; else None."""
    run_batch: Callable[..., dict[str, Any]] | None = None
    """A function that counts a whole Batch without a Python object for each formula, else None.

    It also takes ``of``, ``seed`` and ``numbers`` (one per formula), and returns columns."""
    counts_models: bool = False
    """Whether it sets ``count`` to the number of models itself where all probabilities are 1/2; then it gets the
    formula as it is."""

    @property
    def options(self) -> dict[str, str]:
        """Its own options by name, each with its type as it is annotated."""
        parameters = inspect.signature(self.run).parameters.values()
        own = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in COMMON]
        return {p.name: str(getattr(p.annotation, "__name__", p.annotation)) for p in own}

    def serves(self, guarantee: str) -> bool:
        return any(guarantee in SERVES[own] for own in self.guarantees)


def engine(
    name: str,
    *,
    guarantees: tuple[str, ...],
    summary: str,
    simplify: bool = True,
    extra: str | None = None,
    run_many: Callable[..., list[Estimate]] | None = None,
    run_batch: Callable[..., dict[str, Any]] | None = None,
    counts_models: bool = False,
) -> Callable[[EngineFunction], EngineFunction]:
    """Registers the decorated function under ``name``."""

    def register(run: EngineFunction) -> EngineFunction:
        _ENGINES[name] = Engine(name, run, guarantees, summary, simplify, extra, run_many, run_batch, counts_models)
        return run

    return register


def discover() -> dict[str, Engine]:
    """All engines by name: every module beside this one that registers some, and those of other packages."""
    package = importlib.import_module("sharpdnf.engines")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"sharpdnf.engines.{module.name}")
    for entry in entry_points(group=ENTRY_POINTS):
        _load(entry)
    return dict(sorted(_ENGINES.items()))


def _load(entry: EntryPoint) -> None:
    """Imports the module that another package names; one that fails must not take the others with it."""
    try:
        entry.load()
    except Exception as error:
        warnings.warn(f"the engine {entry.name!r} of {entry.value!r} cannot be loaded: {error}", stacklevel=3)


def find(name: str) -> Engine:
    """The engine called ``name``, importing only its own file where possible."""
    if not isinstance(name, str):
        raise UnknownEngine(f"an engine is chosen by its name, such as 'auto', not by {name!r}")
    if name not in _ENGINES:
        try:
            importlib.import_module(f"sharpdnf.engines.{name.replace('-', '_')}")
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("sharpdnf.engines"):
                raise
    if name not in _ENGINES:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            _load(entry)
    if name not in _ENGINES:
        known = list(discover())
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UnknownEngine(f"no engine {name!r}: {hint}known are {', '.join(known)}")
    return _ENGINES[name]


def check_seed(option: str, value: object) -> None:
    """An unknown option that other libraries call the seed gets an error that says how it is given here."""
    if option in ("seed", "random_state"):
        raise ValueError(f"the seed is given as rng: write rng={value!r} instead of {option}={value!r}")


def refuse_options(function: Callable[..., object], unknown: Mapping[str, object]) -> None:
    """The error about options that ``function`` does not have: it takes them as ``**unknown: Never``.

    Python's own error would not say how a seed is given. A decorator could, but its frame would come between a warning
    and the caller's line that the warning names.
    """
    for option, value in unknown.items():
        own = [name for name, p in inspect.signature(function).parameters.items() if p.kind is not p.VAR_KEYWORD]
        if "rng" in own:
            check_seed(option, value)
        raise TypeError(f"{function.__name__}() has no option {option!r}{did_you_mean(option, own)}")


def check_options(found: Engine, options: dict[str, Any]) -> None:
    """Unknown options are errors with a "did you mean", and so are values of another type than the engine's."""
    for option, value in options.items():
        if option not in found.options:
            check_seed(option, value)
            close = difflib.get_close_matches(option, found.options, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            own = ", ".join(found.options) or "none"
            raise ValueError(f"engine {found.name!r} has no option {option!r}: {hint}its options are {own}")
        kind = found.options[option]
        if not _fits(value, kind):
            raise ValueError(f"option {option!r} of engine {found.name!r} must be {kind}, not {value!r}")


def _fits(value: object, annotation: str) -> bool:
    """Whether a value has the annotated type. Types that are not known here are left for the engine to check."""
    names = annotation.split(" | ")
    if not TYPES.keys() >= set(names):
        return True
    return "bool" in names if isinstance(value, bool) else any(isinstance(value, TYPES[name]) for name in names)


def check_guarantee(found: Engine, guarantee: str | None) -> str:
    """The guarantee to aim for: the engine's own default, or the requested one if it can give it."""
    if guarantee is None:
        return found.guarantees[0]
    if guarantee not in SERVES:
        raise ValueError(f"unknown guarantee {guarantee!r}: choose from {', '.join(SERVES)}")
    if not found.serves(guarantee):
        raise ValueError(f"engine {found.name!r} cannot give {guarantee!r}: it gives {', '.join(found.guarantees)}")
    return guarantee
