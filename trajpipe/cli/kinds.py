"""What a path is, told by content: which stage's checks it gets, which reader inspects it.

What is not here: reading it, see `cli.inspection`; the raw kinds, see `trajpipe.sources`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trajpipe.core import names
from trajpipe.core.errors import TrajpipeError, UnreadableError
from trajpipe.core.signatures import looks_like_hdf5

HDF5_SUFFIXES: Final = (".hdf5", ".h5", ".hdf")
VIDEO_SUFFIXES: Final = (".mp4", ".mkv", ".avi", ".mov", ".webm")
TRANSITIONS_MAGIC: Final = b"MRLDEMO1"
LEROBOT_INFO: Final = "meta/info.json"
MAY_BE_RECORDINGS: Final = ("npz", "csv", "pickle")
_BY_SUFFIX: Final = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".pt": "pickle",
    ".pth": "pickle",
    ".joblib": "pickle",
    ".init": "pickle",
    ".pruned_init": "pickle",
    ".json": "json",
    ".jsonl": "text",
    ".yaml": "text",
    ".yml": "text",
    ".txt": "text",
    ".md": "text",
    ".xml": "text",
    ".bddl": "text",
}


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a path is.

    Attributes:
        kind: `l2`, `store`, `lerobot`, `recording`, `hdf5`, `parquet`, `video`, `npz`, `npy`, `csv`,
            `pickle`, `transitions`, `json`, `text`, `folder` or `unknown`.
        stage: The stage whose checks apply; None when none do.
    """

    kind: str
    stage: names.Stage | None = None


def recognise(path: Path) -> Recognised:
    """Tell what a file or folder is by its content, by its suffix where content cannot tell.

    Raises:
        UnreadableError: it is not there, or an HDF5 file by name that cannot be opened (says why).
        UntrustedError: an HDF5 file that reads other files.
    """
    if not path.exists():
        raise UnreadableError("no such file or folder", place=path, code="missing-file", hint=_near(path))
    if path.is_dir():
        return Recognised("lerobot", names.Stage.LEROBOT) if is_lerobot(path) else Recognised("folder")
    head = _head(path)
    if head.startswith(TRANSITIONS_MAGIC):
        return Recognised("transitions")
    if head.startswith(b"PAR1"):
        return Recognised("parquet")
    if head[4:8] == b"ftyp" or path.suffix.lower() in VIDEO_SUFFIXES:
        return Recognised("video")
    if path.suffix.lower() in HDF5_SUFFIXES or looks_like_hdf5(path):
        return _recognise_hdf5(path)
    kind = _BY_SUFFIX.get(path.suffix.lower(), "text" if _is_text(head) else "unknown")
    if kind in MAY_BE_RECORDINGS and raw_kind(path) is not None:
        return Recognised(kind, names.Stage.RAW)
    return Recognised(kind)


def is_lerobot(folder: Path) -> bool:
    """True when a folder has a LeRobot dataset's `meta/info.json`, readable or not."""
    return (folder / LEROBOT_INFO).is_file()


def classify_hdf5(handle: Any) -> Recognised:
    """What an open HDF5 file is: a store, L2, a raw recording, or none of them."""
    if names.STORE_MANIFEST in handle or {names.STORE_EP_LEN, names.STORE_EP_OFFSET} & set(handle):
        return Recognised("store", names.Stage.STORE)
    data = handle.get(names.GROUP_DATA)
    if data is None or not hasattr(data, "keys"):
        return Recognised("recording" if "episodes" in handle else "hdf5", names.Stage.RAW)
    if names.ATTR_TRAJPIPE in data.attrs:
        return Recognised("l2", names.Stage.DEMOS)
    return Recognised("recording", names.Stage.RAW)


def raw_kind(path: Path) -> tuple[str, str] | None:
    """(kind, title) of the one source that recognises a recording; None when none or several do."""
    from trajpipe.sources.base import sources

    matches = []
    for source in sources().values():
        try:
            recognised = source.detect(path)
        except (TrajpipeError, OSError, KeyError, ValueError, RuntimeError):
            recognised = False
        if recognised:
            matches.append((source.kind, source.title))
    return matches[0] if len(matches) == 1 else None


def _recognise_hdf5(path: Path) -> Recognised:
    from trajpipe.hdf5.files import open_hdf5

    with open_hdf5(path) as handle:
        return classify_hdf5(handle)


def _head(path: Path) -> bytes:
    with path.open("rb") as handle:
        return handle.read(512)


def _is_text(head: bytes) -> bool:
    return bool(head) and b"\0" not in head


def _near(path: Path) -> str | None:
    """A file beside it with almost this name."""
    from difflib import get_close_matches

    if not path.parent.is_dir():
        return f"The folder {path.parent} does not exist either."
    near = get_close_matches(path.name, [p.name for p in path.parent.iterdir()], n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else None
