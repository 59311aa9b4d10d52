"""Writes constraints.txt: the exact versions that this environment has of all that pyproject.toml asks for.

Run it with the project's own interpreter after adding a package: `.venv/bin/python .ci/pin.py`.
What is not here: the readers' environment, see `.ci/readers-constraints.txt`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parent.parent
# What tests and tools run with; extras for a deployment say their own exact versions in pyproject.toml.
EXTRAS = ("test", "dev")
HEAD = """\
# Exact versions for a reproducible install: pip install -c constraints.txt .
# Written by .ci/pin.py from an environment in which all tests pass. All dagster packages are of one release.
"""


def canonical(name: str) -> str:
    """A project name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted() -> list[Requirement]:
    """The requirements of pyproject.toml, those of `EXTRAS` included."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(t for name in EXTRAS for t in extras[name])]
    found = [Requirement(t) for t in texts]
    return [r for r in found if canonical(r.name) != canonical(project["name"])]


def closure(roots: list[Requirement]) -> dict[str, str]:
    """Name → installed version of the roots and of everything they need here.

    Raises:
        SystemExit: something that is needed is not installed.
    """
    pins: dict[str, str] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    todo = list(roots)
    while todo:
        one = todo.pop()
        key = (canonical(one.name), frozenset(one.extras))
        if key in done:
            continue
        done.add(key)
        try:
            found = distribution(one.name)
        except PackageNotFoundError:
            sys.exit(f"{one} is needed and not installed: pip install it first")
        pins[key[0]] = found.version
        for text in found.requires or []:
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in ("", *one.extras)):
                todo.append(need)
    return pins


def main() -> None:
    """Write the file."""
    pins = closure(wanted())
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    (REPOSITORY / "constraints.txt").write_text(HEAD + "".join(lines), encoding="utf-8")
    print(f"constraints.txt: {len(pins)} packages")


if __name__ == "__main__":
    main()
