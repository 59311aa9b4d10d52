"""Databases kept open: their write-ahead logs survive others' closing, absent ones are passed over."""

import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from trajpipe.defs.open_databases import databases_of_home, databases_of_run, kept_open


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database in WAL mode, as Dagster's are."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (n INTEGER)")
        connection.commit()
    return path


def _write(path: Path) -> None:
    """What Dagster does for an event."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()


def test_the_log_is_not_folded_while_it_is_kept_open(database: Path) -> None:
    log = database.with_name("a.db-wal")
    _write(database)
    assert not log.exists()  # the only connection folds it when it closes
    with kept_open([database]) as held:
        assert held == 1
        _write(database)
        assert log.stat().st_size > 0
        _write(database)
    assert not log.exists()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (3,)


def test_absent_and_broken_files_are_passed_over(database: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with kept_open([tmp_path / "absent.db", broken, database]) as held:
        assert held == 1
    assert not (tmp_path / "absent.db").exists()


def test_an_instances_databases_are_found(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
        run = instance.create_run_for_job(dg.job(name="empty")(lambda: None))
        instance.report_engine_event("began", run)
        index, shard = databases_of_run(instance, run.run_id)
        assert (index.is_file(), shard.is_file(), shard.stem) == (True, True, run.run_id)
        assert index in databases_of_home(tmp_path)
        with kept_open(databases_of_home(tmp_path)) as held:
            assert held == sum(path.is_file() for path in databases_of_home(tmp_path)) >= 2


def test_an_instance_in_memory_has_none() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert databases_of_run(instance, "x") == []
