"""Postgres and a Ray head of a test's own, on loopback and random ports, in temporary folders.

What is not here: what is tested with them, see `test_scale_out`.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "TRAJPIPE_TEST_SERVICES"
START_S = 60.0


@dataclass(frozen=True, slots=True)
class Programs:
    """What has to be installed.

    Attributes:
        postgres: Folder with `initdb` and `postgres`.
        python: Interpreter of the environment that `.ci/scale.sh` builds.
    """

    postgres: Path
    python: Path


def find_programs() -> Programs | str:
    """The programs, or what is missing and how to get it."""
    homes = [Path(p).parent for p in (shutil.which("initdb"),) if p]
    homes += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name.split(".")[0]))
    postgres = next((p for p in reversed(homes) if (p / "initdb").exists()), None)
    if postgres is None:
        return "Postgres is not installed: apt-get install postgresql"
    python = Path(os.environ.get("TRAJPIPE_SCALE", "/nowhere")) / "env/bin/python"
    if not python.exists():
        return "Ray's environment is not built: run .ci/scale.sh (1.2 GB, once) and set TRAJPIPE_SCALE"
    return Programs(postgres, python)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def marked_processes() -> Iterator[dict[str, str]]:
    """An environment that marks all processes started with it; those still there at the end are killed."""
    mark = f"{os.getpid()}-{secrets.token_hex(8)}"
    try:
        dropped = ("DAGSTER", "RAY", "TRAJPIPE", "PYTHONDONTWRITEBYTECODE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        yield kept | {MARK: mark}
    finally:
        for pid in _marked(f"{MARK}={mark}".encode()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _marked(entry: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if entry in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


@contextmanager
def postgres(programs: Programs, environment: Mapping[str, str], log: Path) -> Iterator[dict[str, str]]:
    """A database server; yields the variables that docs/deploy/several-machines.dagster.yaml reads.

    It refuses to run as root, so root runs it as another user, in a folder of that user's.
    """
    user = _unprivileged() if os.geteuid() == 0 else None
    folder, port, password = Path(tempfile.mkdtemp(prefix="pg")), free_port(), secrets.token_urlsafe(12)
    (folder / "password").write_text(password)
    if user is not None:
        for path in (folder, folder / "password"):
            shutil.chown(path, user)
    data = folder / "data"
    try:
        command = [str(programs.postgres / "initdb"), "-D", str(data), "-U", "dagster", "-A", "scram-sha-256"]
        command += ["-E", "UTF8", f"--pwfile={folder / 'password'}", "--no-sync", "--locale=C"]
        subprocess.run(command, user=user, cwd=folder, env=dict(environment), check=True, capture_output=True)
        settings = {"listen_addresses": "127.0.0.1", "port": str(port), "fsync": "off"}
        settings |= {"unix_socket_directories": str(folder), "shared_buffers": "16MB"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs.postgres / "postgres"), "-D", str(data), *options]
        with (
            log.open("w") as out,
            subprocess.Popen(
                command, user=user, cwd=folder, env=dict(environment), stdout=out, stderr=out
            ) as server,
        ):
            try:
                _wait_for_port(port, server, log)
                yield {
                    "DAGSTER_PG_HOST": "127.0.0.1",
                    "DAGSTER_PG_PORT": str(port),
                    "DAGSTER_PG_USER": "dagster",
                    "DAGSTER_PG_PASSWORD": password,
                    "DAGSTER_PG_DB": "postgres",
                }
            finally:
                server.send_signal(signal.SIGINT)  # "fast": open connections are cut
                server.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def ray_head(programs: Programs, environment: Mapping[str, str], log: Path) -> Iterator[dict[str, str]]:
    """A Ray head with two slots; yields the variable with its job server's address."""
    ray = str(programs.python.with_name("ray"))
    folder, port = Path(tempfile.mkdtemp(prefix="ray")), free_port()
    ports = {
        "port": free_port(),
        "dashboard-port": port,
        "dashboard-agent-listen-port": free_port(),
        "ray-client-server-port": free_port(),
    }
    # Ray takes 127.0.0.1 for "any address that others reach"; this one is loopback too, and stays.
    command = [ray, "start", "--head", "--block", "--node-ip-address=127.0.0.2", "--dashboard-host=127.0.0.1"]
    command += ["--num-cpus=2", "--num-gpus=0", "--object-store-memory=80000000", "--disable-usage-stats"]
    command += [f"--temp-dir={folder}", "--include-dashboard=true", *(f"--{k}={v}" for k, v in ports.items())]
    lean = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    }
    try:
        with (
            log.open("w") as out,
            subprocess.Popen(
                command,
                env={**environment, **lean},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            ) as head,
        ):
            try:
                _wait_for_jobs(f"http://127.0.0.1:{port}", head, log)
                yield {"RAY_ADDRESS": f"http://127.0.0.1:{port}"}
            finally:
                head.terminate()
                with suppress(subprocess.TimeoutExpired):
                    head.wait(20)
                if head.poll() is None:
                    head.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_port(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError(f"no server on port {port}:\n{log.read_text()[-3000:]}")


def _wait_for_jobs(url: str, head: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the job server of the head answers."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and head.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{url}/api/jobs/", timeout=5):
            return
        time.sleep(0.2)
    raise AssertionError(f"no job server at {url}:\n{log.read_text()[-3000:]}")
