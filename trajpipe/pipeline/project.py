"""A project: a catalogue, its data folder, and the plans of every output.

What is not here: running plans, see `run.py`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trajpipe.checks.registry import CheckReport, merged
from trajpipe.core import jsontext, names, provenance
from trajpipe.core.episode import Episode
from trajpipe.core.errors import CatalogueError, MissingNameError, TrajpipeError
from trajpipe.core.ledger import Ledger
from trajpipe.core.order import natural_sorted, slug
from trajpipe.demos.quality import QualityLimits
from trajpipe.demos.select import Filters
from trajpipe.demos.splits import assign_splits
from trajpipe.pipeline import export_lerobot
from trajpipe.pipeline.catalogue import Catalogue, DatasetConfig, Recording, load_catalogue
from trajpipe.pipeline.certify import ChainPlan
from trajpipe.pipeline.ingest import IngestPlan, recipe_of
from trajpipe.pipeline.store_plan import StorePlan
from trajpipe.pipeline.store_planning import family_of, store_plan
from trajpipe.sources.base import ReadOptions, detect, source

ENVIRONMENT_ROOT = "TRAJPIPE_DATA"


def default_catalogue() -> Path:
    """`datasets.yaml` of `$TRAJPIPE_DATA`, else of `./data`, else of the current folder."""
    root = Path(os.environ.get(ENVIRONMENT_ROOT, "data"))
    inside = root / names.CATALOGUE
    return inside if inside.is_file() or not Path(names.CATALOGUE).is_file() else Path(names.CATALOGUE)


@dataclass(slots=True)
class Project:
    """A catalogue and the folder its outputs go to.

    Attributes:
        root: Data folder: globs begin here, `demos/`, `stores/` and `lerobot/` lie here.
        catalogue: The datasets.
    """

    root: Path
    catalogue: Catalogue
    _recordings: dict[str, list[Recording]] = field(default_factory=dict)
    _splits: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    _labels: dict[str, Counter[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, catalogue: Path | None = None, root: Path | None = None) -> Project:
        """Load a catalogue.

        Args:
            catalogue: `datasets.yaml`; found by `default_catalogue` when None.
            root: Data folder; the catalogue's own when None.

        Raises:
            CatalogueError: it is not there or not valid.
        """
        path = catalogue or default_catalogue()
        return cls((root or path.parent).absolute(), load_catalogue(path))

    def dataset(self, name: str) -> DatasetConfig:
        """A dataset's configuration.

        Raises:
            MissingNameError: no such dataset; lists the names.
        """
        return self.catalogue.dataset(name)

    def recordings(self, name: str) -> list[Recording]:
        """A dataset's recordings in natural order, found once."""
        if name not in self._recordings:
            self._recordings[name] = self.dataset(name).recordings(self.root)
        return self._recordings[name]

    def forget_recordings(self, name: str) -> None:
        """Look for a dataset's recordings anew the next time: some were fetched."""
        for known in (self._recordings, self._splits, self._labels):
            known.pop(name, None)

    def recording(self, name: str, key: str) -> Recording:
        """A recording by its partition key, file name or stem.

        Raises:
            MissingNameError: no such recording; lists the keys.
        """
        found = [r for r in self.recordings(name) if key in (r.key, r.path.name, r.path.stem)]
        if len(found) != 1:
            keys = ", ".join(r.key for r in self.recordings(name)[:20]) or "no recording"
            raise MissingNameError("no such recording", place=name, got=key, expected=f"one of {keys}")
        return found[0]

    def kind_of(self, recording: Recording) -> str:
        """The source kind: declared, or detected for `auto`."""
        return detect(recording.path).kind if recording.entry.kind == "auto" else recording.entry.kind

    # --- paths ---

    def demos_path(self, recording: Recording) -> Path:
        """`demos/<source>_<task>.hdf5`, with `__<recording>` when the task has more than one recording."""
        own = self._label(recording)
        tail = "" if self._label_counts(recording.dataset)[own] == 1 else f"__{recording.key}"
        return self.root / names.FOLDER_DEMOS / f"{own}{tail}.hdf5"

    def _label_counts(self, name: str) -> Counter[str]:
        if name not in self._labels:
            self._labels[name] = Counter(map(self._label, self.recordings(name)))
        return self._labels[name]

    def _label(self, recording: Recording) -> str:
        kind = recording.entry.kind
        own = None if kind == "auto" else source(kind).tag
        tag = recording.entry.tag or own or names.tag_of_file_name(recording.path.stem).value
        return f"{tag}_{self.task_name(recording)}"

    def task_name(self, recording: Recording) -> str:
        """Task in file names: the catalogue's, else the one in the recording's name, else the dataset's."""
        declared = self.dataset(recording.dataset).task_name
        if declared is not None:
            return declared
        own = None
        if recording.entry.kind != "auto":
            own = source(recording.entry.kind).task_name(recording.path)
        return slug(own) if own else recording.dataset

    def store_path(self, name: str, family: str = "") -> Path:
        """`stores/<dataset>.h5` (`.lowdim.h5` without images); grouped: the folder, `<family>.h5` in it."""
        options, folder = self.dataset(name).store, self.root / names.FOLDER_STORES
        suffix = names.SUFFIX_STORE if options.images else names.SUFFIX_LOWDIM + names.SUFFIX_STORE
        if family:
            return folder / name / f"{family}{suffix}"
        return folder / name if options.group_by != "none" else folder / f"{name}{suffix}"

    def lerobot_path(self, name: str) -> Path:
        """`lerobot/<dataset>/`."""
        return self.root / names.FOLDER_LEROBOT / name

    # --- plans ---

    def ingest_plan(self, recording: Recording) -> IngestPlan:
        """The plan of a recording's L2 file."""
        dataset = self.dataset(recording.dataset)
        filters = dataset.filter
        return IngestPlan(
            dataset=recording.dataset,
            key=recording.key,
            path=recording.path,
            kind=self.kind_of(recording),
            target=self.demos_path(recording),
            conventions=recording.conventions,
            options=dict(recording.entry.options),
            tag=recording.entry.tag,
            task=dataset.task,
            filters=Filters(
                only_success=filters.only_success,
                min_length=filters.min_length,
                unknown_success=recording.conventions.unknown_success,
                limits=QualityLimits(filters.max_noop_fraction, filters.max_saturated, filters.max_length),
                min_kept=filters.min_kept,
            ),
            exclude=self._exclusions(recording),
            splits=self.splits(recording.dataset)[recording.key],
            own_masks=dataset.splits.use_masks,
            align_causal=dataset.align == "causal",
            drop_stale_first_row=filters.drop_stale_first_row,
            image_layout=dataset.demos.image_layout,
            fletcher32=dataset.demos.fletcher32,
        )

    def _exclusions(self, recording: Recording) -> dict[str, str]:
        own, exclude = self._names_of(recording), self.dataset(recording.dataset).exclude
        return {e.demo or "": e.reason for e in exclude if e.recording in own}

    def unmatched_exclusions(self, name: str) -> list[str]:
        """Recordings that `exclude:` names and that are not there."""
        known = {n for r in self.recordings(name) for n in self._names_of(r)}
        return [e.recording for e in self.dataset(name).exclude if e.recording not in known]

    def _names_of(self, recording: Recording) -> set[str]:
        found = {recording.key, recording.path.name, recording.path.stem}
        if recording.path.is_relative_to(self.root):
            found.add(recording.path.relative_to(self.root).as_posix())
        return found

    def splits(self, name: str) -> Mapping[str, Mapping[str, str]]:
        """Recording key → episode name ("" = all) → split, decided for the whole dataset."""
        if name not in self._splits:
            self._splits[name] = self._assign(name)
        return self._splits[name]

    def _assign(self, name: str) -> dict[str, dict[str, str]]:
        options, recordings = self.dataset(name).splits, self.recordings(name)
        if options.group in ("recording", "task"):
            by_key = {
                (r.key, ""): r.key if options.group == "recording" else self._label(r) for r in recordings
            }
        else:
            by_key = {(r.key, e): g for r in recordings for e, g in self._episode_groups(r, options.group)}
        chosen = assign_splits(
            list(by_key.values()), seed=options.seed, valid_fraction=options.valid_fraction
        )
        out: dict[str, dict[str, str]] = {r.key: {} for r in recordings}
        for (key, episode), split in zip(by_key, chosen, strict=True):
            out[key][episode] = split.value
        return out

    def _episode_groups(self, recording: Recording, group: str) -> list[tuple[str, str]]:
        """(episode, group) of a recording: each episode its own group, or the value of a demo attribute."""
        options = ReadOptions(recording.conventions, options=dict(recording.entry.options))
        reader = source(self.kind_of(recording))
        try:
            if group == "episode":
                found = reader.describe(recording.path, options).episodes
                return [(episode, f"{recording.key}:{episode}") for episode in found]
            episodes = [e for e in reader.episodes(recording.path, options) if isinstance(e, Episode)]
        except TrajpipeError:
            return []  # a broken recording has no episodes to split; its own ingest says why
        pairs = [(e.name, e.attributes.get(group)) for e in episodes]
        absent = [name for name, value in pairs if value is None]
        if absent:
            raise CatalogueError(
                "splits: group: names an attribute that a demo lacks",
                place=f"{recording.path.name}:{absent[0]}",
                got=group,
                expected="recording, task, episode or an attribute of every demo",
            )
        return [(name, str(value)) for name, value in pairs]

    def state_of(self, recording: Recording) -> tuple[str, str]:
        """`ready` when its L2 file is current and passed; else `failed`, `stale` or `missing`, with why."""
        try:
            plan = self.ingest_plan(recording)
            recipe = recipe_of(plan)
        except (TrajpipeError, OSError) as error:
            return "failed", str(error)
        failure = provenance.beside(plan.target, names.SUFFIX_FAILURE)
        if failure.is_file():
            noted = jsontext.loads(failure.read_bytes(), place=failure)
            if noted.get("key") == recipe.key():
                return "failed", str(noted.get("error"))
        if not plan.target.exists():
            return "missing", "not ingested yet"
        if not provenance.unchanged(plan.target, recipe):
            return "stale", "the recording or its options changed since its L2 file was made"
        report = self.stored_checks(plan.target)
        if report is None or report.blocked:
            return "failed", "a blocking check failed"
        return "ready", ""

    def stored_checks(self, output: Path) -> CheckReport | None:
        """The check report beside an output."""
        path = provenance.beside(output, names.SUFFIX_CHECKS)
        return (
            CheckReport.from_json(jsontext.loads(path.read_bytes(), place=path)) if path.is_file() else None
        )

    def stored_ledger(self, output: Path) -> Ledger | None:
        """The ledger beside an output."""
        path = provenance.beside(output, names.SUFFIX_LEDGER)
        return Ledger.load(path) if path.is_file() else None

    def ready_inputs(
        self, name: str, recordings: Sequence[Recording] | None = None
    ) -> tuple[tuple[Path, ...], dict[str, str]]:
        """L2 files that can be built from, and recording → why for those that are missing."""
        ready: list[Path] = []
        failed: dict[str, str] = {}
        for recording in self.recordings(name) if recordings is None else recordings:
            state, why = self.state_of(recording)
            if state == "ready":
                ready.append(self.demos_path(recording))
            else:
                failed[recording.path.name] = f"{state}: {why}"
        return tuple(ready), failed

    def store_plans(self, name: str) -> list[StorePlan]:
        """The plan of each store of a dataset, from the L2 files that are ready: one, or one per family."""
        if self.dataset(name).store.group_by == "none":
            return [store_plan(self, name, self.recordings(name))]
        families: dict[str, list[Recording]] = {}
        for recording in self.recordings(name):
            families.setdefault(family_of(recording), []).append(recording)
        return [store_plan(self, name, families[f], f) for f in natural_sorted(families)]

    def store_checks(self, name: str) -> CheckReport | None:
        """The stored check reports of a dataset's stores as one; None when one is missing."""
        reports = [self.stored_checks(plan.target) for plan in self.store_plans(name)]
        found = [r for r in reports if r is not None]
        return merged(found) if found and len(found) == len(reports) else None

    def export_plan(self, name: str) -> export_lerobot.ExportPlan:
        """The plan of a dataset's LeRobot export from the L2 files that are ready."""
        dataset, (inputs, failed) = self.dataset(name), self.ready_inputs(name)
        return export_lerobot.ExportPlan(
            dataset=name,
            inputs=inputs,
            target=self.lerobot_path(name),
            options=export_lerobot.options_of(dataset.export, dataset.task),
            fps=dataset.export.fps,
            failed=failed,
            chain=lambda: self._chain(name, inputs),
        )

    def _chain(self, name: str, inputs: tuple[Path, ...]) -> ChainPlan:
        """All stages of a dataset, for its certificate."""
        return ChainPlan(
            dataset=name,
            recordings={self.demos_path(r): r.path for r in self.recordings(name)},
            inputs=inputs,
            stores=tuple(p for p in self.store_plans(name) if p.inputs and p.target.is_file()),
        )

    def require_distinct_outputs(self, datasets: Sequence[str]) -> None:
        """Refuse two recordings that would write one L2 file.

        Raises:
            CatalogueError: names the file and both recordings.
        """
        paths = [(self.demos_path(r), f"{n}/{r.key}") for n in datasets for r in self.recordings(n)]
        for path, count in Counter(p for p, _ in paths).items():
            if count > 1:
                who = " and ".join(owner for p, owner in paths if p == path)
                raise CatalogueError(
                    "two recordings would write one L2 file",
                    place=path.name,
                    got=who,
                    hint="Give the datasets different `task_name:`.",
                )
