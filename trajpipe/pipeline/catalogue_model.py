"""The catalogue's models: what a dataset may declare, key by key, with the defaults.

What is not here: reading YAML (`catalogue_text`), finding recordings (`catalogue_recordings`),
conventions (`catalogue_conventions`), the LeRobot export (`catalogue_export`).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, model_validator

from trajpipe.core.conventions import Conventions, UnknownSuccess
from trajpipe.core.names import FOLDER_RAW
from trajpipe.pipeline.catalogue_conventions import ConventionsEntry, Model
from trajpipe.pipeline.catalogue_export import ExportOptions
from trajpipe.pipeline.catalogue_values import (
    Cron,
    DatasetName,
    HubRepository,
    HubRevision,
    HubTag,
    OneOrMany,
    Owner,
    Tag,
    TaskName,
    TermName,
    TermsOrFlag,
    TimeZone,
    problem,
)

KIND_AUTO: Final = "auto"
ImageSide = Annotated[int, Field(ge=1, le=8192)]


class RawEntry(Model):
    """Recordings of one kind: where they lie and how they were recorded."""

    kind: str = KIND_AUTO
    """Source kind, or `auto` to ask each recording."""
    glob: OneOrMany
    """Pattern or patterns of the recordings, relative to the catalogue's folder; `**` crosses folders."""
    hub: HubRevision | None = None
    """Repository on the Hub that holds the recordings, at a tag or commit; `glob` is relative to its root."""
    follow: bool = False
    """With `hub: org/name@branch`: take what the branch holds when the dataset is looked through."""
    tag: Tag | None = None
    """Where the episodes came from (scripted, rl, teleop, mocap); absent: as the file says."""
    terms: dict[str, TermName] = Field(default_factory=dict)
    """Rename map: obs key as recorded → term."""
    conventions: ConventionsEntry = ConventionsEntry()
    """How it was recorded."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the source."""

    def to_conventions(self, unknown_success: UnknownSuccess = "keep") -> Conventions:
        """The core's form; `unknown_success` is used when the entry does not say."""
        return self.conventions.to_conventions(self.terms, unknown_success)

    def label(self) -> str:
        """`isaaclab raw/lift/*.hdf5`: how messages name the entry."""
        where = f"{self.hub}: " if self.hub else ""
        return f"{self.kind} {where}{', '.join(self.glob)}"

    def patterns(self, dataset: str) -> tuple[str, ...]:
        """The globs relative to the data folder; those of a Hub entry begin where it is pulled to."""
        if self.hub is None:
            return self.glob
        return tuple(f"{self.hub_folder(dataset)}/{pattern}" for pattern in self.glob)

    def hub_folder(self, dataset: str) -> str:
        """Where a Hub entry's repository is pulled to, relative to the data folder."""
        repository = (self.hub or "").partition("@")[0]
        return f"{FOLDER_RAW}/{dataset}/{repository.replace('/', '__')}"

    @model_validator(mode="after")
    def _hub_globs(self) -> RawEntry:
        if self.follow and self.hub is None:
            raise problem("`follow` is about a Hub entry", "`hub: org/name@branch` beside it")
        ways_out = [g for g in self.glob if g.startswith("/") or ".." in g.split("/")]
        if self.hub is not None and ways_out:
            raise problem("a Hub entry's glob stays in its repository", "a pattern such as `data/*.hdf5`")
        return self


class Exclusion(Model):
    """A recording, or one demo of it, left out by hand."""

    recording: str = Field(min_length=1)
    """File name with or without suffix, path below the catalogue's folder, or partition key."""
    demo: str | None = None
    """Name of the demo in the recording; the whole recording when absent."""
    reason: str = Field(min_length=1)
    """Why; it goes to the ledger."""

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            recording, _, demo = value.rpartition(":") if ":" in value else (value, "", "")
            form = f"{{recording: {recording}, " + (f"demo: {demo}, " if demo else "") + 'reason: "…"}'
            raise problem("an exclusion needs a reason", form)
        return value


