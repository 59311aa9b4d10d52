"""`trajpipe list`: the catalogue's datasets, their recordings, and the state of each stage.

What is not here: building, see `cli.verbs.run_stages`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trajpipe.cli.terminal import EXIT_FINE, Terminal, cell, table
from trajpipe.cli.verbs.options import CatalogueOption, RootOption, chosen_datasets, open_project
from trajpipe.core import jsontext, names, provenance
from trajpipe.core.names import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from trajpipe.pipeline.project import Project
    from trajpipe.pipeline.run import Planned

EXAMPLES: Final = {
    "list_datasets": "  trajpipe list                      one line per dataset\n"
    "  trajpipe list lift_cube            its recordings, one by one\n"
    "  trajpipe list --json | jq '.datasets[] | select(.lerobot.state != \"built\") | .name'"
}
_WORDS: Final = {"ready": "built"}
_STYLES: Final = {"built": "green", "stale": "yellow", "missing": "dim", "failed": "bold red"}


def list_datasets(
    ctx: typer.Context,
    datasets: Annotated[
        list[str] | None, typer.Argument(metavar="[DATASET…]", help="Names or patterns; all when none.")
    ] = None,
    *,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """List the catalogue's datasets with the state of each stage; of named ones, each recording too.

    built: there and current · stale: its inputs or options changed · missing: not built yet ·
    failed: the last attempt failed.
    """
    from trajpipe.pipeline.run import plan

    terminal: Terminal = ctx.obj
    project = open_project(catalogue, root)
    chosen = chosen_datasets(project, datasets)
    described = [_describe(project, name, plan(project, [name])) for name in chosen]
    terminal.document(
        {"catalogue": str(project.catalogue.path), "root": str(project.root), "datasets": described}
    )
    if not terminal.json:
        _print_datasets(described, terminal)
        for one in described if datasets else ():
            _print_recordings(one, terminal)
        broken = [
            d["name"]
            for d in described
            if any(r["state"] == "failed" for r in (*d["recordings"], d["store"], d["lerobot"]))
        ]
        if broken and not datasets:
            terminal.note(f"why they failed: trajpipe list {broken[0]}")
    return EXIT_FINE


def _describe(project: "Project", name: str, steps: "Sequence[Planned]") -> dict[str, Any]:
    dataset = project.dataset(name)
    found = {r.key: r for r in project.recordings(name)}
    recordings, outputs = [], {}
    for step in steps:
        one = {"path": str(step.path), "state": _WORDS.get(step.state, step.state), "why": step.why}
        if step.stage is Stage.DEMOS:
            raw = found[step.key]
            recordings.append({"key": step.key, "raw": str(raw.path), "kind": raw.entry.kind} | one)
        else:
            outputs[step.stage.value] = one | _failure(step.path, one["state"])
    return {"name": name, "description": dataset.description, "recordings": recordings} | outputs


def _failure(output: "Path", state: str) -> dict[str, str]:
    """State and reason of a store or an export whose last attempt failed; empty when it did not.

    A build that succeeds removes the note beside its output; a folder of stores has a note per store.
    """
    beside = provenance.beside(output, names.SUFFIX_FAILURE)
    noted = [p for p in (beside, *sorted(output.glob(f"*{names.SUFFIX_FAILURE}"))) if p.is_file()]
    if state == "built" or not noted:
        return {}
    return {"state": "failed", "why": str(jsontext.loads(noted[0].read_bytes(), place=noted[0]).get("error"))}


def _print_datasets(described: "Sequence[dict[str, Any]]", terminal: Terminal) -> None:
    rows = table("dataset", "kinds", "recordings", "demos", "store", "lerobot", right=("recordings",))
    for one in described:
        states = Counter(r["state"] for r in one["recordings"])
        kinds = ", ".join(sorted({r["kind"] for r in one["recordings"]}))
        demos = ", ".join(f"{n} {state}" for state, n in states.items()) or "no recording"
        worst = next((s for s in ("failed", "stale", "missing", "built") if states[s]), "missing")
        rows.add_row(
            cell(one["name"], "bold"),
            cell(kinds),
            str(len(one["recordings"])),
            cell(demos, _STYLES[worst]),
            *(cell(one[s]["state"], _STYLES.get(one[s]["state"], "")) for s in ("store", "lerobot")),
        )
    terminal.print(rows)


def _print_recordings(one: dict[str, Any], terminal: Terminal) -> None:
    from pathlib import Path

    from trajpipe.cli.results import shown_path

    rows = table("stage", "from", "output", "state", "why", title=f"\n{one['name']}")
    for recording in one["recordings"]:
        raw = shown_path(Path(recording["raw"]))
        rows.add_row("demos", cell(raw), *_state_cells(recording))
    for stage in (Stage.STORE.value, Stage.LEROBOT.value):
        rows.add_row(stage, "", *_state_cells(one[stage]))
    terminal.print(rows)


def _state_cells(output: dict[str, Any]) -> tuple[Any, Any, Any]:
    from pathlib import Path

    from trajpipe.cli.results import shown_path

    path, state = shown_path(Path(output["path"])), output["state"]
    return cell(path), cell(state, _STYLES.get(state, "")), cell(output["why"])
