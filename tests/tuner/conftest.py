"""What several files of these tests share."""

import pytest

from .postgres import Server


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server; tests that ask for it are skipped where it is not installed."""
    with Server() as server:
        yield server


@pytest.fixture(
    params=["sqlite:{}/log.db", "{}/log.db", "jsonl:{}/log.jsonl", "memory:{}", "postgresql"]
)
def log_url(request, tmp_path):
    """A log of each kind, and of a path: its URL, and what messages show of it."""
    if request.param != "postgresql":
        url = request.param.format(tmp_path)
        return url, url
    server = request.getfixturevalue("postgres")
    database = server.database()
    return server.made(database), server.shown(database)
