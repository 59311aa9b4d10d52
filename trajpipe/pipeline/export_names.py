"""What a LeRobot recording called its dimensions and its robot, for an export of its L2 files.

What is not here: names that the catalogue declares, which come first; motions', see `export_motion.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trajpipe.core import names
from trajpipe.demos.reader import DemosFile

ATTR_ROBOT: Final = "robot_type"
_UNKNOWN: Final = "unknown"
_OBS: Final = names.GROUP_OBS + "/"


def with_recorded_names(options: Mapping[str, Any], inputs: Sequence[Path]) -> dict[str, Any]:
    """Export options with recorded dimension names and robot type filled in where nothing is declared.

    L2 files that disagree about a term's names leave them to the exporter, `<term>_<i>`.

    Args:
        options: Keyword arguments of `trajpipe.export.ExportOptions`.
        inputs: L2 files.
    """
    found = [_recorded(path) for path in inputs]
    if not found:
        return dict(options)
    labels = {k: v for k, v in found[0][0].items() if all(one[0].get(k) == v for one in found)}
    robots = {robot for _, robot in found}
    out = dict(options)
    if labels:
        out["names"] = {**labels, **options.get("names", {})}
    if options.get("robot_type", _UNKNOWN) == _UNKNOWN and len(robots) == 1:
        out["robot_type"] = robots.pop()
    return out


def _recorded(path: Path) -> tuple[dict[str, tuple[str, ...]], str]:
    """Term or path → names of its dimensions, and the robot, of an L2 file."""
    with DemosFile(path) as demos:
        recipe, robot = demos.recipe, demos.attributes.get(ATTR_ROBOT)
    read, options = recipe.get("read"), recipe.get("options")
    listed = read.get("names") if isinstance(read, Mapping) else None
    conventions = options.get("conventions") if isinstance(options, Mapping) else None
    renamed = conventions.get("terms", {}) if isinstance(conventions, Mapping) else {}
    labels: dict[str, tuple[str, ...]] = {}
    for column, given in listed.items() if isinstance(listed, Mapping) else ():
        term = column.removeprefix(_OBS)
        labels[renamed.get(term, term)] = tuple(str(n) for n in given)
    return labels, robot if isinstance(robot, str) and robot else _UNKNOWN
