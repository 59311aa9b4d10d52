"""Datasets of an HDF5 group as nodes: dtype, shape, chunks, filters, bytes stored.

What is not here: what the groups mean, see `inspection.recordings` and `inspection.stores`.
"""

from typing import Any, Final

import h5py

from trajpipe.cli.inspection.model import Attribute, Node
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5.attributes import plain

_FILTERS: Final = {
    1: "gzip",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    307: "bzip2",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}


def filters_of(dataset: h5py.Dataset) -> str:
    """The filter pipeline as text: `shuffle gzip-4`, `zstd-1`; "" when there is none."""
    plist = dataset.id.get_create_plist()
    words = []
    for index in range(plist.get_nfilters()):
        code, _, values, name = plist.get_filter(index)
        word = _FILTERS.get(code) or name.decode("utf-8", "replace").split(" ")[0] or f"filter {code}"
        words.append(f"{word}-{values[0]}" if code in (1, 32015) and values else word)
    return " ".join(words)


def dtype_of(dataset: h5py.Dataset) -> str:
    """The element type for people: `float32`, `bool`, `str`, `enum`, `>f4`."""
    kind = dataset.dtype
    if h5py.check_string_dtype(kind) is not None:
        return "str"
    if h5py.check_dtype(enum=kind) is not None and kind.kind != "b":
        return f"enum {kind.name}"
    if kind.byteorder == ">" and kind.itemsize > 1:
        return f"{kind.name} big-endian"
    return str(kind.name) if kind.fields is None else "compound"


def node_of(path: str, dataset: h5py.Dataset) -> Node:
    """One dataset as it is, its own shape."""
    shape: tuple[Any, ...] = dataset.shape if dataset.shape is not None else ()
    unlimited = dataset.shape is not None and None in dataset.maxshape
    return Node(
        path=path,
        dtype=dtype_of(dataset),
        shape=tuple(int(n) for n in shape),
        chunks=dataset.chunks,
        compression=filters_of(dataset),
        stored=int(dataset.id.get_storage_size()),
        note="unlimited" if unlimited else ("empty" if dataset.shape is None else ""),
    )


def attributes_of(item: h5py.Group | h5py.Dataset, place: str) -> list[Attribute]:
    """All attributes of a group or dataset, one that cannot be read as a text that says so."""
    found = []
    for name in natural_sorted(item.attrs):
        try:
            value = plain(item.attrs[name])
        except (OSError, TypeError, ValueError) as error:
            value = f"(unreadable: {error})"
        found.append(Attribute(place, name, value))
    return found
