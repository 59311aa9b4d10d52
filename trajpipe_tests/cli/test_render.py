"""An inspection as text: what is shown, what is cut, what `--all` adds; any text of a file is harmless."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from trajpipe.cli.inspection.model import Attribute, Episodes, Inspection, Layout, Node, Ranges
from trajpipe.cli.inspection.render import render


def shown(found: Inspection, *, every: bool = False, width: int = 100) -> str:
    """What a terminal of this width shows."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(*render(found, every=every, width=width), sep="\n")
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def inspection(**parts: Any) -> Inspection:
    """An inspection of an L2 file with these parts."""
    return Inspection(Path("a.hdf5"), "l2", "L2 demos", stage="demos", bytes=1200, **parts)


def test_the_headline() -> None:
    lines = shown(inspection(episodes=Episodes(["a", "b"], [3, 4]))).splitlines()
    assert lines[0] == "a.hdf5"
    assert lines[1] == "L2 demos · stage demos · 2 episodes · 7 frames · 1.2 kB"


def test_facts_are_aligned_and_long_ones_cut() -> None:
    found = inspection(facts={"short": 1, "a longer name": "x" * 500})
    text = shown(found)
    assert "\nFacts\n  short          1\n  a longer name  xxx" in text
    assert "… (500 characters)" in text
    assert "x" * 500 in shown(found, every=True).replace("\n", "").replace(" ", "")


def test_layouts_beyond_three_are_counted() -> None:
    layouts = [Layout(f"{i} of 9 episodes", [Node(f"p{i}", "float32", ("T", 2))]) for i in range(5)]
    text = shown(inspection(layouts=layouts))
    assert "p2" in text
    assert "p3" not in text
    assert "2 more layouts: see them with --all" in text
    assert "p4" in shown(inspection(layouts=layouts), every=True)


def test_a_layout_names_its_episodes_when_they_are_few() -> None:
    few = Layout("2 of 30 episodes", [Node("actions")], ["demo_3", "demo_11"])
    many = Layout("28 of 30 episodes", [Node("actions")], [f"demo_{i}" for i in range(28)])
    text = shown(inspection(layouts=[many, few]))
    assert "2 of 30 episodes: demo_3, demo_11" in text
    assert "28 of 30 episodes\n" in text


def test_a_node_shows_every_column_that_any_node_has() -> None:
    nodes = [
        Node("actions", "float32", ("T", 7), (100, 7), "gzip-4", 12_000),
        Node("obs/rgb", "uint8", ("T", 64, 64, 3), (16, 16, 64, 3), "zstd-1", 3_400_000, "unlimited"),
    ]
    text = shown(inspection(layouts=[Layout("the file", nodes)]))
    assert "path      dtype     shape            chunks            filters     size" in text
    assert "obs/rgb   uint8     (T, 64, 64, 3)   (16, 16, 64, 3)   zstd-1    3.4 MB   unlimited" in text
    bare = shown(inspection(layouts=[Layout("the file", [Node("actions", "float32", ("T", 7))])]))
    assert "chunks" not in bare
    assert "filters" not in bare


def test_episodes_with_lengths_histogram_and_marks() -> None:
    episodes = Episodes(
        [f"demo_{i}" for i in range(20)],
        [10] * 10 + [20] * 5 + [30] * 5,
        success=Counter(yes=18, unknown=2),
        tags=Counter(rl=20),
        tasks=Counter({"pick ": 12, "立方体": 8}),
        splits=Counter(train=15, valid=5),
    )
    text = shown(inspection(episodes=episodes))
    assert "length     min 10 · mean 17.5 · max 30" in text
    assert "histogram  10 ▕" in text
    assert "▏ 30" in text
    assert "names      demo_0, demo_1, demo_2, demo_3, demo_4, demo_5 … (20 in all)" in text
    assert "success    yes 18 · unknown 2" in text
    assert "source     rl 20" in text
    assert "split      train 15 · valid 5" in text
    assert "task 0     'pick ' (12 episodes)" in text
    assert "task 1     '立方体' (8 episodes)" in text
    assert "demo_19" in shown(inspection(episodes=episodes), every=True)


def test_many_tasks_are_cut() -> None:
    episodes = Episodes(["a"], [1], tasks=Counter({f"task {i}": 1 for i in range(14)}))
    assert "4 more: see them with --all" in shown(inspection(episodes=episodes))
    assert "'task 13'" in shown(inspection(episodes=episodes), every=True)


def test_many_dimensions_are_cut_and_broken_values_are_told() -> None:
    ranges = Ranges("actions")
    block = np.arange(80.0).reshape(2, 40)
    block[0, 0] = np.nan
    ranges.add(block)
    text = shown(inspection(ranges=[ranges]))
    assert "Range of actions" in text
    assert "… 8 more: --all" in text
    assert "1 values are NaN or infinite" in text
    full = shown(inspection(ranges=[ranges]), every=True)
    assert ["39", "39", "59", "79"] in [line.split() for line in full.splitlines()]
    assert "Range of" not in shown(inspection(ranges=[Ranges("actions")]))


def test_attributes_are_cut_to_the_width() -> None:
    found = inspection(attributes=[Attribute("/data", "env_args", "{" + "y" * 400 + "}")])
    for width in (60, 100):
        text = shown(found, width=width)
        assert "… (402 characters)" in text
        assert max(len(line) for line in text.splitlines()) <= width


def test_notes_come_last() -> None:
    text = shown(inspection(notes=["first", "second"], facts={"a": 1}))
    assert text.endswith("\nNotes\n  • first\n  • second")


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    nodes = [Node("states/articulation/robot/root_pose", "float32", ("T", 7), (100, 7), "shuffle gzip-4", 10)]
    found = inspection(
        facts={"data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"},
        layouts=[Layout("each of 10 episodes", nodes)],
        episodes=Episodes([f"demo_{i}" for i in range(300)], list(range(1, 301))),
        attributes=[Attribute("/data/demo_0", "model_file", "<xml>" * 100)],
    )
    assert max(len(line) for line in shown(found, width=width).splitlines()) <= width


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60), other=st.text(max_size=60))
def test_any_text_of_a_file_is_shown_without_harm(text: str, other: str) -> None:
    found = inspection(
        facts={text: other},
        layouts=[Layout("the file", [Node(text, other, ("T",), note=text)], [other])],
        episodes=Episodes([text, other], [1, 2], tasks=Counter([text]), tags=Counter([other])),
        attributes=[Attribute(text, other, text)],
        notes=[text],
    )
    out = shown(found)
    assert not [c for c in out if c != "\n" and not c.isprintable()]
    found.to_json()
