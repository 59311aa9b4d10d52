"""Merging L2 files into one: dense numbers, masks renamed, every demo's tag and source kept.

What is not here: mixing recordings of different kinds, which the catalogue does before L2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trajpipe.core import jsontext, names, provenance
from trajpipe.core.atomic import atomic_file
from trajpipe.core.conventions import QuaternionSite, quaternion_candidates
from trajpipe.core.episode import Column, Episode, mapped
from trajpipe.core.errors import InputError, SchemaError, UsageError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.order import natural_sorted
from trajpipe.core.quaternions import QuaternionOrder, to_xyzw_at
from trajpipe.demos.images import ImageLayout
from trajpipe.demos.reader import DemosFile
from trajpipe.demos.writer import DemosWriter

_LISTED: Final = 6


@dataclass(frozen=True, slots=True)
class LegacyOrder:
    """What is declared about inputs that have no format_version 1.

    Attributes:
        order: The order of their quaternions.
        quaternions: Where they lie; needed when the order is `wxyz`.
    """

    order: QuaternionOrder
    quaternions: tuple[QuaternionSite, ...] = ()


@dataclass(slots=True)
class Merged:
    """What a merge did.

    Attributes:
        demos: New name → (input's base name, its name there), in order.
        total: Rows written.
        findings: Attributes of /data that the inputs disagree on and that were left out.
    """

    demos: dict[str, tuple[str, str]] = field(default_factory=dict)
    total: int = 0
    findings: list[Finding] = field(default_factory=list)


def merge(
    paths: Sequence[Path],
    destination: Path,
    *,
    legacy: LegacyOrder | None = None,
    image_layout: ImageLayout = "strips",
    fletcher32: bool = False,
    overwrite: bool = False,
) -> Merged:
    """Merge L2 files in the order given; the destination appears whole or not at all.

    Args:
        paths: The inputs, at least one, each once.
        destination: The merged L2 file.
        legacy: Declares the quaternion order of inputs without format_version 1.
        image_layout: Of the merged file.
        fletcher32: Write checksums.
        overwrite: Replace an existing destination.

    Raises:
        InputError: format_version is mixed or missing and no order is declared; env_args or rates differ
            (the differences are listed); an input's masks overlap.
        SchemaError: demos differ in their terms, widths or dtypes (file and keys are named).
        UsageError: no inputs, or one given twice.
        OutputExistsError: the destination exists.
    """
    if not paths or len({p.resolve() for p in paths}) != len(paths):
        raise UsageError("a merge takes one input at least, each once", got=[p.name for p in paths])
    with ExitStack() as stack:
        files = [stack.enter_context(DemosFile(p, require_version=False)) for p in paths]
        _require_version(files, legacy)
        env_args = _agreed(files, "env_args", [f.env_args for f in files])
        _agreed(files, "fps", [{"fps": str(f.fps)} for f in files])
        _require_one_layout(files)
        merged = Merged()
        attributes = _common_attributes(files, merged)
        temporary = stack.enter_context(atomic_file(destination, overwrite=overwrite))
        writer = stack.enter_context(
            DemosWriter(
                temporary,
                env_args=env_args,
                recipe=_recipe(files),
                image_layout=image_layout,
                fletcher32=fletcher32,
                attributes=attributes,
            )
        )
        writer.set_masks(_write(writer, files, legacy, merged))
    return merged


def _write(
    writer: DemosWriter, files: Sequence[DemosFile], legacy: LegacyOrder | None, merged: Merged
) -> dict[str, list[str]]:
    """Write all demos; the masks under the new names."""
    masks: dict[str, list[str]] = {}
    for file in files:
        new: dict[str, str] = {}
        for episode in file.episodes():
            name = writer.write(_converted(episode, file, legacy))
            new[episode.name] = name
            merged.demos[name] = (file.path.name, episode.name)
        for mask, demos in _valid_masks(file).items():
            masks.setdefault(mask, []).extend(new[d] for d in demos)
    merged.total = writer.total
    return masks


def _valid_masks(file: DemosFile) -> Mapping[str, tuple[str, ...]]:
    masks = file.masks
    both = set(masks.get(names.MASK_TRAIN, ())) & set(masks.get(names.MASK_VALID, ()))
    strange = {d for demos in masks.values() for d in demos} - set(file.demos)
    for rule, demos in (
        ("train and valid masks overlap", both),
        ("a mask names no demo of the file", strange),
    ):
        if demos:
            place = Place(file=file.path.name, column=names.GROUP_MASK)
            raise InputError(rule, place=place, got=_listed(demos), code="bad-mask")
    return masks


def _require_version(files: Sequence[DemosFile], legacy: LegacyOrder | None) -> None:
    old = [f.path.name for f in files if not f.is_version_1]
    if not old or legacy is not None:
        return
    raise InputError(
        "inputs have a mixed or missing format_version, so their quaternion order is not known",
        got=f"no format_version 1 in {_listed(old)}",
        expected="format_version 1 in every input",
        hint="Declare the order of these files (legacy order), or ingest them as raw recordings.",
        code="mixed-format-version",
    )


def _converted(episode: Episode, file: DemosFile, legacy: LegacyOrder | None) -> Episode:
    """The episode with every declared quaternion xyzw."""
    if file.is_version_1 or legacy is None or legacy.order == "xyzw":
        return episode
    sites = {p: _site(legacy, p) for p in [*episode.columns, *episode.extras]}
    missing = [
        path
        for path, column in {**episode.columns, **episode.extras}.items()
        if sites[path] is None and quaternion_candidates(path, column.shape[1:])
    ]
    if missing:
        raise InputError(
            "a legacy file holds what may be quaternions and is not declared",
            place=Place(file=file.path.name, demo=episode.name),
            got=_listed(missing),
            hint="Declare each path, with no offsets when it holds no quaternion.",
            code="undeclared-quaternion",
        )
    return replace(
        episode,
        columns={p: _xyzw(c, sites[p]) for p, c in episode.columns.items()},
        extras={p: _xyzw(c, sites[p]) for p, c in episode.extras.items()},
    )


def _site(legacy: LegacyOrder, path: str) -> QuaternionSite | None:
    return next((s for s in legacy.quaternions if s.matches(path)), None)


def _xyzw(column: Column, site: QuaternionSite | None) -> Column:
    if site is None or not site.starts or site.order == "xyzw":
        return column
    return mapped(column, lambda rows: to_xyzw_at(rows, site.starts, "wxyz"))


def _agreed(files: Sequence[DemosFile], what: str, values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The value that all inputs share; an error lists each differing key with both values."""
    first = values[0]
    for file, value in zip(files, values, strict=True):
        if value != first:
            keys = natural_sorted(k for k in {*first, *value} if first.get(k) != value.get(k))
            got = "; ".join(f"{k}: {value.get(k)!r} against {first.get(k)!r}" for k in keys[:_LISTED])
            raise InputError(
                f"inputs of a merge have one {what}",
                place=Place(file=file.path.name),
                got=got,
                expected=f"the {what} of {files[0].path.name}",
                code=f"different-{what.replace('_', '-')}",
            )
    return first


def _require_one_layout(files: Iterable[DemosFile]) -> None:
    """Every demo of every input has the first demo's paths, widths and dtypes."""
    first: tuple[str, dict[str, str]] | None = None
    for file, episode in _all(files):
        layout = _layout(episode)
        place = f"{file.path.name}:{episode.name}"
        if first is None:
            first = (place, layout)
        if layout != first[1]:
            lines = [
                f"{path} {layout.get(path, 'absent')} against {first[1].get(path, 'absent')}"
                for path in natural_sorted({*layout, *first[1]})
                if layout.get(path) != first[1].get(path)
            ]
            raise SchemaError(
                "demos of a merge have the same terms",
                place=place,
                got=_listed(lines),
                expected=f"the terms of {first[0]}",
                hint="Rename or drop terms in the catalogue (--rename KEY=TERM) so that both sides agree.",
                code="different-terms",
            )


def _all(files: Iterable[DemosFile]) -> Iterator[tuple[DemosFile, Episode]]:
    for file in files:
        for episode in file.episodes():
            yield file, episode


def _layout(episode: Episode) -> dict[str, str]:
    columns = {**episode.columns, **episode.extras}
    return {path: f"{column.dtype} {tuple(column.shape[1:])}" for path, column in columns.items()}


def _common_attributes(files: Sequence[DemosFile], merged: Merged) -> dict[str, Any]:
    """Attributes of /data that every input has with one value; the others are named and left out."""
    every = [f.attributes for f in files]
    kept = {}
    for key in natural_sorted({k for a in every for k in a}):
        texts = {jsontext.dumps(_plain(a[key])) if key in a else None for a in every}
        if len(texts) == 1:
            kept[key] = every[0][key]
        else:
            merged.findings.append(
                Finding(
                    "merge-attribute-differs",
                    Severity.INFO,
                    "the inputs disagree on this attribute, so it is left out",
                    Place(column=f"{names.GROUP_DATA}@{key}"),
                    got=f"{len(texts)} values in {len(files)} files",
                )
            )
    return kept


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _recipe(files: Sequence[DemosFile]) -> dict[str, Any]:
    inputs = [
        {"file": f.path.name, "sha256": provenance.sha256_file(f.path), "recipe": f.recipe} for f in files
    ]
    recipe: dict[str, Any] = {"stage": names.Stage.DEMOS.value, "merged": inputs}
    rate = files[0].fps
    return recipe if rate is None else recipe | {"fps": str(rate)}


def _listed(items: Iterable[str]) -> str:
    ordered = natural_sorted(items)
    more = f" and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else ""
    return ", ".join(ordered[:_LISTED]) + more
