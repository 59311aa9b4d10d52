"""Facts for a dataset's card: columns, sources, checks, and a picture of some episodes.

What is not here: the card's text and its markers, see `trajpipe.hub.card`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trajpipe.checks.registry import CheckReport
from trajpipe.core import jsontext
from trajpipe.core.episode import is_image
from trajpipe.core.findings import Severity
from trajpipe.demos.reader import DemosFile
from trajpipe.hub import CardTable
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.publish_recipe import sources_of
from trajpipe.store.inspect import describe

SHEET_EPISODES: Final = 12
_ACROSS: Final = 6
_SIDE: Final = 128
_INFO: Final = "meta/info.json"


def columns_table(store: Path) -> CardTable:
    """Columns of a store."""
    rows = [
        (c["name"], c["dtype"], _shape(c["shape"]), ", ".join(c["filters"]) or "none")
        for c in describe(store)["columns"]
    ]
    title = f"Columns of the store {store.name}"
    return CardTable(title, ("column", "dtype", "shape per step", "filters"), tuple(rows))


def features_table(lerobot: Path) -> CardTable | None:
    """Features of a LeRobot tree; None when it says nothing about them."""
    info = info_of(lerobot)
    features = info.get("features")
    if not isinstance(features, dict):
        return None
    rows = [
        (str(name), str(f.get("dtype", "")), _shape(f.get("shape", ())))
        for name, f in features.items()
        if isinstance(f, dict)
    ]
    return CardTable(
        f"Features of the LeRobot tree ({info.get('fps')} fps)", ("feature", "dtype", "shape"), tuple(rows)
    )


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def info_of(lerobot: Path) -> dict[str, Any]:
    """`meta/info.json` of a LeRobot tree; empty when there is none."""
    path = lerobot / _INFO
    if not path.is_file():
        return {}
    value = jsontext.loads(path.read_bytes(), place=path)
    return value if isinstance(value, dict) else {}


def sources_table(project: Project, name: str) -> CardTable:
    """Every recording: kind and tag, episodes read, written and rejected."""
    recordings = project.recordings(name)
    kinds = sources_of(recordings)
    rows = []
    for recording in recordings:
        ledger = project.stored_ledger(project.demos_path(recording))
        counts = (ledger.read, ledger.written, len(ledger.rejected)) if ledger is not None else (0, 0, 0)
        reasons = (
            ", ".join(f"{n} {r}" for r, n in sorted(ledger.reasons().items())) if ledger else "not built"
        )
        rows.append((recording.path.name, kinds[recording.key], *map(str, counts), reasons))
    headers = ("recording", "source", "read", "written", "rejected", "why")
    return CardTable("Sources and episodes", headers, tuple(rows))


def checks_table(reports: Sequence[CheckReport | None]) -> CardTable:
    """Every check that ran, by stage."""
    rows = []
    for report in reports:
        for result in report.results if report is not None else ():
            errors, warnings = (result.findings.count(s) for s in (Severity.ERROR, Severity.WARN))
            word = (
                "passed" if result.passed and not warnings else "failed" if errors else f"{warnings} warnings"
            )
            stage = report.stage if report is not None else ""
            rows.append((stage, result.code, result.title, word, str(result.counted or "")))
    return CardTable("Checks", ("stage", "check", "what", "result", "looked at"), tuple(rows))


def stage_reports(project: Project, name: str) -> list[CheckReport | None]:
    """The stored check reports of a dataset's store and export."""
    return [project.store_checks(name), project.stored_checks(project.lerobot_path(name))]


def contact_sheet(demos: Sequence[Path]) -> bytes | None:
    """A PNG with a frame from the middle of up to 12 episodes; None when no episode has a camera.

    Args:
        demos: L2 files.

    Returns:
        The file's bytes, the same for the same L2 files.
    """
    frames = [_thumbnail(f) for f in _middle_frames(demos)]
    if not frames:
        return None
    down = -(-len(frames) // _ACROSS)
    across = min(len(frames), _ACROSS)
    sheet = Image.new("RGB", (across * _SIDE, down * _SIDE), "white")
    for index, frame in enumerate(frames):
        left, top = index % _ACROSS * _SIDE, index // _ACROSS * _SIDE
        sheet.paste(frame, (left + (_SIDE - frame.width) // 2, top + (_SIDE - frame.height) // 2))
    out = io.BytesIO()
    sheet.save(out, "PNG", compress_level=6)
    return out.getvalue()


def _middle_frames(demos: Sequence[Path]) -> Iterator[NDArray[np.uint8]]:
    """Frames (H, W, 3) of the first camera, some of each file, at most 12 in all."""
    each = max(1, SHEET_EPISODES // max(1, len(demos)))
    left = SHEET_EPISODES
    for path in demos:
        with DemosFile(path) as file:
            for number, episode in enumerate(file.episodes()):
                cameras = sorted(p for p, c in episode.columns.items() if is_image(c) and c.shape[-1] == 3)
                if number >= each or not left or not cameras:
                    break
                column = episode.columns[cameras[0]]
                middle = int(column.shape[0]) // 2
                yield np.asarray(column.read(middle, middle + 1))[0]
                left -= 1


def _thumbnail(frame: NDArray[np.uint8]) -> Image.Image:
    image = Image.fromarray(frame, "RGB")
    scale = _SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BILINEAR)
