"""Samplers draw noeira's published sequences, and those of a scalar reference beyond them."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.errors import InputError, RowIndexError, SchemaError, StateError, UsageError
from trajpipe.store import (
    EpisodeIndex,
    IndexBatch,
    PrioritizedSampler,
    SequenceWindowSampler,
    UniformDeviceSampler,
    UniformSampler,
    WindowSampler,
)
from trajpipe.store.philox import HostStream, device_uniform, philox_4x32_10
from trajpipe_tests.store import reference

seeds = st.integers(0, 2**64 - 1)


def index_of(lengths: list[int]) -> EpisodeIndex:
    ends = np.cumsum(lengths)
    return EpisodeIndex.validated(np.array(lengths), ends - lengths)


@pytest.fixture(scope="session")
def goldens(shared: Path) -> dict[str, Any]:
    """noeira's published sequences."""
    found: dict[str, Any] = json.loads((shared / "goldens" / "noeira_samplers.json").read_text())
    return found


# --- the generator


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((reference.MASK,) * 4, (reference.MASK,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_reference_gives_random123s_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, int, int, int]
) -> None:
    assert reference.philox(counter, key) == words


@given(st.lists(seeds, min_size=1, max_size=5), seeds)
def test_blocks_equal_the_reference(counters: list[int], key: int) -> None:
    low, high = np.uint64(key & reference.MASK), np.uint64(key >> 32)
    got = philox_4x32_10(np.array(counters, np.uint64), low, high)
    for i, c in enumerate(counters):
        words = reference.philox((c & reference.MASK, c >> 32, 0, 0), (int(low), int(high)))
        assert tuple(int(word[i]) for word in got) == words


@given(seeds, st.lists(st.integers(0, 9), max_size=6))
def test_the_host_stream_goes_on_number_by_number(seed: int, counts: list[int]) -> None:
    stream = HostStream(seed)
    got = [float(u) for count in counts for u in stream.take(count)]
    assert got == list(islice(reference.host(seed), sum(counts)))
    assert stream.position == sum(counts)


@given(seeds, seeds)
def test_device_lanes_equal_the_reference(seed: int, offset: int) -> None:
    got = device_uniform(seed, offset, 5)
    assert got.dtype == np.float32
    assert got.tolist() == [float(reference.device(seed, offset, i)) for i in range(5)]


# --- the published sequences


@pytest.mark.shared
def test_uniform_host(goldens: dict[str, Any]) -> None:
    g = goldens["uniform_host"]
    assert UniformSampler(g["n_rows"], g["seed"]).draw(g["batch"]).rows.tolist() == g["indices"]


@pytest.mark.shared
def test_uniform_device(goldens: dict[str, Any]) -> None:
    g = goldens["uniform_device"]
    sampler = UniformDeviceSampler(g["n_rows"], g["seed"], g["offset"])
    assert sampler.draw(g["batch"]).rows.tolist() == g["draw_1"]
    assert sampler.draw(g["batch"]).rows.tolist() == g["draw_2"]


@pytest.mark.shared
def test_sequence_windows(goldens: dict[str, Any]) -> None:
    g = goldens["sequence_window"]
    sampler = SequenceWindowSampler(g["n_rows"], g["span"], seed=g["seed"])
    assert sampler.draw_starts(g["batch"]).rows.tolist() == g["starts"]


@pytest.mark.shared
def test_prioritized(goldens: dict[str, Any]) -> None:
    g = goldens["prioritized"]
    sampler = PrioritizedSampler(g["capacity"], g["alpha"], g["beta"], g["epsilon"], g["draw_1"]["seed"])
    for row in range(g["n_rows"]):
        sampler.note_added(row)
    first = sampler.draw(g["batch"])
    assert first.rows.tolist() == g["draw_1"]["indices"]
    assert (sampler.last_weights == 1).all()
    sampler.update_priorities([np.float32((k + 1) * 0.37 - 5.0) for k in range(32)])
    sampler.reseed(g["draw_2"]["seed"])
    assert sampler.draw(g["batch"]).rows.tolist() == g["draw_2"]["indices"]
    published = np.array(g["draw_2"]["weights"], np.float32)
    assert sampler.last_weights.tobytes() == published.tobytes(), "to the bit, not only within 2 ULP"


