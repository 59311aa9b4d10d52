"""Arrow arrays of an episode's rows: the values and types that PyArrow itself would make, for every dtype.

What is not here: the files, see `test_writer.py`.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from trajpipe.export.tables import arrow

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_rows_are_what_pyarrow_makes_of_them(dtype: str, width: int, rows: int) -> None:
    values = (np.arange(rows * width).reshape(rows, width) % 2).astype(dtype)
    plain = pa.array(values.reshape(-1))
    expected = plain if width == 1 else pa.FixedSizeListArray.from_arrays(plain, width)
    made = arrow(values)
    assert made.type == expected.type
    assert made.equals(expected)
    assert made.null_count == 0
    made.validate(full=True)


def test_views_and_nan_keep_their_values() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    values[1, 2] = np.nan
    for view in (values[:, ::2], values[::2], values[::-1], np.asfortranarray(values)):
        found = np.array(arrow(view).to_pylist(), np.float32)
        np.testing.assert_array_equal(found, view)
    assert arrow(values).null_count == 0


def test_the_array_outlives_what_it_was_made_of() -> None:
    values = np.arange(1000, dtype=np.int64).reshape(-1, 1)
    made = arrow(values)
    del values
    assert made.to_pylist() == list(range(1000))


def test_numbers_import_no_pandas() -> None:
    code = (
        "import sys, numpy as np; from trajpipe.export.tables import table_of; "
        "table_of({'a': np.zeros((9, 3), 'f4'), 'b': np.zeros((9, 1), 'i8')}); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
