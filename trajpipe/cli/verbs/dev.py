"""`trajpipe dev`: `dagster dev` over this project, ready to look at.

What is not here: the instance's files, see `trajpipe.pipeline.init_dagster_home`; Dagster's processes, see
`trajpipe.cli.dagster_session`.
"""

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.dagster_session import serve
from trajpipe.cli.dev_lock import only_one
from trajpipe.cli.terminal import Terminal
from trajpipe.cli.verbs.options import CatalogueOption, RootOption, open_project
from trajpipe.core.errors import StateError, UsageError
from trajpipe.core.names import CATALOGUE, Stage

if TYPE_CHECKING:
    from trajpipe.defs.dead_runs import DeadRun
    from trajpipe.pipeline.project import Project

EXAMPLES: Final = {"dev": "  trajpipe dev                 http://127.0.0.1:3000\n  trajpipe dev --port 3001"}
PORTS_TRIED: Final = 20
WORKSPACE: Final = "workspace.yaml"
MODULE: Final = "trajpipe.definitions"
# `dagster dev` tells its user to take another command, which nobody typed here.
_OTHER_COMMAND: Final = "ignore:Function `dev_command` is superseded"


def dev(
    ctx: typer.Context,
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine see it.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=1, max=65535, help="Port; the next free one.")
    ] = 3000,
    home: Annotated[
        Path | None, typer.Option(help="DAGSTER_HOME; $DAGSTER_HOME or ./.dagster by default.")
    ] = None,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """Start Dagster's UI and daemon over this project: sensors, schedules and automation run while it does.

    The instance lies in ./.dagster: telemetry off, no dialog, runs of dead processes ended; one `trajpipe
    dev` at a time. Ctrl-C, SIGTERM and a closed terminal stop it whole, and say which runs that cut off.
    """
    from trajpipe.defs.open_databases import databases_of_home, kept_open
    from trajpipe.pipeline.init_dagster_home import HOME, prepare_home

    terminal: Terminal = ctx.obj
    project = open_project(catalogue, root)
    folder = (home or Path(os.environ.get("DAGSTER_HOME") or HOME)).absolute()
    prepare_home(folder)
    if not os.access(folder, os.W_OK):
        raise UsageError(
            "Dagster's instance can't be written", place=folder, hint="Name another: --home DIR."
        )
    environment = _environment(project, folder)
    with only_one(folder) as tell:
        _clear_away(folder, project, terminal, started=False)
        chosen = free_port(host, port)
        if chosen != port:
            terminal.note(f"port {port} is taken: {chosen} instead")
        url = f"http://{host}:{chosen}"
        tell(url)
        try:
            with kept_open(databases_of_home(folder)):
                return serve(_command(host, chosen), environment, url, terminal)
        finally:
            _clear_away(folder, project, terminal, started=True)


def _environment(project: "Project", home: Path) -> dict[str, str]:
    """The environment of Dagster's processes: they find the catalogue by `TRAJPIPE_DATA`."""
    path = project.catalogue.path.absolute()
    if path.name != CATALOGUE or path.parent != project.root:
        raise UsageError(
            "Dagster's processes find a project by its folder",
            place=path,
            expected=f"a catalogue named {CATALOGUE} in the data folder",
        )
    quiet = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _OTHER_COMMAND)))
    return os.environ | {
        "PYTHONWARNINGS": quiet,
        "DAGSTER_HOME": str(home),
        "TRAJPIPE_DATA": str(project.root),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }


def _clear_away(home: Path, project: "Project", terminal: Terminal, *, started: bool) -> None:
    """End runs whose processes are gone and delete what they left half-written, before somebody looks at it.

    Args:
        home: DAGSTER_HOME.
        project: Whose output folders are looked at.
        terminal: Is told.
        started: Dagster was started, and has ended by now: its runs were cut off.
    """
    from trajpipe.defs.instance import dead_runs_of
    from trajpipe.pipeline.doctor import clear_leftovers

    try:
        dead = dead_runs_of(home, end=True)
        said = [_cut_off(run) if started else f"ended run {run.name}: {run.why}" for run in dead]
        said += [f"{one.what}: {one.text}" for one in clear_leftovers(project)]
    except Exception as error:  # noqa: BLE001 - of any database; it must not hide why we stop
        said = [f"not looked for what was cut off: {error}. `trajpipe doctor --fix` does it."]
    with suppress(OSError):  # the terminal may be gone
        for text in said:
            terminal.note(text)


def _cut_off(run: "DeadRun") -> str:
    who = "the folder sensor" if run.job.endswith(f"_{Stage.DEMOS}") else "automation"
    return f"run {run.name} was cut off; {who} asks for it again at the next start"


def _command(host: str, port: int) -> list[str]:
    loaded = ["-w", WORKSPACE] if Path(WORKSPACE).is_file() else ["-m", MODULE]
    return [sys.executable, "-m", "dagster", "dev", *loaded, "-h", host, "-p", str(port)]


def free_port(host: str, wanted: int) -> int:
    """The wanted port, or the next that nobody listens on.

    Raises:
        StateError: none of the next ones is free.
    """
    for port in range(wanted, min(wanted + PORTS_TRIED, 65536)):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((host, port))
                return port
    raise StateError("no port is free", got=f"{wanted} and the next {PORTS_TRIED - 1} on {host}")
