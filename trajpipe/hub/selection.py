"""Which files of a published version are wanted: parts (`--only`) and episodes (`--episodes`).

What is not here: fetching them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajpipe.core.errors import UsageError
from trajpipe.hub.manifest import PART_CARD, PART_LEROBOT, PARTS, Entry

_EPISODE_FILE: Final = re.compile(r"(?:data|videos|images)/.*episode_(\d+)(?:\.|/)")
_EPISODE_DATA: Final = re.compile(r"data/.*episode_(\d+)\.parquet")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a version is wanted.

    Attributes:
        parts: `store`, `lerobot`, `demos`, `other`; empty = all.
        episodes: LeRobot episodes, 0-based, sorted; None = all.
    """

    parts: tuple[str, ...] = ()
    episodes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        unknown = [p for p in self.parts if p not in PARTS]
        if unknown:
            raise UsageError("no such part", got=unknown[0], expected=f"one of {', '.join(PARTS)}")
        if self.episodes is not None and self.parts and PART_LEROBOT not in self.parts:
            raise UsageError(
                "episodes are chosen of a LeRobot tree alone: a store and an L2 file are one file each",
                got=f"--only {', '.join(self.parts)}",
                hint="Leave --episodes out, or say --only lerobot.",
            )

    @property
    def everything(self) -> bool:
        """No part and no episode is left out."""
        return not self.parts and self.episodes is None

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """The wanted entries, sorted; the card is always among them.

        Raises:
            UsageError: a part or an episode is not in this version.
        """
        every = sorted(entries)
        self._require_there(every)
        return [e for e in every if self._wants(e)]

    def _wants(self, entry: Entry) -> bool:
        if entry.part == PART_CARD:
            return True
        parts = self.parts or (PARTS if self.episodes is None else (PART_LEROBOT,))
        if entry.part not in parts:
            return False
        found = _EPISODE_FILE.match(entry.path) if entry.part == PART_LEROBOT else None
        return self.episodes is None or found is None or int(found[1]) in self.episodes

    def _require_there(self, entries: list[Entry]) -> None:
        there = {e.part for e in entries} - {PART_CARD}
        missing = [p for p in self.parts if p not in there]
        if missing:
            expected = ", ".join(sorted(there)) or "nothing"
            raise UsageError("this version has no such part", got=missing[0], expected=f"one of {expected}")
        if self.episodes is None:
            return
        numbers = {int(m[1]) for e in entries if (m := _EPISODE_DATA.fullmatch(e.path))}
        if not numbers:
            raise UsageError(
                "episodes can be chosen where each has a file of its own: LeRobot v2",
                got="none in this version",
                hint="Pull the whole of it.",
            )
        absent = [n for n in self.episodes if n not in numbers]
        if absent:
            raise UsageError("no such episode", got=absent[0], expected=f"0 to {max(numbers)}")

    def union(self, other: Selection) -> Selection:
        """What either of two selections wants."""
        if self.everything or other.everything:
            return Selection()
        a, b = self._effective_parts(), other._effective_parts()
        if PART_LEROBOT not in a:
            episodes = other.episodes
        elif PART_LEROBOT not in b:
            episodes = self.episodes
        elif self.episodes is None or other.episodes is None:
            episodes = None
        else:
            episodes = tuple(sorted({*self.episodes, *other.episodes}))
        return Selection(tuple(p for p in PARTS if p in a or p in b), episodes)

    def _effective_parts(self) -> tuple[str, ...]:
        return self.parts or (PARTS if self.episodes is None else (PART_LEROBOT,))

    def to_json(self) -> dict[str, Any]:
        """Plain form; `from_json` reads it back."""
        return {
            "parts": list(self.parts),
            "episodes": None if self.episodes is None else list(self.episodes),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Selection:
        """The selection that `to_json` wrote."""
        episodes = value["episodes"]
        return cls(
            tuple(str(p) for p in value["parts"]),
            None if episodes is None else tuple(int(n) for n in episodes),
        )


EVERYTHING: Final = Selection()


def episodes_of(text: str) -> tuple[int, ...]:
    """Episode numbers of `0,3,7-9`, sorted.

    Raises:
        UsageError: of another form, or a range that runs backwards.
    """
    numbers: set[int] = set()
    for word in text.split(","):
        found = _RANGE.fullmatch(word.strip())
        first = int(found[1]) if found else 1
        last = int(found[2] or found[1]) if found else 0
        if last < first or last - first > _MOST:
            raise UsageError("episodes are numbers and ranges", got=text, expected="0,3,7-9")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))
