"""Any interleaving of appends, episode ends, aborts and failures leaves the old file or a whole new one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray

from trajpipe.core.errors import StateError, TrajpipeError
from trajpipe.store import ColumnSpec, TrajectoryStore, TrajectoryStoreWriter
from trajpipe_tests.store.recordings import leftovers

SPECS = [
    ColumnSpec("a", "float32", 2, chunk_rows=3),
    ColumnSpec("b", "int64", chunk_rows=5),
    ColumnSpec("images", "uint8", (2, 3), chunk_rows=4),
]


class Writing(RuleBasedStateMachine):
    """A writer beside a model of what it was given; every rule may come at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.h5"
        self.old: dict[str, NDArray[Any]] | None = None
        self.old_lengths: list[int] = []
        self.writer: TrajectoryStoreWriter | None = None

    @initialize()
    def begin(self) -> None:
        self.rows: dict[str, list[NDArray[Any]]] = {s.name: [] for s in SPECS}
        self.lengths: list[int] = []
        self.counter = 0
        self.writer = TrajectoryStoreWriter(self.path, SPECS)

    def block(self, spec: ColumnSpec, count: int) -> NDArray[Any]:
        self.counter += 1
        values = np.arange(count * spec.row_items) + 31 * self.counter
        return values.astype(spec.dtype).reshape(count, *spec.shape)

    def count(self, name: str) -> int:
        return sum(map(len, self.rows[name]))

    @precondition(lambda self: self.writer is not None)
    @rule(count=st.integers(0, 9))
    def append_block(self, count: int) -> None:
        assert self.writer is not None
        blocks = {s.name: self.block(s, count) for s in SPECS}
        self.writer.append(**blocks)
        for name, block in blocks.items():
            self.rows[name].append(block)

    @precondition(lambda self: self.writer is not None)
    @rule(which=st.sampled_from(SPECS), count=st.integers(0, 9))
    def append_one(self, which: ColumnSpec, count: int) -> None:
        assert self.writer is not None
        block = self.block(which, count)
        self.writer.append(which.name, block)
        self.rows[which.name].append(block)

    @precondition(lambda self: self.writer is not None)
    @rule(which=st.sampled_from(SPECS))
    def append_wrongly(self, which: ColumnSpec) -> None:
        assert self.writer is not None
        for wrong in (np.zeros((3, 99), which.dtype), np.zeros((2, *which.shape), np.complex64)):
            try:
                self.writer.append(which.name, wrong)
            except TrajpipeError:
                continue
            raise AssertionError("a wrong block was taken")

    @precondition(lambda self: self.writer is not None)
    @rule()
    def level_and_end(self) -> None:
        assert self.writer is not None
        top = max(self.count(s.name) for s in SPECS)
        for spec in SPECS:
            block = self.block(spec, top - self.count(spec.name))
            self.writer.append(spec.name, block)
            self.rows[spec.name].append(block)
        if top > sum(self.lengths):
            self.lengths.append(self.writer.end_episode())

    @precondition(lambda self: self.writer is not None)
    @rule()
    def end_episode(self) -> None:
        assert self.writer is not None
        counts = {self.count(s.name) for s in SPECS}
        legal = len(counts) == 1 and max(counts) > sum(self.lengths)
        try:
            self.lengths.append(self.writer.end_episode())
        except StateError:
            assert not legal
        else:
            assert legal

    @precondition(lambda self: self.writer is not None)
    @rule()
    def close(self) -> None:
        assert self.writer is not None
        counts = {self.count(s.name) for s in SPECS}
        legal = counts == {sum(self.lengths)} and bool(self.lengths)
        try:
            self.writer.close()
        except StateError:
            assert not legal
            return
        assert legal
        self.old = {n: np.concatenate(blocks) for n, blocks in self.rows.items()}
        self.old_lengths = self.lengths
        self.begin()

    @precondition(lambda self: self.writer is not None)
    @rule()
    def abort(self) -> None:
        assert self.writer is not None
        self.writer.abort()
        self.begin()

    @precondition(lambda self: self.writer is not None)
    @rule()
    def fail(self) -> None:
        assert self.writer is not None
        try:
            with self.writer:
                raise RuntimeError("the recording crashed")
        except RuntimeError:
            pass
        self.begin()

    @invariant()
    def the_target_is_whole(self) -> None:
        if self.old is None:
            assert not self.path.exists()
            return
        with TrajectoryStore(self.path) as store:
            assert store.ep_len.tolist() == self.old_lengths
            for name, rows in self.old.items():
                assert np.array_equal(store.load_column(name), rows)

    def teardown(self) -> None:
        if self.writer is not None:
            self.writer.abort()
        assert leftovers(Path(self.folder.name)) == []
        self.folder.cleanup()


Writing.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestWriting = Writing.TestCase
