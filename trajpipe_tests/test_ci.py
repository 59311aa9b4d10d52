"""Tests of the project's own tools in `.ci/`: the budgets find what they forbid, README's commands are found.

What is not here: running them all, `.ci/run` does that.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
GOOD = '''\
"""A module.

What is not here: anything.
"""


def public(a: int, *, b: int = 0) -> int:
    """Add."""
    return a + b
'''


class Broken(Protocol):
    """The fixture `broken`."""

    def __call__(self, text: str, *, public: bool = True) -> list[str]:
        """Source text → what of it is over budget."""


@pytest.fixture(scope="module")
def budgets() -> ModuleType:
    """`.ci/budgets.py` as a module."""
    spec = importlib.util.spec_from_file_location("budgets_of_ci", REPOSITORY / ".ci" / "budgets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def broken(budgets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broken:
    """A function: source text → what of it is over budget."""
    monkeypatch.setattr(budgets, "REPOSITORY", tmp_path)

    def measured(text: str, *, public: bool = True) -> list[str]:
        path, figures = tmp_path / "m.py", budgets.Figures()
        path.write_text(text)
        budgets.measure(path, figures, public=public)
        return [str(line) for line in figures.broken]

    return measured


def test_a_good_module_is_within_all_budgets(broken: Broken) -> None:
    assert broken(GOOD) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n", "m.py: the module has no docstring"),
        (GOOD + "x = 1\n" * 500, "m.py: 509 lines, at most 500"),
        (GOOD + "def _long():\n" + "    x = 1\n" * 60, "m.py:10: _long has 61 lines, at most 60"),
        (
            GOOD + "def _f(a, b, c, d, e, f, g, h): ...\n",
            "m.py:10: _f has 8 positional parameters, at most 7",
        ),
        (GOOD + "def f(): ...\n", "m.py:10: f has no docstring"),
        (GOOD + "class C:\n    '''C.'''\n    def f(self): ...\n", "m.py:12: f has no docstring"),
        (GOOD + "try:\n    x = 1\nexcept:\n    x = 2\n", "m.py:12: a bare except"),
        (GOOD + "x = 1  # type: ignore\n", "m.py:10: a `type: ignore` without a code"),
        (GOOD + "x = 1  # type: ignore[misc]\n", "m.py:10: a `type: ignore` without a reason"),
    ],
)
def test_each_hard_budget_is_found(broken: Broken, text: str, found: str) -> None:
    assert broken(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        GOOD + "class C:\n    '''C.'''\n    def f(self, a, b, c, d, e, f, g, *, h=1):\n        '''F.'''\n",
        GOOD + "x = 1  # type: ignore[misc]  # the stub is wrong\n",
        GOOD + "def _private(): ...\n",
        GOOD + "x = '# type: ignore'\n",
        GOOD + "try:\n    x = 1\nexcept ValueError:\n    x = 2\n",
    ],
)
def test_what_is_allowed_is_not_found(broken: Broken, text: str) -> None:
    assert broken(text) == []


def test_tests_need_no_docstrings_on_functions_but_on_modules(broken: Broken) -> None:
    assert broken(GOOD + "def test_x(): ...\n", public=False) == []
    assert broken("def test_x(): ...\n", public=False) == ["m.py: the module has no docstring"]


def test_readme_s_first_two_commands_build_the_sample_and_run_the_tests() -> None:
    first, second = re.findall(
        r"^```sh\n(.*?)^```$", (REPOSITORY / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert first.splitlines()[-1] == ".venv/bin/trajpipe demo"
    assert second.splitlines()[-1].startswith(".venv/bin/pytest")
    assert all("-c constraints.txt" in block for block in (first, second))


@pytest.mark.parametrize("script", ["run", "readers.sh"])
def test_the_scripts_are_valid_and_executable(script: str) -> None:
    path = REPOSITORY / ".ci" / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_ci_refuses_arguments_that_it_does_not_know() -> None:
    done = subprocess.run(
        ["bash", str(REPOSITORY / ".ci" / "run"), "--fast"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "usage" in done.stderr
