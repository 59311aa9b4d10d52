"""Random episodes through the writer and the reader: nothing changes, and the bytes are the same twice.

What is not here: single rules, see `test_writer.py` and `test_reader.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trajpipe.core.episode import ArrayColumn, Episode, whole
from trajpipe.core.names import Alignment, Split, Tag
from trajpipe.demos.reader import DemosFile
from trajpipe_tests.demos.builders import written

EXAMPLES = 400 if os.environ.get("TRAJPIPE_FULL") == "1" else 25
DTYPES = ["<f4", ">f4", "<f8", "<f2", "|u1", "<i4", ">i8", "<u2", "|b1"]
TERMS = ["obs/a", "obs/B2", "obs/b10", "obs/nested/x", "states/robot/q", "rewards", "dones", "obs/ü"]


def _values(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[NDArray[Any]]:
    kind = np.dtype(dtype)
    finite: dict[str, Any] = {"allow_nan": False, "allow_infinity": False} if kind.kind == "f" else {}
    return hnp.arrays(kind, shape, elements=hnp.from_dtype(kind, **finite))


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    """An episode with random columns, shapes, dtypes and facts."""
    length = draw(st.integers(1, 40))
    width = draw(st.integers(1, 8))
    columns = {"actions": ArrayColumn(draw(_values("<f4", (length, width))))}
    for term in draw(st.lists(st.sampled_from(TERMS), unique=True)):
        trailing = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
        columns[term] = ArrayColumn(draw(_values(draw(st.sampled_from(DTYPES)), (length, *trailing))))
    for camera in draw(st.lists(st.sampled_from(["obs/cam_1", "obs/cam_2"]), unique=True)):
        size = draw(st.tuples(st.integers(1, 40), st.integers(1, 5), st.sampled_from([1, 3, 4])))
        seed = draw(st.integers(0, 99))
        frames = np.random.default_rng(seed).integers(0, 256, (length, *size)).astype(np.uint8)
        columns[camera] = ArrayColumn(frames)
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=9)
    return Episode(
        name=draw(text),
        length=length,
        columns=columns,
        extras={"initial_state/root_pose": ArrayColumn(draw(_values("<f4", (1, 7))))},
        attributes=draw(st.dictionaries(st.just("note") | st.just("k"), st.integers(-9, 9) | st.booleans())),
        success=draw(st.sampled_from([True, False, None])),
        seed=draw(st.none() | st.integers(0, 2**40)),
        task=draw(st.none() | text),
        tag=draw(st.sampled_from(list(Tag))).value,
        alignment=draw(st.none() | st.sampled_from(list(Alignment))),
        source_file="r.hdf5",
        source_demo=draw(text),
        source_sha256="0" * 64,
        split=draw(st.none() | st.sampled_from(list(Split))),
    )


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(episodes(), min_size=1, max_size=3),
    st.sampled_from(["strips", "frames"]),
    st.booleans(),
)
def test_round_trip(originals: list[Episode], layout: str, fletcher32: bool) -> None:
    with TemporaryDirectory() as folder:
        options: dict[str, Any] = {"image_layout": layout, "fletcher32": fletcher32}
        first = written(Path(folder, "a.hdf5"), *originals, **options)
        assert first.read_bytes() == written(Path(folder, "b.hdf5"), *originals, **options).read_bytes()
        with DemosFile(first) as file:
            for number, (back, original) in enumerate(zip(file.episodes(), originals, strict=True)):
                assert back.name == f"demo_{number}"
                _assert_equal(back, original)


def _assert_equal(back: Episode, original: Episode) -> None:
    assert set(back.columns) == set(original.columns)
    assert set(back.extras) == set(original.extras)
    for path, column in {**original.columns, **original.extras}.items():
        stored = whole({**back.columns, **back.extras}[path])
        assert stored.dtype == column.dtype.newbyteorder("=")
        assert stored.shape == column.shape
        np.testing.assert_array_equal(stored, whole(column))
    for field in ("length", "success", "seed", "task", "tag", "alignment", "split", "source_demo"):
        assert getattr(back, field) == getattr(original, field), field
    kept = {k: v for k, v in back.attributes.items() if k in original.attributes}
    assert kept == dict(original.attributes)
