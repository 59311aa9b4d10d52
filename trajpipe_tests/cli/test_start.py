"""The command starts quickly: `--help` and `import trajpipe` load nothing heavy."""

import resource
import subprocess
import sys

import pytest

from trajpipe_tests.cli.conftest import environment

HEAVY = ("numpy", "h5py", "rich", "dagster", "pydantic", "yaml", "pyarrow", "av", "pandas", "mujoco", "torch")
BUDGET_S = 0.3


def loaded_by(statement: str) -> set[str]:
    """Top-level modules loaded after a statement in a fresh interpreter."""
    code = f"{statement}\nimport sys\nsys.stderr.write(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def cpu_seconds(*arguments: str) -> float:
    """The least CPU time of five runs: what it takes on a quiet machine, whatever else runs now."""
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], env=environment(), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


@pytest.mark.parametrize(
    "statement",
    [
        "import trajpipe",
        "from trajpipe.cli.main import main; main(['--help'])",
        "from trajpipe.cli.main import main; main(['--version'])",
    ],
)
def test_nothing_heavy_is_loaded(statement: str) -> None:
    assert loaded_by(statement) & set(HEAVY) == set()


@pytest.mark.parametrize("verb", ["run", "convert", "inspect", "check", "list", "demo"])
def test_the_help_of_a_verb_loads_no_data_library(verb: str) -> None:
    loaded = loaded_by(f"from trajpipe.cli.main import main; main(['{verb}', '--help'])")
    assert loaded & {"h5py", "dagster", "pyarrow", "av", "pandas", "rich"} == set()


def test_import_takes_no_longer_than_its_budget() -> None:
    assert cpu_seconds("-c", "import trajpipe") <= BUDGET_S


def test_help_takes_no_longer_than_its_budget() -> None:
    assert cpu_seconds("-m", "trajpipe", "--help") <= BUDGET_S
