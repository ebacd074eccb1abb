"""Hypothesis without a clock: an example that takes long on a busy machine, or under sanitizers, is not a failure.

And what several modules share: a PostgreSQL server of their own, ears for Ctrl-C.
"""

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import sharpdnf

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a private PostgreSQL server listens, one a module."""
    from sql_servers import postgres_directory, private_postgres

    if postgres_directory() is None:
        pytest.skip("no postgres binary: install Debian's postgresql package to run these tests")
    with private_postgres() as found:
        yield found


@pytest.fixture
def db() -> "sharpdnf.ProbDB":
    """A database of four uncertain edges."""
    from sql_edges import edge_database

    return edge_database()


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Background jobs of a shell are started deaf to SIGINT; here it is KeyboardInterrupt again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
