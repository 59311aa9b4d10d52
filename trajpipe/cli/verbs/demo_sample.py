"""`trajpipe demo`: the bundled sample through all stages.

What is not here: the sample's recordings, see `trajpipe.testing`; running, see `cli.verbs.run_stages`.
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trajpipe.cli.formatting import size
from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal, cell, table
from trajpipe.cli.verbs.run_stages import run_datasets
from trajpipe.core import atomic
from trajpipe.core.errors import UsageError
from trajpipe.core.findings import Severity
from trajpipe.core.names import CATALOGUE, Stage
from trajpipe.core.provenance import size_of

if TYPE_CHECKING:
    from trajpipe.pipeline.project import Project
    from trajpipe.pipeline.results import StageResult
    from trajpipe.pipeline.run import RunResult

EXAMPLES: Final = {
    "demo": "  trajpipe demo                      in ./data\n"
    "  trajpipe demo --root /tmp/try      somewhere else\n"
    "  trajpipe demo --force              all over again"
}


def demo(
    ctx: typer.Context,
    *,
    root: Annotated[
        Path | None, typer.Option("--root", help="The data folder; $TRAJPIPE_DATA or ./data by default.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Recordings at a time.")] = 1,
) -> int:
    """Build the bundled sample: write its raw recordings when absent, run all stages, check everything.

    One small recording set of every kind, with the quirks that real ones have, by a seeded generator:
    the same bytes everywhere. A second run finds everything unchanged.
    """
    from trajpipe.pipeline.project import ENVIRONMENT_ROOT

    terminal: Terminal = ctx.obj
    folder = root or Path(os.environ.get(ENVIRONMENT_ROOT, "data"))
    project = _project(folder)
    names = _sample_of(project)
    raw_seconds = _write_recordings(folder, terminal)
    result = run_datasets(project, names, terminal, jobs=jobs)
    _show(project, names, result, raw_seconds, terminal)
    return EXIT_FINE if result.ok else EXIT_FINDINGS


def bundled_catalogue() -> str:
    """The text of the sample's catalogue, the same as the repository's `data/datasets.yaml`."""
    return (resources.files("trajpipe.testing") / CATALOGUE).read_text("utf-8")


def _project(folder: Path) -> "Project":
    from trajpipe.pipeline.project import Project

    catalogue = folder / CATALOGUE
    if not catalogue.exists():
        atomic.write_text(catalogue, bundled_catalogue())
    return Project.open(catalogue, folder)


def _sample_of(project: "Project") -> list[str]:
    """The sample's datasets in this catalogue.

    Raises:
        UsageError: it has none of them: it is somebody's own, and the sample is not forced on it.
    """
    from trajpipe.testing.sample import sample_datasets

    names = [n for n in sample_datasets() if n in project.catalogue.datasets]
    if not names:
        raise UsageError(
            "this catalogue has none of the sample's datasets",
            place=project.catalogue.path,
            got=", ".join(project.catalogue.datasets) or "no dataset",
            expected=", ".join(sample_datasets()),
            hint="Build the sample elsewhere (--root DIR), or these datasets with `trajpipe run`.",
        )
    return names


def _write_recordings(folder: Path, terminal: Terminal) -> float:
    """Write the raw recordings that are absent; seconds it took."""
    from trajpipe.testing import write_sample

    began = time.perf_counter()
    terminal.note(f"raw recordings of the sample: {folder / 'raw'}")
    write_sample(folder)
    return time.perf_counter() - began


def _show(
    project: "Project", names: Sequence[str], result: "RunResult", raw_seconds: float, terminal: Terminal
) -> None:
    rows = [row for name in names for row in _rows_of(project, name, result.results)]
    document: dict[str, Any] = {"root": str(project.root), "stages": rows}
    document |= result.to_json() | {"raw_seconds": round(raw_seconds, 3), "next": _next(project)}
    terminal.document(document)
    if terminal.json:
        return
    from trajpipe.cli.results import closing_line, render_failures, render_rejections, shown_path

    terminal.print(_table(rows), *render_rejections(result.results), *render_failures(result.results), "")
    noticed = _noticed(result.results)
    if noticed:
        counted = ", ".join(f"{number} {code}" for code, number in noticed.most_common())
        terminal.print(cell(f"repaired or noticed: {counted}"), "")
    if all(r.status.value == "unchanged" for r in result.results):
        terminal.print("unchanged: nothing was built (--force builds again)")
    terminal.print(closing_line(result.results, result.seconds), shown_path(project.root))
    if not terminal.quiet:
        terminal.print("next:", *(f"  {command}" for command in document["next"]))


def _rows_of(project: "Project", name: str, results: "Sequence[StageResult]") -> list[dict[str, Any]]:
    """A row per stage of a dataset: raw, demos (all its recordings together), store, lerobot."""
    paths = [r.path for r in project.recordings(name)]
    raw = {"dataset": name, "stage": Stage.RAW.value, "outputs": len(paths)}
    rows = [raw | {"bytes": sum(size_of(p) for p in paths), "status": "there"}]
    for stage in (Stage.DEMOS, Stage.STORE, Stage.LEROBOT):
        own = [r for r in results if r.dataset == name and r.stage is stage]
        if own:
            rows.append({"dataset": name, "stage": stage.value} | _sums(own))
    return rows


def _sums(results: "Sequence[StageResult]") -> dict[str, Any]:
    checks = [c for r in results for c in r.checks.results]
    statuses = Counter(r.status.value for r in results)
    return {
        "outputs": len(results),
        "status": next((s for s in ("failed", "blocked", "built") if statuses[s]), "unchanged"),
        "read": sum(r.ledger.read for r in results),
        "episodes": sum(r.ledger.written for r in results),
        "rows": sum(int(r.facts.get("rows", r.facts.get("frames", 0))) for r in results),
        "bytes": sum(r.bytes for r in results),
        "seconds": round(sum(r.seconds for r in results), 3),
        "checks": len(checks),
        "checks_failed": sum(not c.passed for c in checks),
        "checks_warned": sum(c.findings.worst() is Severity.WARN for c in checks),
    }


def _table(rows: Sequence[dict[str, Any]]) -> Any:
    from trajpipe.cli.results import checks_text

    headers = ("dataset", "stage", "files", "status", "episodes", "rows", "size", "seconds", "checks")
    made = table(*headers, right=("files", "episodes", "rows", "size", "seconds"))
    last = None
    for row in rows:
        name, last = ("" if row["dataset"] == last else row["dataset"]), row["dataset"]
        failed, checks = row.get("checks_failed", 0), row.get("checks")
        read, written = row.get("read"), row.get("episodes")
        style = "bold red" if row["status"] in ("failed", "blocked") else "green"
        made.add_row(
            cell(name, "bold"),
            row["stage"],
            str(row["outputs"]),
            cell(row["status"], style),
            "" if written is None else f"{written}" + (f" of {read}" if read != written else ""),
            f"{row['rows']:,}" if row.get("rows") else "",
            size(row["bytes"]),
            "" if checks is None else f"{row['seconds']:.1f}",
            "" if checks is None else checks_text(checks, failed, row["checks_warned"]),
        )
    return made


def _noticed(results: "Sequence[StageResult]") -> "Counter[str]":
    """Finding code → how many, over everything that is no failure."""
    found: Counter[str] = Counter()
    for result in results:
        for check in result.checks.results:
            if check.passed:
                for (code, _, _), number in check.findings.counts.items():
                    found[code] += number
    return found


def _next(project: "Project") -> list[str]:
    from trajpipe.cli.results import shown_path

    at = "" if project.root == Path("data").absolute() else f" --root {shown_path(project.root)}"
    name = next(iter(project.catalogue.datasets))
    commands = [
        f"trajpipe list{at}",
        f"trajpipe inspect {shown_path(project.lerobot_path(name))}",
        f"trajpipe check {shown_path(project.store_path(name))}",
    ]
    return [*commands, "dagster dev -w workspace.yaml"] if Path("workspace.yaml").is_file() else commands
