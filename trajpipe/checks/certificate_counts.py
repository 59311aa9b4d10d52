"""The certificate's rule that no episode, row, task or tag is lost or invented between the stages.

What is not here: the values, see `trajpipe.checks.certificate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from trajpipe.checks.certificate import STAGE, chain_of
from trajpipe.checks.certificate_chain import CONTEXT, Chain, Count, StoreSide
from trajpipe.checks.lerobot_folder import LeRobotFolder, folder_of
from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import manifest_of, opened
from trajpipe.core import names
from trajpipe.core.episode import Episode
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5.attributes import attributes_of, plain

COUNTS: Final = "certificate-counts"
_FIELDS: Final = ("episodes", "rows", "tasks", "tags")


@check(COUNTS, stage=STAGE, title="No episode, row, task or tag is lost or invented", needs=(CONTEXT,))
def counts(subject: Subject) -> Iterator[Finding]:
    """Raw minus rejections = L2 = store = export (minus what their options leave out)."""
    chain = chain_of(subject)
    l2, exported = _l2(chain, only_exported=False), _l2(chain, only_exported=True)
    raw = chain.counts.get("raw") or _raw(chain)
    store, export = _stores(chain), _export(folder_of(subject))
    chain.counts = {"raw": raw, "demos": l2, "store": store, "lerobot": export}
    capped = sum(s.capped for s in chain.stores)
    resampled = any(s.resampled for s in chain.stores)
    yield from _same(l2, raw, "demos", ("episodes", "rows"))
    if not capped:
        yield from _same(store, l2, "store", ("episodes", "tags") if resampled else _FIELDS)
    elif store.episodes + capped != l2.episodes:
        yield _finding("store", "episodes", store.episodes, f"{l2.episodes} - {capped} over the cap")
    yield from _same(export, exported, "lerobot", _FIELDS)
    for stage, count in chain.counts.items():
        subject.measures[f"{stage} episodes"] = float(count.episodes)
        subject.measures[f"{stage} rows"] = float(count.rows)
    subject.count(l2.episodes, l2.episodes, "episodes")


def _same(got: Count, expected: Count, stage: str, fields: tuple[str, ...]) -> Iterator[Finding]:
    for name in fields:
        a, b = getattr(got, name), getattr(expected, name)
        if isinstance(a, Mapping):
            different = [k for k in natural_sorted(set(a) | set(b)) if a[k] != b[k]]
            if different:
                said = (", ".join(f"{k!r}: {side[k]}" for k in different) for side in (a, b))
                yield _finding(stage, name, *said)
        elif a != b:
            yield _finding(stage, name, a, b)


def _finding(stage: str, name: str, got: object, expected: object) -> Finding:
    message = f"{name} are conserved from stage to stage"
    return Finding(COUNTS, Severity.ERROR, message, Place(column=f"{stage} {name}"), str(got), str(expected))


def _raw(chain: Chain) -> Count:
    """Episodes that the recordings give, minus those that the ledgers reject."""
    out = Count()
    for side in chain.raw:
        try:
            for item in side.episodes():
                if isinstance(item, Episode) and not {item.name, item.source_demo} & set(side.rejected):
                    out.add(item.length, item.task, None)
        except (TrajpipeError, OSError):
            continue  # the rule of the edge says why it cannot be read
    return out


def _l2(chain: Chain, *, only_exported: bool) -> Count:
    """Demos of the L2 files; with the export's own choice and fallback task when asked for."""
    out, chosen = Count(), bool(chain.export.get("successful_only"))
    for path in chain.l2:
        with opened(path) as file:
            for name in natural_sorted(file[names.GROUP_DATA]):
                demo = file[names.GROUP_DATA][name]
                facts = attributes_of(demo)
                if only_exported and chosen and not _succeeded(facts):
                    continue
                task = str(facts.get(names.ATTR_TASK, ""))
                if only_exported:
                    task = task or chain.task
                out.add(int(demo[names.DATASET_ACTIONS].shape[0]), task, str(facts.get(names.ATTR_SOURCE)))
    return out


def _succeeded(facts: Mapping[str, Any]) -> bool:
    return bool(facts.get(names.ATTR_SUCCESS)) and bool(facts.get(names.ATTR_SUCCESS_KNOWN, True))


def _stores(chain: Chain) -> Count:
    out = Count()
    for side in chain.stores:
        _store(side, out)
    return out


def _store(side: StoreSide, out: Count) -> None:
    with opened(side.path) as file:
        lengths = file[names.STORE_EP_LEN][()]
        tags = [str(plain(t)) for t in file[names.SIDE_SOURCE_TAGS][()].tolist()]
        codes = file[names.SIDE_EP_SOURCE][()]
        manifest = manifest_of(np.asarray(file[names.STORE_MANIFEST][()], np.uint8).tobytes())
        first = (np.cumsum(lengths) - lengths).astype(np.int64)
        column = file.get(names.COLUMN_TASK_INDEX)
        for length, code, row in zip(lengths, codes, first, strict=True):
            task = None
            if column is not None:
                number = int(np.asarray(column[int(row)]).reshape(-1)[0])
                task = manifest.tasks.get(number, b"").decode("utf-8", "surrogateescape")
            out.add(int(length), task, tags[int(code)])


def _export(folder: LeRobotFolder) -> Count:
    """Episodes as the metadata tell them; the rows of the files are compared by another rule."""
    out = Count()
    for episode in folder.episodes:
        task = episode.tasks[0] if episode.tasks else ""
        out.add(episode.length, task, str(episode.keys.get(names.EPISODE_SOURCE)))
    return out
