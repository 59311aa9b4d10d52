"""`.demo` files: the bytes of the format, recording, conversion to and from stores, replay prefixes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.core.errors import (
    InputError,
    SchemaError,
    StateError,
    TrajpipeError,
    UnreadableError,
    UsageError,
)
from trajpipe.store import (
    ColumnSpec,
    Demo,
    DemoRecorder,
    TrajectoryStore,
    TrajectoryStoreWriter,
    demo_to_store,
    inspect_demo,
    read_demo,
    store_to_demo,
    write_demo,
)
from trajpipe.store.demo_file import EPISODE_DTYPE, row_dtype
from trajpipe_tests.store.recordings import leftovers


def record(path: Path) -> None:
    """Two episodes and a discarded one: 3 rows (success, terminal), 2 rows (cut), widths 2 and 1."""
    with DemoRecorder(path, 2, 1) as recorder:
        for length, success, keep in ((3, True, True), (4, True, False), (2, False, True)):
            recorder.begin()
            for t in range(length):
                obs = [t, length]
                recorder.add(obs, [0.5 * t], t, [t + 1, length], success and t == length - 1, human=t == 1)
            if keep:
                assert recorder.end(success) == length
            else:
                recorder.discard()


def by_hand() -> bytes:
    """The file that `record` must write, from the format's description."""
    out = b"MRLDEMO1" + struct.pack("<IIIQI", 1, 2, 1, 5, 2)
    for length, success in ((3, 1), (2, 0)):
        for t in range(length):
            done = float(success and t == length - 1)
            flags = (1 if t == 1 else 0) | (2 if success else 0)
            out += struct.pack("<2f f f 2f f I", t, length, 0.5 * t, t, t + 1, length, done, flags)
    return out + struct.pack("<QQI", 0, 3, 1) + struct.pack("<QQI", 3, 2, 0)


def test_the_recorder_writes_the_format(tmp_path: Path) -> None:
    record(tmp_path / "x.demo")
    assert (tmp_path / "x.demo").read_bytes() == by_hand()
    assert leftovers(tmp_path) == []


def test_the_reader_reads_the_format(tmp_path: Path) -> None:
    (tmp_path / "x.demo").write_bytes(by_hand())
    demo = read_demo(tmp_path / "x.demo")
    assert (demo.obs_dim, demo.act_dim, len(demo.rows)) == (2, 1, 5)
    assert demo.rows["obs"].tolist() == [[0, 3], [1, 3], [2, 3], [0, 2], [1, 2]]
    assert demo.rows["done"].tolist() == [0, 0, 1, 0, 0]
    assert demo.human.tolist() == [False, True, False, False, True]
    assert demo.episodes.tolist() == [(0, 3, 1), (3, 2, 0)]
    write_demo(tmp_path / "y.demo", demo)
    assert (tmp_path / "y.demo").read_bytes() == by_hand()


def test_inspect(tmp_path: Path) -> None:
    record(tmp_path / "x.demo")
    assert inspect_demo(tmp_path / "x.demo") == {
        "path": "x.demo",
        "version": 1,
        "obs_dim": 2,
        "act_dim": 1,
        "rows": 5,
        "episodes": 2,
        "successes": 1,
        "human_rows": 2,
        "terminal_rows": 1,
        "length": {"min": 2, "max": 3},
        "return": {"min": 1.0, "max": 3.0},
    }


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda b: b[:-1], "size is what its header says"),
        (lambda b: b + b"\0", "size is what its header says"),
        (lambda b: b[:20], "not a .demo"),
        (lambda b: b"MRLDEMO2" + b[8:], "not a .demo"),
        (lambda b: b[:8] + struct.pack("<I", 2) + b[12:], "version"),
        (lambda b: b[:12] + struct.pack("<I", 0) + b[16:], "obs_dim"),
        (lambda b: b[:12] + struct.pack("<I", 2**31) + b[16:], "obs_dim"),
        (lambda b: b[:20] + struct.pack("<Q", 2**63) + b[28:], "size"),
        (lambda b: b[:-20] + struct.pack("<QQI", 3, 3, 0), "within the rows"),
        (lambda b: b[:-20] + struct.pack("<QQI", 2**64 - 1, 2, 0), "within the rows"),
        (lambda b: b[:-20] + struct.pack("<QQI", 3, 0, 0), "within the rows"),
        (lambda b: b[:-20] + struct.pack("<QQI", 3, 2, 7), "success 0 or 1"),
    ],
)
def test_a_damaged_file_says_why(tmp_path: Path, edit: Callable[[bytes], bytes], said: str) -> None:
    (tmp_path / "x.demo").write_bytes(edit(by_hand()))
    with pytest.raises(TrajpipeError, match=said):
        read_demo(tmp_path / "x.demo")


def test_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        read_demo(tmp_path / "x.demo")


def test_the_recorders_order(tmp_path: Path) -> None:
    recorder = DemoRecorder(tmp_path / "x.demo", 1, 1)
    for call in (recorder.discard, lambda: recorder.end(True), lambda: recorder.add([0], [0], 0, [0], False)):
        with pytest.raises(StateError, match=r"begin\(\) first"):
            call()
    recorder.begin()
    with pytest.raises(StateError, match="end"):
        recorder.begin()
    with pytest.raises(StateError, match="at least one row"):
        recorder.end(True)
    with pytest.raises(StateError):
        recorder.close()
    with pytest.raises(SchemaError, match="next_obs"):
        recorder.add([0], [0], 0, [0, 1], False)
    recorder.abort()
    recorder.abort()
    with pytest.raises(StateError, match="open"):
        recorder.begin()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError):
        DemoRecorder(tmp_path / "x.demo", 0, 1)


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    record(tmp_path / "x.demo")
    with pytest.raises(RuntimeError), DemoRecorder(tmp_path / "x.demo", 1, 1) as recorder:  # noqa: PT012
        recorder.begin()
        raise RuntimeError
    assert (tmp_path / "x.demo").read_bytes() == by_hand()
    assert leftovers(tmp_path) == []


