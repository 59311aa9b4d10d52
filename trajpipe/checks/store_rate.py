"""The rule of a store's rate: what the manifest says, what `env_dt` says, and how fast the bodies move.

What is not here: the rows themselves (`store`), a motion's velocities one by one (`store_lafan_physics`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import h5py
import numpy as np

from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import StoreFacts, facts_of, opened
from trajpipe.core import names
from trajpipe.core.findings import Finding, Place, Severity

CODE: Final = "store-rate"
SLACK: Final = 1e-6
_FPS: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)(?:/([0-9]{1,9}))?")
# A motion store's velocities are filtered, its positions are not: fast motions are recorded slower than they
# are. The quotient is thus a lower bound of the rate, but for what float32 rounds kilometres away and for
# half turns in a frame: a hint that the rate is another one, and no proof.
MOVING_SLACK: Final = 0.4
# Slower than this on average (root of the mean square, m/s) rounding decides the quotient.
MOVING: Final = 0.02
BLOCK_ROWS: Final = 16384


@check(CODE, stage="store", title="The rate that the store says is that of its rows")
def rate(subject: Subject) -> Iterator[Finding]:
    """The manifest's `fps` is a positive number, agrees with `env_dt` and with velocities of a motion."""
    facts = facts_of(subject)
    said = _said(facts)
    if said is not None and _number(said) is None:
        place = Place(subject.path.name, column=names.STORE_MANIFEST)
        message = "fps is a positive number or fraction"
        yield Finding(CODE, Severity.ERROR, message, place, said[:40], "50, or 30000/1001")
    rates = {} if said is None else {f"the manifest's {names.MANIFEST_FPS}": _number(said)}
    with opened(subject.path) as store:
        step = _step(store)
        if names.SIDE_ENV_DT in store:
            rates[names.SIDE_ENV_DT] = 1 / step if step else None
        found = {name: value for name, value in rates.items() if value is not None}
        if len(found) == 2 and abs(found[names.SIDE_ENV_DT] / min(found.values()) - 1) > SLACK:
            yield _differ(subject, names.SIDE_ENV_DT, found)
        moving = _moving_rate(store, facts) if found else None
    if moving is None:
        return
    subject.measures["rate_by_velocity_hz"] = moving
    for name, value in found.items():
        if moving > value * (1 + MOVING_SLACK):
            message = f"bodies move slower than body_vel by the rate of {name}"
            place = Place(subject.path.name, column=names.COLUMN_BODY_VEL)
            yield Finding(CODE, Severity.WARN, message, place, f"{value:g} Hz", f"at least {moving:.3g} Hz")


def _differ(subject: Subject, column: str, found: dict[str, float]) -> Finding:
    first, second = found.items()
    message = f"{first[0]} and {second[0]} are one rate"
    place = Place(subject.path.name, column=column)
    return Finding(CODE, Severity.ERROR, message, place, f"{first[1]:g} Hz", f"{second[1]:g} Hz")


def _said(facts: StoreFacts) -> str | None:
    """The manifest's `fps`; None when it has none."""
    value = None if facts.manifest is None else facts.manifest.extra.get(names.MANIFEST_FPS)
    return None if value is None else value.decode("utf-8", "replace")


def _number(text: str) -> float | None:
    """A positive rate; None of any other text."""
    found = _FPS.fullmatch(text)
    under = float(found[2] or 1) if found else 0.0
    return float(found[1]) / under or None if found and under else None


def _step(store: h5py.File) -> float | None:
    """Seconds per row by `env_dt`; None when it is no positive number (another rule's finding)."""
    table = store.get(names.SIDE_ENV_DT)
    if not isinstance(table, h5py.Dataset) or table.size != 1 or table.dtype.kind != "f":
        return None
    value = float(np.ravel(table[()])[0])
    return value if 0 < value < float("inf") else None


def _moving_rate(store: h5py.File, facts: StoreFacts) -> float | None:
    """Rows per second by least squares of steps of `body_pos` on `body_vel`; None of what is no motion."""
    trailing = {name: shape for name, _, shape in facts.columns}
    pair = names.COLUMN_BODY_POS, names.COLUMN_BODY_VEL
    motion = names.COLUMN_MOTION_ID in trailing and all(trailing.get(n) == (93,) for n in pair)
    if not motion or facts.ep_len is None or any(name not in store for name in pair):
        return None
    same, square, values, row = 0.0, 0.0, 0, 0
    for length in facts.ep_len.tolist():
        for start in range(row, row + length - 1, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS + 1, row + length)
            position, velocity = (np.asarray(store[name][start:stop], np.float64) for name in pair)
            moved, speed = np.diff(position, axis=0), (velocity[1:] + velocity[:-1]) / 2
            same, square = same + float(np.vdot(moved, speed)), square + float(np.vdot(speed, speed))
            values += speed.size
        row += length
    slow = square < values * MOVING**2 or not np.isfinite(square) or not same > 0
    return None if not values or slow else square / same
