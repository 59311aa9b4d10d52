"""What a store is to be made of: the plan that a catalogue or a command line gives.

What is not here: building it, see `build_store.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from trajpipe.core import names, provenance
from trajpipe.core.episode import Column, is_image
from trajpipe.motion.rows import RATE

_OBS: Final = names.GROUP_OBS + "/"


@dataclass(frozen=True, slots=True)
class LiberoOptions:
    """What the store of a LIBERO suite needs to know.

    Attributes:
        suite: Suite name (`libero_goal`); goes into env_id and names the remap table.
        tasks: Full task list of the suite; None = the built-in list, else the recordings found.
        state: Keep the `state` column.
        model: MJCF of the target scene; None = another target.
        joints: Joint names in the target's order; None = another target.
        names: Joint name in the recording → name in the target.
        family: What the one remap table holds for; the suite when "".
    """

    suite: str
    tasks: tuple[str, ...] | None = None
    state: bool = True
    model: Path | None = None
    joints: tuple[str, ...] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    family: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values for the recipe; the target model by its hash."""
        return {
            "suite": self.suite,
            "tasks": None if self.tasks is None else list(self.tasks),
            "state": self.state,
            "model": None if self.model is None else provenance.sha256_file(self.model),
            "joints": None if self.joints is None else list(self.joints),
            "names": dict(sorted(self.names.items())),
            "family": self.family,
        }


@dataclass(frozen=True, slots=True)
class LafanOptions:
    """What a motion store needs to know.

    Attributes:
        model: MJCF of the robot; None = the built-in facts of `g1_29dof`.
    """

    model: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for the recipe; the model by its hash, and rows per second."""
        return {"model": None if self.model is None else provenance.sha256_file(self.model), "rate": RATE}


@dataclass(frozen=True, slots=True)
class LeRobotOptions:
    """What a store in the columns of a LeRobot set needs to know.

    Attributes:
        size: Height and width that cameras are resized to; None keeps their own.
    """

    size: tuple[int, int] | None = (240, 320)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the recipe."""
        return {"size": None if self.size is None else list(self.size)}


@dataclass(frozen=True, slots=True)
class StorePlan:
    """Everything that decides the bytes of one store.

    Attributes:
        dataset: Dataset name.
        inputs: L2 files in order.
        target: The store to make.
        env_id: Manifest's env_id; the first L2 file's env_name when "".
        seed: Manifest's seed.
        terms: Obs terms to store, names or patterns; None = all flat ones.
        cameras: Cameras to store, names or patterns; None = all.
        float32: Columns cast from float64 to float32, names or patterns (`*` = all).
        images: Keep cameras.
        compression: Of image columns: `zstd`, `deflate`, `shuffle-deflate` or `none`.
        column_compression: Column → its own compression.
        demos_per_task: Keep at most so many demos of each task; None = all.
        libero: What a LIBERO suite's store needs; None = another layout.
        lafan: What a motion store needs; None = another layout.
        lerobot: What the columns of a LeRobot set need; None = another layout.
        raw: Base name of a recording → its path, for checks against the source; may be empty.
        failed: Recording → why it is missing, for the ledger.
        absent: L2 files that the missing recordings would have; they are not reported as removed.
    """

    dataset: str
    inputs: tuple[Path, ...]
    target: Path
    env_id: str = ""
    seed: int = 0
    terms: tuple[str, ...] | None = None
    cameras: tuple[str, ...] | None = None
    float32: tuple[str, ...] = ()
    images: bool = True
    compression: str = "zstd"
    column_compression: Mapping[str, str] = field(default_factory=dict)
    demos_per_task: int | None = None
    libero: LiberoOptions | None = None
    lafan: LafanOptions | None = None
    lerobot: LeRobotOptions | None = None
    raw: Mapping[str, Path] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[Path, ...] = ()

    def wants(self, path: str, column: Column) -> bool:
        """True when a flat obs term or camera belongs into the store."""
        term = path.removeprefix(_OBS)
        if "/" in term or not path.startswith(_OBS):
            return False
        chosen = self.cameras if is_image(column) else self.terms
        if is_image(column) and not self.images:
            return False
        return chosen is None or any(fnmatchcase(term, pattern) for pattern in chosen)

    def recipe_options(self) -> dict[str, Any]:
        """The options of the recipe, plain JSON values."""
        return {
            "dataset": self.dataset,
            "env_id": self.env_id,
            "seed": self.seed,
            "terms": self.terms and sorted(self.terms),
            "cameras": self.cameras and sorted(self.cameras),
            "float32": sorted(self.float32),
            "images": self.images,
            "compression": self.compression,
            "column_compression": dict(sorted(self.column_compression.items())),
            "demos_per_task": self.demos_per_task,
            "libero": None if self.libero is None else self.libero.to_json(),
            "lafan": None if self.lafan is None else self.lafan.to_json(),
            "failed": sorted(self.failed),
        } | ({} if self.lerobot is None else {"lerobot": self.lerobot.to_json()})
