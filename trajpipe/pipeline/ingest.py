"""The stage raw → L2: one recording into one `demos.hdf5`, every episode written or rejected with a reason.

What is not here: where the plan comes from (`project.py` and `convert.py` make it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import names, provenance
from trajpipe.core.conventions import Conventions
from trajpipe.core.episode import Description, Episode
from trajpipe.core.errors import InputError, SchemaError, UnreadableError
from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.core.ledger import Ledger, Rejection, entry
from trajpipe.core.names import Reason, Split, Stage, Tag
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import Recipe
from trajpipe.demos import layouts, select
from trajpipe.demos.images import ImageLayout
from trajpipe.demos.writer import DemosWriter
from trajpipe.pipeline import stale_rows, transform
from trajpipe.pipeline.results import Job, Made, StageResult, failed_plainly, perform
from trajpipe.sources.base import ReadOptions, Source, source

CODE: Final = "demos-1"


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """Everything that decides the bytes of one L2 file.

    Attributes:
        dataset: Dataset name, recorded in the recipe.
        key: Partition key of the recording.
        path: The recording.
        kind: Source kind.
        target: The L2 file to make.
        conventions: Declared conventions.
        options: Source-specific options.
        tag: Declared tag; None = the file's own, else its name's prefix.
        task: Task text for episodes without one.
        filters: Which episodes stay.
        exclude: Episode name ("" = the whole recording) → reason, by hand.
        splits: Episode name → split; the key "" stands for every episode.
        own_masks: Keep the recording's own masks instead of `splits`.
        align_causal: Shift `after_action` episodes.
        drop_stale_first_row: Drop a first row that is the previous episode's last; reported in any case.
        image_layout: `strips` or `frames`.
        fletcher32: Write checksums.
    """

    dataset: str
    key: str
    path: Path
    kind: str
    target: Path
    conventions: Conventions = field(default_factory=Conventions)
    options: Mapping[str, Any] = field(default_factory=dict)
    tag: str | None = None
    task: str | None = None
    filters: select.Filters = field(default_factory=select.Filters)
    exclude: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    own_masks: bool = False
    align_causal: bool = False
    drop_stale_first_row: bool = False
    image_layout: ImageLayout = "strips"
    fletcher32: bool = False

    def recipe_options(self) -> dict[str, Any]:
        """The options of the recipe, plain JSON values."""
        return {
            "dataset": self.dataset,
            "kind": self.kind,
            "conventions": self.conventions.to_json(),
            "options": dict(self.options),
            "tag": self.tag,
            "task": self.task,
            "filters": self.filters.to_json(),
            "exclude": dict(sorted(self.exclude.items())),
            "splits": dict(sorted(self.splits.items())),
            "own_masks": self.own_masks,
            "align": "causal" if self.align_causal else "recorded",
            "drop_stale_first_row": self.drop_stale_first_row,
            "image_layout": self.image_layout,
            "fletcher32": self.fletcher32,
        }


def recipe_of(plan: IngestPlan) -> Recipe:
    """The recipe of a plan; hashes the recording unless the stamp knows it untouched."""
    inputs = {plan.path.name: recording_sha256(plan.path, plan.target)}
    for beside in source(plan.kind).companions(plan.path):
        inputs[beside.relative_to(plan.path.parent).as_posix()] = provenance.sha256_file(beside)
    return Recipe(Stage.DEMOS, inputs, plan.recipe_options(), CODE)


def recording_sha256(path: Path, target: Path) -> str:
    """SHA-256 of a recording; the one in the target's stamp when size, time and inode are untouched."""
    if not path.exists():
        raise UnreadableError("no such recording", place=path, code="missing-file")
    stamp = provenance.read_stamp(target)
    if stamp is not None and stamp.get("raw_touch") == provenance.touch_of(path):
        known = stamp.get("inputs", {}).get(path.name)
        if isinstance(known, str):
            return known
    return provenance.sha256_path(path)


