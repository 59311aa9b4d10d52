"""What an open HDF5 file holds as a store: manifest, episode index, columns, side tables, checked together.

A file without a manifest is inferred: every dataset with the index's row count is a column.
What is not here: reading rows (`column_reader`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.hdf5.columns import require_written
from trajpipe.store.columns import DTYPES, ColumnSpec
from trajpipe.store.episode_index import EpisodeIndex
from trajpipe.store.manifest import Manifest

# no real store comes near: a damaged dimension must not ask for all memory
_MAX_MANIFEST_BYTES: Final = 256 << 20
_MAX_EPISODES: Final = 200_000_000


@dataclass(frozen=True, slots=True, eq=False)
class StoreLayout:
    """A store's own account of itself, found consistent.

    Attributes:
        manifest: Parsed, or inferred.
        episodes: The validated index.
        side_tables: Names of the other datasets, sorted.
        foreign: True when there was no manifest.
    """

    manifest: Manifest
    episodes: EpisodeIndex
    side_tables: tuple[str, ...]
    foreign: bool


def layout_of(file: h5py.File, place: str) -> StoreLayout:
    """The layout of an open file.

    Raises:
        InputError: parts are missing or disagree; says which.
    """
    datasets = {name: file[name] for name in sorted(file) if isinstance(file[name], h5py.Dataset)}
    for name in (names.STORE_EP_LEN, names.STORE_EP_OFFSET):
        if name not in datasets:
            raise InputError(
                "a trajectory store has an episode index", place=place, got=f"no {name}", code="not-a-store"
            )
    episodes = EpisodeIndex.validated(
        episode_index(datasets[names.STORE_EP_LEN], place),
        episode_index(datasets[names.STORE_EP_OFFSET], place),
        place=place,
    )
    text = datasets.get(names.STORE_MANIFEST)
    if text is None:
        return _foreign(datasets, episodes, place)
    manifest = Manifest.parse(_manifest_bytes(text, place), place=place)
    _check_counts(manifest, episodes, place)
    for column in manifest.columns:
        _check_column(datasets, column, manifest.n_rows, place)
    declared = {c.name for c in manifest.columns}
    rest = tuple(n for n in datasets if n not in declared and n not in names.STORE_RESERVED)
    return StoreLayout(manifest, episodes, rest, foreign=False)


def episode_index(dataset: h5py.Dataset, place: str) -> NDArray[Any]:
    """The values of `ep_len` or `ep_offset` of an open store, read when they can be an index.

    Args:
        dataset: It.
        place: Names the file.

    Raises:
        InputError: not one row of integers, or more of them than any store has.
        UnreadableError: declared and never written.
    """
    if dataset.shape is None or dataset.ndim != 1:
        got = f"{dataset.name[1:]} of shape {dataset.shape}"
        raise InputError("the episode index is one row of integers", place=place, got=got)
    if dataset.size > _MAX_EPISODES:
        got, most = f"{dataset.size:,} in {dataset.name[1:]}", f"at most {_MAX_EPISODES:,}"
        raise InputError("the episode index has too many episodes", place=place, got=got, expected=most)
    require_written(dataset)
    return np.asarray(dataset[()])


def _manifest_bytes(dataset: h5py.Dataset, place: str) -> bytes:
    if dataset.shape is None or dataset.ndim != 1 or dataset.dtype != np.uint8:
        got = f"{dataset.dtype} {dataset.shape}"
        raise InputError("the manifest is one row of uint8", place=place, got=got)
    if dataset.size > _MAX_MANIFEST_BYTES:
        raise InputError("the manifest is a short text", place=place, got=f"{dataset.size} bytes")
    return np.asarray(dataset[()]).tobytes()


def _check_counts(manifest: Manifest, episodes: EpisodeIndex, place: str) -> None:
    for name, said, found in (
        ("n_episodes", manifest.n_episodes, episodes.n_episodes),
        ("n_rows", manifest.n_rows, episodes.n_rows),
    ):
        if said != found:
            raise InputError(
                f"the manifest's {name} is the episode index's",
                place=place,
                got=said,
                expected=found,
                code="count-mismatch",
            )


def _check_column(datasets: dict[str, h5py.Dataset], column: ColumnSpec, rows: int, place: str) -> None:
    where = f"{place} · {column.name}"
    dataset = datasets.get(column.name)
    if dataset is None:
        raise InputError(
            "every declared column has a dataset", place=where, got="none", code="missing-column"
        )
    if np.dtype(dataset.dtype).newbyteorder("=") != column.dtype:
        raise SchemaError(
            "the dataset has the declared dtype", place=where, got=dataset.dtype, expected=column.dtype
        )
    shape = tuple(dataset.shape or ())
    allowed = disk_shapes(column, rows)
    if shape not in allowed:
        raise SchemaError(
            "the dataset has the declared shape",
            place=where,
            got=shape,
            expected=" or ".join(map(str, allowed)),
        )


def disk_shapes(column: ColumnSpec, rows: int) -> list[tuple[int, ...]]:
    """The shapes that a column may have on disk: its own, rank 2, for width 1 also (N,) or (N, 1)."""
    shapes = [(rows, *column.shape), (rows, column.row_items)]
    if column.row_items == 1:
        shapes += [(rows,), (rows, 1)]
    return list(dict.fromkeys(shapes))


def _foreign(datasets: dict[str, h5py.Dataset], episodes: EpisodeIndex, place: str) -> StoreLayout:
    columns: list[ColumnSpec] = []
    side: list[str] = []
    rows = episodes.n_rows
    for name, dataset in datasets.items():
        if name in names.STORE_RESERVED:
            continue
        if dataset.shape is None or dataset.ndim == 0:
            side.append(name)
        elif dataset.shape[0] != rows:
            raise SchemaError(
                "without a manifest every dataset has the episode index's rows",
                place=f"{place} · {name}",
                got=f"{name!r} has {dataset.shape[0]} rows",
                expected=f"{names.STORE_EP_LEN!r} sums to {rows}",
            )
        elif (column := _inferred(name, dataset)) is not None:
            columns.append(column)
        else:
            side.append(name)
    if not columns:
        raise SchemaError("a store has at least one column", place=place, code="not-a-store")
    manifest = Manifest(tuple(columns), rows, episodes.n_episodes)
    return StoreLayout(manifest, episodes, tuple(side), foreign=True)


def _inferred(name: str, dataset: h5py.Dataset) -> ColumnSpec | None:
    """The column of a foreign dataset; None for values that the format has not (text, float16, …)."""
    kind = np.dtype(dataset.dtype)
    if kind == np.bool_:
        kind = np.dtype(np.uint8)
    if kind.newbyteorder("=").name not in DTYPES or 0 in dataset.shape[1:]:
        return None
    return ColumnSpec(name, kind, tuple(dataset.shape[1:]))
