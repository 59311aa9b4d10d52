"""What a file is by its first bytes, where a name may lie: HDF5.

What is not here: opening it, see `trajpipe.hdf5.files`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

HDF5: Final = b"\x89HDF\r\n\x1a\n"
# Beyond this a user block is no longer looked for, bytes.
_LAST_OFFSET: Final = 1 << 16


def looks_like_hdf5(path: Path) -> bool:
    """True when the file begins with HDF5's signature (or holds it at a user-block offset: 512, 1024, …)."""
    try:
        with path.open("rb") as handle:
            offset = 0
            while offset <= _LAST_OFFSET:
                handle.seek(offset)
                if handle.read(len(HDF5)) == HDF5:
                    return True
                offset = offset * 2 or 512
    except OSError:
        return False
    return False
