"""Worker of the fuzz test: damages copies of a store and reports what opening and reading them does.

What is not here: the test that starts it (`test_fuzz`); it runs in a process of its own because HDF5 is C.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import TrajpipeError
from trajpipe.store import TrajectoryStore

Content = dict[str, NDArray[Any]]


def content(path: Path) -> Content:
    """Everything a reader can get of a store."""
    with TrajectoryStore(path) as store:
        out: Content = {name: store.load_column(name, max_bytes=1 << 26) for name in store.columns}
        out.update({f"side {name}": store.side_table(name, max_bytes=1 << 26) for name in store.side_tables})
        out["ep_len"] = store.ep_len
        out["text"] = np.array(["\0".join([store.env_id, *store.tasks])])
        return out


def same(a: Content, b: Content) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(
        (a[k].dtype, a[k].shape, a[k].tobytes()) == (b[k].dtype, b[k].shape, b[k].tobytes()) for k in a
    )


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """A few flipped bits, a smeared stretch, or a cut."""
    out, kind = bytearray(data), int(rng.integers(0, 4))
    if kind == 0:
        return bytes(out[: int(rng.integers(0, len(out)))])
    # most damage goes where the structure is: the first and last kilobytes
    spans = [(0, len(out)), (0, min(6000, len(out))), (max(0, len(out) - 6000), len(out))]
    low, high = spans[int(rng.integers(0, 3))]
    for _ in range(int(rng.integers(1, 9))):
        at = int(rng.integers(low, high))
        if kind == 1:
            out[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            out[at] = int(rng.integers(0, 256))
        else:
            length = int(rng.integers(1, 32))
            out[at : at + length] = rng.bytes(len(out[at : at + length]))
    return bytes(out)


def main(source: str, first: int, last: int) -> None:
    """Print one word a case: `same`, `other` (rows differ), `error <class>`, `slow`, `bug <class>`."""
    good = Path(source)
    data, expected = good.read_bytes(), content(good)
    for case in range(first, last):
        path = good.with_name(f"case-{first}.h5")
        path.write_bytes(damaged(data, np.random.default_rng(case)))
        start = time.monotonic()
        try:
            word = "same" if same(content(path), expected) else "other"
        except TrajpipeError as error:
            word = f"error {type(error).__name__}" if str(error) else "bug without words"
        except Exception as error:  # the test wants to see whatever else comes out
            word = f"bug {type(error).__name__}: {error}"
        if time.monotonic() - start > 5:
            word = f"slow {word}"
        print(case, word, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
