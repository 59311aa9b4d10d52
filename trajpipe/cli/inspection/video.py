"""Video files: codec, size, rate, frames, duration.

What is not here: frames themselves; only packets are counted, nothing is decoded.
"""

from pathlib import Path
from typing import Any

from trajpipe.cli.formatting import seconds
from trajpipe.cli.inspection.model import Inspection
from trajpipe.core.errors import UnreadableError


def inspect_video(path: Path, found: Inspection) -> None:
    """Fill in the facts of the first video stream.

    Raises:
        UnreadableError: PyAV cannot open it, or it holds no video stream (an mp4 that was never finished).
    """
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise UnreadableError("the file holds no video stream", place=path, code="no-video")
            stream: Any = container.streams.video[0]
            packets = [(p.pts, p.is_keyframe) for p in container.demux(stream) if p.size]
            rate = stream.average_rate
            found.facts = {
                "container": container.format.name,
                "codec": stream.codec_context.name,
                "width": stream.codec_context.width,
                "height": stream.codec_context.height,
                "pixel format": stream.codec_context.pix_fmt,
                "fps": str(rate) if rate is not None else "unknown",
                "frames": len(packets),
                "key frames": sum(1 for _, key in packets if key),
                "duration": seconds(float(len(packets) / rate)) if rate else "unknown",
                "audio": "yes" if container.streams.audio else "no",
            }
            if stream.frames not in (0, len(packets)):
                found.notes.append(f"the header says {stream.frames} frames, the file holds {len(packets)}")
    except av.error.FFmpegError as error:
        hint = "A recorder that was killed leaves an mp4 without its index."
        raise UnreadableError("the video cannot be opened", place=path, got=error, hint=hint) from error
