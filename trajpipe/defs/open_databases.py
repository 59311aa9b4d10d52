"""Keeps an instance's SQLite databases open while something works with them.

Dagster makes an engine and a connection for every event: each compiles its SQL anew, and as the last one to
close folds the write-ahead log into the database, which waits for the disk twice. Kept, they save half of the
processor time of a run's events. What is not here: writing events, which Dagster does.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg


@contextmanager
def kept_open(paths: Iterable[Path]) -> Iterator[int]:
    """Hold a connection without a transaction to each database that is there; yields how many are held.

    Args:
        paths: SQLite files; one that is absent, or cannot be read, is passed over: nothing depends on it.
    """
    with ExitStack() as stack:
        held = 0
        for path in paths:
            with suppress(sqlite3.Error):
                uri = f"{path.absolute().as_uri()}?mode=rw"
                connection = stack.enter_context(
                    closing(sqlite3.connect(uri, uri=True, check_same_thread=False))
                )
                connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()  # attaches to the log
                held += 1
        yield held


@contextmanager
def events_kept_open(instance: dg.DagsterInstance) -> Iterator[None]:
    """Use one engine and one connection for each database that the events of a run go to.

    Args:
        instance: The run's; one that keeps its events elsewhere than in Dagster's SQLite is left alone.
    """
    # loaded by then for an instance of this kind; half a second for every process that has none
    from dagster._core.storage.event_log import SqliteEventLogStorage

    storage = instance.event_log_storage
    if type(storage) is not SqliteEventLogStorage:
        yield
        return
    engines = _Engines(storage)
    storage._connect = engines.connect  # type: ignore[method-assign]  # all its queries go through this
    try:
        yield
    finally:
        del storage._connect  # the class's own again
        engines.dispose()


class _Engines:
    """The engines of a storage by database; used under the storage's own lock, by one thread at a time."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self._kept: dict[str, Any] = {}

    @contextmanager
    def connect(self, shard: str) -> Iterator[Any]:
        """What `SqliteEventLogStorage._connect` does, without making and disposing of an engine."""
        from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
        from sqlalchemy import create_engine
        from sqlalchemy.pool import StaticPool

        storage = self._storage
        with storage._db_lock:
            engine = self._kept.get(shard)
            if engine is None:
                engine = self._kept[shard] = create_engine(
                    storage.conn_string_for_shard(shard),
                    poolclass=StaticPool,
                    connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
                )
            if shard not in storage._initialized_dbs:
                storage._initdb(engine)
                storage._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                yield connection

    def dispose(self) -> None:
        """Close all connections."""
        for engine in self._kept.values():
            engine.dispose()


def databases_of_home(home: Path) -> list[Path]:
    """Files that all processes of an instance share.

    Args:
        home: DAGSTER_HOME.
    """
    return [home / "history/runs/index.db", home / "history/runs.db", home / "schedules/schedules.db"]
