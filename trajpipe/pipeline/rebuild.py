"""Making a published version again from its recipe and the raw recordings, and proving that it is the same.

What is not here: fetching a version, see `trajpipe.hub.pull`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajpipe.core import atomic, jsontext, names, provenance
from trajpipe.core.errors import InputError, OutputExistsError, TrajpipeError, UntrustedError
from trajpipe.core.progress import Progress, silent
from trajpipe.hub import Manifest
from trajpipe.hub.listing import local_path, why_unsafe
from trajpipe.hub.manifest import PART_CARD
from trajpipe.hub.verify import compare
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.publish import publication_of_dataset
from trajpipe.pipeline.publish_recipe import FOLDER_MODELS, PACKAGES
from trajpipe.pipeline.run import RunOptions, run


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild made.

    Attributes:
        path: The folder, in the published layout; only there when everything is the same.
        tag: The version's tag.
        files: Files that were compared.
        bytes: Their size.
        missing: Paths that the rebuild did not make.
        different: Paths whose bytes are others.
        versions: Package → (published with, here), where they differ.
    """

    path: Path
    tag: str
    files: int
    bytes: int
    missing: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    versions: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Every file came out bit for bit."""
        return not self.missing and not self.different

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--json`."""
        return {
            "path": str(self.path),
            "tag": self.tag,
            "files": self.files,
            "bytes": self.bytes,
            "missing": list(self.missing),
            "different": list(self.different),
            "versions": {k: list(v) for k, v in self.versions.items()},
            "same": self.same,
        }


