"""What the tests of defects look with: a good file, the same with a defect, and a register of looks.

What is not here: the looks themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h5py

from trajpipe.testing import Injection


@dataclass(frozen=True)
class Case:
    """A good file, the same with a defect, and where the defect is said to be."""

    kind: str
    good: h5py.File
    bad: h5py.File
    where: Injection

    def demo(self) -> h5py.Group:
        return self.bad["data"][str(self.where.demo)]

    def was(self) -> h5py.Group:
        return self.good["data"][str(self.where.demo)]

    def at(self) -> Any:
        return self.demo()[str(self.where.path)]


Look = Callable[[Case], bool]
LOOKS: dict[str, Look] = {}


def look(name: str) -> Callable[[Look], Look]:
    """Register what is looked for in the file of a defect."""

    def register(function: Look) -> Look:
        LOOKS[name] = function
        return function

    return register


def frames_of(handle: h5py.File) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    handle["data"].visititems(
        lambda name, item: (
            found.append(item)
            if isinstance(item, h5py.Dataset) and item.ndim == 4 and "datagen" not in name
            else None
        )
    )
    return found


def differing(a: h5py.Group, b: h5py.Group) -> set[str]:
    """Dataset paths whose values, shapes or dtypes differ, or that only one side has."""
    paths: set[str] = set()
    for group in (a, b):
        group.visititems(lambda n, item: paths.add(n) if isinstance(item, h5py.Dataset) else None)
    return {
        p
        for p in paths
        if p not in a
        or p not in b
        or a[p].dtype != b[p].dtype
        or a[p].shape != b[p].shape
        or a[p][...].tobytes() != b[p][...].tobytes()
    }
