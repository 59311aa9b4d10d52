"""v3.0's packed files: rows of many episodes in one parquet file, videos of many in one mp4.

An episode never spans files; a new file starts when the limit would be passed.
What is not here: the metadata that tell where an episode lies, see `trajpipe.export.layout_v3`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
import pyarrow as pa
import pyarrow.parquet as pq

from trajpipe.core.errors import StateError
from trajpipe.export.tables import COMPRESSION
from trajpipe.export.video import ENCODERS

_MEBI: Final = 1 << 20
Place = Callable[[int, int], Path]


@dataclass(slots=True)
class FileCounter:
    """Chunk and file index of the current file of a series.

    Attributes:
        chunk_size: Files per chunk.
        chunk: Index of the chunk folder.
        file: Index of the file in it.
    """

    chunk_size: int
    chunk: int = 0
    file: int = 0

    def advance(self) -> None:
        """Go on to the next file."""
        self.file += 1
        if self.file == self.chunk_size:
            self.chunk, self.file = self.chunk + 1, 0


@dataclass(slots=True)
class RowPack:
    """A series of parquet files that episodes are appended to.

    Attributes:
        place: (chunk, file) → path.
        limit: Bytes that a file of several episodes stays below.
        counter: Where the current file is.
    """

    place: Place
    limit: int
    counter: FileCounter
    _writer: pq.ParquetWriter | None = None
    _size: int = 0

    def append(self, episode: Path) -> tuple[int, int]:
        """Append an episode's parquet file, row group by row group.

        Returns:
            Chunk and file index where it lies.
        """
        size = episode.stat().st_size
        if self._writer is not None and self._size + size >= self.limit:
            self.close()
            self.counter.advance()
        source = pq.ParquetFile(episode)
        for group in range(source.num_row_groups):
            self.write(source.read_row_group(group))
        self._size += size
        return self.counter.chunk, self.counter.file

    def write(self, table: pa.Table) -> None:
        """Append a row group to the current file."""
        if self._writer is None:
            path = self.place(self.counter.chunk, self.counter.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(path, table.schema, compression=COMPRESSION, use_dictionary=False)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        """Finish the current file."""
        if self._writer is not None:
            self._writer.close()
        self._writer, self._size = None, 0


@dataclass(slots=True)
class VideoPack:
    """A series of mp4 files of one camera that episodes' videos are appended to, packet by packet.

    Attributes:
        place: (chunk, file) → path.
        limit: Bytes that a file of several episodes stays below.
        fps: Exact rate.
        counter: Where the current file is.
    """

    place: Place
    limit: int
    fps: Fraction
    counter: FileCounter
    _container: Any = None
    _stream: Any = None
    _header: bytes = b""
    _frames: int = 0
    _size: int = 0

    def append(self, episode: Path) -> tuple[int, int, Fraction, Fraction]:
        """Append an episode's video without decoding it.

        Returns:
            Chunk and file index, and where it begins and ends in that file, seconds.

        Raises:
            StateError: its encoder's header is another one than the file's.
        """
        size = episode.stat().st_size
        if self._container is not None and self._size + size >= self.limit:
            self.close()
            self.counter.advance()
        first = self._frames
        with av.open(str(episode)) as source:
            stream: Any = source.streams.video[0]
            self._require_open(stream, episode)
            for packet in source.demux(stream):
                if packet.size:
                    self._mux(packet)
        self._size += size
        start, end = first / self.fps, self._frames / self.fps
        return self.counter.chunk, self.counter.file, start, end

    def _require_open(self, stream: Any, episode: Path) -> None:
        header = bytes(stream.codec_context.extradata or b"")
        if self._container is None:
            path = self.place(self.counter.chunk, self.counter.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            options = {"fflags": "+bitexact"}
            self._container = av.open(str(path), "w", format="mp4", container_options=options)
            self._stream = _copy_of(stream, self._container, self.fps)
            self._header = header
        elif header != self._header:
            raise StateError("videos of one file must share the encoder's header", place=episode.name)

    def _mux(self, packet: Any) -> None:
        """Without B-frames packets come in the order in which frames are shown."""
        packet.stream = self._stream
        packet.time_base = 1 / self.fps
        packet.pts = packet.dts = self._frames
        packet.duration = 1
        self._container.mux(packet)
        self._frames += 1

    def close(self) -> None:
        """Finish the current file."""
        if self._container is not None:
            self._container.close()
        self._container, self._frames, self._size = None, 0, 0


def _copy_of(stream: Any, container: Any, fps: Fraction) -> Any:
    """A stream for the packets of another one.

    AV1 is read by a codec that cannot write, so its stream is made bare; its packets carry the header.
    """
    context = stream.codec_context
    if context.codec.canonical_name != "av1":
        out = container.add_stream_from_template(stream)
    else:
        size = {"width": context.width, "height": context.height}
        out = container.add_mux_stream(ENCODERS["av1"], rate=fps, **size)
    out.time_base = 1 / fps
    return out


def row_pack(place: Place, megabytes: int, chunk_size: int) -> RowPack:
    """A pack whose files stay below a size in MiB."""
    return RowPack(place, megabytes * _MEBI, FileCounter(chunk_size))


def video_pack(place: Place, megabytes: int, chunk_size: int, fps: Fraction) -> VideoPack:
    """A pack whose files stay below a size in MiB."""
    return VideoPack(place, megabytes * _MEBI, fps, FileCounter(chunk_size))


@dataclass(slots=True)
class EpisodeTable:
    """The episodes' metadata as parquet: rows are flushed in groups, so memory does not grow.

    Attributes:
        pack: Where they go.
        schema: Columns.
        group: Rows per row group.
    """

    pack: RowPack
    schema: pa.Schema
    group: int = 256
    _rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Add an episode; its place in the series is filled in."""
        row |= {
            "meta/episodes/chunk_index": self.pack.counter.chunk,
            "meta/episodes/file_index": self.pack.counter.file,
        }
        self._rows.append(row)
        if len(self._rows) >= self.group:
            self.flush()

    def flush(self) -> None:
        """Write the rows gathered so far."""
        if self._rows:
            self.pack.write(pa.Table.from_pylist(self._rows, schema=self.schema))
            self._rows = []

    def close(self) -> None:
        """Write what is left and finish the file."""
        self.flush()
        self.pack.close()
