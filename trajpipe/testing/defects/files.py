"""Faults of a file's bytes: what a bad copy, a full disk or a wrong download leaves.

What is not here: anything that HDF5's own interface can write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import h5py
import numpy as np

from trajpipe.core import names
from trajpipe.testing.defects.registry import Injection, file_defect, replace

USER_BLOCK: Final = 512


@file_defect("truncated", "the second half of the file is missing")
def truncated(path: Path, rng: np.random.Generator) -> Injection:  # noqa: ARG001  (one signature for all)
    """An interrupted copy."""
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    return Injection("truncated", detail=f"{size // 2} of {size} bytes")


@file_defect("empty-file", "the file has no byte")
def empty_file(path: Path, rng: np.random.Generator) -> Injection:  # noqa: ARG001
    """A full disk."""
    path.write_bytes(b"")
    return Injection("empty-file", detail="0 bytes")


@file_defect("git-lfs-pointer", "the file is a git-lfs pointer")
def git_lfs_pointer(path: Path, rng: np.random.Generator) -> Injection:
    """A clone without `git lfs pull`."""
    oid, size = rng.bytes(32).hex(), path.stat().st_size
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n")
    return Injection("git-lfs-pointer")


@file_defect("html-page", "the file is an HTML page")
def html_page(path: Path, rng: np.random.Generator) -> Injection:  # noqa: ARG001
    """A download link that wanted a login."""
    path.write_text("<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in</body></html>\n")
    return Injection("html-page")


@file_defect("not-hdf5", "the file holds other bytes")
def not_hdf5(path: Path, rng: np.random.Generator) -> Injection:
    """Anything with the right suffix."""
    path.write_bytes(b"PK\x03\x04" + rng.bytes(4096))
    return Injection("not-hdf5")


@file_defect("broken-gzip-chunk", "bytes inside one compressed chunk are flipped")
def broken_gzip_chunk(path: Path, rng: np.random.Generator) -> Injection:
    """The file opens, reading that chunk fails; where nothing is compressed, actions are deflated first."""
    demo, dataset, where, length = _a_chunk(path)
    raw = bytearray(path.read_bytes())
    # zlib's checksum is in the last four bytes: with the middle changed, inflating fails or the sum does
    first = where + length // 2
    for offset in range(first, min(first + 8, where + length - 4)):
        raw[offset] ^= int(rng.integers(1, 256))
    path.write_bytes(raw)
    return Injection("broken-gzip-chunk", demo, dataset, 0, f"bytes {first}…")


@file_defect("flipped-byte", "one bit of an uncompressed value is flipped: HDF5 cannot notice")
def flipped_byte(path: Path, rng: np.random.Generator) -> Injection:
    """Only a checksum (fletcher32, or a hash that was taken before) tells."""
    with h5py.File(path, "r+") as handle:
        demo = handle[names.GROUP_DATA][min(handle[names.GROUP_DATA])]
        if demo[names.DATASET_ACTIONS].id.get_offset() is None:
            replace(demo, names.DATASET_ACTIONS, demo[names.DATASET_ACTIONS][...])
        actions = demo[names.DATASET_ACTIONS]
        row = int(rng.integers(actions.shape[0]))
        handle.flush()
        where = actions.id.get_offset() + row * actions.shape[1] * actions.dtype.itemsize
        name = str(demo.name).rsplit("/", 1)[-1]
    raw = bytearray(path.read_bytes())
    raw[where] ^= 0x01
    path.write_bytes(raw)
    return Injection("flipped-byte", name, names.DATASET_ACTIONS, row, f"byte {where}")


@file_defect("user-block", "HDF5 begins after a user block of 512 bytes")
def user_block(path: Path, rng: np.random.Generator) -> Injection:  # noqa: ARG001
    """Legal, and its first bytes are not HDF5's signature."""
    other = path.with_name(f".{path.name}.user-block")
    with h5py.File(path, "r") as source, h5py.File(other, "w", userblock_size=USER_BLOCK) as target:
        for name, value in source.attrs.items():
            target.attrs[name] = value
        for name in source:
            source.copy(name, target)
    other.replace(path)
    return Injection("user-block", detail=f"{USER_BLOCK} bytes")


def _a_chunk(path: Path) -> tuple[str, str, int, int]:
    """Demo, dataset, file offset and stored length of a compressed chunk of the last demo."""
    with h5py.File(path, "r+") as handle:
        name = max(handle[names.GROUP_DATA])
        demo = handle[names.GROUP_DATA][name]
        found: list[str] = []
        demo.visititems(lambda n, item: found.append(n) if _is_deflated(item) else None)
        if not found:
            values = demo[names.DATASET_ACTIONS][...]
            replace(demo, names.DATASET_ACTIONS, values, compression="gzip", chunks=values.shape)
            handle.flush()
            found = [names.DATASET_ACTIONS]
        dataset = max(found, key=lambda n: (demo[n].id.get_chunk_info(0).size, n))
        chunk = demo[dataset].id.get_chunk_info(0)
        return name, dataset, int(chunk.byte_offset), int(chunk.size)


def _is_deflated(item: object) -> bool:
    return isinstance(item, h5py.Dataset) and item.compression == "gzip" and item.id.get_num_chunks() > 0
