"""`trajpipe dev`: `dagster dev` over this project, ready to look at.

What is not here: the instance's files, see `trajpipe.pipeline.init_dagster_home`.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.stopping import STOPPING
from trajpipe.cli.terminal import EXIT_COULD_NOT, EXIT_FINE, Terminal
from trajpipe.cli.verbs.options import CatalogueOption, RootOption, open_project
from trajpipe.core.errors import StateError, UsageError
from trajpipe.core.names import CATALOGUE

if TYPE_CHECKING:
    from trajpipe.pipeline.project import Project

EXAMPLES: Final = {"dev": "  trajpipe dev                 http://127.0.0.1:3000\n  trajpipe dev --port 3001"}
READY_S: Final = 180.0
STOP_S: Final = 30.0
PORTS_TRIED: Final = 20
WORKSPACE: Final = "workspace.yaml"
MODULE: Final = "trajpipe.definitions"


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

    The instance lies in ./.dagster: telemetry off, no dialog, runs of dead processes ended. Ctrl-C,
    SIGTERM and a closed terminal stop it whole.
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
    _end_dead_runs(folder, terminal)
    chosen = free_port(host, port)
    with kept_open(databases_of_home(folder)):
        return _serve(_command(host, chosen), environment, f"http://{host}:{chosen}", terminal)


def _environment(project: "Project", home: Path) -> dict[str, str]:
    """The environment of Dagster's processes: they find the catalogue by `TRAJPIPE_DATA`."""
    path = project.catalogue.path.absolute()
    if path.name != CATALOGUE or path.parent != project.root:
        raise UsageError(
            "Dagster's processes find a project by its folder",
            place=path,
            expected=f"a catalogue named {CATALOGUE} in the data folder",
        )
    return os.environ | {
        "DAGSTER_HOME": str(home),
        "TRAJPIPE_DATA": str(project.root),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }


def _end_dead_runs(home: Path, terminal: Terminal) -> None:
    """End runs whose processes are gone, before somebody looks at them."""
    from trajpipe.defs.instance import dead_runs_of

    for dead in dead_runs_of(home, end=True):
        terminal.note(f"ended run {dead.run_id} of {dead.job}: {dead.why}")


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


def _serve(command: list[str], environment: dict[str, str], url: str, terminal: Terminal) -> int:
    """Run Dagster until it ends or we are asked to stop; its own processes end with it.

    It leads a session of its own: a Ctrl-C of the terminal reaches us alone, and we pass it on once.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with STOPPING.held(), _heeded_by_children():
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True
            )
            STOPPING.groups.add(process.pid)
        if _wait_until_ready(process, url):
            terminal.print(f"ready: {url}")
            terminal.document({"ready": True, "url": url, "pid": process.pid})
        code = process.wait()
        terminal.note(f"dagster dev ended with code {code}")
        return EXIT_FINE if code == 0 else EXIT_COULD_NOT
    finally:
        if process is not None:
            stop(process)
            STOPPING.groups.discard(process.pid)


@contextmanager
def _heeded_by_children() -> Iterator[None]:
    """Processes started inside heed SIGINT and SIGTERM, also where we were started to ignore them.

    A shell's background job ignores SIGINT, and whatever it starts would: ignoring is inherited, a handler of
    ours becomes the default action.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str) -> bool:
    """Wait until the web server answers; False when it ended or took too long."""
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"{url}/server_info", timeout=5):  # noqa: S310 - ours
            return True
        time.sleep(0.25)
    return False


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop `dagster dev` and everything it started: SIGINT, then SIGTERM, then SIGKILL to its session."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is not None:
            break
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its session: what it left behind
    process.wait()