def ingest(plan: IngestPlan, *, force: bool = False, progress: Progress = silent) -> StageResult:
    """Bring one recording into L2, or say that nothing changed. Failures are returned, not raised."""
    try:
        touch = provenance.touch_of(plan.path) if plan.path.exists() else []
        recipe = recipe_of(plan)
    except (UnreadableError, InputError, OSError) as error:
        return failed_plainly(plan.dataset, Stage.DEMOS, plan.key, plan.target, error)
    job = Job(
        plan.dataset,
        Stage.DEMOS,
        plan.key,
        plan.target,
        recipe,
        build=lambda temporary: write_demos(plan, recipe, temporary, progress),
        check=lambda temporary: check_demos(plan, temporary),
        extra={"raw_touch": touch},
        space=provenance.size_of(plan.path),
    )
    return perform(job, force=force)


def check_demos(plan: IngestPlan, path: Path) -> CheckReport:
    """Run the checks of a plan's L2 file on a file."""
    return run_checks(Stage.DEMOS, path, context=check_context(plan))


def check_context(plan: IngestPlan) -> dict[str, Any]:
    """What the checks of an L2 file compare with."""
    return {"conventions": plan.conventions.to_json(), "filters": plan.filters.to_json()}


def write_demos(plan: IngestPlan, recipe: Recipe, temporary: Path, progress: Progress = silent) -> Made:
    """Write the L2 file of a plan at a temporary path.

    An episode whose bytes turn out unreadable half-way is rejected, and so is one with other terms than more
    than half of the episodes have; the file is then written anew without them.

    Raises:
        UnreadableError: the recording cannot be opened.
        InputError: it breaks a rule as a whole, or no episode is left (the reasons are listed).
    """
    unusable: dict[str, Rejection] = {}
    while True:
        temporary.unlink(missing_ok=True)
        attempt = _Attempt(plan, recipe, unusable, progress)
        found = attempt.write(temporary)
        if not found:
            return attempt.made()
        unusable |= {one.episode: one for one in found}


