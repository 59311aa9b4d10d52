"""Runs other people's readers, each in a process of its own environment that prints one JSON object.

What is not here: the readers' scripts (`scripts/`), the building of their environment (`.ci/readers.sh`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SCRIPTS: Final = Path(__file__).resolve().parent / "scripts"
TIMEOUT_S: Final = 300
_TAIL: Final = 4000


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader.

    Attributes:
        script: File name in `scripts/`.
        package: Folder below `lerobot/` that goes on PYTHONPATH; None when the environment itself has it.
        leading: First arguments, relative to the readers' folder.
    """

    script: str
    package: str | None = None
    leading: tuple[str, ...] = ()


READERS: Final[Mapping[str, Reader]] = {
    "robomimic": Reader("robomimic_read.py"),
    "isaaclab": Reader("isaaclab_read.py", leading=("isaaclab",)),
    "lerobot-0.3.3": Reader("lerobot_read.py", "lr033"),
    "lerobot-0.4.4": Reader("lerobot_read.py", "lr044"),
    "lerobot-convert": Reader("lerobot_convert.py", "lr044"),
}


class ReaderFailedError(AssertionError):
    """A reader ended with an error; the message holds the end of what it said.

    Attributes:
        said: Its whole standard error.
    """

    def __init__(self, name: str, code: int, said: str) -> None:
        super().__init__(f"{name} ended with {code}:\n{said[-_TAIL:]}")
        self.said = said


def readers_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The readers' environment: TRAJPIPE_READERS, else the default of `.ci/readers.sh`; None when absent."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/")) / ".cache")
    folder = Path(environ.get("TRAJPIPE_READERS") or cache / "trajpipe" / "readers")
    whole = (folder / "lerobot" / "bin" / "python").exists() and (folder / "isaaclab").is_dir()
    return folder.resolve() if whole else None


def run_reader(name: str, *arguments: object, folder: Path, scratch: Path) -> dict[str, Any]:
    """Run a reader and return what it printed.

    Args:
        name: A key of `READERS`.
        arguments: Its command-line arguments.
        folder: The readers' environment.
        scratch: Its home, caches included; nothing else is written.

    Raises:
        ReaderFailedError: it ended with an error.
    """
    reader = READERS[name]
    command = [
        str(folder / "lerobot" / "bin" / "python"),
        str(SCRIPTS / reader.script),
        *(str(folder / part) for part in reader.leading),
        *map(str, arguments),
    ]
    environment = _environment(reader, folder, scratch)
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        raise ReaderFailedError(name, done.returncode, done.stderr)
    value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return value


def _environment(reader: Reader, folder: Path, scratch: Path) -> dict[str, str]:
    """Nothing of the caller's but PATH: no token, no cache, no network."""
    out = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(scratch),
        "HF_HOME": str(scratch / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    if reader.package is not None:
        out["PYTHONPATH"] = str(folder / "lerobot" / reader.package)
    return out
