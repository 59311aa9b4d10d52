"""The rule that an output is the one that was built: its hash against the stamp beside it.

What is not here: what the stamp's recipe means, see `trajpipe.core.provenance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trajpipe.checks.registry import Rule, Subject, check
from trajpipe.core import names, provenance
from trajpipe.core.findings import Finding, Place, Severity

TITLE: Final = "The output is the one that was built"


def _rule(code: str) -> Rule:
    """The rule under one stage's code."""

    def stamp_matches(subject: Subject) -> Iterator[Finding]:
        """Compare the SHA-256 of a file or folder with that in `<name>.recipe.json`; no stamp, no finding."""
        recorded = provenance.hashes_of(provenance.read_stamp(subject.path))
        if not recorded:
            return
        found = provenance.sha256_path(subject.path)
        if found not in recorded:
            message = (
                f"it was changed after it was built; build it again, or delete "
                f"{subject.path.name}{names.SUFFIX_RECIPE} to take it as it is"
            )
            expected = " or ".join(sorted(recorded))
            yield Finding(code, Severity.ERROR, message, Place(file=subject.path.name), found, expected)

    return stamp_matches


for _stage in (names.Stage.DEMOS, names.Stage.STORE, names.Stage.LEROBOT):
    check(f"{_stage}-stamp", stage=_stage, title=TITLE)(_rule(f"{_stage}-stamp"))
