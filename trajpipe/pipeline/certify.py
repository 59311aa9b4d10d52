"""Certificates: the chain of a dataset put together for its rules, and the document beside the export.

Recordings are read again as their L2 files' recipes declare. What is not here: the rules, see
`trajpipe.checks.certificate`; reading recipes back, see `recorded.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.certificate_chain import CONTEXT, Chain, RawSide, StoreSide
from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import atomic, jsontext, names, provenance
from trajpipe.core.errors import InputError, TrajpipeError
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Reason, Stage
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.build_store import sha256_of_output, store_context
from trajpipe.pipeline.ingest import recording_sha256
from trajpipe.pipeline.recorded import read_again, reading_of
from trajpipe.pipeline.store_plan import StorePlan

VERSION: Final = 1
SUFFIX: Final = "." + names.CERTIFICATE
SUFFIX_PICTURE: Final = ".certificate.png"
RULES: Final = ("certificate-*",)


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """What a certificate is to be about.

    Attributes:
        dataset: Dataset name.
        recordings: L2 file → its recording.
        inputs: L2 files of the export, in order.
        stores: Plans of the stores, which are there.
        export: Context of the export's rules.
        task: Text that the export gives to episodes without one.
    """

    dataset: str
    recordings: Mapping[Path, Path]
    inputs: tuple[Path, ...]
    stores: tuple[StorePlan, ...]
    export: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""


def chain_of(plan: ChainPlan) -> Chain:
    """The chain of a plan; nothing is compared yet.

    Raises:
        InputError: an L2 file's or a store's own record is damaged.
    """
    return Chain(
        dataset=plan.dataset,
        raw=tuple(raw_side(l2, plan.recordings[l2]) for l2 in plan.inputs if l2 in plan.recordings),
        l2=plan.inputs,
        stores=tuple(store_side(store) for store in plan.stores),
        export=plan.export,
        task=plan.task,
    )


def raw_side(l2: Path, recording: Path) -> RawSide:
    """A recording beside the L2 file that was made of it."""
    with DemosFile(l2) as demos:
        recipe = demos.recipe
    try:
        reading = reading_of(recipe, recording)
    except InputError as error:
        return RawSide(recording.name, l2, lambda: iter(()), problem=str(error))
    rejected = rejections(l2)
    return RawSide(
        name=recording.name,
        l2=l2,
        episodes=partial(read_again, reading, rejected),
        sha256=recording_sha256(recording, l2),
        recorded_name=reading.name,
        recorded_sha256=reading.sha256,
        transforms=reading.transforms,
        rejected=rejected,
    )


def rejections(output: Path) -> dict[str, str]:
    """Episode name → reason of all rejections in the ledger beside an output; empty without one."""
    path = provenance.beside(output, names.SUFFIX_LEDGER)
    return {r.episode: r.reason for r in Ledger.load(path).rejected} if path.is_file() else {}


def store_side(plan: StorePlan) -> StoreSide:
    """A store beside its L2 files."""
    context = store_context(plan)
    columns: Mapping[str, Any] = context.get("columns") or {}
    pictures = {name: tuple(paths) for name, paths in columns.items() if paths and _are_frames(plan, paths)}
    if columns:
        context["columns"] = {n: p for n, p in columns.items() if n not in pictures}
    ledger = provenance.beside(plan.target, names.SUFFIX_LEDGER)
    reasons = Ledger.load(ledger).reasons() if ledger.is_file() else {}
    return StoreSide(
        path=plan.target,
        l2=plan.inputs,
        context=context,
        images=pictures,
        resampled=plan.lafan is not None,
        capped=reasons.get(Reason.OVER_CAP.value, 0),
    )


def _are_frames(plan: StorePlan, paths: tuple[str, ...] | list[str]) -> bool:
    with DemosFile(plan.inputs[0]) as demos:
        first = next(iter(demos.episodes()))
        return all(p in first.columns and len(first.columns[p].shape) == 4 for p in paths)


def certify(plan: ChainPlan, target: Path, bound_db: float | None = None) -> tuple[CheckReport, Chain]:
    """Run the certificate's rules on an export.

    Args:
        plan: What it is about.
        target: The export.
        bound_db: Least PSNR of a sampled frame; 30 when None.
    """
    chain = chain_of(plan)
    chain.bound_db = chain.bound_db if bound_db is None else bound_db
    return run_checks(Stage.LEROBOT, target, context={CONTEXT: chain}, select=RULES), chain


def hashes(plan: ChainPlan, target: Path, sha256: str = "") -> dict[str, dict[str, str]]:
    """Stage → name → SHA-256 of every file or folder of a chain."""
    raw = {plan.recordings[p].name: recording_sha256(plan.recordings[p], p) for p in plan.recordings}
    return {
        "raw": dict(sorted(raw.items())),
        "demos": {p.name: sha256_of_output(p) for p in sorted(plan.inputs)},
        "store": {s.target.name: sha256_of_output(s.target) for s in plan.stores},
        "lerobot": {target.name: sha256 or sha256_of_output(target)},
    }


def document(
    plan: ChainPlan, chain: Chain, report: CheckReport, stages: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The certificate: what was compared, what was found, plain JSON values."""
    results = [r for r in report.results if r.code.startswith("certificate-")]
    worst = chain.worst
    shown = None
    if worst is not None:
        decibels = None if worst.db == float("inf") else round(worst.db, 2)
        shown = {"db": decibels, "episode": worst.episode, "camera": worst.camera, "row": worst.row}
    return {
        "version": VERSION,
        "dataset": plan.dataset,
        "passed": bool(results) and all(r.passed for r in results),
        "stages": stages,
        "transforms": {s.name: list(s.transforms) for s in chain.raw},
        "rejected": {s.name: dict(sorted(s.rejected.items())) for s in chain.raw if s.rejected},
        "edges": [r.to_json() for r in results],
        "counts": {stage: count.to_json() for stage, count in chain.counts.items()},
        "frames": {"sampled": chain.frames, "bound_db": chain.bound_db, "worst": shown},
    }


def write(target: Path, value: Mapping[str, Any], chain: Chain) -> Path:
    """Write `<export>.certificate.json`, and the worst frame beside its source as `.certificate.png`."""
    path = provenance.beside(target, SUFFIX)
    atomic.write_json(path, value)
    picture = provenance.beside(target, SUFFIX_PICTURE)
    if chain.worst is None:
        picture.unlink(missing_ok=True)
        return path
    from trajpipe.report.frame_pair import frame_pair

    with atomic.atomic_file(picture) as temporary:
        temporary.write_bytes(frame_pair(chain.worst.source, chain.worst.export))
    return path


def stored(target: Path) -> dict[str, Any] | None:
    """The certificate beside an export; None when there is none that can be read."""
    path = provenance.beside(target, SUFFIX)
    try:
        value = jsontext.loads(path.read_bytes(), place=path) if path.is_file() else None
    except TrajpipeError:
        return None
    return value if isinstance(value, dict) and value.get("version") == VERSION else None
