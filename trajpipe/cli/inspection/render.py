"""An inspection as text: a headline, facts, trees, episodes, ranges, attributes, notes.

What is not here: its JSON form, see `Inspection.to_json`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from trajpipe.cli.formatting import count, histogram, listed, number, shape, shorten, size, sparkline
from trajpipe.cli.inspection.model import HISTOGRAM_BINS, Episodes, Inspection, Layout, Ranges
from trajpipe.cli.terminal import cell, printable, table

MAX_LAYOUTS: Final = 3
MAX_DIMENSIONS: Final = 32
MAX_TASKS: Final = 10
_VALUE_WIDTH: Final = 90


def render(found: Inspection, *, every: bool, width: int) -> Iterator[RenderableType]:
    """What to print, part by part.

    Args:
        found: The inspection.
        every: Show all layouts, dimensions, tasks and whole attributes.
        width: Columns of the terminal.
    """
    yield Text(printable(str(found.path)), style="bold", overflow="fold")
    yield Text(_headline(found))
    if found.facts:
        yield from _block("Facts", _facts(found.facts, every, width))
    for layout in found.layouts[: None if every else MAX_LAYOUTS]:
        if layout.nodes:
            yield from _block(*_tree(layout, folder=found.kind == "folder"))
    if len(found.layouts) > MAX_LAYOUTS and not every:
        yield Text(f"{len(found.layouts) - MAX_LAYOUTS} more layouts: see them with --all")
    if found.episodes is not None and found.episodes.lengths:
        yield from _block("Episodes", _episodes(found.episodes, every, width))
    for ranges in found.ranges:
        if ranges.known:
            yield from _block(f"Range of {ranges.title}", _ranges(ranges, every))
    if found.attributes:
        yield from _block("Attributes", _attributes(found, every, width))
    if found.notes:
        yield from _block("Notes", Text("\n".join(f"• {printable(n)}" for n in found.notes), style="yellow"))


def _headline(found: Inspection) -> str:
    parts = [found.title]
    if found.stage and found.stage != found.kind:
        parts.append(f"stage {found.stage}")
    if found.episodes is not None:
        parts += [count(len(found.episodes.lengths), "episode"), count(found.episodes.rows, "frame")]
    return " · ".join([*parts, size(found.bytes)])


def _block(title: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold cyan")
    yield Padding(body, (0, 0, 0, 2), expand=False)


def _facts(facts: Mapping[str, Any], every: bool, width: int) -> RenderableType:
    rows = table("", "")
    rows.show_header = False
    rows.box = None
    for key, value in facts.items():
        text = printable(str(value))
        rows.add_row(cell(key, "dim"), cell(text if every else shorten(text, max(24, width - 24))))
    return rows


def _tree(layout: Layout, *, folder: bool) -> tuple[str, RenderableType]:
    """Title and table of a layout; a folder's nodes are files."""
    headers = (
        ("file", "kind", "size") if folder else ("path", "dtype", "shape", "chunks", "filters", "size", "")
    )
    rows = table(*headers, right=("size",))
    for node in layout.nodes:
        stored = "" if node.stored is None else size(node.stored)
        if folder:
            rows.add_row(cell(node.path), cell(node.dtype), stored)
            continue
        chunks = "" if node.chunks is None else shape(node.chunks)
        values = (node.path, node.dtype, shape(node.shape), chunks, node.compression, stored, node.note)
        rows.add_row(*(cell(v) for v in values))
    for column in rows.columns[1:]:
        if not any(str(c) for c in column.cells):
            column.header = ""
    names = "" if not layout.members or len(layout.members) > 8 else f": {', '.join(layout.members)}"
    return f"{layout.title[:1].upper()}{layout.title[1:]}{printable(names)}", rows


def _episodes(episodes: Episodes, every: bool, width: int) -> RenderableType:
    lengths = episodes.lengths
    mean = episodes.rows / len(lengths)
    spark = sparkline(histogram(lengths, min(HISTOGRAM_BINS, max(4, width // 4))))
    facts: dict[str, Any] = {
        "length": f"min {min(lengths):,} · mean {mean:,.1f} · max {max(lengths):,}",
        "histogram": f"{min(lengths):,} ▕{spark}▏ {max(lengths):,}",
        "names": listed(episodes.names, len(episodes.names) if every else 6),
    }
    for title, counter in (
        ("success", episodes.success),
        ("source", episodes.tags),
        ("split", episodes.splits),
    ):
        if counter:
            facts[title] = " · ".join(f"{word} {n:,}" for word, n in counter.items())
    tasks = list(episodes.tasks.items())
    for index, (text, number_of) in enumerate(tasks if every else tasks[:MAX_TASKS]):
        facts["task" if len(tasks) == 1 else f"task {index}"] = f"{text!r} ({count(number_of, 'episode')})"
    if len(tasks) > MAX_TASKS and not every:
        facts["tasks"] = f"{len(tasks) - MAX_TASKS} more: see them with --all"
    return _facts(facts, every, width)


def _ranges(ranges: Ranges, every: bool) -> RenderableType:
    dimensions = ranges.dimensions()
    rows = table("dim", "min", "mean", "max", right=("min", "mean", "max"))
    for name, low, mean, high in dimensions if every else dimensions[:MAX_DIMENSIONS]:
        rows.add_row(cell(name), number(low), number(mean), number(high))
    left = len(dimensions) - MAX_DIMENSIONS
    if left > 0 and not every:
        rows.add_row(f"… {left} more: --all", "", "", "")
    if ranges.broken:
        rows.add_row(cell(f"{ranges.broken:,} values are NaN or infinite", "red"), "", "", "")
    return rows


def _attributes(found: Inspection, every: bool, width: int) -> RenderableType:
    rows = table("at", "name", "value")
    taken = max(len(a.place) for a in found.attributes) + max(len(a.name) for a in found.attributes) + 8
    limit = max(24, min(_VALUE_WIDTH, width - taken))
    for attribute in found.attributes:
        text = str(attribute.value)
        value = text if every else shorten(text, limit)
        rows.add_row(cell(attribute.place, "dim"), cell(attribute.name), cell(value))
    return rows
