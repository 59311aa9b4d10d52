"""A certificate for four paths: which recording, L2 file and store belong together is told by their records.

What is not here: the certificate itself, see `certify.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import h5py

from trajpipe.checks.registry import CheckReport
from trajpipe.checks.store_episodes import Key, demos_of, episodes_of
from trajpipe.checks.store_reading import opened
from trajpipe.core import names, provenance
from trajpipe.core.errors import InputError, TrajpipeError, UsageError
from trajpipe.core.order import natural_sorted
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline import certify
from trajpipe.pipeline.certify import ChainPlan
from trajpipe.pipeline.store_plan import LafanOptions, LeRobotOptions, LiberoOptions, StorePlan
from trajpipe.sources.base import source, sources

RECORDING: Final = "a raw recording"
L2: Final = "an L2 file"
STORE: Final = "a trajectory store"
LEROBOT: Final = "a LeRobot folder"
FOLDER: Final = "a folder"
OTHER: Final = "a file of another form"
_PLACES: Final = ("first", "second", "third", "fourth")
_L2_SUFFIXES: Final = (".hdf5", ".h5")
_CONTEXT: Final = ("state", "action", "extras", "successful_only", "gr00t")


def certify_paths(
    raw: Path,
    l2: Path,
    store: Path,
    lerobot: Path,
    *,
    bound_db: float | None = None,
    model: Path | None = None,
) -> tuple[CheckReport, Path]:
    """Compare four stages and write the certificate beside the LeRobot folder.

    Args:
        raw: A recording, or a folder of recordings.
        l2: An L2 file, or a folder of them; those that the store or the export know take part.
        store: A store, or a folder of stores.
        lerobot: The LeRobot folder.
        bound_db: Least PSNR of a sampled frame; 30 when None.
        model: MJCF of a motion store's robot; looked for beside the files, by its hash, when None.

    Returns:
        The report, and where the certificate is.

    Raises:
        UsageError: a path is not there or is not what its place among the arguments says, nothing of it
            belongs to the others, or the robot's model is not the store's.
        InputError: a file's own record is damaged.
    """
    for path in (raw, l2, store, lerobot, *([] if model is None else [model])):
        if not path.exists():
            raise UsageError("no such file or folder", got=path)
    _require_kinds(raw, l2, store, lerobot)
    stores = sorted(store.glob(f"*{names.SUFFIX_STORE}")) if store.is_dir() else [store]
    files = _files(l2)
    near = [model] if model is not None else _models(raw, store)
    plans = [made for path in stores if (made := _store_plan(path, files, near)).inputs]
    inputs = tuple(dict.fromkeys(p for plan in plans for p in plan.inputs))
    if not inputs:
        got = f"{len(files)} L2 files, {len(stores)} stores"
        raise UsageError("no episode of the stores comes from these L2 files", got=got)
    options = (provenance.read_stamp(lerobot) or {}).get("options", {})
    plan = ChainPlan(
        dataset=lerobot.name,
        recordings={path: _recording(raw, path) for path in inputs},
        inputs=inputs,
        stores=tuple(plans),
        export={k: options[k] for k in _CONTEXT if options.get(k) is not None},
        task=str(options.get("task", "")),
    )
    return _certified(plan, lerobot, bound_db)


def _require_kinds(raw: Path, l2: Path, store: Path, lerobot: Path) -> None:
    """Each argument is of the stage that its place says; folders of files are looked into later."""
    wanted = (
        (raw, RECORDING, {RECORDING, L2, FOLDER, LEROBOT, OTHER}),
        (l2, L2, {L2, FOLDER}),
        (store, STORE, {STORE, FOLDER}),
        (lerobot, LEROBOT, {LEROBOT}),
    )
    for place, (path, expected, allowed) in zip(_PLACES, wanted, strict=True):
        found = kind_of_path(path)
        if found not in allowed:
            raise UsageError(
                f"the {place} argument is not what stands in that place",
                got=f"{path.name}: {found}",
                expected=expected,
                hint="The order is RAW L2 STORE LEROBOT.",
            )


def kind_of_path(path: Path) -> str:
    """What a path is, in words, told by content.

    Raises:
        UnreadableError: an HDF5 file that cannot be opened.
    """
    if path.is_dir():
        return LEROBOT if (path / "meta/info.json").is_file() else FOLDER
    if not looks_like_hdf5(path):
        return OTHER
    with opened(path) as file:
        if names.STORE_MANIFEST in file:
            return STORE
        data = file.get(names.GROUP_DATA)
        if not isinstance(data, h5py.Group):
            return OTHER
        return L2 if names.ATTR_TRAJPIPE in data.attrs else RECORDING


def _certified(plan: ChainPlan, lerobot: Path, bound_db: float | None) -> tuple[CheckReport, Path]:
    report, chain = certify.certify(plan, lerobot, bound_db)
    value = certify.document(plan, chain, report, certify.hashes(plan, lerobot))
    return report, certify.write(lerobot, value, chain)


def _files(l2: Path) -> dict[Path, dict[Key, str]]:
    """L2 file → its demos; files of a folder that are no L2 are passed over."""
    if l2.is_file():
        return {l2: demos_of(l2)}
    found: dict[Path, dict[Key, str]] = {}
    for path in natural_sorted(str(p) for p in l2.rglob("*") if p.suffix in _L2_SUFFIXES and p.is_file()):
        try:
            found[Path(path)] = demos_of(Path(path))
        except (TrajpipeError, OSError, KeyError):
            continue  # a folder may hold other HDF5 files
    return found


def _models(raw: Path, store: Path) -> list[Path]:
    """MJCF files that may be a store's: beside the recordings and the store, and in the project's folder."""
    folders = [raw if raw.is_dir() else raw.parent, store.parent, store.absolute().parent.parent]
    return [path for folder in dict.fromkeys(folders) for path in sorted(folder.glob("*.xml"))]


def _store_plan(path: Path, files: Mapping[Path, Mapping[Key, str]], models: Sequence[Path]) -> StorePlan:
    """The plan of a store by its own record; its L2 files in the order of its episodes."""
    with opened(path) as file:
        order = {e.key: number for number, e in reversed(list(enumerate(episodes_of(file, path.name))))}
    first = {p: min((order[k] for k in keys if k in order), default=-1) for p, keys in files.items()}
    inputs = sorted((p for p, at in first.items() if at >= 0), key=lambda p: first[p])
    options = (provenance.read_stamp(path) or {}).get("options", {})
    return StorePlan(
        dataset=str(options.get("dataset", path.stem)),
        inputs=tuple(inputs),
        target=path,
        terms=_names(options.get("terms")),
        cameras=_names(options.get("cameras")),
        images=bool(options.get("images", True)),
        demos_per_task=options.get("demos_per_task"),
        libero=_libero(options.get("libero")),
        lafan=_lafan(options.get("lafan"), models, path),
        lerobot=_lerobot(options.get("lerobot")),
    )


def _names(value: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _libero(value: Mapping[str, Any] | None) -> LiberoOptions | None:
    """The suite; its `state` column was proven when the store was built, its target model is not at hand."""
    if value is None:
        return None
    return LiberoOptions(value["suite"], tasks=_names(value.get("tasks")), state=False)


def _lafan(value: Mapping[str, Any] | None, models: Sequence[Path], store: Path) -> LafanOptions | None:
    """The robot that the store was built on; its record knows the model by its hash.

    Raises:
        UsageError: no model of this hash is at hand.
    """
    sha256 = None if value is None else value.get("model")
    if sha256 is None:
        return None if value is None else LafanOptions()
    for model in models:
        if provenance.sha256_file(model) == sha256:
            return LafanOptions(model)
    raise UsageError(
        "the store was built on another robot model than the built-in one, and it is not at hand",
        place=store.name,
        got=", ".join(m.name for m in models) or "no MJCF beside the files",
        expected=f"a model with SHA-256 {sha256[:12]}…",
        hint="Name it: --target-model robot.xml.",
        code="missing-model",
    )


def _lerobot(value: Mapping[str, Any] | None) -> LeRobotOptions | None:
    if value is None:
        return None
    size = value.get("size")
    return LeRobotOptions(None if size is None else (int(size[0]), int(size[1])))


def _recording(raw: Path, l2: Path) -> Path:
    """The recording that an L2 file was made of, by the name and the hash in its recipe.

    Raises:
        InputError: it is not there.
    """
    with DemosFile(l2) as demos:
        recipe = demos.recipe
    recorded = recipe.get("inputs", {})
    if not isinstance(recorded, Mapping) or len(recorded) != 1:
        return raw  # the rule of the edge says that the file does not tell
    (name, sha256), *_ = recorded.items()
    if raw.name == name or not raw.is_dir() or _is_recording(raw, recipe):
        return raw
    found = sorted(p for p in raw.rglob("*") if p.name == name)
    if len(found) > 1:
        found = [p for p in found if provenance.sha256_path(p) == sha256] or found
    if not found:
        raise InputError(
            "the recording of an L2 file is not there",
            place=l2.name,
            got=f"no {name} in {raw}",
            hint="Name the folder that holds all recordings of the dataset.",
            code="missing-file",
        )
    return found[0]


def _is_recording(folder: Path, recipe: Mapping[str, Any]) -> bool:
    """True for a folder that is a recording by itself, under whatever name it lies here."""
    options = recipe.get("options")
    kind = options.get("kind") if isinstance(options, Mapping) else None
    return kind in sources() and source(str(kind)).detect(folder)
