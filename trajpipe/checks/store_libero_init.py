"""Rules of a store of LIBERO initial states: every value by joint name, and body poses, proven with MuJoCo.

What is not here: stores of demonstrations, see `store_libero.py` and `store_libero_physics.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_libero import EpisodeOfStore, error
from trajpipe.checks.store_libero_physics import (
    POSE_TOLERANCE_M,
    Tally,
    common_bodies,
    compiled,
    differences,
    expected_state,
    target_of,
)
from trajpipe.checks.store_reading import opened
from trajpipe.core import names
from trajpipe.core.findings import Finding
from trajpipe.core.pickles import read_torch_zip
from trajpipe.hdf5.attributes import plain

NEEDS: Final = ("libero_init",)


def _each(subject: Subject) -> Iterator[tuple[EpisodeOfStore, str, NDArray[Any], NDArray[Any], int]]:
    """(episode, source model, recorded rows, stored rows, stored task index) of each table."""
    context: Mapping[str, Any] = subject.context["libero_init"]
    with opened(subject.path) as store:
        files = [str(plain(v)) for v in store[names.SIDE_EP_FILE][()].tolist()]
        lengths, offsets = store[names.STORE_EP_LEN][()], store[names.STORE_EP_OFFSET][()]
        for number, name in enumerate(files):
            start, stop = int(offsets[number]), int(offsets[number] + lengths[number])
            recorded = np.asarray(read_torch_zip(Path(context["files"][name])))
            one = EpisodeOfStore(number, start, stop, name, "", Path(name), "")
            index = set(store[names.COLUMN_TASK_INDEX][start:stop].reshape(-1).tolist())
            stored = store[names.COLUMN_INIT_STATE][start:stop]
            yield one, context["models"][name], recorded, stored, index.pop() if len(index) == 1 else -1


@check("libero-init-ulp", stage="store", title="Initial states are the tables', by joint name", needs=NEEDS)
def libero_init_ulp(subject: Subject) -> Iterator[Finding]:
    """Every value within 2 ULP of the table's, put at the target's address by MuJoCo's own names."""
    context, tally = subject.context["libero_init"], Tally(subject.path)
    for one, text, recorded, stored, index in _each(subject):
        source, target = compiled(text), target_of(context, text)
        if recorded.shape != (len(stored), 1 + source.model.nq + source.model.nv):
            place = one.place(subject.path, names.COLUMN_INIT_STATE)
            expected = (len(stored), 1 + source.model.nq + source.model.nv)
            yield error("libero-init-ulp", "the table has another shape", place, recorded.shape, expected)
            continue
        wanted = context["tasks"].index(Path(one.file).name.split(".")[0])
        if index != wanted:
            place = one.place(subject.path, names.COLUMN_TASK_INDEX)
            yield error("libero-init-ulp", "another task index than the suite's", place, index, wanted)
        found = tally.compare(one, source, target, stored, expected_state(source, target, recorded))
        yield from (error("libero-init-ulp", f.message, f.place, f.got, f.expected) for f in found)
    subject.count(tally.compared, tally.compared, "values")
    subject.measures |= {
        "values_compared": tally.compared,
        "values_differing": tally.differing,
        "worst_ulp": tally.worst,
    }


@check("libero-init-fk", stage="store", title="Bodies start where the tables have them", needs=NEEDS)
def libero_init_fk(subject: Subject) -> Iterator[Finding]:
    """Body poses relative to their top-level ancestor, source against target, every row."""
    context, rows, worst = subject.context["libero_init"], 0, 0.0
    if context["joints"] is not None:
        return
    for one, text, recorded, stored, _ in _each(subject):
        source, scene = compiled(text), target_of(context, text).scene
        if scene is None:
            continue
        bodies = common_bodies(source, scene)
        for row in range(len(stored)):
            reference = source.poses(recorded[row, 1 : 1 + source.model.nq])
            got = scene.poses(stored[row, : scene.model.nq])
            relative, _, _ = differences(source, scene, bodies, reference, got)
            rows, worst = rows + 1, max(worst, relative)
            if relative > POSE_TOLERANCE_M:
                place = one.place(subject.path, names.COLUMN_INIT_STATE, one.start + row)
                message = "a body starts elsewhere than in the table"
                yield error("libero-init-fk", message, place, f"{relative:.3g} m", f"≤ {POSE_TOLERANCE_M} m")
                break
    subject.count(rows, rows, "rows")
    subject.measures["worst_relative_m"] = worst
