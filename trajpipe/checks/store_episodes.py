"""Which L2 demo each episode of a store comes from, told by the store's side tables; h5py alone.

What is not here: comparing them, see the rules that use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py

from trajpipe.checks.store_reading import opened
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5.attributes import attributes_of, plain

Key = tuple[str, str, str]
_TABLES: Final = ("ep_len", "ep_offset", "ep_file", "ep_demo", "ep_content")


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """One episode of a store.

    Attributes:
        key: Recording, name in it, content hash.
        start: First row.
        stop: One past the last.
    """

    key: Key
    start: int
    stop: int

    @property
    def name(self) -> str:
        """`<recording>:<demo>`."""
        return f"{self.key[0]}:{self.key[1]}"


def key_of(demo: h5py.Group, file: str, name: str) -> Key:
    """Recording, name in it and content hash of an L2 demo."""
    attributes = attributes_of(demo)
    return (
        str(attributes.get("source_file", file)),
        str(attributes.get("source_demo", name)),
        str(attributes.get("content_sha256", "")),
    )


def demos_of(path: Path) -> dict[Key, str]:
    """The demos of an L2 file in natural order: key → name."""
    with opened(path) as file:
        data = file["data"]
        return {key_of(data[n], path.name, n): n for n in natural_sorted(data)}


def origins(paths: Sequence[Path]) -> dict[Key, tuple[Path, str]]:
    """Key → (L2 file, demo) of all demos, files in the given order."""
    return {key: (Path(p), name) for p in paths for key, name in demos_of(Path(p)).items()}


def episodes_of(store: h5py.File, place: str) -> list[StoredEpisode]:
    """The episodes of an open store.

    Raises:
        InputError: it has none of the side tables that say where an episode comes from.
    """
    lost = [name for name in _TABLES if name not in store]
    if lost:
        raise InputError(
            "the store does not say where its episodes come from",
            place=Place(place),
            got=f"no {', '.join(lost)}",
            hint="Build it with trajpipe.",
        )
    lengths, offsets = store["ep_len"][()], store["ep_offset"][()]
    files, demos = ([_text(v) for v in store[t][()].tolist()] for t in ("ep_file", "ep_demo"))
    content = store["ep_content"][()]
    return [
        StoredEpisode((file, demo, bytes(hashed).hex()), int(start), int(start) + int(length))
        for file, demo, hashed, start, length in zip(files, demos, content, offsets, lengths, strict=True)
    ]


def _text(value: Any) -> str:
    return str(plain(value))
