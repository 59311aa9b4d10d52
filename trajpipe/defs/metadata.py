"""Metadata of a stage's result as the UI shows it: path, counts, ledger and findings as tables, schema.

What is not here: reading schemas from files, see `trajpipe.defs.schema`.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import dagster as dg

from trajpipe.core import names, provenance
from trajpipe.core.conventions import ActionConvention
from trajpipe.core.findings import Findings
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.defs.certificate import certificate_metadata
from trajpipe.defs.partitions import asset_key
from trajpipe.defs.pictures import picture_metadata
from trajpipe.defs.schema import column_schema
from trajpipe.pipeline.lineage import Lineage
from trajpipe.pipeline.results import StageResult

MAX_ROWS: Final = 50
_TEXT: Final = 300


def stage_metadata(
    result: StageResult,
    *,
    action: ActionConvention | None = None,
    pictures: Mapping[str, Any] | None = None,
    lineage: Lineage | None = None,
) -> dict[str, Any]:
    """Metadata of a stage's output.

    `dagster/row_count` is the number of time steps; `rejected` lists at most 50 episodes, `ledger` as many
    recordings, and the counts beside them are of all.

    Args:
        result: Of a stage whose output is there.
        action: What the dataset declares of its actions, for the pictures.
        pictures: Known already; None has them drawn.
        lineage: Column → columns of L2.
    """
    ledger, facts = result.ledger, result.facts
    metadata: dict[str, Any] = {
        "path": dg.MetadataValue.path(result.path),
        **(picture_metadata(result, action) if pictures is None else pictures),
        "report": dg.MetadataValue.md(f"`trajpipe report {shlex.quote(str(result.path))}`"),
        "status": result.status.value,
        "summary": ledger.summary(),
        "bytes": result.bytes,
        "seconds": round(result.seconds, 3),
        "episodes read": ledger.read,
        "episodes written": ledger.written,
        "episodes rejected": len(ledger.rejected),
    }
    metadata |= {name: value for name, value in facts.items() if isinstance(value, (int, float, str))}
    if isinstance(facts.get("rows"), int):
        metadata["dagster/row_count"] = metadata.pop("rows")
    if result.stage is Stage.LEROBOT:
        metadata |= certificate_metadata(result.path)
    metadata["ledger"] = ledger_table(ledger)
    if ledger.rejected:
        metadata["rejected"] = rejected_table(ledger)
    if ledger.failed:
        metadata["failed recordings"] = failed_table(ledger)
    metadata |= _files(result.path)
    schema = column_schema(result.stage, result.path, lineage or {})
    if schema is not None:
        metadata["dagster/column_schema"] = schema
    if lineage:
        metadata["dagster/column_lineage"] = column_lineage(result.dataset, lineage)
    return metadata


def column_lineage(dataset: str, lineage: Lineage) -> dg.TableColumnLineage:
    """The UI's form of a lineage: all columns come from the dataset's L2."""
    demos = asset_key(dataset, Stage.DEMOS)
    return dg.TableColumnLineage(
        {column: [dg.TableColumnDep(demos, path) for path in paths] for column, paths in lineage.items()}
    )


def _files(output: Path) -> dict[str, Any]:
    """What lies beside an output."""
    files = {
        "recipe file": provenance.beside(output, names.SUFFIX_RECIPE),
        "ledger file": provenance.beside(output, names.SUFFIX_LEDGER),
        "checks file": provenance.beside(output, names.SUFFIX_CHECKS),
    }
    return {name: dg.MetadataValue.path(path) for name, path in files.items() if path.is_file()}


def failure_metadata(result: StageResult) -> dict[str, Any]:
    """Metadata of a stage that failed: what is known, and every finding of an error."""
    findings = Findings()
    for one in result.checks.results:
        findings.merge(one.findings)
    metadata: dict[str, Any] = {"path": dg.MetadataValue.path(result.path), "status": result.status.value}
    if len(findings):
        metadata["findings"] = findings_table(findings)
    if result.ledger.rejected:
        metadata["rejected"] = rejected_table(result.ledger)
    return metadata


def ledger_table(ledger: Ledger) -> dg.TableMetadataValue:
    """Read, written and rejected of each recording."""
    rows = [
        (e.recording, e.read, e.written, len(e.rejected), ", ".join(sorted({r.reason for r in e.rejected})))
        for e in ledger.entries
    ]
    return _table(("recording", "read", "written", "rejected", "reasons"), rows)


def rejected_table(ledger: Ledger) -> dg.TableMetadataValue:
    """Each rejected episode with its reason."""
    rows = [(r.recording, r.episode, r.reason, r.detail) for r in ledger.rejected]
    return _table(("recording", "episode", "reason", "detail"), rows)


def failed_table(ledger: Ledger) -> dg.TableMetadataValue:
    """Recordings that could not be used, and why."""
    return _table(("recording", "why"), sorted(ledger.failed.items()))


def findings_table(findings: Findings) -> dg.TableMetadataValue:
    """The kept findings, and how many more there were of each capped kind."""
    rows = [
        (f.severity.value, f.code, str(f.place), f.message, f.got or "", f.expected or "") for f in findings
    ]
    rows += [
        (s.value, code, column or "", f"and {more} more like these", "", "")
        for code, s, column, more in findings.repeats()
    ]
    return _table(("severity", "code", "place", "message", "got", "expected"), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> dg.TableMetadataValue:
    records = [
        dg.TableRecord({c: _short(v) for c, v in zip(columns, row, strict=True)}) for row in rows[:MAX_ROWS]
    ]
    kinds = {c: "int" if rows and isinstance(rows[0][i], int) else "string" for i, c in enumerate(columns)}
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in kinds.items()])
    return dg.MetadataValue.table(records, schema)


def _short(value: str | int) -> str | int:
    return value[: _TEXT - 1] + "…" if isinstance(value, str) and len(value) > _TEXT else value