class _Attempt:
    """One pass over a recording."""

    def __init__(
        self, plan: IngestPlan, recipe: Recipe, unusable: Mapping[str, Rejection], progress: Progress
    ) -> None:
        self.plan, self.recipe, self.unusable, self.progress = plan, recipe, unusable, progress
        self.findings = Findings()
        self.rejected: list[Rejection] = []
        self.kept: list[tuple[str, Episode]] = []
        self.layouts: dict[str, layouts.Layout] = {}
        self.rows = 0
        self.unseen_terms = set(plan.conventions.terms)
        self.last_rows: dict[str, NDArray[Any]] = {}

    def write(self, temporary: Path) -> list[Rejection]:
        """Write all episodes; rejections that are known only now, which ask for another pass."""
        plan, reader = self.plan, source(self.plan.kind)
        options = ReadOptions(
            plan.conventions, self.recipe.inputs[plan.path.name], self.findings.add, dict(plan.options)
        )
        description = reader.describe(plan.path, options)
        self.findings.extend(description.findings)
        with ExitStack() as stack:
            writer: DemosWriter | None = None
            for number, episode in enumerate(self._usable(reader, options), 1):
                if writer is None:
                    writer = stack.enter_context(self._writer(temporary, description))
                try:
                    new_name = writer.write(episode)
                except UnreadableError as error:
                    return [self._rejection(episode.name, Reason.UNREADABLE, str(error))]
                self.layouts[episode.name] = layouts.layout_of(episode)
                self.kept.append((new_name, replace(episode, columns={}, extras={}, attributes={})))
                self.rows += episode.length
                self.progress("demos", number, len(description.episodes))
            if writer is None:
                raise select.nothing_kept(plan.path.name, self.rejected)
            other = layouts.outvoted(plan.path.name, self.layouts)
            if other:
                return other
            self._note_unmatched(description)
            kept = len(self.kept)
            short = select.too_few_kept(plan.path.name, kept, self.rejected, plan.filters)
            if short is not None:
                raise short
            writer.set_masks(self._masks(description))
        return []

    def made(self) -> Made:
        """What was written."""
        ledger = Ledger([entry(self.plan.path.name, Stage.DEMOS.value, len(self.kept), self.rejected)])
        facts = {"episodes": len(self.kept), "rows": self.rows}
        return Made(ledger, facts, self.findings)

    def _writer(self, temporary: Path, description: Description) -> DemosWriter:
        recipe = self.recipe.to_json() | {"read": dict(description.conventions)}
        fps = self.plan.conventions.fps or description.fps
        if fps is not None:
            recipe["fps"] = str(fps)
        return DemosWriter(
            temporary,
            env_args=description.env_args or {},
            recipe=recipe,
            image_layout=self.plan.image_layout,
            fletcher32=self.plan.fletcher32,
            attributes=dict(description.attributes),
            unknown_success=self.plan.filters.unknown_success,
        )

    def _usable(self, reader: Source, options: ReadOptions) -> Iterator[Episode]:
        """Episodes that pass every filter, in their final form; the others go to `rejected`."""
        for item in reader.episodes(self.plan.path, options):
            if isinstance(item, Rejection):
                self.rejected.append(item)
                continue
            finished = self._screened(item)
            if isinstance(finished, Rejection):
                self.rejected.append(finished)
            else:
                yield finished

    def _screened(self, episode: Episode) -> Episode | Rejection:
        plan = self.plan
        reason = plan.exclude.get(episode.name, plan.exclude.get(""))
        if reason is not None:
            return self._rejection(episode.name, Reason.EXCLUDED, reason)
        if episode.name in self.unusable:
            return self.unusable[episode.name]
        try:
            self.unseen_terms -= {p.removeprefix(f"{names.GROUP_OBS}/") for p in episode.columns}
            episode = transform.rename_terms(episode, plan.conventions.terms)
            episode = self._without_stale_row(episode)
            if plan.align_causal:
                episode = transform.causal(episode)
            verdict = select.screen(episode, plan.filters)
        except UnreadableError as error:
            return self._rejection(episode.name, Reason.UNREADABLE, str(error))
        except SchemaError as error:
            return self._rejection(episode.name, error.code, str(error))
        return self._labelled(episode) if verdict is None else verdict

    def _without_stale_row(self, episode: Episode) -> Episode:
        """Report a first row that is the previous episode's last; drop it when the plan says so."""
        stale = stale_rows.stale_first(episode, self.last_rows)
        self.last_rows = stale_rows.last_rows(episode)
        if not stale:
            return episode
        drop = self.plan.drop_stale_first_row
        done = "dropped" if drop else "kept; set `filter: drop_stale_first_row: true` to drop such rows"
        place = Place(file=self.plan.path.name, demo=episode.name, column=stale[0], row=0)
        message = f"the first row is the previous episode's last in {len(stale)} columns ({done})"
        self.findings.add(Finding("first-row-stale", Severity.WARN, message, place))
        return stale_rows.without_first_row(episode) if drop else episode

    def _labelled(self, episode: Episode) -> Episode:
        """The episode with its tag, task, names and split."""
        plan = self.plan
        own = episode.tag if episode.tag != Tag.UNKNOWN else names.tag_of_file_name(plan.path.stem).value
        return replace(
            episode,
            tag=plan.tag or own,
            task=episode.task if episode.task is not None else plan.task,
            source_file=episode.source_file or plan.path.name,
            source_demo=episode.source_demo or episode.name,
            source_sha256=episode.source_sha256 or self.recipe.inputs[plan.path.name],
            split=plan.splits.get(episode.name, plan.splits.get("")),
        )

    def _note_unmatched(self, description: Description) -> None:
        """Warn of renames and exclusions by hand that name nothing in this recording."""
        place = Place(file=self.plan.path.name)
        for key in sorted(self.unseen_terms):
            message = "a rename (`terms:`, --rename) names an obs key that no demo has"
            self.findings.add(Finding("term-not-found", Severity.WARN, message, place, got=key))
        for demo in sorted(set(self.plan.exclude) - {""} - set(description.episodes)):
            message = "an exclusion names a demo that is not here"
            self.findings.add(Finding("exclude-not-found", Severity.WARN, message, place, got=demo))

    def _masks(self, description: Description) -> dict[str, list[str]]:
        """Masks of the L2 file under its new names: the recording's own when asked for, else the split's."""
        if self.plan.own_masks and description.masks:
            new = {episode.name: name for name, episode in self.kept}
            return {m: [new[n] for n in of if n in new] for m, of in description.masks.items()}
        return {
            split.value: [name for name, episode in self.kept if episode.split == split] for split in Split
        }

    def _rejection(self, episode: str, reason: str, detail: str) -> Rejection:
        return Rejection(self.plan.path.name, episode, str(reason), detail)
