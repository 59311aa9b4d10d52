"""The dataset card: front matter for the Hub, tables and loading lines for people, between our markers.

What stands outside the markers is its owner's and is kept byte for byte.
What is not here: gathering the facts, see `trajpipe.pipeline.publish`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trajpipe.core import names
from trajpipe.hub.licences import hub_identifier

_FRONT: Final = re.compile(r"\A---\r?\n(.*?)(?:\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_SIZES: Final = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))
_LARGER: Final = ((10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"))
_MAX_ROWS: Final = 60
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/<>*+-]*")


@dataclass(frozen=True, slots=True)
class CardTable:
    """One table of the card.

    Attributes:
        title: Heading.
        headers: Column headers.
        rows: Cells as text; at most 60 rows are shown, the rest is counted.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What the card says.

    Attributes:
        repo: `org/name`, for the loading lines.
        title: Heading.
        description: Markdown of the dataset's owner.
        license: SPDX name; None when unknown.
        episodes: Episodes.
        rows: Time steps of all episodes.
        lerobot: The repository holds a LeRobot tree at its root.
        lerobot_tag: Revision that LeRobot's loader asks for; None without a tree.
        stores: Paths of trajectory stores in the repository.
        tags: More tags for the Hub's search.
        tables: Columns, episodes, sources, checks.
        notes: Sentences below the tables.
        contact_sheet: There is a picture of the episodes.
    """

    repo: str
    title: str
    description: str = ""
    license: str | None = None
    episodes: int = 0
    rows: int = 0
    lerobot: bool = False
    lerobot_tag: str | None = None
    stores: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tables: tuple[CardTable, ...] = ()
    notes: tuple[str, ...] = ()
    contact_sheet: bool = False


def merged_card(old: str, facts: CardFacts, tag: str) -> str:
    """The card's text: ours when there was none, else the old one with our two sections brought up to date.

    A card without our markers gets them at its end; front matter without our markers is its owner's.
    Merging twice changes nothing.

    Args:
        old: The text in the repository; "" when there is none.
        facts: What to say.
        tag: The version's tag, for the loading lines.
    """
    found = _FRONT.match(old)
    front, body = (found[1], old[found.end() :]) if found is not None else (None, old)
    if front is None:
        front = _yaml_section(facts)
    else:
        front = _replaced(front, names.HUB_CARD_YAML_BEGIN, names.HUB_CARD_YAML_END, _yaml_section(facts))
    ours = _body_section(facts, tag)
    begin, end = names.HUB_CARD_BEGIN, names.HUB_CARD_END
    if begin in body or end in body:
        body = _replaced(body, begin, end, ours)
    elif body.strip():
        body = body.rstrip("\n") + "\n\n" + ours + "\n"
    else:
        body = "\n" + ours + "\n"
    return f"---\n{front}\n---\n{body}"


def _replaced(text: str, begin: str, end: str, section: str) -> str:
    """The text with the section between (and with) the markers replaced; as it was when one is missing."""
    start = text.find(begin)
    stop = text.find(end, start + len(begin)) if start >= 0 else -1
    if stop < 0:
        return text
    return text[:start] + section + text[stop + len(end) :]


def _yaml_section(facts: CardFacts) -> str:
    lines = [names.HUB_CARD_YAML_BEGIN, *_licence_lines(facts.license)]
    tags = [
        *(["LeRobot"] if facts.lerobot else []),
        "robotics",
        "imitation-learning",
        "trajpipe",
        *facts.tags,
    ]
    lines += ["task_categories:", "- robotics", "tags:"]
    lines += [f"- {_scalar(t)}" for t in dict.fromkeys(tags)]
    lines += ["size_categories:", f"- {_scalar(_size(facts.rows))}"]
    if facts.lerobot:
        lines += ["configs:", "- config_name: default", "  data_files: data/*/*.parquet"]
    return "\n".join([*lines, names.HUB_CARD_YAML_END])


def _licence_lines(licence: str | None) -> list[str]:
    if not licence:
        return ["license: unknown"]
    known = hub_identifier(licence)
    if known is not None:
        return [f"license: {known}"]
    return ["license: other", f"license_name: {_scalar(re.sub(r'[^a-z0-9.-]+', '-', licence.lower()))}"]


def _scalar(text: str) -> str:
    """A YAML scalar; quoted unless it is plain."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in ("yes", "no", "true", "false", "null", "on", "off")
    return text if plain and not text.replace(".", "").isdigit() else json.dumps(text, ensure_ascii=False)


def _size(rows: int) -> str:
    return next((name for limit, name in (*_SIZES, *_LARGER) if rows < limit), "n>1T")


def _body_section(facts: CardFacts, tag: str) -> str:
    blocks = [names.HUB_CARD_BEGIN, f"# {_line(facts.title)}"]
    if facts.description.strip():
        blocks.append(_without_markers(facts.description.strip()))
    blocks.append(f"{facts.episodes} episodes, {facts.rows} time steps. Version `{tag}`.")
    if facts.contact_sheet:
        blocks.append(f"![Frames of some episodes]({names.HUB_CONTACT_SHEET})")
    blocks += ["## Load it", *_loading(facts, tag)]
    for table in facts.tables:
        blocks += [f"## {_line(table.title)}", _table(table)]
    blocks += [_without_markers(note) for note in facts.notes]
    blocks.append(
        f"Every file's SHA-256 and the recipe are in `{names.HUB_MANIFEST}`; the tag never moves. "
        "Text outside the two markers of this section is kept when a new version is pushed."
    )
    return "\n\n".join([*blocks, names.HUB_CARD_END])


def _loading(facts: CardFacts, tag: str) -> list[str]:
    blocks = []
    if facts.lerobot:
        blocks.append(
            _python(
                "from lerobot.datasets.lerobot_dataset import LeRobotDataset",
                f'dataset = LeRobotDataset("{facts.repo}", revision="{facts.lerobot_tag or tag}")',
                "print(dataset[0].keys())",
            )
        )
    folder = facts.repo.split("/")[-1]
    pulled = f'folder = pull("{facts.repo}@{tag}", "{folder}").path'
    if facts.stores:
        blocks.append(
            _python(
                "from trajpipe.hub import pull; from trajpipe.store import TrajectoryStore",
                pulled,
                f'store = TrajectoryStore(folder / "{facts.stores[0]}")',
            )
        )
    else:
        blocks.append(_python("from trajpipe.hub import pull", pulled))
    blocks.append(f"Or on a command line: `trajpipe pull {facts.repo}@{tag}`; every byte is verified.")
    return blocks


def _python(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```"])


def _table(table: CardTable) -> str:
    rows = [table.headers, tuple("---" for _ in table.headers), *table.rows[:_MAX_ROWS]]
    text = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
    more = len(table.rows) - _MAX_ROWS
    return f"{text}\n\n… and {more} more." if more > 0 else text


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(_without_markers(text).split())


def _without_markers(text: str) -> str:
    """A text that cannot end our section early."""
    markers: Sequence[str] = (names.HUB_CARD_BEGIN, names.HUB_CARD_END)
    for marker in markers:
        text = text.replace(marker, "")
    return text
