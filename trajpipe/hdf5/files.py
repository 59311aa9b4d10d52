"""Opening HDF5 files that others made: clear errors for what is not HDF5, and no way out of the file.

External and soft links, external storage, virtual datasets and link cycles are refused before any reading.
What is not here: any layout (L2, store, raw formats).
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import h5py
import hdf5plugin  # noqa: F401  (registers its filters without any environment variable)

from trajpipe.core.errors import InputError, LockedError, TrajpipeError, UnreadableError, UntrustedError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.core.signatures import looks_like_hdf5

LOCK_RETRIES: Final = 5
LOCK_PAUSE_S: Final = 0.2
_MAX_DATASETS: Final = 5_000_000
_REMEMBERED: Final = 256
_METADATA_BYTES: Final = 4 << 20
_CIRCLE: Final = "a group that links back to one that holds it"
_SOFT: Final = "a soft link"
# What leads astray → code, reason, what to do; anything else reads other files.
_REFUSALS: Final = {
    _CIRCLE: ("link-cycle", "", None),
    _SOFT: (
        "soft-link",
        ": it may lead in a circle or to nothing",
        "Copy what its links name: in h5py, `old.copy(name, new, expand_soft=True)` of each name in it.",
    ),
}
_READS_OTHERS: Final = ("external-reference", ": a recording may not read other files", None)


@contextmanager
def open_hdf5(path: Path, *, chunk_cache_bytes: int = 1 << 20) -> Iterator[h5py.File]:
    """Open an HDF5 file read-only, after checking that nothing in it leads out of it.

    Args:
        path: The file.
        chunk_cache_bytes: HDF5's chunk cache per dataset.

    Raises:
        UnreadableError: not there, not HDF5, truncated; the message says which, with both sizes where known.
        LockedError: another process is writing it (retried for a second first).
        UntrustedError: an external or soft link, external storage, a virtual dataset or a link cycle.
    """
    handle = _open(path, chunk_cache_bytes)
    try:
        _refuse_ways_out_once(handle, path)
        yield handle
    finally:
        handle.close()


_harmless: OrderedDict[tuple[int, ...], None] = OrderedDict()


def _refuse_ways_out_once(handle: h5py.File, path: Path) -> None:
    """Walk a file once per process: it is opened several times on its way and the walk opens all of it."""
    status = path.stat()
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key in _harmless:
        return
    refuse_ways_out(handle, path)
    _harmless[key] = None
    while len(_harmless) > _REMEMBERED:
        _harmless.popitem(last=False)


def _open(path: Path, chunk_cache_bytes: int) -> h5py.File:
    for attempt in range(LOCK_RETRIES):
        try:
            return with_bounded_metadata(h5py.File(path, "r", rdcc_nbytes=chunk_cache_bytes))
        except BlockingIOError as error:
            if attempt + 1 == LOCK_RETRIES:
                raise LockedError(
                    "the file is being written by another process",
                    place=path,
                    hint="Try again when the recorder has closed it.",
                ) from error
            time.sleep(LOCK_PAUSE_S)
        except OSError as error:
            raise why_unreadable(path, error) from error
    raise AssertionError("unreachable")


def with_bounded_metadata(handle: h5py.File) -> h5py.File:
    """The file, of whose structure HDF5 keeps 4 MiB instead of 32.

    What is kept weighs ten times as much in memory: 400 MB for the walk of 4,000 demos, which need no more
    time with less.
    """
    config = handle.id.get_mdc_config()
    config.max_size = _METADATA_BYTES
    handle.id.set_mdc_config(config)
    return handle


def why_unreadable(path: Path, error: OSError) -> UnreadableError:
    """The error that says what a file that HDF5 cannot open is."""
    if not path.exists():
        return UnreadableError("no such file", place=path, code="missing-file")
    if path.is_dir():
        return UnreadableError("a folder is not an HDF5 file", place=path)
    size = path.stat().st_size
    with path.open("rb") as handle:
        head = handle.read(256)
    if size == 0:
        return UnreadableError("the file is empty", place=path, got="0 bytes", code="empty-file")
    if head.startswith(b"version https://git-lfs"):
        return UnreadableError(
            "the file is a git-lfs pointer, not the data",
            place=path,
            hint="Run `git lfs pull` in its repository.",
            code="git-lfs-pointer",
        )
    if head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return UnreadableError(
            "the file is an HTML page, not the data", place=path, hint="Download it again.", code="html-page"
        )
    text = str(error)
    if "truncated" in text:
        stored = text.partition("stored_eof = ")[2].rstrip(")") or "unknown"
        return UnreadableError(
            "the file is truncated",
            place=path,
            got=f"{size} bytes",
            expected=f"{stored} bytes",
            hint="Copy or record it again.",
            code="truncated",
        )
    if not looks_like_hdf5(path):
        return UnreadableError("the file is not HDF5", place=path, got=f"first bytes {head[:8]!r}")
    return UnreadableError("HDF5 cannot open the file", place=path, got=text)


def refuse_ways_out(handle: h5py.File, path: Path) -> None:
    """Walk all links of an open file and refuse what reads other files.

    Raises:
        UntrustedError: an external or soft link, external storage, a virtual dataset or a link cycle;
            names it.
        UnreadableError: the file's own structure cannot be walked.
    """
    with damage_named(path):
        for place, what in _ways_out(handle):
            code, why, hint = _REFUSALS.get(what, _READS_OTHERS)
            raise UntrustedError(
                f"{what} is refused{why}", place=Place(file=path.name, column=place), hint=hint, code=code
            )


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Within it, what h5py raises on a damaged structure becomes an `UnreadableError` that names the file.

    h5py has no error of its own: damage comes as RuntimeError, KeyError, ValueError or TypeError.

    Raises:
        UnreadableError: h5py met damage (`broken-structure`).
    """
    try:
        yield
    except TrajpipeError:
        raise
    except (RuntimeError, KeyError, ValueError, TypeError, OSError) as error:
        raise UnreadableError(
            "the file's structure cannot be read",
            place=path,
            got=error,
            hint="Copy or record it again.",
            code="broken-structure",
        ) from error


