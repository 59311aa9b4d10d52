"""What becomes of a recording with each defect on its way into L2: it lands, loses demos, or is refused.

One kind per defect by default, where the kinds do not differ; every kind with TRAJPIPE_FULL=1.
What is not here: whether the defect is really in the file, see `test_defects`.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from trajpipe.core.conventions import Conventions
from trajpipe.core.findings import Severity
from trajpipe.pipeline.ingest import IngestPlan, ingest
from trajpipe.pipeline.results import StageResult
from trajpipe.testing import inject
from trajpipe.testing.defects import defects

LANDS, LOSES, REFUSED = "lands", "loses a demo", "refused"


@dataclass(frozen=True)
class Outcome:
    """What is expected.

    Attributes:
        what: The recording lands whole, loses one demo, or is refused.
        code: Code of the finding, or reason of the rejection, that says so; None = nothing is said.
    """

    what: str
    code: str | None = None


# what no reader of one file can see is among those that land without a word
OUTCOMES: dict[str, Outcome] = {
    "action-width": Outcome(LOSES, "other-terms"),
    "actions-is-a-group": Outcome(LOSES, "no-actions"),
    "actions-out-of-range": Outcome(LANDS, "demos-action-range"),
    "all-failed": Outcome(LANDS),
    "attributes-as-bytes": Outcome(LANDS),
    "big-endian": Outcome(LANDS),
    "broken-gzip-chunk": Outcome(LOSES, "unreadable"),
    "constant-actions": Outcome(LANDS, "demos-action-values"),
    "duplicate-demo": Outcome(LANDS, "demos-content-hash"),
    "empty-file": Outcome(REFUSED, "empty-file"),
    "env-args-bytes": Outcome(LANDS),
    "env-args-missing": Outcome(REFUSED, "env-args-missing"),
    "env-args-nan": Outcome(REFUSED, "env-args-missing"),
    "env-args-repr": Outcome(REFUSED, "env-args-missing"),
    "episodes-layout": Outcome(REFUSED, "old-layout"),
    "external-link": Outcome(REFUSED, "external-reference"),
    "external-storage": Outcome(REFUSED, "external-reference"),
    "flipped-byte": Outcome(LANDS),
    "format-version-future": Outcome(REFUSED, "format-version-unknown"),
    "format-version-missing": Outcome(REFUSED, "quaternion-undeclared"),
    "git-lfs-pointer": Outcome(REFUSED, "git-lfs-pointer"),
    "html-page": Outcome(REFUSED, "html-page"),
    "images-ambiguous": Outcome(REFUSED, "image-layout"),
    "images-black": Outcome(LANDS),
    "images-chw": Outcome(LANDS),
    "images-grey": Outcome(LANDS),
    "images-opencv": Outcome(LANDS),
    "images-opengl": Outcome(LANDS),
    "images-rgba": Outcome(LANDS),
    "images-size-differs": Outcome(LOSES, "other-terms"),
    "images-upside-down": Outcome(LANDS),
    "inf-action": Outcome(LOSES, "nan-action"),
    "inf-obs": Outcome(LOSES, "nan-obs"),
    "integer-actions": Outcome(LANDS),
    "killed-writer": Outcome(LOSES, "no-actions"),
    "legacy-quaternions": Outcome(REFUSED, "quaternion-undeclared"),
    "mask-overlap": Outcome(REFUSED, "mask-overlap"),
    "mask-unknown-demo": Outcome(LANDS, "mask-unknown-demo"),
    "meshes-on-authors-disk": Outcome(LANDS),
    "mislabelled-quaternions": Outcome(LANDS),
    "missing-term": Outcome(LOSES, "other-terms"),
    "nan-action": Outcome(LOSES, "nan-action"),
    "nan-obs": Outcome(LOSES, "nan-obs"),
    "no-actions": Outcome(LOSES, "no-actions"),
    "no-data-group": Outcome(REFUSED, "no-data-group"),
    "no-demos": Outcome(REFUSED, "no-demos"),
    "no-language": Outcome(LANDS),
    "no-obs": Outcome(LANDS, "no-obs"),
    "no-success": Outcome(LANDS, "success-unknown"),
    "not-hdf5": Outcome(REFUSED, "unreadable"),
    "num-samples-missing": Outcome(LANDS, "num-samples-missing"),
    "num-samples-wrong": Outcome(LANDS, "num-samples-wrong"),
    "numbering": Outcome(LANDS, "numbering-gaps"),
    "numbering-gap": Outcome(LANDS, "numbering-gaps"),
    "obs-actions-conflict": Outcome(LANDS, "obs-actions-conflict"),
    "odd-demo-name": Outcome(LOSES, "not-a-demo"),
    "ragged-lengths": Outcome(LOSES, "ragged"),
    "shifted-obs": Outcome(LANDS, "alignment-conflict"),
    "short-demo": Outcome(LANDS),
    "stale-first-frame": Outcome(LANDS, "first-row-stale"),
    "string-dataset": Outcome(LANDS, "dataset-as-attribute"),
    "success-as-integer": Outcome(LANDS),
    "total-missing": Outcome(LANDS, "total-missing"),
    "total-wrong": Outcome(LANDS, "total-wrong"),
    "truncated": Outcome(REFUSED, "truncated"),
    "user-block": Outcome(LANDS),
    "virtual-dataset": Outcome(REFUSED, "external-reference"),
    "wrong-dtype": Outcome(LOSES, "other-terms"),
    "xml-entity": Outcome(LANDS),
    "zero-length-demo": Outcome(LOSES, "no-actions"),
    "zero-quaternion": Outcome(LANDS, "demos-quaternions"),
}
OF_A_KIND: dict[tuple[str, str], Outcome] = {
    # LIBERO's own attribute `env_name` stands in for env_args
    ("env-args-missing", "libero"): Outcome(LANDS, "env-args-defaulted"),
    ("env-args-nan", "libero"): Outcome(LANDS, "env-args-defaulted"),
    ("env-args-repr", "libero"): Outcome(LANDS, "env-args-defaulted"),
    # its writer leaves no gaps, so demos were lost
    ("numbering", "libero"): Outcome(REFUSED, "numbering-gaps"),
    ("numbering-gap", "libero"): Outcome(REFUSED, "numbering-gaps"),
    # states are no obs term: a demo without them is told, not refused
    ("missing-term", "robosuite"): Outcome(LANDS, "demos-same-terms"),
    ("wrong-dtype", "robosuite"): Outcome(LANDS, "demos-same-terms"),
}
# not in the table: what readers do about them is not settled
OPEN = {"images-float", "link-cycle"}


def _cases() -> list[tuple[str, str]]:
    """(name, kind): a defect's first kind and those that differ from it; every kind in a full run."""
    full = os.environ.get("TRAJPIPE_FULL") == "1"
    return [
        (name, kind)
        for name, defect in defects().items()
        for kind in defect.kinds
        if name not in OPEN and (full or kind == defect.kinds[0] or (name, kind) in OF_A_KIND)
    ]


