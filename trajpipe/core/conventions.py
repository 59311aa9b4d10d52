"""Conventions of raw data: quaternion sites and order, images, alignment, rate, success policy, actions.

Declared per raw entry in the catalogue over the source's own defaults; checked on both sides of a conversion.
What is not here: reading the catalogue, see `trajpipe.pipeline.catalogue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from trajpipe.core import names
from trajpipe.core.quaternions import QuaternionOrder

ImageConvention = Literal["opengl", "opencv"]
UnknownSuccess = Literal["keep", "fail", "drop"]


@dataclass(frozen=True, slots=True)
class QuaternionSite:
    """Where quaternions lie.

    Attributes:
        path: Dataset path below the demo; `*` matches within and across groups (`*/root_pose`).
        starts: Offsets of each 4-value span in the last axis (`(3, 10, 17)`).
        order: Order as recorded; None = the file's own (legacy wxyz, format_version 1 xyzw).
    """

    path: str
    starts: tuple[int, ...] = (0,)
    order: QuaternionOrder | None = None

    def matches(self, path: str) -> bool:
        """True when a dataset path below the demo belongs to this site."""
        return fnmatchcase(path, self.path)


@dataclass(frozen=True, slots=True)
class ActionConvention:
    """What an action means; None = not declared.

    Attributes:
        meaning: `delta` or `absolute`.
        frame: `world`, `root` or `joint`.
        units: e.g. `m, rad`.
        low: Lower bound per dimension or one for all.
        high: Upper bound per dimension or one for all.
        gripper: `binary` or `continuous`.
        gripper_open: The sign (+1 or -1) that opens.
    """

    meaning: Literal["delta", "absolute"] | None = None
    frame: str | None = None
    units: str | None = None
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    gripper: Literal["binary", "continuous"] | None = None
    gripper_open: Literal[1, -1] | None = None


@dataclass(frozen=True, slots=True)
class TermConvention:
    """What an obs term means; same-named terms of mixed sources must agree.

    Attributes:
        meaning: `relative` or `absolute`.
        frame: `world`, `root` or another frame's name.
        units: e.g. `rad`.
    """

    meaning: Literal["relative", "absolute"] | None = None
    frame: str | None = None
    units: str | None = None


@dataclass(frozen=True, slots=True)
class Conventions:
    """Everything declared about one raw entry.

    Attributes:
        quaternion_order: Order of every quaternion as recorded; None = told by the file (or unknown).
        quaternions: Declared sites; `(QuaternionSite(path), …)` with no starts says "not a quaternion".
        images: `opengl` (bottom row first) or `opencv` (top row first); None = told by the file.
        channel_order: `rgb` or `bgr`.
        alignment: obs against action; None = the source's default.
        fps: Frames per second; None = the format's own.
        unknown_success: What to do when the source did not say.
        action: What an action means.
        terms: Rename map obs key → term, applied while reading.
        term_meanings: Term → what it means.
        term_widths: Term → width, splits one concatenated `obs` dataset, in order.
        env_name: Written to env_args when the recording has none.
        env_args: Used when the recording's are missing or not JSON.
    """

    quaternion_order: QuaternionOrder | None = None
    quaternions: tuple[QuaternionSite, ...] = ()
    images: ImageConvention | None = None
    channel_order: Literal["rgb", "bgr"] = "rgb"
    alignment: names.Alignment | None = None
    fps: Fraction | None = None
    unknown_success: UnknownSuccess = "keep"
    action: ActionConvention = ActionConvention()
    terms: Mapping[str, str] = field(default_factory=dict)
    term_meanings: Mapping[str, TermConvention] = field(default_factory=dict)
    term_widths: Mapping[str, int] = field(default_factory=dict)
    env_name: str | None = None
    env_args: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for the recipe."""
        value = asdict(self)
        value["fps"] = None if self.fps is None else str(self.fps)
        return value

    def site_of(self, path: str) -> QuaternionSite | None:
        """The declared site of a dataset path, the first that matches."""
        return next((s for s in self.quaternions if s.matches(path)), None)


def quaternion_candidates(path: str, trailing: tuple[int, ...]) -> bool:
    """True when a dataset's name and shape say it may hold quaternions.

    A guess for asking the user, never for converting.

    Args:
        path: Dataset path below the demo.
        trailing: Its shape without the row axis.
    """
    leaf = path.rsplit("/", 1)[-1].lower()
    width = int(np.prod(trailing, dtype=np.int64)) if trailing else 1
    if any(word in leaf for word in ("quat", "orientation", "_rot", "rot_")):
        return width % 4 == 0 and len(trailing) <= 2
    return (width == 7 and ("pose" in leaf or leaf == "root_state")) or (leaf == "root_state" and width == 13)
