"""First frames that are the previous episode's last: a camera that was not rendered anew after a reset.

What is not here: dropping them, which only the configuration asks for, see `trajpipe.sources.demo_source`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import Column, is_image


@dataclass(slots=True)
class StaleFrames:
    """Compares each episode's first frames with the last ones of the episode before.

    Attributes:
        last: Camera path → the last frame of the episode before.
    """

    last: dict[str, NDArray[Any]] = field(default_factory=dict)

    def cameras(self, columns: Mapping[str, Column], length: int) -> list[str]:
        """Cameras whose first frame is stale; remembers this episode's last frames.

        A camera that sees nothing move (first frame equals second) is no evidence.
        """
        stale, last = list[str](), dict[str, NDArray[Any]]()
        for path, column in columns.items():
            if not is_image(column):
                continue
            first, before = column.read(0, min(2, length)), self.last.get(path)
            moved = length > 1 and not np.array_equal(first[0], first[1])
            if moved and before is not None and np.array_equal(first[0], before):
                stale.append(path)
            last[path] = np.array(column.read(length - 1, length)[0])
        self.last = last
        return stale