def _ways_out(handle: h5py.File) -> Iterator[tuple[str, str]]:
    """Links that are not hard ones, and datasets whose bytes lie elsewhere; every object is met once."""
    links, datasets = list[tuple[bytes, int]](), list[bytes]()
    addresses = {b"": h5py.h5o.get_info(handle.id).addr}

    def see_link(name: bytes, info: h5py.h5l.LinkInfo) -> None:
        if info.type == h5py.h5l.TYPE_HARD:
            addresses[name] = info.u
        else:
            links.append((name, info.type))

    def see_object(name: bytes, info: h5py.h5o.ObjInfo) -> None:
        if info.type == h5py.h5o.TYPE_DATASET:
            datasets.append(name)
            if len(datasets) > _MAX_DATASETS:
                raise InputError("too many datasets in one file", expected=f"≤ {_MAX_DATASETS}")

    handle.id.links.visit(see_link, info=True)
    for name in _circles(addresses):
        yield name.decode("utf-8", "surrogateescape"), _CIRCLE
    for name, kind in links:
        path = name.decode("utf-8", "surrogateescape")
        if kind == h5py.h5l.TYPE_EXTERNAL:
            target = handle.get(path, getlink=True).filename
            yield path, f"an external link to {Path(target).name!r}"
        else:
            yield path, _SOFT if kind == h5py.h5l.TYPE_SOFT else "a link of an unknown kind"
    h5py.h5o.visit(handle.id, see_object, info=True)
    for name in datasets:
        plist = h5py.h5d.open(handle.id, name).get_create_plist()
        path = name.decode("utf-8", "surrogateescape")
        if plist.get_external_count():
            yield path, "external storage"
        elif plist.get_layout() == h5py.h5d.VIRTUAL:
            yield path, "a virtual dataset"


def _circles(addresses: dict[bytes, int]) -> Iterator[bytes]:
    """Paths of links that lead to a group which the path itself runs through."""
    counts = Counter(addresses.values())
    for path, address in addresses.items():
        if path and counts[address] > 1:
            parts = path.split(b"/")
            if any(addresses.get(b"/".join(parts[:n])) == address for n in range(len(parts))):
                yield path


def items_below(group: h5py.Group) -> dict[str, h5py.Group | h5py.Dataset]:
    """All groups and datasets below a group by their relative path, in natural order of the paths."""
    found: dict[str, h5py.Group | h5py.Dataset] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Group | h5py.Dataset):
            found[name] = item

    group.visititems(visit)
    return {name: found[name] for name in natural_sorted(found)}


def datasets_below(group: h5py.Group) -> dict[str, h5py.Dataset]:
    """All datasets below a group by their relative path, in natural order of the paths."""
    return {name: item for name, item in items_below(group).items() if isinstance(item, h5py.Dataset)}


def subgroups(group: h5py.Group) -> dict[str, h5py.Group]:
    """Direct sub-groups by name, in natural order."""
    return {n: group[n] for n in natural_sorted(group) if isinstance(group[n], h5py.Group)}
