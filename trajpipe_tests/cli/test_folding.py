"""Folding of long names in cells: behind separators, nothing lost, short names whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from trajpipe.cli.folding import FoldingText, breaks_of
from trajpipe.cli.terminal import cell, table


def folded(text: str, width: int) -> list[str]:
    """The lines of a text in a cell of this width."""
    console = Console(width=width, color_system=None, force_terminal=False)
    return [line.plain for line in FoldingText(text).wrap(console, width, overflow="fold")]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("scripted_lift__take_1.hdf5", 26, ["scripted_lift__take_1.hdf5"]),
        ("scripted_lift__take_1.hdf5", 16, ["scripted_lift__", "take_1.hdf5"]),
        ("raw/lift/take_0.hdf5", 9, ["raw/lift/", "take_", "0.hdf5"]),
        ("data/demos/rl_lift.hdf5", 18, ["data/demos/", "rl_lift.hdf5"]),
        ("libero-init-rows", 8, ["libero-", "init-", "rows"]),
        ("see stack_the_cubes now", 9, ["see", "stack_", "the_cubes", "now"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("19 passed, 1 warned", 10, ["19 passed,", "1 warned"]),
    ],
)
def test_a_long_name_folds_behind_its_separators(text: str, width: int, lines: list[str]) -> None:
    assert [line.rstrip() for line in folded(text, width)] == lines


@settings(max_examples=200, deadline=None)
@given(text=st.text("ab_-/. 立", max_size=40), width=st.integers(2, 20))
def test_no_character_is_lost(text: str, width: int) -> None:
    assert "".join("".join(folded(text, width)).split()) == "".join(text.split())
    assert all(0 < at < len(text) for at in breaks_of(text, width))


def test_in_a_table_the_longest_names_give_way() -> None:
    rows = table("name", "output", "state")
    rows.add_row(cell("lift_mixed"), cell("lift_mixed__scripted_recordings_of_monday.hdf5"), cell("built"))
    console = Console(width=44, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(rows)
    lines = [line.split() for line in captured.get().splitlines()[2:] if line.strip()]
    assert lines == [
        ["lift_mixed", "lift_mixed__scripted_", "built"],
        ["recordings_of_"],
        ["monday.hdf5"],
    ]
