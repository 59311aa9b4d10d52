"""One frame of a video for a picture: sought at once, the key frame before it when the group is long.

What is not here: exact frames in order, see `trajpipe.sources.lerobot_video`.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import UnreadableError

MAX_DECODED: Final = 24


def frame_near(path: Path, number: int, fps: Fraction) -> NDArray[np.uint8]:
    """A frame, or one shortly before it: at most 24 frames after a key frame are decoded.

    Args:
        path: The video.
        number: Of the frame, from 0.
        fps: Of the video.

    Returns:
        uint8 (H, W, 3), RGB.

    Raises:
        UnreadableError: no frame can be decoded there.
    """
    import av

    try:
        with av.open(str(path)) as container:
            stream: Any = container.streams.video[0]
            wanted = int(Fraction(number) / fps / stream.time_base) + (stream.start_time or 0)
            container.seek(wanted, stream=stream, backward=True)
            frame = None
            for decoded, found in enumerate(container.decode(stream), 1):
                frame = found
                if found.pts is None or found.pts >= wanted or decoded >= MAX_DECODED:
                    break
            if frame is not None:
                return np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
    except (av.FFmpegError, OSError, ValueError, IndexError) as error:
        raise UnreadableError("the video cannot be decoded", place=path.name, got=error) from error
    raise UnreadableError("the video has no such frame", place=path.name, got=number)
