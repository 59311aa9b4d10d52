"""`DemoSource`: what all HDF5 recordings of the `/data/demo_<i>` family share; each kind fills in its facts.

What is not here: the facts of one format, see `isaaclab`, `robomimic`, `robosuite`, `libero`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Final

from trajpipe.core import names
from trajpipe.core.episode import Column, Description, Episode
from trajpipe.core.errors import InputError, SchemaError, UnreadableError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.ledger import Rejection
from trajpipe.hdf5 import attributes
from trajpipe.hdf5.files import damage_named
from trajpipe.sources.alignment import AlignmentEvidence
from trajpipe.sources.base import ReadOptions, Source
from trajpipe.sources.demo_columns import DemoColumns, converted_columns, recorded_columns
from trajpipe.sources.detection import kind_of
from trajpipe.sources.environment import ENV_TYPE_ROBOSUITE, environment_of, rate_conflict
from trajpipe.sources.quaternion_sites import check_declared, refuse_undeclared, sampled
from trajpipe.sources.reading import Defaults, Reading, reading_of
from trajpipe.sources.recorded_attributes import (
    PROBLEM_INFO,
    KeptAttributes,
    data_attributes,
    keep,
    kept_attributes,
    language_of,
    recorded_text_hashes,
    success_of,
)
from trajpipe.sources.recording import (
    Recording,
    count_findings,
    foreign_groups,
    has_odd_shape,
    integer_attribute,
    masks_of,
    numbering_gaps,
    open_recording,
    stray_demos,
)

_DEMOS_SAMPLED: Final = 8
# Of one demo: an hour at 50 Hz; more would only cost memory.
_ROWS_COMPARED: Final = 180_000
NOT_A_DEMO: Final = "not-a-demo"
OTHER_TERMS: Final = "other-terms"
# What is declared of a column does not fit it: the declaration's fault, unless this demo is the odd one.
_OF_A_SHAPE: Final = ("quaternion-outside", "term-widths", "image-layout")
_REJECTED: Final = (names.Reason.NO_ACTIONS, names.Reason.RAGGED, names.Reason.BAD_EPISODE)


@dataclass(frozen=True, slots=True)
class Streams:
    """One quantity that both streams of a demo hold, for the alignment check.

    Attributes:
        obs: Column path of the observation.
        states: Column path in the state stream.
        span: Where it lies in the state's last axis.
        states_follow: states[t] was recorded after actions[t].
    """

    obs: str
    states: str
    span: slice
    states_follow: bool


@dataclass(slots=True)
class _Pass:
    """What one pass over all demos gathers."""

    reading: Reading
    splits: Mapping[str, str]
    evidence: AlignmentEvidence = field(default_factory=AlignmentEvidence)


class DemoSource(Source):
    """Reads `/data/demo_<i>` recordings; a kind says what differs.

    Attributes:
        env_type: robomimic's number of the environment kind, when the recording has none.
        default_fps: Frames per second of the format, when the recording itself has none.
        first_numbers: Numbers that the first demo may have without a word.
        counted: The format writes `total` and `num_samples`.
    """

    env_type: ClassVar[int] = ENV_TYPE_ROBOSUITE
    default_fps: ClassVar[int | None] = None
    first_numbers: ClassVar[tuple[int, ...]] = (0,)
    counted: ClassVar[bool] = True

    # What a kind may fill in.

    def defaults(self, _recording: Recording, _options: ReadOptions, /) -> Defaults:
        """What the format fixes for this recording."""
        return Defaults(alignment=names.Alignment.BEFORE_ACTION)

    def check_recording(self, recording: Recording, _options: ReadOptions, /) -> list[Finding]:
        """Findings of this kind about the recording as a whole.

        Raises:
            InputError: it breaks a rule of the kind.
        """
        gap = _gap(recording, self.first_numbers)
        return [gap] if gap else []

    def check_demo(self, reading: Reading, name: str, columns: DemoColumns) -> None:
        """Report what this kind sees in one demo.

        Raises:
            SchemaError: the demo cannot be used (`bad-episode`).
        """

    def streams(self, _columns: Mapping[str, Column], /) -> Streams | None:
        """A quantity that both streams hold; None when there is none."""
        return None

    def adjust_attributes(self, reading: Reading, name: str, /, kept: KeptAttributes) -> None:
        """Change what a kind records oddly (a file name instead of a model, …)."""

    def recipe_facts(self, _recording: Recording, /) -> Mapping[str, Any]:
        """More facts for the recipe."""
        return {}

    # The contract.

    def detect(self, path: Path) -> bool:
        """True when the file is of this kind."""
        return kind_of(path) == self.kind

    def describe(self, path: Path, options: ReadOptions) -> Description:
        """What the recording says before its episodes are read; see `Source.describe`."""
        with open_recording(path) as recording, damage_named(path):
            reading = reading_of(recording, options, self.defaults(recording, options))
            environment = environment_of(recording, options.conventions, self.env_type)
            masks, mask_findings = masks_of(recording)
            told = environment.fps or (Fraction(self.default_fps) if self.default_fps else None)
            findings = (
                *self.check_recording(recording, options),
                *count_findings(recording, counted=self.counted),
                *foreign_groups(recording),
                *mask_findings,
                *environment.findings,
                *rate_conflict(recording, told, options.conventions.fps),
                *_problem_info(recording),
                *_unknown_success(recording),
                *_no_obs(recording),
                *reading.image_conflict(),
            )
            return Description(
                kind=self.kind,
                episodes=recording.demos,
                env_args=environment.env_args,
                fps=options.conventions.fps or told,
                masks=masks,
                attributes=data_attributes(recording),
                tag=_tag(recording),
                conventions=reading.facts()
                | {"recorded_text_sha256": recorded_text_hashes(recording)}
                | dict(self.recipe_facts(recording)),
                findings=findings,
            )

    def episodes(self, path: Path, options: ReadOptions) -> Iterator[Episode | Rejection]:
        """Episodes in natural order; see `Source.episodes`."""
        with open_recording(path) as recording, damage_named(path):
            reading = reading_of(recording, options, self.defaults(recording, options))
            self.check_recording(recording, options)
            one = _Pass(reading, _splits(masks_of(recording)[0]))
            _check_quaternions(reading)
            for name in recording.demos:
                yield self._episode_or_rejection(one, name)
            yield from _stray(recording)
            for finding in (
                *reading.quaternions.findings(),
                *one.evidence.findings(recording, reading.alignment),
            ):
                options.report(finding)

    def _episode_or_rejection(self, one: _Pass, name: str) -> Episode | Rejection:
        path = one.reading.recording.path
        try:
            with damage_named(path):
                return self._episode(one, name)
        except UnreadableError as error:
            return Rejection(path.name, name, names.Reason.UNREADABLE.value, str(error))
        except SchemaError as error:
            if error.code not in _REJECTED:
                raise
            return Rejection(path.name, name, error.code, str(error))
        except InputError as error:
            column = error.place.column if isinstance(error.place, Place) else None
            if error.code not in _OF_A_SHAPE or column is None:
                raise
            if not has_odd_shape(one.reading.recording, name, column):
                raise
            return Rejection(path.name, name, OTHER_TERMS, str(error))

    def _episode(self, one: _Pass, name: str) -> Episode:
        reading = one.reading
        recording, how = reading.recording, reading.columns()
        recorded = recorded_columns(how, name)
        self.check_demo(reading, name, recorded)
        _report_obs_actions(reading, name, recorded)
        self._compare_streams(one, recorded)
        found = converted_columns(how, name, recorded)
        kept = kept_attributes(recording, name)
        for path, value in found.loose.items():
            keep(kept, path, value)
        self.adjust_attributes(reading, name, kept)
        told = _told(recording, name)
        demo = recording.demo(name)
        return Episode(
            name=name,
            length=found.length,
            columns=found.columns,
            extras=found.extras | kept.extras,
            attributes=kept.values,
            success=None if told.get(names.ATTR_SUCCESS_KNOWN) is False else success_of(demo),
            seed=integer_attribute(demo, names.ATTR_SEED),
            task=told.get(names.ATTR_TASK) or _language(recording)[0],
            tag=told.get(names.ATTR_SOURCE) or names.tag_of_file_name(recording.path.stem).value,
            alignment=told.get(names.ATTR_OBS_ALIGNMENT) or reading.alignment,
            source_file=told.get(names.ATTR_SOURCE_FILE) or recording.path.name,
            source_demo=told.get(names.ATTR_SOURCE_DEMO) or name,
            source_sha256=told.get(names.ATTR_SOURCE_SHA256) or reading.options.sha256,
            split=one.splits.get(name),
        )

    def _compare_streams(self, one: _Pass, recorded: DemoColumns) -> None:
        streams = self.streams(recorded.columns)
        if streams is None:
            return
        obs, states = recorded.columns[streams.obs], recorded.columns[streams.states]
        rows = min(recorded.length, _ROWS_COMPARED)
        try:
            one.evidence.add(
                obs.read(0, rows), states.read(0, rows)[:, streams.span], states_follow=streams.states_follow
            )
        except UnreadableError:
            return  # whoever reads the column for its values meets the broken bytes and names them


def _stray(recording: Recording) -> Iterator[Rejection]:
    """What looks like a demo and is not named like one is lost: it is counted, never passed over."""
    for name, has in stray_demos(recording):
        detail = f"{name} has {has} and is not named demo_<i>; rename the group to read it"
        yield Rejection(recording.path.name, name, NOT_A_DEMO, detail)


def _gap(recording: Recording, first_numbers: tuple[int, ...]) -> Finding | None:
    gaps = [numbering_gaps(recording, first) for first in first_numbers]
    return gaps[0] if all(gaps) else None


def _check_quaternions(reading: Reading) -> None:
    """Look at sampled rows of some demos for undeclared candidates (wxyz only) and wrong declarations."""
    quaternions = reading.quaternions
    if quaternions.order == "xyzw" and all(quaternions.order_of(s) == "xyzw" for s in quaternions.sites):
        return
    evidence = sampled(_sampled_demos(reading))
    if quaternions.order == "wxyz":
        refuse_undeclared(evidence, quaternions)
    for finding in check_declared(evidence, quaternions):
        reading.options.report(finding)


def _sampled_demos(reading: Reading) -> Iterator[Mapping[str, Column]]:
    """Columns and extras, as recorded, of a few demos over the recording; unusable ones are left out."""
    demos, how = reading.recording.demos, reading.columns()
    quiet = replace(how, report=lambda _finding: None)
    step = max(1, -(-len(demos) // _DEMOS_SAMPLED))
    for name in demos[::step]:
        try:
            with damage_named(reading.recording.path):
                found = recorded_columns(quiet, name)
        except (SchemaError, UnreadableError):
            continue
        yield found.columns | found.extras


def _splits(masks: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {demo: split for split in (names.MASK_TRAIN, names.MASK_VALID) for demo in masks.get(split, ())}


def _tag(recording: Recording) -> str | None:
    """The tag that all demos of an L2 file share."""
    tags = {_told(recording, name).get(names.ATTR_SOURCE) for name in recording.demos}
    return tags.pop() if len(tags) == 1 else None


def _told(recording: Recording, name: str) -> dict[str, Any]:
    """Our own attributes of an L2 demo; empty for a raw file, where such names mean something else."""
    if not recording.is_l2:
        return {}
    found = attributes.attributes_of(recording.demo(name))
    return {key: found[key] for key in names.DEMO_ATTRS_OURS if key in found}


def _language(recording: Recording) -> tuple[str | None, InputError | None]:
    """The recorded instruction, and what is wrong with it."""
    try:
        return language_of(recording.data), None
    except InputError as error:
        return None, error


def _problem_info(recording: Recording) -> list[Finding]:
    """A warning where the instruction is only a by-product of the format (LIBERO's own files are refused)."""
    error = _language(recording)[1]
    if error is None:
        return []
    place = recording.place(None, f"data@{PROBLEM_INFO}")
    message = f"{error.rule}; the demos get no task from it"
    return [
        recording.finding(
            error.code, message, severity=Severity.WARN, place=place, got=error.got, expected=error.expected
        )
    ]


def _unknown_success(recording: Recording) -> list[Finding]:
    unknown = [n for n in recording.demos if success_of(recording.demo(n)) is None]
    if not unknown:
        return []
    message = "success was not recorded; it is unknown, and written as the configuration says"
    got = f"{len(unknown)} of {len(recording.demos)} demos without it"
    return [recording.finding("success-unknown", message, got=got)]


def _no_obs(recording: Recording) -> list[Finding]:
    without = [n for n in recording.demos if names.GROUP_OBS not in recording.demo(n)]
    if not without:
        return []
    message = "no observations were recorded; none are invented"
    got = f"{len(without)} of {len(recording.demos)} demos without obs"
    return [recording.finding("no-obs", message, got=got)]


def _report_obs_actions(reading: Reading, name: str, recorded: DemoColumns) -> None:
    """`obs/actions` of another width than `actions`: the top-level one is the truth."""
    inner, actions = recorded.columns.get("obs/actions"), recorded.columns[names.DATASET_ACTIONS]
    if inner is not None and inner.shape[1:] != actions.shape[1:]:
        message = "obs/actions is not of the width of actions; the top-level actions are the truth"
        place = reading.recording.place(name, "obs/actions")
        reading.options.report(
            reading.recording.finding(
                "obs-actions-conflict",
                message,
                severity=Severity.WARN,
                place=place,
                got=inner.shape,
                expected=actions.shape,
            )
        )
