"""The certificate of an export as the UI shows it: counts by stage, and the worst frame beside its source.

What is not here: making it, see `trajpipe.pipeline.certify`.
"""

import base64
from pathlib import Path
from typing import Any, Final

import dagster as dg

from trajpipe.core import provenance
from trajpipe.core.names import Stage
from trajpipe.pipeline.certify import SUFFIX_PICTURE, stored
from trajpipe.report.frame_pair import MAX_BYTES

_FIELDS: Final = ("episodes", "rows", "tasks", "tags")


def certificate_metadata(target: Path) -> dict[str, Any]:
    """Metadata of the certificate beside an export; empty when there is none.

    Args:
        target: The LeRobot folder.
    """
    value = stored(target)
    if value is None:
        return {}
    found: dict[str, Any] = {"certificate": "passed" if value["passed"] else "failed"}
    if value["counts"]:
        found["certificate counts"] = _counts(value["counts"])
    worst = value["frames"]["worst"]
    if worst is not None:
        found["worst frame"] = dg.MetadataValue.md(_worst(target, worst))
    return found


def _counts(counts: dict[str, dict[str, Any]]) -> dg.TableMetadataValue:
    rows = []
    for stage in (s.value for s in Stage if s in counts):
        count = counts[stage]
        record: dict[str, str | int | float | bool | None] = {"stage": stage}
        for name in _FIELDS:
            record[name] = len(count[name]) if isinstance(count[name], dict) else count[name]
        rows.append(dg.TableRecord(record))
    return dg.MetadataValue.table(rows)


def _worst(target: Path, worst: dict[str, Any]) -> str:
    """Markdown: where the worst frame is, its PSNR, source and export side by side as an inline PNG."""
    decibels = "identical" if worst["db"] is None else f"{worst['db']} dB"
    text = f"{worst['camera']}, {worst['episode']}, row {worst['row']}: {decibels} (source, export)"
    picture = provenance.beside(target, SUFFIX_PICTURE)
    if not picture.is_file() or picture.stat().st_size > MAX_BYTES:
        return text
    inline = base64.b64encode(picture.read_bytes()).decode("ascii")
    return f"{text}\n\n![source, export](data:image/png;base64,{inline})"
