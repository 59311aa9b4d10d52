"""Named faults that can be put into a good raw file: what people hit, made on purpose.

What is not here: what a reader does about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

# the modules register their defects when they are imported
from trajpipe.testing.defects import content, files, labels, pictures, structure  # noqa: F401
from trajpipe.testing.defects.pictures import MARK, MARK_PIXELS
from trajpipe.testing.defects.registry import Defect, Injection, defects, one

DEFECTS: Final[Mapping[str, str]] = {name: entry.title for name, entry in defects().items()}
"""Name → one line that says what is wrong."""


def inject(path: Path, name: str, seed: int = 0) -> Injection:
    """Put a defect into a good raw file, in place; the same seed hits the same place.

    Args:
        path: A file that `write_recording` made.
        name: One of `DEFECTS`.
        seed: Of what is random about it.

    Returns:
        Where it went.

    Raises:
        MissingNameError: no such defect.
        InputError: the file lacks what the defect spoils (images, obs, …).
    """
    entry = one(name)
    return entry.run(Path(path), np.random.default_rng([seed, len(name), *name.encode()]))


__all__ = ["DEFECTS", "MARK", "MARK_PIXELS", "Defect", "Injection", "defects", "inject"]
