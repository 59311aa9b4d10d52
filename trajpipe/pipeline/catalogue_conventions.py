"""The catalogue's conventions of a raw entry, and their form in the core.

What is not here: what a convention does, see `trajpipe.core.conventions` and the sources.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from trajpipe.core import names
from trajpipe.core.conventions import (
    ActionConvention,
    Conventions,
    ImageConvention,
    QuaternionSite,
    TermConvention,
    UnknownSuccess,
)
from trajpipe.core.quaternions import QuaternionOrder
from trajpipe.pipeline.catalogue_values import Rate, TermName, problem


class Model(BaseModel):
    """Base of every part of the catalogue: strict types, no unknown keys, frozen.

    The text below a field is its description in the schema, see `catalogue_descriptions`.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class QuaternionEntry(Model):
    """Where quaternions lie in a recording."""

    path: str = Field(min_length=1)
    """Dataset path below the demo; `*` matches within and across groups (`*/root_pose`)."""
    starts: tuple[int, ...] = (0,)
    """Offsets of each 4-value span in the last axis; an empty list says "not a quaternion"."""
    order: QuaternionOrder | None = None
    """Order as recorded; the entry's `quaternion_order` when absent."""

    @model_validator(mode="after")
    def _spans_apart(self) -> QuaternionEntry:
        ordered = sorted(self.starts)
        if any(start < 0 for start in ordered):
            raise problem("a quaternion cannot begin before the column", "starts of 0 or more")
        if any(b - a < 4 for a, b in pairwise(ordered)):
            raise problem("two quaternions overlap", "starts at least 4 apart")
        return self

    def to_site(self) -> QuaternionSite:
        """The core's form."""
        return QuaternionSite(self.path, self.starts, self.order)


class ActionEntry(Model):
    """What an action means."""

    meaning: Literal["delta", "absolute"] | None = None
    """Whether an action is an increment or a target."""
    frame: str | None = None
    """`world`, `root`, `joint` or another frame's name."""
    units: str | None = None
    """For example `m, rad`."""
    low: tuple[float, ...] | None = None
    """Lower bound per dimension, or one for all."""
    high: tuple[float, ...] | None = None
    """Upper bound per dimension, or one for all."""
    gripper: Literal["binary", "continuous"] | None = None
    """Whether the gripper's value is one of two or any."""
    gripper_open: Literal[1, -1] | None = None
    """The sign that opens the gripper."""

    @model_validator(mode="after")
    def _bounds_fit(self) -> ActionEntry:
        if self.low is None or self.high is None:
            return self
        widths = {len(self.low), len(self.high)} - {1}
        if not self.low or not self.high or len(widths) > 1:
            raise problem(
                "`low` and `high` have different lengths", "one value for all, or one per dimension"
            )
        low = self.low * (len(self.high) if len(self.low) == 1 else 1)
        high = self.high * (len(self.low) if len(self.high) == 1 else 1)
        if any(a >= b for a, b in zip(low, high, strict=True)):
            raise problem("a lower bound must be below its upper bound", "low < high in every dimension")
        return self

    def to_convention(self) -> ActionConvention:
        """The core's form."""
        return ActionConvention(**dict(self))


class TermEntry(Model):
    """What an obs term means; same-named terms of all raw entries must agree."""

    meaning: Literal["relative", "absolute"] | None = None
    """For example joint positions relative to the default pose, or absolute."""
    frame: str | None = None
    """`world`, `root` or another frame's name."""
    units: str | None = None
    """For example `rad`."""

    def to_convention(self) -> TermConvention:
        """The core's form."""
        return TermConvention(**dict(self))


class ConventionsEntry(Model):
    """How a raw entry was recorded; what is absent is the format's own."""

    quaternion_order: QuaternionOrder | None = None
    """Order of every quaternion as recorded."""
    quaternions: tuple[QuaternionEntry, ...] = ()
    """Where quaternions lie; the first that matches a path decides."""
    images: ImageConvention | None = None
    """`opengl` = bottom row first, `opencv` = top row first."""
    channel_order: Literal["rgb", "bgr"] = "rgb"
    """Order of the colour channels as recorded."""
    alignment: Literal["before_action", "after_action"] | None = None
    """Whether obs[t] was recorded before or after actions[t] was applied."""
    fps: Rate | None = None
    """Frames per second: a number, or a fraction in quotes such as "30000/1001"."""
    unknown_success: UnknownSuccess | None = None
    """What to do with an episode whose source does not say whether it succeeded; the filter's when absent."""
    env_name: str | None = None
    """Written to env_args when the recording has none."""
    env_args: dict[str, JsonValue] | None = None
    """Used when the recording's own are missing or not JSON."""
    action: ActionEntry = ActionEntry()
    """What an action means."""
    term_meanings: dict[TermName, TermEntry] = Field(default_factory=dict)
    """Term (its new name) → what it means."""
    term_widths: dict[TermName, int] = Field(default_factory=dict)
    """Term → width; splits one concatenated `obs` dataset, in this order."""

    @model_validator(mode="after")
    def _widths_positive(self) -> ConventionsEntry:
        bad = [f"{term}: {width}" for term, width in self.term_widths.items() if width < 1]
        if bad:
            raise problem(
                f"a term's width must be 1 or more ({', '.join(bad)})", "widths in the order of the columns"
            )
        return self

    def to_conventions(self, terms: dict[str, str], unknown_success: UnknownSuccess) -> Conventions:
        """The core's form.

        Args:
            terms: Rename map of the raw entry.
            unknown_success: Used when this entry does not say.
        """
        return Conventions(
            quaternion_order=self.quaternion_order,
            quaternions=tuple(site.to_site() for site in self.quaternions),
            images=self.images,
            channel_order=self.channel_order,
            alignment=None if self.alignment is None else names.Alignment(self.alignment),
            fps=self.fps,
            unknown_success=self.unknown_success or unknown_success,
            action=self.action.to_convention(),
            terms=dict(terms),
            term_meanings={term: entry.to_convention() for term, entry in self.term_meanings.items()},
            term_widths=dict(self.term_widths),
            env_name=self.env_name,
            env_args=_plain(self.env_args),
        )


def _plain(value: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else dict(value)
