"""Databases kept open: their write-ahead logs survive others' closing, absent ones are passed over."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from trajpipe.defs.open_databases import databases_of_home, events_kept_open, kept_open


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
        paths = [path for path in databases_of_home(tmp_path) if path.is_file()]
        assert len(paths) >= 2
        with kept_open(databases_of_home(tmp_path)) as held:
            assert held == len(paths)


def test_events_written_meanwhile_are_seen_at_once_and_afterwards(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        run = instance.create_run_for_job(dg.job(name="empty")(lambda: None))
        with events_kept_open(instance):
            instance.report_engine_event("first", run)
            instance.report_runless_asset_event(dg.AssetMaterialization("a", metadata={"n": 1}))
            with dg.DagsterInstance.from_ref(instance.get_ref()) as other:
                assert [e.message for e in other.all_logs(run.run_id)] == ["first"]
                other.report_engine_event("second", run)
            assert [e.message for e in instance.all_logs(run.run_id)] == ["first", "second"]
            logs = {path.name for path in (tmp_path / "history/runs").glob("*.db-wal")}
            assert logs >= {"index.db-wal", f"{run.run_id}.db-wal"}, "not folded while they are kept open"
        instance.report_engine_event("third", run)
        assert [e.message for e in instance.all_logs(run.run_id)] == ["first", "second", "third"]
        latest = instance.get_latest_materialization_event(dg.AssetKey("a"))
        assert latest is not None
        assert latest.asset_materialization is not None
        assert latest.asset_materialization.metadata["n"].value == 1


def test_an_error_gives_the_storage_back(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        with pytest.raises(ZeroDivisionError), events_kept_open(instance):
            raise ZeroDivisionError
        assert "_connect" not in vars(instance.event_log_storage)
        assert not list((tmp_path / "history/runs").glob("*.db-wal"))


def test_threads_write_their_events_in_turn(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        run = instance.create_run_for_job(dg.job(name="empty")(lambda: None))
        with events_kept_open(instance), ThreadPoolExecutor(4) as threads:
            assert "_connect" in vars(instance.event_log_storage)
            list(threads.map(lambda n: instance.report_engine_event(str(n), run), range(20)))
        assert sorted(int(e.message) for e in instance.all_logs(run.run_id)) == list(range(20))


def test_an_instance_in_memory_is_left_alone() -> None:
    with dg.DagsterInstance.ephemeral() as instance, events_kept_open(instance):
        assert "_connect" not in vars(instance.event_log_storage)
