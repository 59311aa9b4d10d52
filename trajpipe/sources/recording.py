"""An open HDF5 recording of the `/data/demo_<i>` family: its demos, counts and masks, as recorded.

What is not here: columns of a demo, see `trajpipe.sources.demo_columns`; anything that changes a value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

from trajpipe.core import names
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5 import attributes
from trajpipe.hdf5.columns import require_written
from trajpipe.hdf5.files import damage_named, open_hdf5

OLD_LAYOUT: Final = "episodes"
_DEMO: Final = re.compile(rf"{names.DEMO_PREFIX}[0-9]+")
_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Recording:
    """An open recording that holds at least one demo.

    Attributes:
        path: The file.
        handle: The open file.
        data: Its `/data` group.
        demos: Names of its demos in natural order.
    """

    path: Path
    handle: h5py.File
    data: h5py.Group
    demos: tuple[str, ...]

    @property
    def is_l2(self) -> bool:
        """True when trajpipe wrote it: nothing in it is converted again."""
        return names.ATTR_TRAJPIPE in self.data.attrs

    def place(self, demo: str | None = None, column: str | None = None, row: int | None = None) -> Place:
        """A place in this file."""
        return Place(self.path.name, demo, column, row)

    def demo(self, name: str) -> h5py.Group:
        """The group of a demo."""
        return self.data[name]

    def length(self, name: str) -> int | None:
        """Rows of a demo's `actions`; None when it has no such dataset."""
        actions = self.data[name].get(names.DATASET_ACTIONS)
        rows = isinstance(actions, h5py.Dataset) and actions.shape is not None and actions.ndim >= 1
        return int(actions.shape[0]) if rows else None

    def finding(
        self,
        code: str,
        message: str,
        *,
        severity: Severity = Severity.INFO,
        place: Place | None = None,
        got: object = None,
        expected: object = None,
    ) -> Finding:
        """A finding in this file; INFO unless said otherwise."""
        shown = None if got is None else str(got)
        wanted = None if expected is None else str(expected)
        return Finding(code, severity, message, place or self.place(), shown, wanted)


@contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Open a recording and find its demos.

    Raises:
        UnreadableError: it cannot be opened.
        LockedError: it is being written.
        UntrustedError: it reads other files.
        InputError: it has no demo (`no-demos`), or the old `episodes/` layout (`old-layout`).
    """
    with open_hdf5(path) as handle:
        with damage_named(path):
            data, demos = _data_and_demos(handle, path)
        yield Recording(path, handle, data, demos)


def _data_and_demos(handle: h5py.File, path: Path) -> tuple[h5py.Group, tuple[str, ...]]:
    data = handle.get(names.GROUP_DATA)
    if not isinstance(data, h5py.Group):
        raise _no_data(handle, path)
    demos = demo_names(data)
    if not demos:
        others = natural_sorted(data)[:_SHOWN]
        raise InputError(
            "no demos: the recording ended without one",
            place=Place(path.name),
            got=f"/data with {', '.join(others)}" if others else "an empty /data group",
            expected="/data/demo_<i> with actions",
            hint="Record again, or delete the file; nothing is written for it.",
            code="no-demos",
        )
    return data, demos


def _no_data(handle: h5py.File, path: Path) -> InputError:
    if OLD_LAYOUT in handle:
        return InputError(
            "the old episodes/ layout is not read",
            place=Place(path.name),
            got="episodes/",
            expected="/data/demo_<i>",
            hint="Convert it with the tool that wrote it, or record again.",
            code="old-layout",
        )
    return InputError(
        "a recording has a /data group",
        place=Place(path.name),
        got=", ".join(natural_sorted(handle)[:_SHOWN]) or "an empty file",
        code="no-data-group",
    )


def demo_names(data: h5py.Group) -> tuple[str, ...]:
    """Names of the sub-groups `demo_<digits>` in natural order."""
    found = (n for n in data if _DEMO.fullmatch(n) and data.get(n, getclass=True) is h5py.Group)
    return tuple(natural_sorted(found))


def count_findings(recording: Recording, *, counted: bool) -> list[Finding]:
    """Repairs of `total` and `num_samples`, which are counted again from `actions`.

    Args:
        recording: The open recording.
        counted: The format writes these counts, so that a missing one is worth a word.
    """
    found, lengths = list[Finding](), {n: recording.length(n) or 0 for n in recording.demos}
    for name, length in lengths.items():
        recorded = integer_attribute(recording.demo(name), names.ATTR_NUM_SAMPLES)
        place = recording.place(name, f"@{names.ATTR_NUM_SAMPLES}")
        if recorded is None and counted:
            message = "num_samples is missing and was counted from actions"
            found.append(recording.finding("num-samples-missing", message, place=place, expected=length))
        elif recorded is not None and recorded != length:
            message = "num_samples is wrong and was counted from actions"
            found.append(
                recording.finding("num-samples-wrong", message, place=place, got=recorded, expected=length)
            )
    total, truth = integer_attribute(recording.data, names.ATTR_TOTAL), sum(lengths.values())
    place = recording.place(None, f"data@{names.ATTR_TOTAL}")
    if total is None and counted:
        message = "total is missing and was counted from actions"
        found.append(recording.finding("total-missing", message, place=place, expected=truth))
    elif total is not None and total != truth:
        message = "total is wrong and was counted from actions"
        found.append(recording.finding("total-wrong", message, place=place, got=total, expected=truth))
    return found


def numbering_gaps(recording: Recording, first: int) -> Finding | None:
    """The finding for demo numbers that are not first, first+1, …; None when they are."""
    numbers = [int(n.removeprefix(names.DEMO_PREFIX)) for n in recording.demos]
    if numbers == list(range(first, first + len(numbers))):
        return None
    shown = ", ".join(str(n) for n in numbers[:_SHOWN]) + (", …" if len(numbers) > _SHOWN else "")
    message = "demo numbers have gaps; outputs are numbered densely and keep the recorded name"
    expected = f"{first}..{first + len(numbers) - 1}"
    return recording.finding("numbering-gaps", message, got=shown, expected=expected)


def foreign_groups(recording: Recording) -> list[Finding]:
    """A warning for what lies in /data and is no demo."""
    others = [n for n in natural_sorted(recording.data) if n not in set(recording.demos)]
    if not others:
        return []
    message = "/data holds what is not a demo_<i> group; it is not read"
    return [recording.finding("not-a-demo", message, severity=Severity.WARN, got=", ".join(others[:_SHOWN]))]


def stray_demos(recording: Recording) -> list[tuple[str, str]]:
    """Groups of /data that look like demos and are not named `demo_<i>`: name, and what makes it look so."""
    found = list[tuple[str, str]]()
    for name in natural_sorted(set(recording.data) - set(recording.demos)):
        group = recording.data.get(name)
        if not isinstance(group, h5py.Group):
            continue
        if names.DATASET_ACTIONS in group:
            found.append((name, names.DATASET_ACTIONS))
        elif names.ATTR_NUM_SAMPLES in group.attrs:
            found.append((name, f"@{names.ATTR_NUM_SAMPLES}"))
    return found


def has_odd_shape(recording: Recording, demo: str, path: str) -> bool:
    """True when more than half of the demos have one other shape of a row at a path than this demo has."""

    def row(name: str) -> tuple[int, ...] | None:
        found = recording.demo(name).get(path)
        return found.shape[1:] if isinstance(found, h5py.Dataset) and found.shape else None

    own = row(demo)
    usual, count = Counter(row(name) for name in recording.demos).most_common(1)[0]
    return usual is not None and usual != own and 2 * count > len(recording.demos)


def masks_of(recording: Recording) -> tuple[dict[str, tuple[str, ...]], list[Finding]]:
    """Masks as recorded: name → demos in natural order, and findings about unknown demos in them.

    Raises:
        InputError: `train` and `valid` share a demo (`mask-overlap`).
    """
    group, found = recording.handle.get(names.GROUP_MASK), list[Finding]()
    masks = dict[str, tuple[str, ...]]()
    if not isinstance(group, h5py.Group):
        return masks, found
    for name in natural_sorted(group):
        if not isinstance(group[name], h5py.Dataset):
            continue
        require_written(group[name])
        members = {str(attributes.plain(v)) for v in np.ravel(group[name][()]).tolist()}
        unknown = natural_sorted(members - set(recording.demos))
        if unknown:
            message = "a mask names demos that are not in the file; they are left out of it"
            place, got = recording.place(None, f"mask/{name}"), ", ".join(unknown[:_SHOWN])
            found.append(
                recording.finding("mask-unknown-demo", message, severity=Severity.WARN, place=place, got=got)
            )
        masks[name] = tuple(natural_sorted(members & set(recording.demos)))
    _refuse_overlap(recording, masks)
    return masks, found


def _refuse_overlap(recording: Recording, masks: dict[str, tuple[str, ...]]) -> None:
    both = set(masks.get(names.MASK_TRAIN, ())) & set(masks.get(names.MASK_VALID, ()))
    if both:
        raise InputError(
            "mask/train and mask/valid must be disjoint",
            place=recording.place(),
            got=f"{', '.join(natural_sorted(both)[:_SHOWN])} in both",
            hint="Correct the masks of the recording, or delete them: trajpipe splits by its own seed.",
            code="mask-overlap",
        )


def integer_attribute(item: h5py.Group | h5py.File, name: str) -> int | None:
    """An integer attribute, also one stored as an array of one; None when absent or not a whole number."""
    if name not in item.attrs:
        return None
    value: Any = attributes.plain(item.attrs[name])
    if isinstance(value, np.ndarray):
        value = value.ravel()[0].item() if value.size == 1 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