# --- uniform


@given(st.integers(1, 2**40), seeds, st.integers(1, 40))
def test_uniform_equals_the_reference(rows: int, seed: int, batch: int) -> None:
    got = UniformSampler(rows, seed).draw(batch).rows
    assert got.dtype == np.int64
    assert got.tolist() == [min(int(u * rows), rows - 1) for u in islice(reference.host(seed), batch)]


@given(st.integers(1, 2**31), seeds, st.integers(0, 2**40))
def test_device_uniform_equals_the_reference(rows: int, seed: int, offset: int) -> None:
    sampler = UniformDeviceSampler(rows, seed, offset)
    for turn in range(2):
        numbers = [reference.device(seed, offset + 16 * turn, i) for i in range(8)]
        expected = [min(int(np.float32(u * np.float32(rows))), rows - 1) for u in numbers]
        assert sampler.draw(8).rows.tolist() == expected


def test_an_index_batch_is_an_int64_array() -> None:
    batch = UniformSampler(9).draw(5)
    assert np.asarray(batch).dtype == np.int64
    assert len(batch) == 5
    assert np.asarray(batch, np.float32).dtype == np.float32
    assert np.arange(10)[batch.rows].tolist() == np.asarray(batch).tolist()
    assert np.array(IndexBatch(np.zeros((2, 3), np.int64))).shape == (2, 3)


@given(st.integers(0, 1000), st.integers(1, 1000), seeds)
def test_a_window_sampler_stays_in_its_window(start: int, rows: int, seed: int) -> None:
    sampler = WindowSampler(start, rows, seed)
    assert (sampler.draw(16).rows - start).tolist() == UniformSampler(rows, seed).draw(16).rows.tolist()
    sampler.move(start + rows)
    drawn = sampler.draw(64).rows
    assert drawn.min() >= start + rows
    assert drawn.max() < start + 2 * rows


# --- windows of sequences


def test_windows_may_span_episodes_unless_asked() -> None:
    """DreamerV3 relies on the default."""
    sampler = SequenceWindowSampler(100, 9)
    assert sampler.within_episode is False
    starts = sampler.draw_starts(500).rows
    episodes = index_of([10] * 10)
    assert (episodes.episode_of(starts) != episodes.episode_of(starts + 9)).any()
    with pytest.raises(StateError, match="draw_starts_in_episodes"):
        SequenceWindowSampler(100, 9, within_episode=True).draw_starts(1)


@given(st.integers(2, 200), st.integers(1, 60), seeds)
def test_starts_equal_the_reference(rows: int, span: int, seed: int) -> None:
    if rows <= span:
        with pytest.raises(UsageError, match="fits"):
            SequenceWindowSampler(rows, span, seed=seed)
        return
    valid = rows - span
    expected = [min(int(u * valid), valid - 1) for u in islice(reference.host(seed), 20)]
    assert SequenceWindowSampler(rows, span, seed=seed).draw_starts(20).rows.tolist() == expected


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 8), seeds, st.integers(1, 40))
def test_starts_in_episodes_take_one_number_a_try(
    lengths: list[int], span: int, seed: int, batch: int
) -> None:
    rows, episodes = sum(lengths), index_of(lengths)
    if rows <= span:
        return
    sampler = SequenceWindowSampler(rows, span, True, seed)
    expected: list[int] | None = []
    numbers, used = reference.host(seed), 0
    for _ in range(batch):
        for _try in range(100):
            start = min(int(next(numbers) * (rows - span)), rows - span - 1)
            used += 1
            if episodes.episode_of(start) == episodes.episode_of(start + span):
                assert expected is not None
                expected.append(start)
                break
        else:
            expected = None
            break
    if expected is None:
        with pytest.raises(StateError, match="100 tries"):
            sampler.draw_starts_in_episodes(episodes, batch)
    else:
        assert sampler.draw_starts_in_episodes(episodes, batch).rows.tolist() == expected
    assert sampler.state_dict()["position"] == used


def test_no_window_in_any_episode_raises_and_never_spans() -> None:
    sampler = SequenceWindowSampler(20, 5, True)
    with pytest.raises(StateError, match="shorter span"):
        sampler.draw_starts_in_episodes(index_of([4] * 5), 1)
    with pytest.raises(SchemaError, match="covers"):
        sampler.draw_starts_in_episodes(index_of([4] * 6), 1)


