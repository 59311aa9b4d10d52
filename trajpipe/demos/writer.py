"""The streaming L2 writer: episodes in, one `demos.hdf5` out, block by block.

The caller gives a temporary path and publishes it (`trajpipe.core.atomic.atomic_file`).
What is not here: which episodes to write (`trajpipe.demos.select`), image chunks (`trajpipe.demos.images`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core import jsontext, names
from trajpipe.core.conventions import UnknownSuccess
from trajpipe.core.episode import BLOCK_BYTES, Column, Episode, is_image, rows_per_block
from trajpipe.core.errors import InputError, OutputExistsError, StateError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.core.paths import without_absolute_paths_in
from trajpipe.core.provenance import sha256_bytes
from trajpipe.demos.accept import checked_columns, checked_env_args, checked_word, require_finite
from trajpipe.demos.attributes import write_attributes
from trajpipe.demos.content import ContentHash
from trajpipe.demos.images import ImageLayout, ImageWriter
from trajpipe.hdf5.attributes import plain
from trajpipe.hdf5.files import with_bounded_metadata

ORIGINAL_SHA256: Final = "original_sha256"
_OWN_DEMO_ATTRIBUTES: Final = {
    names.ATTR_NUM_SAMPLES,
    names.ATTR_SUCCESS,
    names.ATTR_SEED,
    *names.DEMO_ATTRS_OURS,
}
_FINITE: Final = (names.DATASET_ACTIONS, names.GROUP_OBS)
_OWN_DATA_ATTRIBUTES: Final = {
    names.ATTR_TOTAL,
    names.ATTR_ENV_ARGS,
    names.ATTR_TRAJPIPE,
    names.ATTR_IMAGE_CONVENTION,
}


class DemosWriter:
    """Writes one L2 file; a context manager that finishes the file when its block ends well.

    Absolute paths in recorded text are reduced to base names; SHA-256 of the original texts goes into the
    recipe under `original_sha256`. The same episodes in the same order give the same bytes.

    Attributes:
        demos: Names of the demos written, in order.
        total: Rows written.
    """

    def __init__(
        self,
        path: Path,
        *,
        env_args: Mapping[str, Any],
        recipe: Mapping[str, Any],
        image_layout: ImageLayout = "strips",
        fletcher32: bool = False,
        attributes: Mapping[str, Any] | None = None,
        unknown_success: UnknownSuccess = "keep",
    ) -> None:
        """Create the file.

        Args:
            path: A fresh path.
            env_args: `env_name`, `type` (2 when absent), `env_kwargs` (empty when absent).
            recipe: Plain JSON values, written sorted to the `trajpipe` attribute of /data.
            image_layout: `strips` (chunks of 16 frames of 16 rows) or `frames` (one frame per chunk).
            fletcher32: Add HDF5's checksum to every chunk (columns are then chunked, and slower to write).
            attributes: Attributes of /data to keep as recorded.
            unknown_success: Unknown is written as the episode's `success_as` (`keep`), as False (`fail`),
                or refused (`drop`).

        Raises:
            OutputExistsError: the path exists.
            InputError: env_args has no `env_name`.
        """
        if path.exists():
            raise OutputExistsError("the L2 writer never writes over a file", place=path)
        self._env_args = checked_env_args(env_args)
        self._recipe, self._attributes = dict(recipe), dict(attributes or {})
        self._fletcher32, self._unknown = fletcher32, unknown_success
        self._masks: dict[str, list[str]] | None = None
        self._splits: dict[str, list[str]] = {}
        self._originals: dict[str, str] = {}
        self._images = ImageWriter(image_layout, fletcher32=fletcher32)
        self.demos: list[str] = []
        self.total = 0
        self._path = path
        self._file: h5py.File | None = with_bounded_metadata(h5py.File(path, "x"))
        self._data = self._file.create_group(names.GROUP_DATA)

    def __enter__(self) -> DemosWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def write(self, episode: Episode) -> str:
        """Write one episode whole or, when it raises, not at all.

        Args:
            episode: Its `actions` may be of any real dtype and become float32, one rounding to nearest.

        Returns:
            The demo's name here: `demo_0`, `demo_1`, … in the order of calls.

        Raises:
            InputError: no actions or no rows, actions or obs not finite, a success unknown under `drop`.
            SchemaError: actions not (T, A); a path that is not a path, or both a dataset and a group.
            DTypeError: a column that is neither number nor bool.
            UnreadableError: the source cannot be read.
        """
        if self._file is None:
            raise StateError("the L2 file is closed", place=self._path)
        columns = checked_columns(episode)
        name = f"{names.DEMO_PREFIX}{len(self.demos)}"
        group = self._data.create_group(name)
        try:
            digest = self._write_columns(group, columns, episode)
            write_attributes(group, self._demo_attributes(name, episode, digest))
        except BaseException:
            self._forget(name)
            raise
        self.demos.append(name)
        self.total += episode.length
        if episode.split is not None:
            self._splits.setdefault(episode.split, []).append(name)
        return name

    def _forget(self, name: str) -> None:
        del self._data[name]
        self._originals = {k: v for k, v in self._originals.items() if not k.startswith(f"{name}@")}

    def set_masks(self, masks: Mapping[str, Sequence[str]]) -> None:
        """Set `mask/<name>` lists of demos written here; without a call the episodes' own splits are used.

        Raises:
            InputError: a name that is not a demo of this file, or train and valid share one (at close too).
        """
        self._masks = {name: list(demos) for name, demos in masks.items()}

    def close(self) -> None:
        """Write masks and the attributes of the file, and close it. A second call does nothing."""
        if self._file is None:
            return
        try:
            self._write_masks()
            self._write_data_attributes()
            self._file.attrs[names.ATTR_FORMAT_VERSION] = np.int64(names.L2_FORMAT_VERSION)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without finishing: what is on disk is no L2 file (it has no format_version)."""
        self._images.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write_columns(self, group: h5py.Group, columns: Mapping[str, Column], episode: Episode) -> str:
        digest = ContentHash()
        for path in natural_sorted(columns):
            column = columns[path]
            digest.begin(path, column.dtype, column.shape)
            if is_image(column) and all(column.shape):
                self._images.write(group, path, column, digest)
            else:
                place = Place(file=episode.source_file, demo=episode.name, column=path)
                self._write_rows(group, path, column, digest, place)
        return digest.hexdigest()

    def _write_rows(
        self, group: h5py.Group, path: str, column: Column, digest: ContentHash, place: Place
    ) -> None:
        """A contiguous dataset (chunked when checksums are asked for), written block by block."""
        step = rows_per_block(column, BLOCK_BYTES)
        chunked = self._fletcher32 and all(column.shape)
        chunks = (min(step, column.shape[0]), *column.shape[1:]) if chunked else None
        options = {"chunks": chunks, "fletcher32": True} if chunked else {}
        dtype = column.dtype.newbyteorder("<")
        dataset = group.create_dataset(path, shape=column.shape, dtype=dtype, **options)
        must_be_finite = column.dtype.kind == "f" and path.split("/", maxsplit=1)[0] in _FINITE
        for start in range(0, column.shape[0], step):
            rows = column.read(start, min(start + step, column.shape[0]))
            if must_be_finite:
                require_finite(rows, start, place)
            digest.rows(rows)
            if rows.size and rows.shape[0] == column.shape[0]:
                # One call into HDF5 without a selection: most columns fit in a block, and calls cost.
                dataset.id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(rows, dtype=dtype))
            elif rows.size:
                dataset[start : start + rows.shape[0]] = rows

    def _demo_attributes(self, name: str, episode: Episode, content_sha256: str) -> dict[str, Any]:
        place = Place(file=episode.source_file, demo=episode.name)
        kept = {k: v for k, v in episode.attributes.items() if k not in _OWN_DEMO_ATTRIBUTES}
        values = self._without_paths(name, kept) | {
            names.ATTR_NUM_SAMPLES: episode.length,
            names.ATTR_SUCCESS: np.bool_(self._success(episode)),
            names.ATTR_SUCCESS_KNOWN: np.bool_(episode.success is not None),
            names.ATTR_SOURCE: checked_word(names.Tag, episode.tag, place),
            names.ATTR_SOURCE_FILE: episode.source_file,
            names.ATTR_SOURCE_DEMO: episode.source_demo or episode.name,
            names.ATTR_SOURCE_SHA256: episode.source_sha256,
            names.ATTR_CONTENT_SHA256: content_sha256,
            names.ATTR_TASK: episode.task or "",
        }
        if episode.seed is not None:
            values[names.ATTR_SEED] = int(episode.seed)
        if episode.alignment is not None:
            values[names.ATTR_OBS_ALIGNMENT] = checked_word(names.Alignment, episode.alignment, place)
        return values

    def _success(self, episode: Episode) -> bool:
        if episode.success is None and self._unknown == "drop":
            raise InputError(
                "an episode whose success is unknown is to be dropped, not written",
                place=Place(file=episode.source_file, demo=episode.name),
                code=names.Reason.UNKNOWN_SUCCESS.value,
            )
        if episode.success is None:
            return self._unknown == "keep" and episode.success_as
        return episode.success

    def _without_paths(self, owner: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Recorded text with absolute paths reduced; the original's hash is noted for the recipe."""
        out = {}
        for key, recorded in values.items():
            value = plain(recorded)
            out[key] = without_absolute_paths_in(value)
            if isinstance(value, (str, list)) and out[key] != value:
                original = value if isinstance(value, str) else jsontext.dumps(value)
                self._originals[f"{owner}@{key}"] = _sha256_text(original)
        return out

    def _write_masks(self) -> None:
        assert self._file is not None
        masks = self._splits if self._masks is None else self._masks
        known = set(self.demos)
        for name, demos in masks.items():
            strange = [d for d in demos if d not in known]
            if strange:
                raise InputError("a mask names a demo that is not here", place=f"mask/{name}", got=strange[0])
        both = set(masks.get(names.MASK_TRAIN, ())) & set(masks.get(names.MASK_VALID, ()))
        if both:
            raise InputError(
                "train and valid masks share demos", place=self._path, got=natural_sorted(both)[:3]
            )
        for name in natural_sorted(masks):
            self._file.create_dataset(f"{names.GROUP_MASK}/{name}", data=_fixed(set(masks[name])))

    def _write_data_attributes(self) -> None:
        kept = {k: v for k, v in self._attributes.items() if k not in _OWN_DATA_ATTRIBUTES}
        values = self._without_paths(names.GROUP_DATA, kept)
        env_args = jsontext.dumps(self._env_args)
        values[names.ATTR_ENV_ARGS] = jsontext.dumps(without_absolute_paths_in(self._env_args))
        if values[names.ATTR_ENV_ARGS] != env_args:
            owner = f"{names.GROUP_DATA}@{names.ATTR_ENV_ARGS}"
            self._originals[owner] = _sha256_text(env_args)
        recipe = without_absolute_paths_in(self._recipe)
        if self._originals:
            recipe[ORIGINAL_SHA256] = self._originals
        values[names.ATTR_TRAJPIPE] = jsontext.dumps(recipe)
        values[names.ATTR_IMAGE_CONVENTION] = "opencv"
        values[names.ATTR_TOTAL] = self.total
        write_attributes(self._data, values)


def _sha256_text(text: str) -> str:
    return sha256_bytes(text.encode("utf-8", "surrogateescape"))


def _fixed(demos: set[str]) -> NDArray[np.bytes_]:
    """Demo names in natural order as fixed-length bytes, what robomimic decodes."""
    encoded = [d.encode("ascii") for d in natural_sorted(demos)]
    return np.array(encoded, dtype=f"S{max(map(len, encoded), default=8)}")
