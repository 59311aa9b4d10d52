"""How many daemons work on a Dagster instance: processes of this machine, and signs of life in its database.

A daemon's sign of life stays for two minutes after it ended, and of two daemons the later sign alone is kept
for each kind: processes tell at once. They say nothing of other machines, so an instance whose database is
reached over a network is judged by the signs as well.
What is not here: what people are told of it, see `trajpipe.cli.verbs.doctor`.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import dagster as dg

FRESH_S: Final = 120.0
_PROC: Final = Path("/proc")
_MODULE: Final = "dagster._daemon"
_SCRIPT: Final = "dagster-daemon"


@dataclass(frozen=True, slots=True)
class Daemons:
    """What there is to see of an instance's daemons.

    Attributes:
        pids: Processes of this machine; None where processes can't be looked at.
        signs: Daemon id → seconds since its last sign of life, of those that gave one lately.
        local: The instance lies in files: only who reaches its folder can work on it.
    """

    pids: tuple[int, ...] | None
    signs: dict[str, float]
    local: bool

    @property
    def count(self) -> int:
        """How many work: by processes where they decide, else the greater of the two counts."""
        here = len(self.pids or ())
        return here if self.local and self.pids is not None else max(here, len(self.signs))

    @property
    def evidence(self) -> str:
        """What tells so, in words."""
        ages = ", ".join(f"{name[:8]} {age:.0f} s ago" for name, age in sorted(self.signs.items()))
        signs = f"last signs of life: {ages}" if ages else "no sign of life lately"
        if self.pids is None:
            return signs
        if self.pids:
            here = f"process{'es' if len(self.pids) > 1 else ''} {', '.join(map(str, self.pids))}"
        else:
            here = "no process on this machine"
        return here if self.local and (self.pids or not ages) else f"{here}; {signs}"


def daemons_of(home: Path, *, fresh_s: float = FRESH_S) -> Daemons:
    """The daemons of the instance of a DAGSTER_HOME.

    Args:
        home: Holds `dagster.yaml`.
        fresh_s: How old a sign of life may be, seconds.
    """
    with dg.DagsterInstance.from_config(str(home)) as instance:
        now = time.time()
        signs: dict[str, float] = {}
        for beat in instance.get_daemon_heartbeats().values():
            age = now - beat.timestamp
            if beat.daemon_id is not None and age <= fresh_s:
                signs[beat.daemon_id] = max(0.0, min(age, signs.get(beat.daemon_id, age)))
        local = type(instance.run_storage).__name__ == "SqliteRunStorage"
    return Daemons(daemon_pids(home), signs, local)


def daemon_pids(home: Path) -> tuple[int, ...] | None:
    """Processes of this machine that are a daemon of a DAGSTER_HOME; None where there is no /proc.

    Args:
        home: DAGSTER_HOME.
    """
    if not (_PROC / "self/cmdline").exists():
        return None
    folder = home.resolve()
    found: dict[int, int] = {}
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked
            arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if is_daemon(arguments) and _works_on(process, arguments, folder):
                fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
                found[int(process.name)] = int(fields[1])
    return tuple(sorted(pid for pid, parent in found.items() if parent not in found))  # forks are no daemons


def is_daemon(arguments: list[str]) -> bool:
    """Whether a command line runs a daemon: `python -m dagster._daemon run`, `dagster-daemon run`.

    Args:
        arguments: The command line, the program first.
    """
    for at, (word, following) in enumerate(pairwise(arguments)):
        if following == "run" and (
            (word == _MODULE and arguments[at - 1 : at] == ["-m"]) or (Path(word).name == _SCRIPT and at <= 1)
        ):
            return True
    return False


def _works_on(process: Path, arguments: list[str], home: Path) -> bool:
    """By the DAGSTER_HOME of its environment, or the instance that `dagster dev` hands on as an argument."""
    if "--instance-ref" in arguments[:-1]:
        reference = arguments[arguments.index("--instance-ref") + 1]
        if any(f" {home}{end}" in reference for end in ("/", "\\n")):  # `base_dir: HOME/history` in JSON
            return True
    with suppress(PermissionError):  # another user's
        for line in (process / "environ").read_bytes().split(b"\0"):
            name, _, value = line.partition(b"=")
            if name == b"DAGSTER_HOME":
                return Path(value.decode(errors="replace")).resolve() == home
    return False
