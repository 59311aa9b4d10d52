"""Opening HDF5 files: what is not HDF5 is named, what leads out of the file is refused.

What is not here: reading rows, see `test_columns`.
"""

from __future__ import annotations

import multiprocessing as mp
from multiprocessing.connection import Connection
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core import signatures
from trajpipe.core.errors import LockedError, UnreadableError, UntrustedError
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.hdf5 import files
from trajpipe.hdf5.files import datasets_below, open_hdf5, subgroups


def write_good(path: Path, *, rows: int = 4000) -> Path:
    with h5py.File(path, "w") as handle:
        handle["data/demo_0/actions"] = np.arange(rows * 7, dtype=np.float32).reshape(rows, 7)
    return path


def test_a_good_file_opens_and_closes(tmp_path: Path) -> None:
    path = write_good(tmp_path / "good.hdf5")
    with open_hdf5(path) as handle:
        assert handle["data/demo_0/actions"].shape == (4000, 7)
        dataset = handle["data/demo_0/actions"]
    assert not dataset.id.valid


def test_little_of_a_large_structure_is_kept_in_memory(tmp_path: Path) -> None:
    """HDF5 would keep 8 MiB of these 24,000 objects and 32 MiB of more, at ten times that in memory."""
    with h5py.File(tmp_path / "many.hdf5", "w") as handle:
        for i in range(4000):
            for term in "abcde":
                handle.create_group(f"data/demo_{i}/{term}")
    with h5py.File(tmp_path / "many.hdf5") as handle:
        files.refuse_ways_out(handle, tmp_path / "many.hdf5")
        assert handle.id.get_mdc_size()[2] > 6 << 20  # what the bound is for
    with open_hdf5(tmp_path / "many.hdf5") as handle:
        kept = handle.id.get_mdc_size()[2]
    assert 1 << 20 < kept <= 4 << 20


def test_a_file_cut_in_half_names_both_sizes(tmp_path: Path) -> None:
    path = write_good(tmp_path / "cut.hdf5")
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[: whole // 2])
    with pytest.raises(UnreadableError) as caught, open_hdf5(path):
        pass
    assert caught.value.code == "truncated"
    assert caught.value.got == f"{whole // 2} bytes"
    assert caught.value.expected == f"{whole} bytes"
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", "empty-file", "0 bytes"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
            "git-lfs-pointer",
            "git lfs pull",
        ),
        (b"<!DOCTYPE html><html><body>404</body></html>", "html-page", "Download it again"),
        (b"\n  <HTML>moved</HTML>", "html-page", "HTML page"),
        (b"PK\x03\x04 a zip file, not a recording", "unreadable", "not HDF5"),
        (signatures.HDF5 + b"\0" * 600, "unreadable", "cannot open"),
    ],
)
def test_what_is_not_a_recording_is_named(tmp_path: Path, content: bytes, code: str, words: str) -> None:
    path = tmp_path / "odd.hdf5"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=words) as caught, open_hdf5(path):
        pass
    assert caught.value.code == code
    assert isinstance(caught.value, OSError)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no such file") as caught, open_hdf5(tmp_path / "gone.hdf5"):
        pass
    assert caught.value.code == "missing-file"
    with pytest.raises(UnreadableError, match="folder"), open_hdf5(tmp_path):
        pass


def test_signature_is_found_behind_a_user_block(tmp_path: Path) -> None:
    path = tmp_path / "block.hdf5"
    with h5py.File(path, "w", userblock_size=1024) as handle:
        handle["x"] = np.zeros(3)
    assert looks_like_hdf5(path)
    (tmp_path / "text").write_text("no")
    assert not looks_like_hdf5(tmp_path / "text")
    assert not looks_like_hdf5(tmp_path / "gone")


def _hold(path: str, pipe: Connection) -> None:
    with h5py.File(path, "a") as handle:
        handle.attrs["busy"] = True
        pipe.send("open")
        pipe.recv()


def test_a_file_being_written_is_locked_and_then_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_RETRIES", 2)
    monkeypatch.setattr(files, "LOCK_PAUSE_S", 0.01)
    path = write_good(tmp_path / "busy.hdf5")
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    writer = context.Process(target=_hold, args=(str(path), there))
    writer.start()
    try:
        assert here.recv() == "open"
        with pytest.raises(LockedError, match="another process") as caught, open_hdf5(path):
            pass
        assert isinstance(caught.value, BlockingIOError)
    finally:
        here.send("close")
        writer.join(30)
    with open_hdf5(path) as handle:
        assert handle.attrs["busy"]


def test_external_links_are_refused_wherever_they_lie(tmp_path: Path) -> None:
    other = write_good(tmp_path / "secret.hdf5")
    path = tmp_path / "link.hdf5"
    with h5py.File(path, "w") as handle:
        handle["data/demo_0/obs"] = h5py.ExternalLink(str(other), "/data")
    with pytest.raises(UntrustedError, match=r"external link to 'secret\.hdf5'") as caught, open_hdf5(path):
        pass
    assert caught.value.code == "external-reference"
    assert str(tmp_path) not in str(caught.value)
    assert "data/demo_0/obs" in str(caught.value)