# --- stores


def test_a_store_and_back(tmp_path: Path) -> None:
    record(tmp_path / "x.demo")
    demo_to_store(tmp_path / "x.demo", tmp_path / "x.h5", env_id="Lift", seed=3)
    demo = read_demo(tmp_path / "x.demo")
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert (store.env_id, store.seed, store.ep_len.tolist()) == ("Lift", 3, [3, 2])
        assert store.side_table("ep_success").tolist() == [1, 0]
        for name in ("obs", "action", "next_obs", "reward", "done"):
            assert np.array_equal(store.load_column(name), demo.rows[name])
        assert store.load_column("human").tolist() == demo.human.tolist()
        store_to_demo(store, tmp_path / "y.demo")
    assert (tmp_path / "y.demo").read_bytes() == by_hand()
    store_to_demo(tmp_path / "x.h5", tmp_path / "z.demo")
    assert (tmp_path / "z.demo").read_bytes() == by_hand()


def test_episodes_come_in_the_tables_order(tmp_path: Path) -> None:
    demo = Demo(np.zeros(5, row_dtype(1, 1)), np.array([(3, 2, 1), (0, 3, 0)], EPISODE_DTYPE))
    demo.rows["obs"][:, 0] = np.arange(5)
    demo_to_store(demo, tmp_path / "x.h5")
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.load_column("obs")[:, 0].tolist() == [3, 4, 0, 1, 2]


@pytest.mark.parametrize("table", [[(0, 4, 1)], [(0, 3, 1), (2, 3, 1)], [(0, 2, 1), (3, 2, 1)], []])
def test_rows_outside_episodes_are_refused(tmp_path: Path, table: list[Any]) -> None:
    demo = Demo(np.zeros(5, row_dtype(1, 1)), np.array(table, EPISODE_DTYPE))
    with pytest.raises(InputError, match="exactly one episode"):
        demo_to_store(demo, tmp_path / "x.h5")


def test_a_done_that_is_no_flag_is_refused(tmp_path: Path) -> None:
    demo = Demo(np.zeros(2, row_dtype(1, 1)), np.array([(0, 2, 1)], EPISODE_DTYPE))
    demo.rows["done"][1] = 0.5
    with pytest.raises(InputError, match="row 1"):
        demo_to_store(demo, tmp_path / "x.h5")


def test_what_a_store_lacks_is_filled_in(tmp_path: Path) -> None:
    specs = [ColumnSpec("obs", "float64", 2), ColumnSpec("action", "float32"), ColumnSpec("success", "uint8")]
    with TrajectoryStoreWriter(tmp_path / "x.h5", specs) as writer:
        for length, success in ((3, 0), (2, 1)):
            obs = np.arange(2.0 * length).reshape(length, 2)
            flags = np.full(length, success, np.uint8)
            writer.append(obs=obs, action=np.ones(length, np.float32), success=flags)
            writer.end_episode()
    demo = read_demo(store_to_demo(tmp_path / "x.h5", tmp_path / "x.demo"))
    assert demo.rows["next_obs"][:, 0].tolist() == [2, 4, 4, 2, 2], "an episode's last row repeats its own"
    assert demo.rows["reward"].tolist() == [0] * 5
    assert demo.rows["flags"].tolist() == [0, 0, 0, 2, 2]
    assert demo.episodes["success"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("spec", "value", "said"),
    [
        (ColumnSpec("other", "float32", 2), 0, "flat vectors"),
        (ColumnSpec("obs", "uint8", (3, 4, 4)), 0, "flat vectors"),
        (ColumnSpec("obs", "float64", 2), 0.1, "exactly"),
        (ColumnSpec("obs", "int64", 2), 2**24 + 1, "exactly"),
    ],
)
def test_a_store_that_is_no_demo_is_refused(tmp_path: Path, spec: ColumnSpec, value: Any, said: str) -> None:
    with TrajectoryStoreWriter(tmp_path / "x.h5", [spec, ColumnSpec("action", "float32", 1)]) as writer:
        rows = {spec.name: np.full((2, *spec.shape), value, spec.dtype)}
        writer.append(**rows, action=np.zeros((2, 1), np.float32))
        writer.end_episode()
    with pytest.raises(SchemaError, match=said):
        store_to_demo(tmp_path / "x.h5", tmp_path / "x.demo")


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, [0, 1, 2, 0, 1]),
        ({"max_rows": 4}, [0, 1, 2]),
        ({"max_rows": 2}, []),
        ({"successful_only": True}, [0, 1, 2]),
    ],
)
def test_a_replay_prefix_is_whole_episodes(tmp_path: Path, options: dict[str, Any], rows: list[int]) -> None:
    record(tmp_path / "x.demo")
    prefix = read_demo(tmp_path / "x.demo").replay_prefix(**options)
    assert prefix["obs"][:, 0].tolist() == rows
    assert set(prefix) == {"obs", "action", "reward", "next_obs", "done", "human"}
    assert all(array.flags.c_contiguous and len(array) == len(rows) for array in prefix.values())
