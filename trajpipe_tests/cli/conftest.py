"""Running the real command, in a process of its own or in this one, and small files to run it on.

What is not here: the generator of the files, see `trajpipe.testing`.
"""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trajpipe.cli.main import main
from trajpipe.testing import write_recording

REPOSITORY = Path(__file__).resolve().parents[2]
ESCAPE = "\x1b"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did.

    Attributes:
        code: Exit code.
        out: Its stdout.
        err: Its stderr.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout as one strict JSON document."""

        def refuse(token: str) -> None:
            raise AssertionError(f"JSON with the token {token}")

        return json.loads(self.out, parse_constant=refuse)


Command = Callable[..., Ran]


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: this checkout's package, nothing that colours or sizes its output."""
    left_out = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TRAJPIPE_DATA", "TRAJPIPE_DEBUG", "TERM")
    base = {k: v for k, v in os.environ.items() if k not in left_out}
    return base | {"PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "error::ResourceWarning"} | more


def command_line(arguments: Sequence[object]) -> list[str]:
    """`python -m trajpipe …` with these arguments."""
    return [sys.executable, "-m", "trajpipe", *map(str, arguments)]


@pytest.fixture
def trajpipe(tmp_path: Path) -> Command:
    """Runs `python -m trajpipe …` in a process of its own, in an empty folder."""

    def run(*arguments: object, cwd: Path | None = None, **more: str) -> Ran:
        done = subprocess.run(
            command_line(arguments),
            cwd=cwd or tmp_path,
            env=environment(**more),
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs the same command in this process, in an empty folder: cheap, for texts and exit codes."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TRAJPIPE_DATA", "TRAJPIPE_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, cwd: Path | None = None, **more: str) -> Ran:
        monkeypatch.chdir(cwd or tmp_path)
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A small legible IsaacLab recording: three episodes, two cameras."""
    return write_recording(
        "isaaclab", tmp_path / "take.hdf5", episodes=3, rows=(8, 12), image_size=64, cameras=("table_cam",)
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recording at every stage, built once; not to be changed."""
    folder = tmp_path_factory.mktemp("built")
    raw = write_recording(
        "isaaclab", folder / "take.hdf5", episodes=3, rows=(8, 12), image_size=64, cameras=("table_cam",)
    )
    for name in ("o.hdf5", "o.h5", "o_lerobot"):
        arguments = ["convert", raw, folder / name, "--fps", "20", "--task", "Lift it.", "--tag", "rl"]
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = main([str(a) for a in arguments])
        assert code == 0, out.getvalue() + err.getvalue()
    return folder


@pytest.fixture
def chain(built: Path, tmp_path: Path) -> dict[str, Path]:
    """Stage → a copy of one recording at that stage."""
    copied = tmp_path / "chain"
    shutil.copytree(built, copied)
    found = {"raw": "take.hdf5", "demos": "o.hdf5", "store": "o.h5", "lerobot": "o_lerobot"}
    return {stage: copied / name for stage, name in found.items()}


CATALOGUE = """\
version: 1
datasets:
  lift:
    description: A cube is lifted.
    task: Lift the cube.
    raw:
      - kind: isaaclab
        glob: raw/lift/*.hdf5
        tag: scripted
    license: apache-2.0
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder: a catalogue with one dataset of three small recordings without cameras."""
    root = tmp_path / "data"
    for number in range(3):
        write_recording(
            "isaaclab",
            root / "raw" / "lift" / f"take_{number}.hdf5",
            episodes=2,
            rows=(8, 12),
            seed=number,
            cameras=(),
        )
    (root / "datasets.yaml").write_text(CATALOGUE)
    return root