def test_soft_links_are_refused(tmp_path: Path) -> None:
    path = write_good(tmp_path / "soft.hdf5")
    with h5py.File(path, "a") as handle:
        handle["data/demo_1"] = h5py.SoftLink("/data/demo_0")
    with pytest.raises(UntrustedError, match="soft link") as caught, open_hdf5(path):
        pass
    assert caught.value.code == "soft-link"
    assert "other files" not in str(caught.value)
    assert "old.copy(name, new, expand_soft=True)" in str(caught.value.hint)


def test_the_advice_for_soft_links_works(tmp_path: Path) -> None:
    path, copied = write_good(tmp_path / "soft.hdf5"), tmp_path / "copied.hdf5"
    with h5py.File(path, "a") as old:
        old["data/demo_1"] = h5py.SoftLink("/data/demo_0")
        old["data"].attrs["total"] = 4
        members = sorted(old["data/demo_0"])
    with h5py.File(path) as old, h5py.File(copied, "w") as new:
        for name in old:
            old.copy(name, new, expand_soft=True)
    with open_hdf5(copied) as handle:
        assert sorted(handle["data/demo_1"]) == members
        assert handle["data"].attrs["total"] == 4


def test_external_storage_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(b"\1" * 64)
    path = tmp_path / "storage.hdf5"
    with h5py.File(path, "w") as handle:
        handle.create_dataset("data/x", (8,), "f8", external=[(str(tmp_path / "raw.bin"), 0, 64)])
    with pytest.raises(UntrustedError, match="external storage"), open_hdf5(path):
        pass


def test_virtual_datasets_are_refused(tmp_path: Path) -> None:
    other = write_good(tmp_path / "other.hdf5", rows=4)
    path = tmp_path / "virtual.hdf5"
    layout = h5py.VirtualLayout((4, 7), "f4")
    layout[:] = h5py.VirtualSource(str(other), "data/demo_0/actions", (4, 7))
    with h5py.File(path, "w") as handle:
        handle.create_virtual_dataset("data/demo_0/actions", layout)
    with pytest.raises(UntrustedError, match="virtual dataset"), open_hdf5(path):
        pass


@pytest.mark.parametrize("target", ["/", "data", "data/demo_0"])
def test_a_ring_of_groups_is_refused(tmp_path: Path, target: str) -> None:
    path = write_good(tmp_path / "ring.hdf5")
    with h5py.File(path, "a") as handle:
        handle["data/demo_0/up"] = handle[target]
    with pytest.raises(UntrustedError, match="links back") as caught, open_hdf5(path):
        pass
    assert caught.value.code == "link-cycle"
    assert "data/demo_0/up" in str(caught.value)


def test_one_dataset_under_two_names_is_no_ring(tmp_path: Path) -> None:
    path = write_good(tmp_path / "twice.hdf5")
    with h5py.File(path, "a") as handle:
        handle["data/demo_0/obs/last_action"] = handle["data/demo_0/actions"]
        handle["data/demo_1"] = handle["data/demo_0"]
    with open_hdf5(path) as handle:
        assert handle["data/demo_1/obs/last_action"].shape == (4000, 7)


def test_a_harmless_file_that_is_changed_is_walked_again(tmp_path: Path) -> None:
    path = write_good(tmp_path / "later.hdf5")
    with open_hdf5(path):
        pass
    with h5py.File(path, "a") as handle:
        handle["data/out"] = h5py.ExternalLink("x.hdf5", "/x")
    with pytest.raises(UntrustedError), open_hdf5(path):
        pass


def test_a_harmless_file_is_walked_once_per_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, walks = write_good(tmp_path / "once.hdf5"), list[Path]()
    monkeypatch.setattr(files, "refuse_ways_out", lambda _handle, path: walks.append(path))
    for _ in range(3):
        with open_hdf5(path):
            pass
    assert walks == [path]


def test_datasets_and_groups_come_in_natural_order(tmp_path: Path) -> None:
    path = tmp_path / "order.hdf5"
    with h5py.File(path, "w") as handle:
        for number in (10, 2, 1, 0):
            handle[f"data/demo_{number}/obs/term_{number}"] = np.zeros(2)
        handle["data/loose"] = np.zeros(2)
    with open_hdf5(path) as handle:
        assert list(subgroups(handle["data"])) == ["demo_0", "demo_1", "demo_2", "demo_10"]
        assert list(datasets_below(handle["data"])) == [
            "demo_0/obs/term_0",
            "demo_1/obs/term_1",
            "demo_2/obs/term_2",
            "demo_10/obs/term_10",
            "loose",
        ]