class FilterOptions(Model):
    """Which episodes stay."""

    only_success: bool = False
    """Drop episodes that say they did not succeed."""
    min_length: int = Field(default=1, ge=1)
    """Drop episodes with fewer rows."""
    unknown_success: UnknownSuccess = "keep"
    """What to do with an episode whose source does not say whether it succeeded."""
    max_length: int | None = Field(default=None, ge=1)
    """Drop episodes with more rows."""
    max_noop_fraction: float | None = Field(default=None, ge=0, le=1)
    """Drop episodes in which a larger share of the steps does nothing (delta actions)."""
    max_saturated: float | None = Field(default=None, ge=0, le=1)
    """Drop episodes in which a larger share of the action values is at or beyond ±1."""
    min_kept: float = Field(default=0.0, ge=0, le=1)
    """Smallest share of a recording's episodes that the filters must leave."""
    drop_stale_first_row: bool = False
    """Drop a first row that is the previous episode's last."""


class SplitOptions(Model):
    """How episodes are divided into train and valid."""

    seed: int = Field(default=0, ge=0)
    """Seed of the draw."""
    valid_fraction: float = Field(default=0.1, ge=0, lt=1)
    """Share of the groups that become `valid`."""
    group: str = Field(default="recording", min_length=1)
    """What is never divided: `recording`, `task`, `episode`, or the name of a demo attribute."""
    use_masks: bool = False
    """Keep the recordings' own masks where they have them."""


class TargetOptions(Model):
    """The scene that a LIBERO store's states are rewritten for."""

    model: str | None = None
    """MJCF file of the target scene (LIBERO) or of the robot (LAFAN1), relative to the catalogue's folder."""
    joints: tuple[str, ...] | None = None
    """Joint names in the target's order, instead of a model; with neither: robot, fixtures, objects."""
    names: dict[str, str] = Field(default={})
    """Joint name in the recordings → name in the target, for those that differ."""

    @model_validator(mode="after")
    def _one_target(self) -> TargetOptions:
        if self.model is not None and self.joints is not None:
            raise problem("`model` and `joints` both give the target's order", "one of them")
        return self


class StoreOptions(Model):
    """What the store holds."""

    layout: Literal["auto", "generic", "libero", "lafan", "lerobot"] = "auto"
    """Which columns: `auto` is the format's own for LIBERO and LAFAN1 recordings, else generic."""
    image_size: tuple[ImageSide, ImageSide] | Literal["native"] = (240, 320)
    """Layout lerobot: height and width that cameras are resized to, or `native`."""
    suite: str | None = None
    """LIBERO suite (`libero_goal`, …) for env_id and the task list; the dataset's name when absent."""
    tasks: tuple[str, ...] | None = None
    """Task names of the whole suite; the built-in list of a known suite when absent."""
    state: bool = True
    """LIBERO: keep the `state` column."""
    target: TargetOptions = TargetOptions()
    """LIBERO: the scene that states are rewritten for; LAFAN1: the robot's model, `g1_29dof` when absent."""
    group_by: Literal["none", "scene"] = "none"
    """`scene` makes one store per scene family (`KITCHEN_SCENE5`), for suites that mix scenes."""
    demos_per_task: int | None = Field(default=None, ge=1)
    """Keep at most so many demos of each task."""

    terms: tuple[str, ...] | None = None
    """Obs terms to store, names or patterns; all when absent."""
    cameras: tuple[str, ...] | None = None
    """Cameras to store; all when absent."""
    images: bool = True
    """Store images."""
    float64_to_float32: TermsOrFlag = ()
    """Columns to store in single precision: true (all), false, or names and patterns."""
    compression: Literal["zstd", "deflate", "shuffle-deflate", "none"] = "zstd"
    """Compression of image columns; zstd needs hdf5plugin in readers."""
    column_compression: dict[str, Literal["zstd", "deflate", "shuffle-deflate", "none"]] = Field(
        default_factory=dict
    )
    """Column → its own compression."""

    def narrows(self, column: str) -> bool:
        """True when a float64 column of this name is stored as float32."""
        return any(fnmatchcase(column, pattern) for pattern in self.float64_to_float32)


class DemosOptions(Model):
    """The form of the L2 files."""

    image_layout: Literal["strips", "frames"] = "strips"
    """Chunks of images: strips of rows over 16 frames (small), or one frame each (random access)."""
    fletcher32: bool = False
    """Write a checksum for every chunk."""


