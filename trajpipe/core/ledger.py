"""The ledger: read = written + rejected, with a reason for each rejected episode, per recording and stage.

What is not here: what makes an episode bad; the stage that rejects it says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajpipe.core import jsontext, names
from trajpipe.core.errors import InputError, on_one_line


@dataclass(frozen=True, slots=True)
class Rejection:
    """One episode that was read and not written.

    Attributes:
        recording: Base name of the recording.
        episode: The episode's name in its recording.
        reason: Kebab-case reason code (`nan-action`), see `names.Reason`.
        detail: Place and values, one sentence.
    """

    recording: str
    episode: str
    reason: str
    detail: str = ""

    def __str__(self) -> str:
        text = f"{on_one_line(f'{self.recording}:{self.episode}')} {self.reason}"
        return text + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Counts of one recording in one stage; `read == written + len(rejected)` always holds.

    Attributes:
        recording: Base name of the recording.
        stage: `demos`, `store` or `lerobot`.
        read: Episodes read.
        written: Episodes written.
        rejected: One rejection per episode not written.
    """

    recording: str
    stage: str
    read: int
    written: int
    rejected: tuple[Rejection, ...] = ()

    def __post_init__(self) -> None:
        if self.read != self.written + len(self.rejected):
            raise InputError(
                "a ledger entry must balance",
                place=f"{self.recording} · {self.stage}",
                got=f"read {self.read}, written {self.written}, rejected {len(self.rejected)}",
                expected="read = written + rejected",
                code="ledger-unbalanced",
            )


@dataclass(slots=True)
class Ledger:
    """All entries of one output, plus the recordings that failed whole.

    Attributes:
        entries: One per recording and stage.
        failed: Recording → why it could not be used at all.
    """

    entries: list[LedgerEntry] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Episodes read."""
        return sum(e.read for e in self.entries)

    @property
    def written(self) -> int:
        """Episodes written."""
        return sum(e.written for e in self.entries)

    @property
    def rejected(self) -> list[Rejection]:
        """All rejections in order."""
        return [r for e in self.entries for r in e.rejected]

    def reasons(self) -> Counter[str]:
        """How many episodes were rejected for each reason."""
        return Counter(r.reason for r in self.rejected)

    def summary(self) -> str:
        """`read 12 · written 10 · rejected 2 (1 nan-action, 1 too-short)`."""
        text = f"read {self.read} · written {self.written} · rejected {len(self.rejected)}"
        if self.rejected:
            reasons = ", ".join(f"{n} {r}" for r, n in sorted(self.reasons().items()))
            text += f" ({reasons})"
        return text + (f" · failed recordings {len(self.failed)}" if self.failed else "")

    def to_json(self) -> dict[str, Any]:
        """Plain form; `from_json` reads it back."""
        rows = [
            {
                "recording": e.recording,
                "stage": e.stage,
                "read": e.read,
                "written": e.written,
                "rejected": [
                    {"episode": r.episode, "reason": r.reason, "detail": r.detail} for r in e.rejected
                ],
            }
            for e in self.entries
        ]
        return {"version": names.LEDGER_VERSION, "entries": rows, "failed": dict(sorted(self.failed.items()))}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Ledger:
        """The ledger that `to_json` wrote.

        Raises:
            InputError: another version, or an entry does not balance.
        """
        if value.get("version") != names.LEDGER_VERSION:
            raise InputError(
                "a ledger of another version", got=value.get("version"), expected=names.LEDGER_VERSION
            )
        entries = [
            LedgerEntry(
                recording=e["recording"],
                stage=e["stage"],
                read=e["read"],
                written=e["written"],
                rejected=tuple(
                    Rejection(e["recording"], r["episode"], r["reason"], r["detail"]) for r in e["rejected"]
                ),
            )
            for e in value["entries"]
        ]
        return cls(entries=entries, failed=dict(value["failed"]))

    @classmethod
    def load(cls, path: Path) -> Ledger:
        """Read a `.ledger.json`.

        Raises:
            InputError: it is damaged.
        """
        value = jsontext.loads(path.read_bytes(), place=path)
        try:
            return cls.from_json(value)
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError("the ledger is damaged", place=path, got=repr(error)) from error

    @classmethod
    def joined(cls, ledgers: Iterable[Ledger]) -> Ledger:
        """One ledger of several."""
        out = cls()
        for ledger in ledgers:
            out.entries.extend(ledger.entries)
            out.failed.update(ledger.failed)
        return out


def entry(recording: str, stage: str, written: int, rejected: Sequence[Rejection]) -> LedgerEntry:
    """A balanced entry from what was written and rejected."""
    return LedgerEntry(recording, stage, written + len(rejected), written, tuple(rejected))
