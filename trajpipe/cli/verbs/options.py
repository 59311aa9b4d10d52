"""Options that several verbs take, and what their texts mean.

What is not here: the options of every verb, see `trajpipe.cli.app`.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trajpipe.core.conventions import QuaternionSite
from trajpipe.core.errors import CatalogueError, UsageError
from trajpipe.core.names import CATALOGUE

if TYPE_CHECKING:
    from trajpipe.pipeline.project import Project


class FailOn(StrEnum):
    """From which severity on the exit code is 1."""

    ERROR = "error"
    WARN = "warn"


class QuaternionOrder(StrEnum):
    """Order of a quaternion's values: scalar first or scalar last."""

    WXYZ = "wxyz"
    XYZW = "xyzw"


CatalogueOption = Annotated[
    Path | None,
    typer.Option("--catalogue", "-c", help=f"The catalogue; ./data/{CATALOGUE} by default."),
]
RootOption = Annotated[
    Path | None, typer.Option("--root", help="The data folder; the catalogue's own by default.")
]
QuaternionsOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH[:STARTS[:ORDER]]", help="Where quaternions lie; PATH:none = not there."),
]
QuaternionOrderOption = Annotated[
    QuaternionOrder | None, typer.Option(help="Order of every quaternion as recorded.")
]
_UNDECLARED: Final = re.compile(r"\{path: (\S+), starts: \[([\d, ]*)\]\}")
_ORDERS: Final = ("wxyz", "xyzw")


def open_project(catalogue: Path | None, root: Path | None) -> "Project":
    """The project of `--catalogue` and `--root`; a root alone brings its own catalogue.

    Raises:
        CatalogueError: there is no catalogue, or it is not valid.
    """
    from trajpipe.pipeline.project import Project, default_catalogue

    path = catalogue
    if path is None and root is not None:
        path = root / CATALOGUE
    path = path or default_catalogue()
    if path.is_dir():
        path = path / CATALOGUE
    if not path.is_file():
        raise CatalogueError(
            "there is no catalogue",
            place=path,
            hint="Name it with --catalogue, set TRAJPIPE_DATA, or begin with `trajpipe demo`; "
            "`trajpipe convert` needs none.",
            code="no-catalogue",
        )
    return Project.open(path, root)


def chosen_datasets(project: "Project", given: Sequence[str] | None) -> list[str]:
    """Names of the datasets asked for; a name may be a pattern (`libero_*`); none given = all.

    Raises:
        MissingNameError: a name or pattern matches none; the message offers the nearest.
    """
    every = list(project.catalogue.datasets)
    chosen: list[str] = []
    for pattern in given or ():
        matches = [n for n in every if fnmatchcase(n, pattern)] or [project.dataset(pattern).name]
        chosen += [n for n in matches if n not in chosen]
    return chosen if given else every


def rate(text: str | None) -> Fraction | None:
    """Frames per second as an exact fraction: `20`, `29.97`, `30000/1001`.

    Raises:
        UsageError: it is no number above 0.
    """
    if text is None:
        return None
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise UsageError("--fps is a number above 0", got=text, expected="20, 29.97 or 30000/1001")
    return value


def quaternion_site(text: str) -> QuaternionSite:
    """A site of `path`, `path:starts`, `path:starts:order`; `path:none` says that it holds no quaternion.

    Raises:
        UsageError: it is of another form.
    """
    path, *rest = text.split(":")
    starts = rest[0] if rest else "0"
    order: Any = rest[1] if len(rest) > 1 else None
    if starts in _ORDERS and order is None:
        starts, order = "0", starts
    numbers = [] if starts == "none" else starts.split(",")
    valid = path and len(rest) <= 2 and all(n.strip().isdigit() for n in numbers)
    if not valid or order not in (None, *_ORDERS):
        raise UsageError(
            "--quaternions is PATH[:STARTS[:ORDER]]",
            got=text,
            expected="obs/eef_quat, obs/object:3,10,17, obs/goal:0:wxyz, or obs/phase_rot:none",
        )
    return QuaternionSite(path, tuple(int(n) for n in numbers), order)


def quaternion_options(message: str) -> str | None:
    """The options that declare what an error says is undeclared; None when it is about something else.

    Args:
        message: The error's text, with the catalogue's lines to add.
    """
    found = _UNDECLARED.findall(message)
    sites = [f"--quaternions {path}:{starts.replace(' ', '') or 'none'}" for path, starts in found]
    return " ".join(sites).replace(":0 ", " ").removesuffix(":0") or None


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping.

    Raises:
        UsageError: one has no `=`, or a key comes twice.
    """
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key or key in found:
            raise UsageError(f"{option} is KEY=VALUE, each key once", got=text)
        found[key] = value
    return found


def json_pairs(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """`KEY=VALUE` texts as a mapping, each value JSON (`true`, `0.5`, `["a"]`), else plain text.

    Raises:
        UsageError: one has no `=`, or a key comes twice.
    """
    import json

    found: dict[str, Any] = dict(pairs(given, option))
    for key, text in found.items():
        try:
            found[key] = json.loads(text)
        except (ValueError, RecursionError):
            continue
    return found


def words(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of `a,b` and of repeats in order; None when the option was not given."""
    if given is None:
        return None
    return tuple(w.strip() for text in given for w in text.split(",") if w.strip())