def _ingested(good: Path, name: str, kind: str, folder: Path) -> StageResult:
    path = folder / good.name
    shutil.copy(good, path)
    inject(path, name)
    conventions = Conventions(fps=Fraction(20))
    return ingest(IngestPlan("lift", "key", path, kind, folder / "out.hdf5", conventions=conventions))


def test_every_defect_has_an_outcome() -> None:
    assert set(OUTCOMES) | OPEN == set(defects())
    assert not OPEN & set(OUTCOMES)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), _cases())
def test_what_becomes_of_it(name: str, kind: str, good: dict[str, Path], tmp_path: Path) -> None:
    expected = OF_A_KIND.get((name, kind), OUTCOMES[name])
    result = _ingested(good[kind], name, kind, tmp_path)
    found = [f for check in result.checks.results for f in check.findings]
    rejected = [x.reason for x in result.ledger.rejected]
    codes = {f.code for f in found} | set(rejected)
    assert expected.code is None or expected.code in codes
    if expected.what == REFUSED:
        assert result.status.value == "failed"
        assert not (tmp_path / "out.hdf5").exists()
        assert expected.code in {f.code for f in found if f.severity is Severity.ERROR}
        return
    assert result.status.value == "built", result.error
    assert (tmp_path / "out.hdf5").exists()
    assert rejected == ([expected.code] if expected.what == LOSES else [])
    assert result.ledger.read == result.ledger.written + len(rejected)
    if expected.what == LANDS and expected.code is None:
        assert not [f for f in found if f.severity is Severity.ERROR]


@pytest.mark.parametrize("kind", ["isaaclab", "robomimic", "robosuite", "libero"])
def test_a_good_recording_lands_without_a_repair(kind: str, good: dict[str, Path], tmp_path: Path) -> None:
    conventions = Conventions(fps=Fraction(20))
    result = ingest(
        IngestPlan("lift", "key", good[kind], kind, tmp_path / "out.hdf5", conventions=conventions)
    )
    assert result.status.value == "built", result.error
    assert (result.ledger.read, result.ledger.written) == (4, 4)
    codes = {f.code for check in result.checks.results for f in check.findings}
    repairs = {outcome.code for outcome in OUTCOMES.values()} - {"no-obs", "success-unknown"}
    # informative codes of checks that always say what they saw
    said = {f.code for c in result.checks.results for f in c.findings if f.severity is Severity.INFO}
    assert not (codes & repairs) - said
