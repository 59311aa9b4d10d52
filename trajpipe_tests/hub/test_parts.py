"""Manifest, selection, licences, card: the parts that need no server.

What is not here: what goes over the wire.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.errors import InputError, UsageError
from trajpipe.hub import (
    CardFacts,
    CardTable,
    Entry,
    Manifest,
    Selection,
    episodes_of,
    merged_card,
    restriction,
)
from trajpipe.hub.licences import hub_identifier
from trajpipe.hub.listing import why_unsafe
from trajpipe.hub.local import CountedReader
from trajpipe.hub.manifest import entry_of, lerobot_tag, part_of
from trajpipe.hub.verify import Receipt

FACTS = CardFacts(
    "org/lift", "lift", "A cube.", "Apache-2.0", 4, 1500, lerobot=True, stores=("stores/lift.h5",)
)


def entry(path: str, fill: str = "a", size: int = 3) -> Entry:
    return entry_of(path, size, fill * 64)


TREE = (
    entry("README.md"),
    entry("stores/lift.h5"),
    entry("demos/a.hdf5"),
    entry("meta/info.json"),
    *(entry(f"data/chunk-000/episode_{n:06d}.parquet") for n in range(4)),
    *(entry(f"videos/chunk-000/observation.images.top/episode_{n:06d}.mp4") for n in range(4)),
    entry("notes.txt"),
)


def test_a_manifest_survives_its_text_and_its_version_is_of_the_data_alone() -> None:
    one = Manifest(tuple(sorted(TREE)), "lift", "mit", {"seed": 1})
    assert Manifest.parse(one.to_text(), place="x") == one
    assert one.tag == "v" + one.data_version[:16]
    other_card = tuple(sorted((entry("README.md", "b", 9), *TREE[1:])))
    assert Manifest(other_card, "lift", None, {"seed": 2}).data_version == one.data_version
    other_data = tuple(sorted((*TREE[:-1], entry("notes.txt", "b"))))
    assert Manifest(other_data, "lift").data_version != one.data_version


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": "other"}, "not a manifest"),
        ({"version": 2}, "version 2"),
        ({"data_version": "0" * 64}, "data_version"),
        ({"files": [{"path": "a"}]}, "no path or hash"),
        ({"files": [{"path": "a", "sha256": "a" * 64, "size": -1, "part": "other"}]}, "no size"),
        ({"files": [{"path": "a", "sha256": "a" * 64, "size": True, "part": "other"}]}, "no size"),
        ({"files": {}}, "missing"),
        ({"files": ["a"]}, "no mapping"),
        ({"recipe": None}, "missing"),
    ],
)
def test_a_broken_manifest_is_refused(change: dict[str, object], why: str) -> None:
    value = json.loads(Manifest(TREE, "lift").to_text()) | change
    with pytest.raises(InputError, match=why):
        Manifest.parse(json.dumps(value), place="org/lift")


def test_parts_follow_from_paths() -> None:
    parts = {"stores/a.h5": "store", "demos/a.hdf5": "demos", "videos/x.mp4": "lerobot", "README.md": "card"}
    parts |= {
        "a.txt": "other",
        "stores": "other",
        "assets/contact_sheet.png": "card",
        "certificate.json": "card",
    }
    assert {path: part_of(path) for path in parts} == parts


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_the_tag_of_the_loader_comes_from_the_tree(version: str) -> None:
    info = json.dumps({"codebase_version": version}).encode()
    assert lerobot_tag(["meta/info.json"], info) == version
    assert lerobot_tag(["meta/info.json"], b'{"codebase_version": "v9"}') is None
    assert lerobot_tag(["meta/info.json"], b"not json") is None
    assert lerobot_tag(["a"], None) is None


def test_selections_choose_and_add_up() -> None:
    def paths(selection: Selection) -> set[str]:
        return {e.path for e in selection.of(TREE)} - {"README.md"}

    assert paths(Selection()) == {e.path for e in TREE} - {"README.md"}
    assert paths(Selection(("store",))) == {"stores/lift.h5"}
    some = Selection((), (1, 3))
    assert {p for p in paths(some) if "episode" in p} == {
        p.path for p in TREE if p.path.endswith(("1.parquet", "3.parquet", "1.mp4", "3.mp4"))
    }
    assert "stores/lift.h5" not in paths(some)
    assert some.union(Selection(("store",))) == Selection(("store", "lerobot"), (1, 3))
    assert some.union(Selection((), (0,))).episodes == (0, 1, 3)
    assert some.union(Selection(("lerobot",))) == Selection(("lerobot",))
    assert some.union(Selection()).everything
    assert Selection.from_json(some.to_json()) == some
    for bad in (
        lambda: Selection(("x",)),
        lambda: Selection(("store",), (1,)),
        lambda: Selection((), (7,)).of(TREE),
    ):
        with pytest.raises(UsageError):
            bad()
    with pytest.raises(UsageError, match="LeRobot v2"):
        Selection((), (0,)).of([entry("data/chunk-000/file-000.parquet")])
    with pytest.raises(UsageError, match="no such part"):
        Selection(("demos",)).of([entry("stores/a.h5")])


@pytest.mark.parametrize(("text", "numbers"), [("0,3,7-9", (0, 3, 7, 8, 9)), ("5", (5,)), ("2-2, 1", (1, 2))])
def test_episode_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert episodes_of(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "0-99999999999"])
def test_what_are_no_episode_numbers(text: str) -> None:
    with pytest.raises(UsageError):
        episodes_of(text)


@pytest.mark.parametrize(
    "licence", ["MIT", "apache-2.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC0-1.0", "ODC-By-1.0"]
)
def test_open_licences_may_be_published(licence: str) -> None:
    assert restriction(licence) is None


@pytest.mark.parametrize(
    "licence",
    [
        None,
        "",
        "other",
        "CC-BY-NC-4.0",
        "CC-BY-NC-ND-4.0",
        "cc-by-nd-3.0",
        "PolyForm-Noncommercial-1.0.0",
        "x non-commercial",
    ],
)
def test_closed_ones_may_not(licence: str | None) -> None:
    assert restriction(licence)


def test_licences_are_spelled_as_the_hub_does() -> None:
    assert hub_identifier("Apache-2.0") == "apache-2.0"
    assert hub_identifier("GPL-3.0-only") == "gpl-3.0"
    assert hub_identifier("My own") is None


def front(card: str) -> dict[str, object]:
    value = yaml.safe_load(card.split("---\n")[1])
    assert isinstance(value, dict)
    return value


def test_a_new_card_tells_the_hub_what_it_is() -> None:
    card = merged_card("", FACTS, "v1")
    found = front(card)
    assert found["license"] == "apache-2.0"
    assert found["task_categories"] == ["robotics"]
    assert "LeRobot" in str(found["tags"])
    assert found["size_categories"] == ["1K<n<10K"]
    assert found["configs"] == [{"config_name": "default", "data_files": "data/*/*.parquet"}]
    assert card.count("<!-- trajpipe:begin -->") == card.count("<!-- trajpipe:end -->") == 1
    assert merged_card(card, FACTS, "v1") == card
    own = front(merged_card("", CardFacts("a/b", "t", "", "My own licence!"), "v1"))
    assert (own["license"], own["license_name"]) == ("other", "my-own-licence-")


@given(before=st.text(max_size=60), after=st.text(max_size=60))
def test_text_outside_the_markers_is_kept(before: str, after: str) -> None:
    if "trajpipe:" in before + after or before.startswith("---"):
        return
    card = merged_card("", FACTS, "v1")
    begin, end = card.index("<!-- trajpipe:begin -->"), card.index("<!-- trajpipe:end -->")
    edited = card[:begin] + before + card[begin:end] + "<!-- trajpipe:end -->" + after
    newer = merged_card(edited, CardFacts("org/lift", "lift 2"), "v2")
    assert newer.endswith(after)
    assert before + "<!-- trajpipe:begin -->" in newer
    assert "lift 2" in newer
    assert "v1" not in newer.replace(before, "").replace(after, "")


def test_a_card_of_others_is_added_to() -> None:
    theirs = "---\nlicense: mit\nmine: 1\n---\n# Mine\n\ntext\n"
    card = merged_card(theirs, FACTS, "v1")
    assert card.startswith("---\nlicense: mit\nmine: 1\n---\n# Mine\n\ntext\n")
    assert "org/lift@v1" in card
    assert merged_card(card, FACTS, "v1") == card
    plain = merged_card("# Mine\n", FACTS, "v1")
    assert front(plain)["license"] == "apache-2.0"
    assert "# Mine" in plain
    broken = "---\na: 1\n---\n<!-- trajpipe:begin --> no end\n"
    assert merged_card(broken, FACTS, "v1") == broken


def test_tables_cannot_break_the_card() -> None:
    table = CardTable("T|x", ("a", "b"), tuple((f"{n}|\n", "<!-- trajpipe:end -->") for n in range(70)))
    card = merged_card("", CardFacts("a/b", "t", "<!-- trajpipe:end --> d", tables=(table,)), "v1")
    assert card.count("<!-- trajpipe:end -->") == 1
    assert "… and 10 more." in card
    assert "0\\|" in card


@given(st.text(max_size=40))
def test_safe_names_stay_inside(path: str) -> None:
    if why_unsafe(path) is None:
        target = Path("/root/x").joinpath(*path.split("/"))
        assert Path("/root/x") in target.parents
        assert ".." not in target.parts


def test_the_counter_counts_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)) * 10_000)
    counts: list[int] = []
    reader = CountedReader(path, counts.append)
    assert reader.readable()
    assert reader.seekable()
    assert reader.read() == path.read_bytes()
    assert sum(counts) == 2_560_000
    assert reader.seek(-6, 2) == 2_559_994
    assert reader.read(2) + reader.read() == bytes([250, 251, 252, 253, 254, 255])
    reader.counting = False
    reader.seek(0)
    reader.read()
    assert sum(counts) == 2_560_006
    reader.close()


def test_receipts_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    for text in ("", "[]", '{"version": 9}', '{"version": 1, "repo": "a/b"}'):
        (tmp_path / "trajpipe.pull.json").write_text(text)
        assert Receipt.read(tmp_path) is None
    made = Receipt("a/b", "c" * 40, "v1", Selection(("store",)))
    (tmp_path / "trajpipe.pull.json").write_text(made.to_text())
    assert Receipt.read(tmp_path) == made
