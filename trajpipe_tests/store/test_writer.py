"""The writer's invariants: nothing cast, columns in step, whole or nothing, bounded memory, side tables."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core import atomic, names
from trajpipe.core.errors import (
    DiskSpaceError,
    DTypeError,
    InputError,
    MissingNameError,
    OutputExistsError,
    SchemaError,
    StateError,
    UsageError,
)
from trajpipe.store import ColumnSpec, TrajectoryStore, TrajectoryStoreWriter
from trajpipe_tests.store.recordings import LENGTHS, arrays, columns, leftovers, write

TWO = [ColumnSpec("action", "float32", 2), ColumnSpec("reward", "float64")]


def rows(count: int, start: int = 0) -> dict[str, Any]:
    ramp = np.arange(start, start + count)
    return {"action": np.stack([ramp, -ramp], 1).astype(np.float32), "reward": ramp.astype(np.float64)}


def open_two(path: Path, **options: Any) -> TrajectoryStoreWriter:
    return TrajectoryStoreWriter(path, TWO, **options)


def test_columns_are_taken_one_by_one_and_in_blocks(tmp_path: Path) -> None:
    with open_two(tmp_path / "x.h5") as writer:
        writer.append(**rows(3))
        assert writer.end_episode() == 3
        writer.append("reward", rows(2, 3)["reward"])
        writer.append("action", rows(2, 3)["action"])
        assert writer.end_episode() == 2
        assert (writer.n_rows, writer.n_episodes) == (5, 2)
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.load_column("reward").tolist() == [0, 1, 2, 3, 4]
        assert store.ep_len.tolist() == [3, 2]


def test_a_column_may_have_any_name(tmp_path: Path) -> None:
    specs = [ColumnSpec(n, "uint8") for n in ("name", "array", "self", "path")]
    with TrajectoryStoreWriter(tmp_path / "x.h5", specs) as writer:
        writer.append(**{s.name: np.zeros(2, np.uint8) for s in specs})
        writer.end_episode()
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert list(store.columns) == ["name", "array", "self", "path"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda w: w.append("action", np.zeros((2, 2))), DTypeError),
        (lambda w: w.append("action", np.zeros((2, 3), np.float32)), SchemaError),
        (lambda w: w.append("action"), SchemaError),
        (lambda w: w.append("nope", np.zeros(2)), MissingNameError),
        (lambda w: w.append(action=np.zeros((2, 2), np.float32)), SchemaError),
        (lambda w: w.append(**rows(2), nope=np.zeros(2)), MissingNameError),
        (lambda w: w.append(action=rows(2)["action"], reward=rows(3)["reward"]), SchemaError),
        (
            lambda w: w.append(action=rows(2)["action"], reward=rows(2)["reward"].astype(np.float32)),
            DTypeError,
        ),
    ],
)
def test_a_bad_append_raises_and_stages_nothing(
    tmp_path: Path, call: Callable[[TrajectoryStoreWriter], None], error: type[Exception]
) -> None:
    with open_two(tmp_path / "x.h5") as writer:
        with pytest.raises(error):
            call(writer)
        writer.append(**rows(4))
        writer.end_episode()
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert np.array_equal(store.load_column("action"), rows(4)["action"])


def test_uneven_columns_name_both_and_their_counts(tmp_path: Path) -> None:
    with open_two(tmp_path / "x.h5") as writer:
        writer.append("action", rows(5)["action"])
        writer.append("reward", rows(3)["reward"])
        for call in (writer.end_episode, writer.close):
            with pytest.raises(StateError, match=r"'reward' has 3 rows, 'action' has 5"):
                call()
        writer.append("reward", rows(2, 3)["reward"])
        writer.end_episode()
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.n_rows == 5


def test_episodes_have_rows_and_rows_have_episodes(tmp_path: Path) -> None:
    writer = open_two(tmp_path / "x.h5")
    with pytest.raises(StateError, match="at least one episode"):
        writer.close()
    with pytest.raises(StateError, match="at least one row"):
        writer.end_episode()
    writer.append(**rows(2))
    writer.end_episode()
    with pytest.raises(StateError, match="at least one row"):
        writer.end_episode()
    writer.append(**rows(1))
    with pytest.raises(StateError, match="1 rows after the last episode"):
        writer.close()
    writer.end_episode()
    assert writer.close() == tmp_path / "x.h5"
    assert leftovers(tmp_path) == []


def test_many_episodes_can_end_at_once(tmp_path: Path) -> None:
    with open_two(tmp_path / "x.h5") as writer:
        writer.append(**rows(6))
        for wrong in ([1, 2], [7, -1], [6, 0]):
            with pytest.raises(StateError, match="add up"):
                writer.end_episodes(wrong)
        writer.end_episodes([1, 2, 3])
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.ep_offset.tolist() == [0, 1, 3]


def test_a_finished_column_takes_no_more(tmp_path: Path) -> None:
    with open_two(tmp_path / "x.h5") as writer:
        writer.append("action", rows(2)["action"])
        writer.finish_column("action")
        with pytest.raises(StateError, match="finished"):
            writer.append("action", rows(2)["action"])
        writer.append("reward", rows(2)["reward"])
        writer.end_episode()
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert np.array_equal(store.load_column("action"), rows(2)["action"])


def test_after_the_end_nothing_is_taken(tmp_path: Path) -> None:
    writer = open_two(tmp_path / "x.h5")
    writer.append(**rows(1))
    writer.end_episode()
    writer.close()
    calls: list[Callable[[], Any]] = [
        lambda: writer.append(**rows(1)),
        writer.end_episode,
        writer.close,
        lambda: writer.add_side_table("t", [1]),
        lambda: writer.add_task("t"),
    ]
    for call in calls:
        with pytest.raises(StateError, match="closed"):
            call()
    writer.abort()
    assert (tmp_path / "x.h5").exists()


@pytest.mark.parametrize("columns", [[], [TWO[0], TWO[0]]])
def test_columns_are_some_and_distinct(tmp_path: Path, columns: list[ColumnSpec]) -> None:
    with pytest.raises(SchemaError):
        TrajectoryStoreWriter(tmp_path / "x.h5", columns)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("options", [{"env_id": "a\nb"}, {"tasks": ["\ud800"]}, {"extra": {"task": "x"}}])
def test_texts_are_refused_before_anything_is_written(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        open_two(tmp_path / "x.h5", **options)
    assert list(tmp_path.iterdir()) == []


# --- whole or not at all


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    path = tmp_path / "x.h5"
    write(path)
    before = path.read_bytes()
    with pytest.raises(failure), open_two(path) as writer:  # noqa: PT012 (the block is what fails)
        writer.append(**rows(100))
        writer.end_episode()
        raise failure
    assert path.read_bytes() == before
    assert leftovers(tmp_path) == []


def test_a_block_that_ends_with_open_rows_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StateError), open_two(tmp_path / "x.h5") as writer:
        writer.append(**rows(1))
    assert list(tmp_path.iterdir()) == []


def test_abort_and_a_dropped_writer_leave_nothing(tmp_path: Path) -> None:
    writer = open_two(tmp_path / "x.h5")
    writer.append(**rows(1))
    writer.abort()
    writer.abort()
    other = open_two(tmp_path / "y.h5")
    del other
    assert list(tmp_path.iterdir()) == []


def test_a_failing_disk_aborts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.h5"
    write(path)
    before = path.read_bytes()
    writer = open_two(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer._staged["action"], "append", full)
    with pytest.raises(OSError, match="No space"):
        writer.append(**rows(1))
    with pytest.raises(StateError):
        writer.append(**rows(1))
    assert path.read_bytes() == before
    assert leftovers(tmp_path) == []


def test_the_target_is_never_half_written(tmp_path: Path) -> None:
    """SIGKILL in the middle: the old file stays, the temporary is recognised as stale."""
    path = tmp_path / "x.h5"
    write(path)
    before = path.read_bytes()
    code = (
        "import sys, numpy as np\n"
        "from trajpipe.store import *\n"
        "w = TrajectoryStoreWriter(sys.argv[1], [ColumnSpec('a', 'float32', 64)])\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    w.append('a', np.zeros((1000, 64), np.float32)); w.end_episode()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.2)
    child.kill()
    child.wait()
    child.stdout.close()
    assert path.read_bytes() == before
    assert len(atomic.stale_temporaries(tmp_path)) == 1
    atomic.remove_stale(tmp_path)
    assert leftovers(tmp_path) == []


def test_an_existing_target_can_be_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(b"old")
    with pytest.raises(OutputExistsError):
        open_two(path, overwrite=False)
    path.unlink()
    with open_two(path, overwrite=False) as writer:
        writer.append(**rows(1))
        writer.end_episode()
        path.write_bytes(b"came meanwhile")
        with pytest.raises(OutputExistsError):
            writer.close()
        writer.abort()
    assert path.read_bytes() == b"came meanwhile"


def test_space_is_checked_before_the_first_row(tmp_path: Path) -> None:
    with pytest.raises(DiskSpaceError, match="rows"):
        open_two(tmp_path / "x.h5", expected_rows=10**15)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_fsynced_and_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Path] = []
    real = atomic.publish_file

    def spy(temporary: Path, target: Path) -> None:
        published.append(target)
        real(temporary, target)

    monkeypatch.setattr(atomic, "publish_file", spy)
    write(tmp_path / "x.h5")
    write(tmp_path / "y.h5", durable=False)
    assert published == [tmp_path / "x.h5"]
    assert (tmp_path / "y.h5").exists()


# --- memory


def test_memory_is_a_chunk_a_column_whatever_the_length(tmp_path: Path) -> None:
    specs = [ColumnSpec("a", "float32", 26), ColumnSpec("images", "uint8", (3, 64, 64))]
    block: dict[str, Any] = {
        "a": np.zeros((100, 26), np.float32),
        "images": np.zeros((100, 3, 64, 64), np.uint8),
    }
    peaks = []
    for blocks in (30, 120):
        tracemalloc.start()
        with TrajectoryStoreWriter(tmp_path / "x.h5", specs) as writer:
            for _ in range(blocks):
                writer.append(**block)
                writer.end_episode()
            peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    chunks = sum(s.chunk_rows_for(2) * s.row_bytes for s in specs)
    assert peaks[1] < 8 * chunks
    assert peaks[1] < peaks[0] + chunks


def test_a_short_recording_makes_a_small_file(tmp_path: Path) -> None:
    raw = sum(array.nbytes for array in arrays().values())
    write(tmp_path / "x.h5", image_compression="none", expected_rows=50)
    assert (tmp_path / "x.h5").stat().st_size < raw + 100_000
    with open_two(tmp_path / "y.h5") as writer:
        writer.append(**rows(100))
        writer.end_episode()
    assert (tmp_path / "y.h5").stat().st_size < 24_000


def test_a_long_column_lies_in_one_run(tmp_path: Path) -> None:
    for expected in (None, 40_000):
        with TrajectoryStoreWriter(
            tmp_path / "x.h5", [ColumnSpec("a", "float32", 16, chunk_rows=64)], expected_rows=expected
        ) as writer:
            writer.append("a", np.zeros((40_000, 16), np.float32))
            writer.end_episode()
        with TrajectoryStore(tmp_path / "x.h5") as store:
            found = store.reader("a").map
            assert found is not None
            assert len(found.runs()) == 1


# --- tasks, side tables, extra keys


def test_tasks_are_numbered_as_they_come(tmp_path: Path) -> None:
    with open_two(tmp_path / "x.h5", tasks=["a"]) as writer:
        assert [writer.add_task(t) for t in ("b", "a", "b", "c\n")] == [1, 0, 1, 2]
        writer.append(**rows(1))
        writer.end_episode()
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.tasks == ("a", "b", "c\n")


def test_side_tables_are_kept(tmp_path: Path) -> None:
    texts = ["plain.hdf5", "émoji 🤖", "", "\udcff"]
    with open_two(tmp_path / "x.h5") as writer:
        writer.add_side_table("norm_qpos_mean", np.linspace(0, 1, 5))
        writer.add_side_table("ep_file", texts)
        writer.add_side_table("ep_demo", np.array(["a", "bb"], object))
        writer.add_side_table("fixture_pos", np.zeros((2, 3, 3), ">f8"))
        writer.add_side_table("known", np.array([True, False]))
        writer.add_side_table("scalar", 3)
        writer.add_side_table("empty", np.zeros((0, 3)))
        writer.append(**rows(1))
        writer.end_episode()
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.side_table("norm_qpos_mean").tolist() == np.linspace(0, 1, 5).tolist()
        assert store.texts("ep_file") == texts
        assert store.side_table("ep_file").dtype.kind == "S"
        assert store.texts("ep_demo") == ["a", "bb"]
        assert store.side_table("scalar") == 3
        assert store.side_table("empty").shape == (0, 3)
        assert "fixture_pos" in store.side_tables
        with pytest.raises(MissingNameError, match="ep_demo"):
            store.side_table("nope")


@pytest.mark.parametrize(
    ("name", "table", "error"),
    [
        ("action", [1], SchemaError),
        (names.STORE_EP_LEN, [1], SchemaError),
        ("a/b", [1], SchemaError),
        ("t", ["ends with nul\0"], InputError),
        ("t", [object()], DTypeError),
        ("t", np.array(["2020-01-01"], "datetime64[s]"), DTypeError),
    ],
)
def test_side_tables_that_cannot_be_kept_are_refused(
    tmp_path: Path, name: str, table: Any, error: type[Exception]
) -> None:
    with open_two(tmp_path / "x.h5") as writer:
        with pytest.raises(error):
            writer.add_side_table(name, table)
        writer.add_side_table("once", [1])
        with pytest.raises(SchemaError):
            writer.add_side_table("once", [1])
        writer.abort()


def test_episode_tables_can_be_required(tmp_path: Path) -> None:
    with open_two(tmp_path / "x.h5") as writer:
        writer.append(**rows(1))
        writer.end_episode()
        writer.add_side_table("ep_success", [1, 0])
        with pytest.raises(SchemaError, match="one row per episode"):
            writer.require_episode_tables()
        writer.replace_side_table("ep_success", [1])
        writer.require_episode_tables()


def test_extra_keys_come_after_the_tasks(tmp_path: Path) -> None:
    with open_two(tmp_path / "x.h5", tasks=["t"], extra={"package": "p"}) as writer:
        writer.set_extra("cameras", "left,right")
        writer.append(**rows(1))
        writer.end_episode()
    with h5py.File(tmp_path / "x.h5") as file:
        text = file["__manifest__"][()].tobytes().decode()
    assert text.endswith('task=0\t"t"\npackage=p\ncameras=left,right\n')
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.extra == {"package": "p", "cameras": "left,right"}


def test_a_checksummed_store_has_checksums_everywhere(tmp_path: Path) -> None:
    write(tmp_path / "x.h5", fletcher32=True)
    with h5py.File(tmp_path / "x.h5") as file:
        assert all(file[name].fletcher32 for name in file)
        assert file.id.get_create_plist().get_version()[0] >= 2
    with TrajectoryStore(tmp_path / "x.h5") as store:
        for column in columns():
            assert np.array_equal(store.load_column(column.name), arrays()[column.name])
        assert store.ep_len.tolist() == list(LENGTHS)


def test_an_output_below_a_file_is_refused_with_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("notes")
    for path in (tmp_path / "file" / "x.h5", tmp_path / "file" / "deeper" / "x.h5"):
        with pytest.raises(UsageError, match="lies below a file"):
            open_two(path)
    assert (tmp_path / "file").read_text() == "notes"
