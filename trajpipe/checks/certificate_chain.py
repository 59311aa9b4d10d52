"""What a certificate is about: the recordings, L2 files, stores and export of one dataset, side by side.

A chain is handed to the rules as context: how a recording is read lies in `trajpipe.sources`, which checks do
not import. What is not here: the rules, see `trajpipe.checks.certificate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import Episode
from trajpipe.core.ledger import Rejection

CONTEXT = "certificate"


@dataclass(frozen=True, slots=True)
class RawSide:
    """One recording and the L2 file that was made of it.

    Attributes:
        name: Base name of the recording.
        l2: Its L2 file.
        episodes: The recording read again by its source, under the transforms that L2 declares.
        sha256: Hash of the recording as it is now.
        recorded_name: Its name when L2 was made; "" = the same.
        recorded_sha256: Hash that the L2 file's recipe names; "" when it names none.
        transforms: The declared transforms, for people (`rename a to b`, `causal shift`).
        rejected: Episode name → reason, from the ledger beside the L2 file.
        problem: Why it cannot be read again; None when it can.
    """

    name: str
    l2: Path
    episodes: Callable[[], Iterator[Episode | Rejection]]
    sha256: str = ""
    recorded_name: str = ""
    recorded_sha256: str = ""
    transforms: tuple[str, ...] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class StoreSide:
    """One store and the L2 files that it was made of.

    Attributes:
        path: The store.
        l2: Its L2 files in the store's order.
        context: What its rules compare with.
        images: Image column → L2 paths of its cameras, where frames are L2's own, unresized.
        resampled: Rows are made from L2's and are not L2's: only episodes are counted.
        capped: Episodes that the cap per task leaves out.
    """

    path: Path
    l2: tuple[Path, ...]
    context: Mapping[str, Any]
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resampled: bool = False
    capped: int = 0


@dataclass(slots=True)
class Count:
    """Episodes, rows, tasks and tags of one stage.

    Attributes:
        episodes: How many.
        rows: How many time steps.
        tasks: Text → episodes.
        tags: Source tag → episodes.
    """

    episodes: int = 0
    rows: int = 0
    tasks: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)

    def add(self, rows: int, task: str | None, tag: str | None) -> None:
        """Count an episode."""
        self.episodes += 1
        self.rows += rows
        if task is not None:
            self.tasks[task] += 1
        if tag is not None:
            self.tags[tag] += 1

    def to_json(self) -> dict[str, Any]:
        """Plain form, sorted."""
        return {
            "episodes": self.episodes,
            "rows": self.rows,
            "tasks": dict(sorted(self.tasks.items())),
            "tags": dict(sorted(self.tags.items())),
        }


@dataclass(frozen=True, slots=True)
class FramePair:
    """The exported frame that is least like its source.

    Attributes:
        db: PSNR in dB; infinite when equal.
        episode: `episode <index>` of the export.
        camera: Feature name.
        row: Row of the episode.
        source: (H, W, 3) of L2.
        export: (H, W, 3) as decoded from the export.
    """

    db: float
    episode: str
    camera: str
    row: int
    source: NDArray[np.uint8]
    export: NDArray[np.uint8]


@dataclass(slots=True)
class Chain:
    """All stages of one dataset, and what the rules noted about them.

    Attributes:
        dataset: Its name.
        raw: Recordings.
        l2: L2 files of the export, in its order.
        stores: Stores.
        export: Context of the export's rules (`state`, `action`, `extras`, `successful_only`).
        task: Text that the export gives to episodes without one.
        bound_db: Least PSNR of a sampled frame.
        counts: Stage → counts, noted by the rule that counts.
        frames: Sampled frames, noted by the rule that samples.
        worst: The worst of them.
    """

    dataset: str
    raw: tuple[RawSide, ...]
    l2: tuple[Path, ...]
    stores: tuple[StoreSide, ...]
    export: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""
    bound_db: float = 30.0
    counts: dict[str, Count] = field(default_factory=dict)
    frames: int = 0
    worst: FramePair | None = None
