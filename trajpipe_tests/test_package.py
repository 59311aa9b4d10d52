"""Tests of the package as a whole: what importing it costs, what it ships, its version.

What is not here: any part of it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trajpipe

REPOSITORY = Path(__file__).resolve().parent.parent
HEAVY = ("dagster", "torch", "h5py", "numpy", "pyarrow", "pandas", "av", "mujoco", "matplotlib", "pydantic")

OPTIONAL = {"torch", "rerun"}  # imported inside functions; the error says what to install


def imported_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has imported after running the code."""
    show = "import sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], check=True, capture_output=True, text=True, cwd=REPOSITORY
    )
    return set(out.stdout.splitlines()[-1].split())


def imported_names(node: ast.AST) -> list[str]:
    """Modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported_by("import trajpipe").isdisjoint(HEAVY)


def test_the_command_s_help_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['trajpipe', '--help']\nfrom trajpipe.cli.main import main\n"
    code += "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    assert imported_by(code).isdisjoint(HEAVY)


def test_the_core_imports_numpy_and_the_standard_library_alone() -> None:
    modules = ", ".join(
        f"trajpipe.core.{p.stem}" for p in sorted((REPOSITORY / "trajpipe/core").glob("[a-z]*.py"))
    )
    found = imported_by(f"import {modules}")
    bare = imported_by("import numpy, ctypes, uuid, fcntl")
    assert found - bare - sys.stdlib_module_names <= {"trajpipe"}


def test_no_module_needs_torch_or_mujoco_to_be_imported() -> None:
    code = """
import importlib, pkgutil, sys
for name in ("torch", "mujoco"):
    sys.modules[name] = None
import trajpipe
for found in pkgutil.walk_packages(trajpipe.__path__, "trajpipe."):
    if found.name not in ("trajpipe.__main__", "trajpipe.definitions", "trajpipe.store.torch_data"):
        importlib.import_module(found.name)
"""
    assert "pyarrow" in imported_by(code)


def test_every_public_name_can_be_had_and_is_documented() -> None:
    for name in trajpipe._PUBLIC:
        assert getattr(trajpipe, name).__doc__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        trajpipe.__getattr__("nothing")


def test_the_version_is_the_changelog_s_or_newer_than_it() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", trajpipe.__version__)
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)
    assert "## [Unreleased]" in changelog
    assert not released or released[0] <= trajpipe.__version__


def test_every_requirement_has_an_exact_version_in_constraints() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *extras["test"], *extras["dev"]]
    wanted = {re.split(r"[^A-Za-z0-9_.-]", t)[0].lower().replace("_", "-") for t in texts} - {"trajpipe"}
    lines = [x for x in (REPOSITORY / "constraints.txt").read_text().splitlines() if not x.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^=*]+", line) for line in lines)
    assert wanted <= {line.partition("==")[0] for line in lines}


def test_everything_that_the_package_imports_is_required_by_it() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[^A-Za-z0-9_.-]", t)[0].lower() for t in project["dependencies"]}
    modules_of = {"pillow": "PIL", "pyyaml": "yaml"}
    known = {modules_of.get(name, name.replace("-", "_")) for name in required} | {
        "trajpipe",
        "pydantic_core",
    }
    imported = {
        name.partition(".")[0]
        for path in (REPOSITORY / "trajpipe").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in imported_names(node)
    }
    assert imported - known - OPTIONAL - sys.stdlib_module_names == set()


def test_all_dagster_packages_are_of_one_release() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    versions = {line.partition("==")[2] for line in lines if line.startswith("dagster")}
    assert len(versions) == 1


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"), *REPOSITORY.glob("data/*.md")]:
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"