class ScheduleOptions(Model):
    """When the dataset is looked through again."""

    cron: Cron
    """Five cron fields, or @hourly, @daily, …"""
    timezone: TimeZone = "UTC"
    """IANA time zone of `cron`."""
    enabled: bool = False
    """Whether the schedule runs from the start; otherwise it is switched on in the UI."""


class HubOptions(Model):
    """Where the dataset is published."""

    repo: HubRepository
    """Dataset repository on the Hub."""
    private: bool = True
    """Visibility of a repository that is created; an existing one's is never changed."""
    tag: HubTag | None = None
    """One more tag for what is published next; like the version's own it never moves."""
    parts: tuple[Literal["store", "lerobot", "demos"], ...] = ("store", "lerobot", "demos")
    """What is published."""
    allow_license: bool = False
    """Publish in the open although the licence does not plainly allow it: you hold the rights."""


class DatasetOptions(Model):
    """Keys of a dataset that `defaults:` may give for all."""

    conventions: ConventionsEntry = ConventionsEntry()
    """Conventions of every raw entry; an entry's own keys come first."""
    task: str | None = None
    """Task text (language instruction) of episodes that have none."""
    filter: FilterOptions = FilterOptions()
    """Which episodes stay."""
    splits: SplitOptions = SplitOptions()
    """Train and valid."""
    align: Literal["recorded", "causal"] = "recorded"
    """`causal` shifts after_action recordings so that obs[t] precedes actions[t]."""
    min_recordings: int | None = Field(default=None, ge=1)
    """Recordings that must pass before a store is built; absent: one builds, and a gate wants all."""
    recordings_per_run: int = Field(default=4, ge=1)
    """Recordings in a run of a Dagster backfill: more cost less each, fewer spread over more slots."""
    demos: DemosOptions = DemosOptions()
    """The L2 files."""
    store: StoreOptions = StoreOptions()
    """The store."""
    export: ExportOptions = ExportOptions()
    """The LeRobot export."""
    schedule: ScheduleOptions | None = None
    """When it is looked through again."""
    hub: HubOptions | None = None
    """Where it is published."""
    license: str | None = None
    """SPDX name of the data's licence."""
    owners: tuple[Owner, ...] = ()
    """E-mail addresses or `team:<name>`."""


class DatasetEntry(DatasetOptions):
    """One dataset as the catalogue writes it."""

    description: str = ""
    """What it is, Markdown."""
    raw: tuple[RawEntry, ...] = Field(min_length=1)
    """Where its recordings lie; entries of different kinds may be mixed."""
    task_name: TaskName | None = None
    """Task in L2 file names `<source>_<task>`; the dataset's name when absent."""
    exclude: tuple[Exclusion, ...] = ()
    """Recordings and demos left out by hand."""

    @model_validator(mode="after")
    def _entries_agree(self) -> DatasetEntry:
        for index, entry in enumerate(self.raw[1:], 1):
            found = _disagreement(self.raw[0], entry)
            if found is not None:
                what, here, there = found
                raise problem(
                    f"raw[0] ({self.raw[0].label()}) and raw[{index}] ({entry.label()}) "
                    f"declare {what} differently: {here} and {there}",
                    "one meaning in all raw entries of a dataset",
                    "Declare it under the dataset's `conventions:`, or rename one term with `terms:`.",
                )
        return self


class CatalogueDocument(Model):
    """The whole file `datasets.yaml`."""

    version: Literal[1]
    """Version of the catalogue's form."""
    defaults: DatasetOptions = DatasetOptions()
    """Keys for all datasets; a dataset's own come first."""
    datasets: dict[DatasetName, DatasetEntry]
    """Name → dataset."""


def _disagreement(one: RawEntry, other: RawEntry) -> tuple[str, str, str] | None:
    """What two mixed entries declare differently: (what, one's, other's)."""
    a, b = one.conventions.term_meanings, other.conventions.term_meanings
    for term in sorted(a.keys() | b.keys()):
        if a.get(term) != b.get(term):
            return f"the term `{term}`", _declared(a.get(term)), _declared(b.get(term))
    if one.conventions.action != other.conventions.action:
        return "the action", _declared(one.conventions.action), _declared(other.conventions.action)
    return None


def _declared(entry: Model | None) -> str:
    parts = [f"{k} {v}" for k, v in entry if v is not None] if entry is not None else []
    return f"({', '.join(parts)})" if parts else "(nothing)"
