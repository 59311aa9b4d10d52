"""A trajectory store → LeRobot, without its L2 files: what a store alone can still give.

What is not here: the usual way, L2 → LeRobot, see `export_lerobot.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from trajpipe.checks.registry import run_checks
from trajpipe.core import names, provenance
from trajpipe.core.errors import InputError, TrajpipeError
from trajpipe.core.ledger import Ledger, entry
from trajpipe.core.names import Stage
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import Recipe
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.export import ExportOptions
from trajpipe.export.options import EXPORT_CODE
from trajpipe.hdf5.files import open_hdf5
from trajpipe.pipeline.results import Job, Made, StageResult, failed_plainly, perform
from trajpipe.store import TrajectoryStore
from trajpipe.store.episodes import episodes_of
from trajpipe.store.rate import own_rate


def is_store(path: Path) -> bool:
    """True for a trajectory store: with our manifest (or noeira's), or with an episode index alone."""
    if not path.is_file() or not looks_like_hdf5(path):
        return False
    try:
        with open_hdf5(path) as file:
            return names.STORE_MANIFEST in file or {names.STORE_EP_LEN, names.STORE_EP_OFFSET} <= set(file)
    except TrajpipeError:
        return False


def rate_of_store(store: TrajectoryStore, declared: Fraction | None) -> Fraction:
    """The declared rate, else the store's own.

    Raises:
        InputError: neither is there.
    """
    rate = declared or own_rate(store)
    if rate is None:
        raise InputError(
            "the export needs a frame rate, and the store does not say one",
            place=store.path.name,
            hint="Pass --fps.",
            code="fps-unknown",
        )
    return rate


def export_store(
    source: Path,
    destination: Path,
    keywords: Mapping[str, Any],
    *,
    fps: Fraction | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> StageResult:
    """Export a store as a LeRobot folder. Failures are returned, not raised.

    Args:
        source: The store; it needs an `action` column.
        destination: The folder to make.
        keywords: Keyword arguments of `ExportOptions` but `fps`.
        fps: Frames per second; None = the store's own.
        force: Export although nothing changed.
        progress: Called with frames done.
    """
    try:
        with TrajectoryStore(source) as store:
            options = ExportOptions(fps=rate_of_store(store, fps), **keywords)
        hashes = {source.name: provenance.sha256_file(source)}
    except (TrajpipeError, OSError) as error:
        return failed_plainly(source.stem, Stage.LEROBOT, "", destination, error)

    def build(temporary: Path) -> Made:
        from trajpipe.export import export_lerobot  # PyArrow and PyAV, which no other stage needs

        with TrajectoryStore(source) as store:
            result = export_lerobot(episodes_of(store), temporary, options, progress=progress)
        ledger = Ledger([entry(source.name, Stage.LEROBOT, result.episodes, result.rejected)])
        facts = {"episodes": result.episodes, "rows": result.frames, "tasks": len(result.tasks)}
        return Made(ledger, facts)

    job = Job(
        source.stem,
        Stage.LEROBOT,
        "",
        destination,
        Recipe(Stage.LEROBOT, hashes, options.to_json(), EXPORT_CODE),
        build,
        lambda temporary: run_checks(Stage.LEROBOT, temporary, context={"gr00t": options.gr00t}),
    )
    return perform(job, force=force)
