"""The register of defects: each is a named fault that one function puts into a good raw file.

What is not here: the faults themselves, one module per sort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.errors import InputError, MissingNameError
from trajpipe.core.order import natural_sorted

ALL_KINDS: Final = ("isaaclab", "robomimic", "robosuite", "libero")


@dataclass(frozen=True, slots=True)
class Injection:
    """Where a fault went.

    Attributes:
        name: The defect.
        demo: Name of the demo it is in; None = the whole file.
        path: Dataset or attribute (`@name`) below the demo, or below the file when `demo` is None.
        row: First faulty row.
        detail: What was put there.
    """

    name: str
    demo: str | None = None
    path: str | None = None
    row: int | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Defect:
    """One fault that can be injected.

    Attributes:
        name: Kebab-case name.
        title: One line: what is wrong with the file.
        kinds: Kinds of recording that it makes sense in.
        needs: `images`, `obs`, `masks` … that the good file must have.
    """

    name: str
    title: str
    kinds: tuple[str, ...]
    needs: tuple[str, ...]
    run: Callable[[Path, np.random.Generator], Injection]


_REGISTRY: dict[str, Defect] = {}


def _register(
    name: str,
    title: str,
    run: Callable[[Path, np.random.Generator], Injection],
    *,
    kinds: tuple[str, ...],
    needs: tuple[str, ...],
) -> None:
    if name in _REGISTRY:
        raise MissingNameError("two defects of one name", got=name)
    _REGISTRY[name] = Defect(name, title, kinds, needs, run)


FileFault = Callable[[Path, np.random.Generator], Injection]
ContentFault = Callable[["Opened"], Injection]


def file_defect(name: str, title: str) -> Callable[[FileFault], FileFault]:
    """Register a fault of the file's bytes: the function gets the path."""

    def register(function: FileFault) -> FileFault:
        _register(name, title, function, kinds=ALL_KINDS, needs=())
        return function

    return register


def defect(
    name: str,
    title: str,
    *,
    kinds: tuple[str, ...] = ALL_KINDS,
    needs: tuple[str, ...] = (),
) -> Callable[[ContentFault], ContentFault]:
    """Register a fault of the content: the function gets the file, open for change."""

    def register(function: ContentFault) -> ContentFault:
        def run(path: Path, rng: np.random.Generator) -> Injection:
            with h5py.File(path, "r+") as handle:
                return function(Opened(handle, rng, name))

        _register(name, title, run, kinds=kinds, needs=needs)
        return function

    return register


@dataclass(frozen=True, slots=True)
class Opened:
    """A good file that is open for change.

    Attributes:
        handle: The file.
        rng: What is random about the fault.
        name: The defect's name.
    """

    handle: h5py.File
    rng: np.random.Generator
    name: str

    @property
    def data(self) -> h5py.Group:
        """The group `/data`."""
        return self.handle[names.GROUP_DATA]

    def demos(self) -> list[h5py.Group]:
        """All demos in natural order."""
        return [self.data[name] for name in natural_sorted(self.data)]

    def a_demo(self) -> h5py.Group:
        """One demo, any."""
        demos = self.demos()
        return demos[int(self.rng.integers(len(demos)))]

    def a_row(self, dataset: h5py.Dataset) -> int:
        """One row of a dataset, not the first when it has more."""
        return int(self.rng.integers(min(1, dataset.shape[0] - 1), dataset.shape[0]))

    def float_terms(self, demo: h5py.Group) -> list[str]:
        """Paths of the float obs terms of a demo; of its states when it has no obs; sorted."""
        found: list[str] = []
        for root in (names.GROUP_OBS, "states"):
            item = demo.get(root)
            if isinstance(item, h5py.Dataset):
                found.append(root)
            elif item is not None:
                found += [f"{root}/{leaf}" for leaf in _leaves(item)]
            found = [path for path in found if demo[path].dtype.kind == "f" and demo[path].ndim == 2]
            if found:
                break
        return sorted(found)

    def image_terms(self, demo: h5py.Group) -> list[str]:
        """Paths of the images of a demo (uint8, rank 4), `next_obs` included; sorted."""
        found: list[str] = []
        for root in (names.GROUP_OBS, "next_obs"):
            if isinstance(demo.get(root), h5py.Group):
                found += [f"{root}/{leaf}" for leaf in _leaves(demo[root])]
        return sorted(path for path in found if demo[path].dtype == np.uint8 and demo[path].ndim == 4)

    def all_images(self) -> list[tuple[h5py.Group, str]]:
        """Every (demo, path) of images.

        Raises:
            InputError: the file has none.
        """
        found = [(demo, path) for demo in self.demos() for path in self.image_terms(demo)]
        if not found:
            raise InputError("the defect needs a recording with images", got=self.name)
        return found

    def hit(
        self,
        demo: h5py.Group | None = None,
        path: str | None = None,
        *,
        row: int | None = None,
        detail: str | None = None,
    ) -> Injection:
        """What was done, for the caller."""
        name = None if demo is None else str(demo.name).rsplit("/", 1)[-1]
        return Injection(self.name, name, path, row, detail)


def replace(group: h5py.Group, path: str, values: NDArray[Any], **settings: Any) -> None:
    """Put another array in a dataset's place; attributes of the dataset are lost."""
    del group[path]
    group.create_dataset(path, data=values, **settings)


def _leaves(group: h5py.Group) -> list[str]:
    found: list[str] = []
    group.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return sorted(found)


def defects() -> dict[str, Defect]:
    """All defects by name, sorted."""
    return dict(sorted(_REGISTRY.items()))


def one(name: str) -> Defect:
    """The defect of a name.

    Raises:
        MissingNameError: no such defect; lists the names.
    """
    if name not in _REGISTRY:
        raise MissingNameError("no such defect", got=name, expected=f"one of {', '.join(sorted(_REGISTRY))}")
    return _REGISTRY[name]
