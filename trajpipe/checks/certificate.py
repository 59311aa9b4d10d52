"""The certificate's rules: raw → L2 → store → L3, each edge under its declared transform.

Low-dimensional columns bit for bit, frames sampled. Where a stage's own rule proves an edge, it is run, not
written again. What is not here: making the chain and writing the document (`trajpipe.pipeline.certify`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from typing import Any, Final

import av
import h5py
import numpy as np

from trajpipe.checks.certificate_chain import CONTEXT, Chain, Count, FramePair, RawSide, StoreSide
from trajpipe.checks.certificate_raw import compare_recording
from trajpipe.checks.lerobot_folder import folder_of
from trajpipe.checks.lerobot_l2 import L2Demos, frame_at, psnr
from trajpipe.checks.lerobot_video import Span, spans_of
from trajpipe.checks.registry import CheckReport, Subject, check, run_checks
from trajpipe.checks.store_episodes import episodes_of, origins
from trajpipe.checks.store_reading import opened
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.hdf5.open_files import OpenFiles

STAGE: Final = "lerobot"
RAW_EDGE: Final = "certificate-raw"
STORE_EDGE: Final = "certificate-store"
EXPORT_EDGE: Final = "certificate-export"
FRAMES: Final = "certificate-frames"
# Rules of a store that prove its rows from L2's; those whose layout is another do not apply by themselves.
STORE_RULES: Final = (
    "store-equals-l2",
    "store-lerobot-rows",
    "store-lerobot-images",
    "libero-qpos",
    "lafan-clips",
)
EXPORT_RULE: Final = "lerobot-equals-l2"
_IMAGES: Final = "observation.images."
_SAMPLES: Final = 3


def chain_of(subject: Subject) -> Chain:
    """The chain that the caller handed in."""
    chain: Chain = subject.context[CONTEXT]
    return chain


@check(
    RAW_EDGE,
    stage=STAGE,
    title="L2 is what the recordings hold, minus the ledger's rejections",
    needs=(CONTEXT,),
)
def raw_edge(subject: Subject) -> Iterator[Finding]:
    """Every recording read again by its source, every value compared; rejected episodes are in the ledger."""
    rows, count = 0, Count()
    for side in chain_of(subject).raw:
        if side.problem is not None:
            yield Finding(RAW_EDGE, Severity.ERROR, side.problem, Place(side.name))
            continue
        yield from _same_recording(side)
        for finding, compared in compare_recording(RAW_EDGE, side, count):
            rows += compared
            if finding is not None:
                yield finding
    chain_of(subject).counts["raw"] = count
    subject.measures["rows compared"] = float(rows)
    subject.count(rows, rows, "rows")


def _same_recording(side: RawSide) -> Iterator[Finding]:
    if side.recorded_sha256 and side.sha256 != side.recorded_sha256:
        message = "the recording is not the one that L2 was made of"
        yield Finding(RAW_EDGE, Severity.ERROR, message, Place(side.name), side.sha256, side.recorded_sha256)


@check(STORE_EDGE, stage=STAGE, title="The store is what L2 holds", needs=(CONTEXT,))
def store_edge(subject: Subject) -> Iterator[Finding]:
    """The store's own rules on low-dimensional columns; first, middle and last frame of each camera."""
    done = total = 0
    for side in chain_of(subject).stores:
        report = run_checks("store", side.path, context=side.context, select=STORE_RULES)
        yield from _told(STORE_EDGE, report)
        done += sum(r.counted.checked for r in report.results if r.counted is not None)
        total += sum(r.counted.total for r in report.results if r.counted is not None)
        for finding, frames in _stored_frames(side):
            done, total = done + frames, total + frames
            if finding is not None:
                yield finding
    subject.measures["values compared"] = float(done)
    subject.count(done, total, "values and frames")


def _told(code: str, report: CheckReport) -> Iterator[Finding]:
    """The findings of other rules under the certificate's code; a report without results is an error."""
    if not report.results:
        message, place = "no rule proves this edge", Place(report.path)
        yield Finding(code, Severity.ERROR, message, place, "; ".join(report.skipped) or "no rule")
    for result in report.results:
        for found in result.findings:
            if found.severity is not Severity.INFO:
                message = f"{result.code}: {found.message}"
                yield Finding(code, found.severity, message, found.place, found.got, found.expected)


