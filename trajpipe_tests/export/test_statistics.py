"""Tests of the statistics: against numpy on everything, against LeRobot's formulas where they are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trajpipe.export import statistics
from trajpipe.export.statistics import (
    QUANTILES,
    DatasetStatistics,
    FrameHistogram,
    pixel_stride,
    row_stats,
    sampled_rows,
)


@contextmanager
def dataset(scratch: Path) -> Iterator[DatasetStatistics]:
    """Dataset statistics that are closed afterwards."""
    made = DatasetStatistics(scratch)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("length", "count"),
    [(1, 1), (7, 7), (99, 99), (100, 100), (464, 100), (1000, 177), (20_000, 1681), (10**6, 10_000)],
)
def test_sampled_rows_are_as_many_as_lerobot_takes(length: int, count: int) -> None:
    rows = sampled_rows(length)
    assert len(rows) == count
    assert (rows[0], rows[-1]) == (0, length - 1)
    assert (np.diff(rows) >= 1).all() if length > 1 else True


@pytest.mark.parametrize(
    ("size", "stride"),
    [((128, 128), 1), ((299, 200), 1), ((300, 10), 2), ((480, 640), 4), ((1080, 1920), 12)],
)
def test_large_frames_are_thinned_as_lerobot_does(size: tuple[int, int], stride: int) -> None:
    assert pixel_stride(*size) == stride
    assert pixel_stride(*size[::-1]) == stride


@settings(deadline=None, max_examples=40)
@given(
    arrays.arrays(np.uint8, st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.just(3)))
)
def test_a_histogram_gives_numpys_statistics(frames: np.ndarray) -> None:
    histogram = FrameHistogram()
    histogram.add(frames)
    stats = histogram.stats(tuple(QUANTILES))
    values = frames.reshape(-1, 3) / 255.0
    flat = {k: np.reshape(v, 3) for k, v in stats.items() if k != "count"}
    np.testing.assert_allclose(flat["mean"], values.mean(0), atol=1e-12)
    np.testing.assert_allclose(flat["std"], values.std(0), atol=1e-9)
    np.testing.assert_array_equal(flat["min"], values.min(0))
    np.testing.assert_array_equal(flat["max"], values.max(0))
    for name, position in QUANTILES.items():
        np.testing.assert_allclose(flat[name], np.quantile(values, position, axis=0), atol=1e-12)
    assert stats["count"] == [len(frames)]


def test_bright_noise_keeps_its_spread() -> None:
    """Squares of uint8 wrap in uint8, which gives a spread of 0 or NaN elsewhere."""
    frames = np.random.default_rng(0).integers(200, 256, (20, 32, 32, 3)).astype(np.uint8)
    histogram = FrameHistogram()
    histogram.add(frames)
    std = np.reshape(histogram.stats()["std"], 3)
    np.testing.assert_allclose(std, (frames / 255).reshape(-1, 3).std(0), rtol=1e-12)
    assert (std > 0.05).all()


def test_one_colour_has_no_spread_at_all() -> None:
    histogram = FrameHistogram()
    histogram.add(np.full((50, 64, 64, 3), 201, np.uint8))
    assert histogram.stats()["std"] == [[[0.0]], [[0.0]], [[0.0]]]
    assert histogram.stats()["mean"] == [[[201 / 255]]] * 3


def test_histograms_of_parts_are_the_histogram_of_the_whole() -> None:
    frames = np.random.default_rng(1).integers(0, 256, (30, 310, 20, 3)).astype(np.uint8)
    whole, joined = FrameHistogram(), FrameHistogram()
    whole.add(frames)
    for part in (frames[:7], frames[7:7], frames[7:]):
        piece = FrameHistogram()
        piece.add(part)
        joined.merge(piece)
    assert whole.stats() == joined.stats()
    thinned = frames[:, ::2, ::2].reshape(-1, 3)
    np.testing.assert_allclose(np.reshape(whole.stats()["mean"], 3), thinned.mean(0) / 255, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_row_statistics_of_every_dtype(dtype: str) -> None:
    rows = (np.random.default_rng(2).normal(size=(101, 3)) * 3).clip(0, 9).astype(dtype)
    stats = row_stats(rows, ("q01", "q99"))
    wide = rows.astype(np.float64)
    np.testing.assert_allclose(stats["mean"], wide.mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats["std"], wide.std(0), rtol=1e-12)
    np.testing.assert_allclose(stats["q99"], np.quantile(wide, 0.99, axis=0), rtol=1e-12)
    assert stats["max"] == wide.max(0).tolist()
    kind = int if dtype in ("int64", "uint8") else float
    assert all(type(v) is kind for v in stats["min"])
    assert stats["count"] == [101]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31), st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 5))
def test_the_dataset_statistics_are_those_of_all_rows(seed: int, lengths: list[int], width: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [(1e3 + rng.normal(size=(n, width))).astype(np.float32) for n in lengths]
    with TemporaryDirectory() as folder, dataset(Path(folder)) as made:
        for part in parts:
            made.add_rows("action", part)
        stats = made.gr00t()["action"]
    rows = np.concatenate(parts).astype(np.float64)
    np.testing.assert_allclose(stats["mean"], rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats["std"], rows.std(0), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(stats["min"], rows.min(0))
    np.testing.assert_array_equal(stats["max"], rows.max(0))
    np.testing.assert_allclose(stats["q01"], np.quantile(rows, 0.01, axis=0), rtol=1e-12)
    np.testing.assert_allclose(stats["q99"], np.quantile(rows, 0.99, axis=0), rtol=1e-12)


def test_quantiles_within_a_small_budget_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(3).normal(size=(5000, 7)).astype(np.float32)
    with dataset(tmp_path) as made:
        made.add_rows("action", rows)
        plenty = made.gr00t()
        monkeypatch.setattr(statistics, "_QUANTILE_BYTES", 5000 * 8)
        assert made.gr00t() == plenty


def test_gr00t_takes_floats_only_and_no_count(tmp_path: Path) -> None:
    with dataset(tmp_path) as made:
        made.add_rows("action", np.zeros((4, 2), np.float32))
        made.add_rows("index", np.arange(4).reshape(4, 1))
        made.add_rows("done", np.zeros((4, 1), bool))
        made.add_frames("front", FrameHistogram())
        assert list(made.gr00t()) == ["action"]
        assert list(made.gr00t()["action"]) == ["mean", "std", "min", "max", "q01", "q99"]


def test_all_statistics_with_count_and_quantiles(tmp_path: Path) -> None:
    histogram = FrameHistogram()
    histogram.add(np.zeros((2, 4, 4, 3), np.uint8))
    with dataset(tmp_path) as made:
        made.add_rows("index", np.arange(4).reshape(4, 1))
        made.add_frames("front", histogram)
        found = made.all(("q50",), count=True)
    spread = [np.sqrt(1.25)]
    assert found["index"] == {
        "mean": [1.5],
        "std": spread,
        "min": [0],
        "max": [3],
        "q50": [1.5],
        "count": [4],
    }
    assert list(found["front"]) == ["mean", "std", "min", "max", "q50", "count"]
