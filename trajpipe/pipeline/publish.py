"""Publishing a project's dataset on the Hub, or files that lie somewhere.

What is not here: the protocol, see `trajpipe.hub`; the recipe and the card's facts, see `publish_recipe.py`
and `publish_card.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from trajpipe.core import jsontext, names, provenance
from trajpipe.core.errors import InputError, StateError, UsageError
from trajpipe.core.names import Stage
from trajpipe.core.paths import without_absolute_paths_in
from trajpipe.core.progress import Progress, silent
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.hdf5.files import open_hdf5
from trajpipe.hub import (
    CardFacts,
    CardTable,
    Publication,
    PushOptions,
    PushResult,
    Repository,
    files_below,
    plan_push,
    push,
)
from trajpipe.hub.manifest import lerobot_tag, part_of
from trajpipe.pipeline import certify
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.publish_card import (
    checks_table,
    columns_table,
    contact_sheet,
    features_table,
    info_of,
    sources_table,
    stage_reports,
)
from trajpipe.pipeline.publish_recipe import recipe_of_dataset
from trajpipe.pipeline.run import plan
from trajpipe.pipeline.store_plan import StorePlan
from trajpipe.store.inspect import describe

HUB: Final = "hub"
_INFO: Final = "meta/info.json"


def publication_of_dataset(project: Project, name: str, repo: str) -> Publication:
    """What a project's dataset publishes: its L2 files, store and LeRobot tree, as `hub: parts:` says.

    Args:
        project: The project.
        name: Dataset name.
        repo: `org/name`, for the card's loading lines.

    Raises:
        StateError: an output is not built, not current, or a blocking check failed; nothing half-good is
            published.
    """
    dataset = project.dataset(name)
    parts = dataset.hub.parts if dataset.hub is not None else ("store", "lerobot", "demos")
    demos, failed = project.ready_inputs(name)
    _require_ready(project, name, parts)
    stores = _stores(project, name) if "store" in parts else []
    files: dict[str, Path] = {}
    if "demos" in parts:
        files |= {f"{names.FOLDER_DEMOS}/{path.name}": path for path in demos}
    folder = project.root / names.FOLDER_STORES
    files |= {f"{names.FOLDER_STORES}/{p.relative_to(folder).as_posix()}": p for p in stores}
    lerobot = project.lerobot_path(name) if "lerobot" in parts else None
    if lerobot is not None:
        files |= {path: f for path, f in files_below(lerobot).items() if path != names.HUB_CARD}
    outputs = [
        *demos,
        *(s for s in stores if s.suffix == names.SUFFIX_STORE),
        *([lerobot] if lerobot else []),
    ]
    sheet = contact_sheet(demos)
    notes = [f"Not in this version: {recording} ({why})" for recording, why in sorted(failed.items())]
    tables = [
        *(columns_table(s) for s in stores if s.suffix == names.SUFFIX_STORE),
        *([features] if lerobot is not None and (features := features_table(lerobot)) else []),
        sources_table(project, name),
        checks_table(stage_reports(project, name)),
    ]
    facts = CardFacts(
        repo,
        name,
        dataset.description,
        dataset.license,
        *_counts(stores, lerobot),
        lerobot=lerobot is not None,
        lerobot_tag=_tag_of(files),
        stores=tuple(p for p in sorted(files) if part_of(p) == "store" and p.endswith(names.SUFFIX_STORE)),
        tags=tuple(sorted({r.entry.tag for r in project.recordings(name) if r.entry.tag})),
        tables=tuple(tables),
        notes=tuple(notes),
        contact_sheet=sheet is not None,
    )
    recipe = recipe_of_dataset(project, name, outputs)
    texts = {names.HUB_CONTACT_SHEET: sheet} if sheet is not None else {}
    if lerobot is not None and (certificate := certify.stored(lerobot)) is not None:
        text = jsontext.dumps(without_absolute_paths_in(certificate), indent=2) + "\n"
        texts[names.CERTIFICATE] = text.encode()
    return Publication(files, name, dataset.license, recipe, facts, texts)


def publication_of_path(path: Path, repo: str, licence: str | None = None) -> Publication:
    """What a file or folder publishes: an L2 file, a store, a LeRobot tree, or a folder of these as it is.

    Args:
        path: File or folder.
        repo: `org/name`.
        licence: SPDX name of the data's licence.

    Raises:
        InputError: there is no such file, it is neither L2 nor a store, or the folder is empty.
    """
    name = path.name.split(".")[0] or path.resolve().name
    if path.is_dir():
        known = (names.HUB_CARD, names.HUB_MANIFEST, names.HUB_RECEIPT)
        files = {p: f for p, f in files_below(path).items() if p not in known}
    else:
        files = {f"{_folder_of(path)}/{path.name}": path}
    if not files:
        raise InputError("there is nothing to push", place=path, code="missing-file")
    stores = [f for p, f in sorted(files.items()) if part_of(p) == "store" and f.suffix == names.SUFFIX_STORE]
    lerobot = path if path.is_dir() and _INFO in files else None
    tables: list[CardTable] = [columns_table(s) for s in stores]
    if lerobot is not None and (features := features_table(lerobot)) is not None:
        tables.append(features)
    facts = CardFacts(
        repo,
        name,
        "",
        licence,
        *_counts(stores, lerobot),
        lerobot=lerobot is not None,
        lerobot_tag=_tag_of(files),
        stores=tuple(p for p in sorted(files) if part_of(p) == "store" and p.endswith(names.SUFFIX_STORE)),
        tables=tuple(tables),
    )
    stamps = {p: _stamped(f) for p, f in sorted(files.items())}
    recipe: dict[str, Any] = {
        "packages": {"trajpipe": provenance.package_version()},
        "stages": [stamp for stamp in stamps.values() if stamp],
    }
    return Publication(files, name, licence, recipe, facts)


def push_dataset(
    project: Project,
    name: str,
    *,
    repo: str | None = None,
    options: PushOptions | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
) -> PushResult:
    """Publish a dataset where its catalogue says, or elsewhere.

    Args:
        project: The project.
        name: Dataset name.
        repo: `org/name`; the catalogue's when None.
        options: As given; the catalogue's when None.
        dry_run: Tell what would be moved, and move nothing.
        progress: Called with `hashed bytes` and `uploaded bytes`.

    Raises:
        UsageError: neither the call nor the catalogue names a repository.
        StateError: an output is not built, not current, or failed a blocking check.
        HubError: the Hub refused.
    """
    declared = project.dataset(name).hub
    target = repo or (declared.repo if declared is not None else None)
    if target is None:
        raise UsageError(
            "there is no repository to push to",
            place=name,
            hint=f"Say --repo org/{name}, or add `hub: {{repo: org/{name}}}` to the dataset.",
        )
    chosen = options or options_of_dataset(project, name)
    publication = publication_of_dataset(project, name, target)
    act = plan_push if dry_run else push
    return act(publication, Repository(target), chosen, progress=progress)


def options_of_dataset(project: Project, name: str) -> PushOptions:
    """How the catalogue wants a dataset published."""
    hub = project.dataset(name).hub
    if hub is None:
        return PushOptions()
    return PushOptions(private=hub.private, tag=hub.tag, allow_license=hub.allow_license)


def _require_ready(project: Project, name: str, parts: Sequence[str]) -> None:
    for step in plan(project, [name]):
        if step.stage is Stage.DEMOS or step.stage.value not in parts:
            continue
        if step.state != "ready":
            raise StateError(
                f"the {step.stage.value} of {name} is not ready to be published",
                place=step.path,
                got=f"{step.state}: {step.why}",
                hint=f"Bring it up to date: trajpipe run {name}",
                code="not-ready",
            )


def _stores(project: Project, name: str) -> list[Path]:
    """The stores of a dataset with the remap tables beside them."""
    plans = project.store_plans(name)
    tables = {table for one in plans if (table := remap_table(one)) is not None and table.is_file()}
    return [*(one.target for one in plans), *sorted(tables)]


def _counts(stores: Sequence[Path], lerobot: Path | None) -> tuple[int, int]:
    """(episodes, rows) of the stores, else of the LeRobot tree."""
    found = [describe(s) for s in stores if s.suffix == names.SUFFIX_STORE]
    if found:
        return sum(int(d["episodes"]["count"]) for d in found), sum(int(d["rows"]) for d in found)
    info = info_of(lerobot) if lerobot is not None else {}
    counts = [info.get(key) for key in ("total_episodes", "total_frames")]
    episodes, rows = (c if isinstance(c, int) else 0 for c in counts)
    return episodes, rows


def _tag_of(files: dict[str, Path]) -> str | None:
    info = files.get(_INFO)
    return lerobot_tag(files, info.read_bytes() if info is not None else None)


def _folder_of(path: Path) -> str:
    """`stores` or `demos`, by the file's content.

    Raises:
        InputError: it is not there, or neither.
    """
    if not path.is_file() or not looks_like_hdf5(path):
        raise InputError(
            "only an L2 file, a store, or a folder can be pushed",
            place=path,
            hint="Look at it with `trajpipe inspect`.",
            code="missing-file" if not path.exists() else "not-publishable",
        )
    with open_hdf5(path) as handle:
        if names.STORE_MANIFEST in handle:
            return names.FOLDER_STORES
        if names.GROUP_DATA in handle:
            return names.FOLDER_DEMOS
    raise InputError("the file is neither L2 nor a store", place=path, code="not-publishable")


def _stamped(path: Path) -> dict[str, Any]:
    """The recipe stamp beside a file without what is of this machine; empty when there is none."""
    stamp = provenance.read_stamp(path)
    if stamp is None:
        return {}
    return {
        key: stamp[key] for key in ("stage", "inputs", "options", "code", "package", "key") if key in stamp
    }


def remap_table(one: StorePlan) -> Path | None:
    """Where the remap table beside a LIBERO store is; None for other stores."""
    if one.libero is None or not one.libero.state:
        return None
    scope = one.libero.family or one.libero.suite
    return one.target.with_name(f"{names.REMAP_TABLE}{scope}{names.SUFFIX_REMAP}")
