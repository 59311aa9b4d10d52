"""Single files of arrays and tables: parquet, npz, npy, csv, `.demo` transitions, pickles by name only.

What is not here: HDF5 and video.
"""

import csv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from trajpipe.cli.formatting import count
from trajpipe.cli.inspection.lerobot import rows_of
from trajpipe.cli.inspection.model import Attribute, Episodes, Inspection, Layout, Node, Ranges
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.order import natural_sorted

_CSV_BLOCK: Final = 4096
_MAX_HEADER: Final = 1 << 16


def inspect_parquet(path: Path, found: Inspection) -> None:
    """Schema, rows, row groups and compression of a parquet file; lengths by `episode_index`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as handle:
            meta, schema = handle.metadata, handle.schema_arrow
            codecs = _codecs(meta, schema.names)
            nodes = [Node(f.name, str(f.type), ("N",), compression=codecs.get(f.name, "")) for f in schema]
            found.facts = {
                "rows": meta.num_rows,
                "row groups": meta.num_row_groups,
                "writer": meta.created_by,
            }
            if "episode_index" in schema.names:
                found.episodes = _episodes_of(handle)
            for name in ("action", "observation.state"):
                if name in schema.names:
                    found.ranges.append(_column_ranges(handle, name))
    except (pa.ArrowException, OSError) as error:
        raise UnreadableError("the parquet file cannot be read", place=path, got=error) from error
    found.layouts = [Layout("columns", nodes)]
    for key, value in (schema.metadata or {}).items():
        found.attributes.append(
            Attribute("/", key.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
        )


def _codecs(meta: Any, names: list[str]) -> dict[str, str]:
    """Column → codec in the first row group; a list column's leaf is `<column>.list.element`."""
    found: dict[str, str] = {}
    for index in range(meta.num_columns if meta.num_row_groups else 0):
        leaf = meta.row_group(0).column(index)
        path = leaf.path_in_schema
        name = max((n for n in names if path == n or path.startswith(f"{n}.")), key=len, default=path)
        found[name] = str(leaf.compression).lower()
    return found


def _episodes_of(handle: Any) -> Episodes:
    lengths: dict[str, int] = {}
    for batch in handle.iter_batches(columns=["episode_index"]):
        values, counts = np.unique(batch.column(0).to_numpy(zero_copy_only=False), return_counts=True)
        for value, number in zip(values.tolist(), counts.tolist(), strict=True):
            lengths[str(value)] = lengths.get(str(value), 0) + number
    ordered = natural_sorted(lengths)
    return Episodes(ordered, [lengths[n] for n in ordered])


def _column_ranges(handle: Any, name: str) -> Ranges:
    ranges = Ranges(name)
    for batch in handle.iter_batches(columns=[name]):
        ranges.add(rows_of(batch.column(0)))
    return ranges


def inspect_npz(path: Path, found: Inspection) -> None:
    """Names, dtypes and shapes of an npz archive, from the headers alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {i.filename: i for i in archive.infolist() if i.filename.endswith(".npy")}
            nodes = []
            for name in natural_sorted(members):
                with archive.open(name) as handle:
                    nodes.append(_npy_node(name.removesuffix(".npy"), handle, members[name].compress_size))
            others = len(archive.infolist()) - len(members)
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise UnreadableError("the npz archive cannot be read", place=path, got=error) from error
    found.layouts = [Layout("arrays", nodes)]
    if others:
        found.notes.append(f"{count(others, 'member')} that is no array")


def inspect_npy(path: Path, found: Inspection) -> None:
    """Dtype and shape of an npy file, from its header alone."""
    try:
        with path.open("rb") as handle:
            found.layouts = [Layout("array", [_npy_node(path.stem, handle, path.stat().st_size)])]
    except ValueError as error:
        raise UnreadableError("the npy file cannot be read", place=path, got=error) from error


def _npy_node(name: str, handle: "IO[bytes]", stored: int) -> Node:
    version = np.lib.format.read_magic(handle)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(handle, max_header_size=_MAX_HEADER)
    note = "pickled objects: not opened" if dtype.hasobject else ("column-major" if fortran else "")
    return Node(name, str(dtype), tuple(int(n) for n in shape), stored=stored, note=note)


def inspect_csv(path: Path, found: Inspection) -> None:
    """Rows, columns, header and the range of every numeric column."""
    rows, names, width = 0, list[str](), 0
    ranges = Ranges("columns")
    with ExitStack() as stack:
        handle = stack.enter_context(path.open(newline="", encoding="utf-8-sig"))
        try:
            reader = csv.reader(handle)
            first = next(reader, [])
            width = len(first)
            if _numbers(first) is None:
                names = [c.strip() for c in first]
            else:
                rows += 1
                ranges.add(np.asarray([_numbers(first)]))
            ranges.names = names
            for block in _blocks(reader):
                rows += len(block)
                numeric = [v for line in block if len(line) == width and (v := _numbers(line)) is not None]
                if numeric:
                    ranges.add(np.asarray(numeric))
                if any(len(line) not in (0, width) for line in block):
                    found.notes.append(f"rows of another width than {width} occur")
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError("the file is not CSV text", place=path, got=error) from error
    found.facts = {"rows": rows, "columns": width, "header": "yes" if names else "no"}
    found.notes = list(dict.fromkeys(found.notes))
    found.ranges.append(ranges)


def _blocks(reader: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    while block := list(islice(reader, _CSV_BLOCK)):
        yield block


def _numbers(line: list[str]) -> list[float] | None:
    try:
        return [float(c) for c in line] or None
    except ValueError:
        return None


def inspect_pickle(path: Path, found: Inspection) -> None:
    """The name and protocol of a pickle. It is not opened: unpickling runs code of its author."""
    with path.open("rb") as handle:
        head = handle.read(4)
    if head[:1] == b"\x80":
        found.facts["protocol"] = head[1]
    elif head[:2] == b"PK":
        found.facts["container"] = "zip (a torch checkpoint has this form)"
    found.notes.append("not opened: unpickling runs whatever code its author put in")
