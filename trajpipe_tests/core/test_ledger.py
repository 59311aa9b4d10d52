"""Tests of the ledger: read = written + rejected, its closing line, JSON on disk.

What is not here: the reasons themselves.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core import atomic, jsontext
from trajpipe.core.errors import InputError
from trajpipe.core.ledger import Ledger, LedgerEntry, Rejection, entry


def two_recordings() -> Ledger:
    """Twelve read, ten written, two rejected for different reasons."""
    first = [Rejection("a.hdf5", "demo_3", "nan-action", "actions row 7 is nan")]
    second = [Rejection("b.hdf5", "demo_0", "too-short", "1 row, at least 2")]
    return Ledger([entry("a.hdf5", "demos", 4, first), entry("b.hdf5", "demos", 6, second)])


def test_the_closing_line_counts_by_reason() -> None:
    assert two_recordings().summary() == "read 12 · written 10 · rejected 2 (1 nan-action, 1 too-short)"
    assert Ledger().summary() == "read 0 · written 0 · rejected 0"


def test_failed_recordings_are_said() -> None:
    ledger = two_recordings()
    ledger.failed["c.hdf5"] = "truncated"
    assert ledger.summary().endswith("· failed recordings 1")


@pytest.mark.parametrize(("read", "written"), [(3, 1), (1, 3), (0, 1)])
def test_an_entry_that_does_not_balance_cannot_exist(read: int, written: int) -> None:
    with pytest.raises(InputError, match=r"a\.hdf5 · demos: a ledger entry must balance") as caught:
        LedgerEntry("a.hdf5", "demos", read, written)
    assert caught.value.code == "ledger-unbalanced"


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.lists(st.sampled_from(["nan-obs", "ragged"])))
    )
)
def test_totals_are_sums_and_json_keeps_all(rows: list[tuple[str, int, list[str]]]) -> None:
    entries = [
        entry(name, "demos", written, [Rejection(name, f"demo_{i}", r) for i, r in enumerate(reasons)])
        for name, written, reasons in rows
    ]
    ledger = Ledger(entries, {"z.hdf5": "empty"})
    assert ledger.read == ledger.written + len(ledger.rejected)
    assert sum(ledger.reasons().values()) == len(ledger.rejected)
    back = Ledger.from_json(jsontext.loads(jsontext.dumps(ledger.to_json())))
    assert back == ledger


def test_a_ledger_is_loaded_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5.ledger.json"
    atomic.write_json(path, two_recordings().to_json())
    assert Ledger.load(path) == two_recordings()


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"version": 1}', '{"version": 1, "entries": [{}], "failed": {}}', "{"]
)
def test_a_damaged_ledger_is_an_input_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.ledger.json"
    path.write_text(text)
    with pytest.raises(InputError):
        Ledger.load(path)


def test_an_unbalanced_ledger_on_disk_is_refused(tmp_path: Path) -> None:
    value = two_recordings().to_json()
    value["entries"][0]["written"] = 5
    path = tmp_path / "x.ledger.json"
    atomic.write_json(path, value)
    with pytest.raises(InputError, match="must balance"):
        Ledger.load(path)


def test_another_version_is_refused() -> None:
    with pytest.raises(InputError, match=r"another version; got 99; expected 1"):
        Ledger.from_json(two_recordings().to_json() | {"version": 99})


def test_joined_keeps_entries_and_failures() -> None:
    broken = Ledger(failed={"c.hdf5": "truncated"})
    both = Ledger.joined([two_recordings(), broken, two_recordings()])
    assert (both.read, both.written, both.failed) == (24, 20, {"c.hdf5": "truncated"})


def test_a_rejection_reads_as_one_line() -> None:
    assert str(Rejection("a.hdf5", "demo_1", "ragged")) == "a.hdf5:demo_1 ragged"
    assert str(Rejection("a.hdf5", "demo_1", "ragged", "obs 4, actions 5")) == (
        "a.hdf5:demo_1 ragged (obs 4, actions 5)"
    )