def _stored_frames(side: StoreSide) -> Iterator[tuple[Finding | None, int]]:
    """Findings and how many frames were compared, pixel for pixel."""
    if not side.images:
        return
    known = origins(side.l2)
    with opened(side.path) as store, OpenFiles(opened) as files:
        for episode in episodes_of(store, side.path.name):
            if episode.key not in known or episode.stop <= episode.start:
                continue
            path, name = known[episode.key]
            demo = files[path]["data"][name]
            for row in sampled(episode.stop - episode.start):
                for column, cameras in side.images.items():
                    place = Place(side.path.name, episode.name, column, row)
                    yield _stored_frame(store, demo, (column, cameras), episode.start + row, place), 1


def _stored_frame(
    store: h5py.File, demo: h5py.Group, image: tuple[str, tuple[str, ...]], at: int, place: Place
) -> Finding | None:
    column, cameras = image
    row = place.row or 0
    planes = np.stack([np.moveaxis(np.asarray(demo[c][row]), 2, 0) for c in cameras])
    got = np.asarray(store[column][at])
    expected = planes if got.ndim == 4 else planes[0]
    if got.shape == expected.shape and np.array_equal(got, expected):
        return None
    if got.shape != expected.shape:
        message = "a stored frame has L2's shape"
        return Finding(STORE_EDGE, Severity.ERROR, message, place, str(got.shape), str(expected.shape))
    where = tuple(int(i) for i in np.argwhere(got != expected)[0])
    message = f"a stored frame equals L2's; the first difference is at {where}"
    return Finding(STORE_EDGE, Severity.ERROR, message, place, str(got[where]), str(expected[where]))


@check(EXPORT_EDGE, stage=STAGE, title="The export is what L2 holds", needs=(CONTEXT,))
def export_edge(subject: Subject) -> Iterator[Finding]:
    """`lerobot-equals-l2`, under the export's own options."""
    chain = chain_of(subject)
    context = {"l2": list(chain.l2), "psnr": chain.bound_db, **chain.export}
    report = run_checks(STAGE, subject.path, context=context, select=[EXPORT_RULE])
    yield from _told(EXPORT_EDGE, report)
    for result in report.results:
        if result.counted is not None:
            subject.count(result.counted.checked, result.counted.total, result.counted.unit)


@check(FRAMES, stage=STAGE, title="Sampled video frames are above the PSNR bound", needs=(CONTEXT,))
def frames(subject: Subject) -> Iterator[Finding]:
    """First, middle and last frame of every episode and camera; the worst one is kept to be shown."""
    chain, folder = chain_of(subject), folder_of(subject)
    if not folder.cameras:
        return
    total = 0
    with ExitStack() as stack:
        demos = L2Demos.open(list(chain.l2), stack)
        for camera in folder.cameras:
            for path, spans in spans_of(folder, camera).items():
                total += len(spans)
                with av.open(str(path)) as container:  # one at a time: an open decoder holds about 1 MB
                    for span in spans:
                        demo = demos.of(span.episode)
                        term = f"obs/{camera.removeprefix(_IMAGES)}"
                        if demo is not None and term in demo:
                            place = Place(folder.relative(path), f"episode {span.episode.index}", camera)
                            yield from _exported(chain, container, span, demo[term], place, folder.fps)
    if chain.worst is not None:
        subject.measures["worst frame, dB"] = round(min(chain.worst.db, 999.0), 2)
    subject.measures["frames sampled"] = float(chain.frames)
    subject.count(chain.frames, max(total, chain.frames), "frames")


def _exported(
    chain: Chain, container: Any, span: Span, column: h5py.Dataset, place: Place, fps: Fraction | None
) -> Iterator[Finding]:
    for row in sampled(span.episode.length):
        source = np.asarray(column[row])
        found = frame_at(container, span.first + row, fps or Fraction(1))
        value = psnr(found, source)
        chain.frames += 1
        if chain.worst is None or value < chain.worst.db:
            chain.worst = FramePair(value, str(place.demo), str(place.column), row, source, found)
        if value < chain.bound_db:
            where = Place(place.file, place.demo, place.column, row)
            bound = f"{chain.bound_db:g} dB at least"
            yield Finding(
                FRAMES, Severity.ERROR, "the frame differs from L2's", where, f"{value:.1f} dB", bound
            )


def sampled(length: int) -> list[int]:
    """First, middle and last row."""
    return sorted({int(i) for i in np.linspace(0, max(0, length - 1), _SAMPLES)}) if length else []