def rebuild(
    manifest: Manifest,
    raw: Sequence[Path],
    destination: Path,
    *,
    jobs: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> Rebuilt:
    """Build a published version from its recipe; nothing is fetched.

    Args:
        manifest: The version.
        raw: Folders to look for the raw recordings in, by name and SHA-256.
        destination: Where the files go, in the published layout.
        jobs: Recordings at a time.
        force: Replace the destination.
        progress: Called with recordings, frames and verified bytes.

    Returns:
        What was made. When a byte differs the destination is not written.

    Raises:
        InputError: the recipe cannot be rebuilt from (it was pushed from a path), or a recording is missing.
        OutputExistsError: the destination exists.
    """
    if destination.exists() and not force:
        raise OutputExistsError(
            "the destination exists", place=destination, hint="Use --force to replace it."
        )
    entry, inputs = _recipe(manifest)
    with atomic.named_temporary(destination) as temporary:
        project = _project(temporary.parent / "work", manifest.dataset, entry, _found(inputs, raw))
        result = run(project, [manifest.dataset], RunOptions(jobs=jobs), progress=progress)
        broken = [r for r in result.results if not r.usable and r.stage is not names.Stage.DEMOS]
        if broken:
            raise InputError("the rebuild failed", place=broken[0].path.name, got=broken[0].error)
        made = publication_of_dataset(project, manifest.dataset, "rebuilt/here")
        wanted = [e for e in manifest.entries if e.part != PART_CARD]
        for item in wanted:
            if item.path in made.files:
                target = local_path(temporary, item.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                made.files[item.path].rename(target)
        temporary.mkdir(exist_ok=True)
        missing, different = compare(temporary, wanted, progress)
        if not missing and not different:
            (temporary / names.HUB_MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
            atomic.publish_folder(temporary, destination)
    size = sum(e.size for e in wanted)
    return Rebuilt(
        destination, manifest.tag, len(wanted), size, missing, different, _other_versions(manifest)
    )


def _recipe(manifest: Manifest) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The catalogue entry and the inputs of a recipe.

    Raises:
        InputError: there are none.
        UntrustedError: an input's path leaves its folder.
    """
    entry, inputs = manifest.recipe.get("dataset"), manifest.recipe.get("inputs")
    if not isinstance(entry, dict) or not isinstance(inputs, list) or not manifest.dataset.isidentifier():
        raise InputError(
            "this version says not how to make it",
            place=manifest.dataset,
            hint="It was pushed from a path. Push it as a dataset of a catalogue, or pull it.",
            code="no-recipe",
        )
    rows = []
    for row in inputs:
        path, sha256, role = (
            row.get(k) if isinstance(row, dict) else None for k in ("path", "sha256", "role")
        )
        if not isinstance(path, str) or not isinstance(sha256, str) or role not in ("recording", "model"):
            raise InputError("an input of the recipe is not valid", place=manifest.dataset, got=row)
        if (why := why_unsafe(path)) is not None:
            raise UntrustedError("an input's path is refused", place=manifest.dataset, got=f"{path!r}: {why}")
        rows.append({"path": path, "sha256": sha256, "role": str(role)})
    _require_inside(entry, manifest.dataset)
    return entry, rows


def _require_inside(entry: dict[str, Any], name: str) -> None:
    """Refuse globs that leave the rebuild's own folder: the manifest may be anybody's."""
    store = entry.get("store")
    target = store.get("target") if isinstance(store, dict) else None
    model = target.get("model") if isinstance(target, dict) else None
    if model is not None and (
        not str(model).startswith(f"{FOLDER_MODELS}/") or ".." in str(model).split("/")
    ):
        raise UntrustedError("the recipe's model is refused", place=name, got=model)
    raw = entry.get("raw")
    for one in raw if isinstance(raw, list) else []:
        patterns = one.get("glob") if isinstance(one, dict) else None
        for pattern in [patterns] if isinstance(patterns, str) else patterns or []:
            inside = isinstance(pattern, str) and pattern.startswith(f"{names.FOLDER_RAW}/{name}/")
            if not inside or ".." in pattern.split("/"):
                raise UntrustedError("a glob of the recipe is refused", place=name, got=pattern)
        if isinstance(one, dict) and one.get("hub"):
            raise UntrustedError("the recipe wants to fetch", place=name, got=one["hub"])


def _found(inputs: Sequence[dict[str, str]], raw: Sequence[Path]) -> dict[str, tuple[str, Path]]:
    """Path in the recipe → (role, where it is), found by name and hash.

    Raises:
        InputError: one is nowhere; all that are missing are counted.
    """
    out: dict[str, tuple[str, Path]] = {}
    missing = []
    by_name: dict[str, list[Path]] = {}
    for folder in raw:
        for path in _everything(folder):
            by_name.setdefault(path.name, []).append(path)
    for row in inputs:
        name = row["path"].split("/")[-1]
        match = next((p for p in by_name.get(name, []) if _has_hash(p, row["sha256"])), None)
        if match is None:
            missing.append(f"{row['path']} ({row['sha256'][:12]}…)")
        else:
            out[row["path"]] = (row["role"], match.absolute())
    if missing:
        raise InputError(
            f"{len(missing)} of {len(inputs)} raw inputs are not at hand",
            got=", ".join(missing[:5]),
            hint="Name their folders with --raw; they are found by name and SHA-256.",
            code="missing-raw",
        )
    return out


def _everything(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    yield folder
    yield from sorted(folder.rglob("*"))


def _has_hash(path: Path, sha256: str) -> bool:
    try:
        return provenance.sha256_path(path) == sha256
    except (OSError, TrajpipeError):
        return False


def _project(root: Path, name: str, entry: dict[str, Any], inputs: Mapping[str, tuple[str, Path]]) -> Project:
    """A project of this one dataset, its raw recordings linked into place."""
    for path, (role, there) in inputs.items():
        folder = root / FOLDER_MODELS if role == "model" else root / names.FOLDER_RAW / name
        link = local_path_of_link(folder, path)
        link.symlink_to(there)
    catalogue = root / names.CATALOGUE
    atomic.write_text(catalogue, jsontext.dumps({"version": 1, "datasets": {name: entry}}, indent=2) + "\n")
    return Project.open(catalogue)


def local_path_of_link(folder: Path, path: str) -> Path:
    """Where an input is linked, its folders made."""
    folder.mkdir(parents=True, exist_ok=True)
    link = local_path(folder, path)
    link.parent.mkdir(parents=True, exist_ok=True)
    return link


def _other_versions(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Packages that are of another version here than where it was published."""
    from importlib.metadata import PackageNotFoundError, version

    recorded = manifest.recipe.get("packages")
    out: dict[str, tuple[str, str]] = {}
    for package in ("trajpipe", *PACKAGES):
        then = recorded.get(package) if isinstance(recorded, dict) else None
        try:
            now = provenance.package_version() if package == "trajpipe" else version(package)
        except PackageNotFoundError:
            now = "absent"
        if isinstance(then, str) and then != now:
            out[package] = (then, now)
    return out
