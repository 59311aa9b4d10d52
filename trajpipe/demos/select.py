"""Which episodes stay: success, length, exclusion by hand, finite values; each refusal is a `Rejection`.

Pure functions of an episode. What is not here: what the writer itself refuses, see `trajpipe.demos.accept`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from trajpipe.core import names
from trajpipe.core.conventions import UnknownSuccess
from trajpipe.core.episode import Column, Episode, blocks
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Reason
from trajpipe.core.order import natural_key, natural_sorted
from trajpipe.demos.quality import NO_LIMITS, QualityLimits, beyond

_LISTED: Final = 20
# Reasons that a setting of the user decides; every other is a fault of the recording.
_FILTERS: Final = frozenset(
    (
        Reason.TOO_SHORT,
        Reason.TOO_LONG,
        Reason.NOT_SUCCESSFUL,
        Reason.UNKNOWN_SUCCESS,
        Reason.NO_OPS,
        Reason.SATURATED,
    )
)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which episodes stay.

    Attributes:
        only_success: Drop episodes that failed.
        min_length: Fewest rows.
        unknown_success: An unknown success counts as success (`keep`), as failure (`fail`), or drops the
            episode (`drop`).
        limits: Limits on quality facts.
        min_kept: Smallest share of the episodes read that must stay; below it the recording is an error.
    """

    only_success: bool = False
    min_length: int = 1
    unknown_success: UnknownSuccess = "keep"
    limits: QualityLimits = NO_LIMITS
    min_kept: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values for the recipe."""
        return asdict(self)


def screen(episode: Episode, filters: Filters) -> Rejection | None:
    """The first filter that refuses an episode, cheapest first; None when all let it pass.

    Raises:
        UnreadableError: its values cannot be read.
    """
    return (
        too_short(episode, filters.min_length)
        or unsuccessful(episode, filters)
        or not_finite(episode)
        or beyond(episode, filters.limits)
    )


def too_short(episode: Episode, min_length: int) -> Rejection | None:
    """Refuse an episode with fewer rows than asked, `too-short`."""
    if episode.length >= min_length:
        return None
    return _rejected(episode, Reason.TOO_SHORT, f"{episode.length} rows, at least {min_length} asked")


def unsuccessful(episode: Episode, filters: Filters) -> Rejection | None:
    """Refuse `unknown-success` under the policy `drop`, `not-successful` when only success stays."""
    success, policy = episode.success, filters.unknown_success
    if success is None and policy == "drop":
        return _rejected(episode, Reason.UNKNOWN_SUCCESS, "the recording does not say whether it succeeded")
    if not filters.only_success or success or (success is None and policy == "keep"):
        return None
    said = "success is unknown and counts as failure" if success is None else "success is false"
    return _rejected(episode, Reason.NOT_SUCCESSFUL, said)


def not_finite(episode: Episode) -> Rejection | None:
    """Refuse NaN and infinity in any float column, block by block: `nan-action`, else `nan-obs`.

    The detail names the column and its first bad row. Actions are looked at after the cast to float32, in
    which a large float64 becomes infinite.
    """
    for path in [names.DATASET_ACTIONS, *natural_sorted(set(episode.columns) - {names.DATASET_ACTIONS})]:
        column = episode.columns.get(path)
        if column is None or column.dtype.kind != "f":
            continue
        row = first_bad_row(column, as_float32=path == names.DATASET_ACTIONS)
        if row is not None:
            reason = Reason.NAN_ACTION if path == names.DATASET_ACTIONS else Reason.NAN_OBS
            return _rejected(episode, reason, f"{path} row {row} is not finite")
    return None


def first_bad_row(column: Column, *, as_float32: bool = False) -> int | None:
    """The first row of a float column that holds NaN or infinity; None when there is none."""
    start = 0
    for rows in blocks(column):
        with np.errstate(over="ignore"):
            finite = np.isfinite(rows.astype(np.float32) if as_float32 else rows)
        if not finite.all():
            return start + int(np.argmin(finite.reshape(len(rows), -1).all(axis=1)))
        start += len(rows)
    return None


def too_few_kept(
    recording: str, kept: int, rejected: Sequence[Rejection], filters: Filters
) -> InputError | None:
    """The error for a recording of which less than the declared share is left; None when enough is."""
    read = kept + len(rejected)
    if not read or kept / read >= filters.min_kept:
        return None
    reasons = ", ".join(f"{n} {r}" for r, n in sorted(Counter(r.reason for r in rejected).items()))
    return InputError(
        "less than the declared share of a recording is left",
        place=Place(file=recording),
        got=f"{kept} of {read} demos ({reasons})",
        expected=f"at least {filters.min_kept:.0%}",
        hint=f"{_remedy(rejected)} Or lower `filter: min_kept` (--min-kept).",
        code="too-few-kept",
    )


def nothing_kept(recording: str, rejected: Sequence[Rejection]) -> InputError:
    """The error for a recording of which no episode is left.

    Args:
        recording: Its base name.
        rejected: Why, one per episode; empty when it has no episodes at all.
    """
    place = Place(file=recording)
    if not rejected:
        return InputError(
            "the recording has no demos",
            place=place,
            hint="It ended before a demo was saved; record it again or exclude it.",
            code="no-demos",
        )
    listed = sorted(rejected, key=lambda r: natural_key(r.episode))
    reasons = [f"{r.episode}: {r.reason}" + (f" ({r.detail})" if r.detail else "") for r in listed[:_LISTED]]
    if len(listed) > _LISTED:
        reasons.append(f"and {len(listed) - _LISTED} more")
    return InputError(
        f"no demo of {len(listed)} is left",
        place=place,
        got="; ".join(reasons),
        hint=_remedy(rejected),
        code="nothing-kept",
    )


def _remedy(rejected: Sequence[Rejection]) -> str:
    """What to do about rejections: loosen filters where they are the cause, else mend the recording."""
    reasons = {r.reason for r in rejected}
    if reasons <= {Reason.EXCLUDED}:
        return "All were excluded by hand: take the exclusion back, or leave the recording out."
    filtered = reasons & _FILTERS
    if not filtered:
        return "No filter is involved: mend what is listed and record again, or leave the recording out."
    return f"Loosen the filters ({', '.join(sorted(filtered))}), or leave the recording out."


def _rejected(episode: Episode, reason: Reason, detail: str) -> Rejection:
    return Rejection(episode.source_file, episode.source_demo or episode.name, reason.value, detail)