def test_a_window_expands_to_span_plus_one_rows() -> None:
    sampler = SequenceWindowSampler(12, 3)
    batch = sampler.expand_window([0, 4, 8], index_of([5, 7]))
    assert batch.rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert batch.is_first is not None
    assert batch.is_first.tolist() == [[True, False, False, False], [False, True, False, False], [False] * 4]
    assert sampler.expand_window(IndexBatch(np.array([1]))).is_first is None
    for wrong in (-1, 9):
        with pytest.raises(RowIndexError):
            sampler.expand_window([wrong])


# --- what all share

MAKERS: list[Callable[[int], Any]] = [
    lambda seed: UniformSampler(100, seed),
    lambda seed: UniformDeviceSampler(100, seed),
    lambda seed: WindowSampler(5, 20, seed),
    lambda seed: SequenceWindowSampler(100, 3, seed=seed),
    lambda seed: filled(PrioritizedSampler(64, seed=seed)),
]


def filled(sampler: PrioritizedSampler) -> PrioritizedSampler:
    sampler.note_added_rows(np.arange(40))
    return sampler


def draw(sampler: Any, batch: int) -> list[int]:
    drawn = sampler.draw_starts(batch) if isinstance(sampler, SequenceWindowSampler) else sampler.draw(batch)
    rows: list[int] = drawn.rows.tolist()
    return rows


@pytest.mark.parametrize("make", MAKERS)
def test_state_and_seed(make: Callable[[int], Any]) -> None:
    sampler = make(3)
    first = draw(sampler, 7)
    state = sampler.state_dict()
    following = draw(sampler, 9)
    other = make(99)
    other.load_state_dict(state)
    assert draw(other, 9) == following
    sampler.reseed(3)
    assert draw(sampler, 7) == first
    assert draw(make(4), 7) != first
    assert draw(make(-1), 7) == draw(make(2**64 - 1), 7)


@pytest.mark.parametrize("make", MAKERS)
def test_another_kinds_state_is_refused(make: Callable[[int], Any]) -> None:
    sampler = make(0)
    with pytest.raises(InputError):
        sampler.load_state_dict({**sampler.state_dict(), "kind": "Other"})
    with pytest.raises(InputError):
        sampler.load_state_dict({**sampler.state_dict(), "parameters": {"n_rows": 1}})


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("batch", [0, -3])
def test_a_batch_has_rows(make: Callable[[int], Any], batch: int) -> None:
    with pytest.raises(UsageError):
        draw(make(0), batch)


@pytest.mark.parametrize(
    "make",
    [
        lambda: UniformSampler(0),
        lambda: UniformDeviceSampler(-1),
        lambda: WindowSampler(-1, 3),
        lambda: WindowSampler(0, 0),
        lambda: SequenceWindowSampler(5, 0),
        lambda: PrioritizedSampler(0),
        lambda: PrioritizedSampler(4, beta=-1),
    ],
)
def test_parameters_that_make_no_sense(make: Callable[[], Any]) -> None:
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize("rows", [10.5, 10.0, "10", None])
def test_counts_are_whole_numbers(rows: Any) -> None:
    with pytest.raises(UsageError, match="whole number"):
        UniformSampler(rows)
    with pytest.raises(UsageError, match="whole number"):
        UniformSampler(10).draw(rows)
    numpy_count: Any = np.int32(10)
    assert UniformSampler(numpy_count).n_rows == 10


def test_windows_are_drawn_by_lengths_as_by_the_index() -> None:
    lengths = np.array([20, 5, 15], np.int32)
    index = EpisodeIndex.validated(lengths, np.array([0, 20, 25]))
    by_index, by_lengths = (
        np.asarray(SequenceWindowSampler(40, 3, True).draw_starts_in_episodes(given, 9))
        for given in (index, lengths)
    )
    assert by_lengths.tolist() == by_index.tolist()
    wrongs: tuple[Any, ...] = (np.zeros((3, 2), np.int64), lengths.astype(float), None)
    for wrong in wrongs:
        with pytest.raises(InputError, match="or their lengths"):
            SequenceWindowSampler(40, 3, True).draw_starts_in_episodes(wrong, 9)
