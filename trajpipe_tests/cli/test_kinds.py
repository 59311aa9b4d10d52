"""What a path is, told by content: names lie, the first bytes do not."""

import os
import stat
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.cli import kinds
from trajpipe.cli.kinds import Recognised, recognise
from trajpipe.core.errors import UnreadableError, UntrustedError
from trajpipe.core.names import Stage
from trajpipe.testing import KINDS, write_recording
from trajpipe_tests.cli.conftest import Command


@pytest.mark.parametrize(
    ("stage", "kind"),
    [("raw", "recording"), ("demos", "l2"), ("store", "store"), ("lerobot", "lerobot")],
)
def test_every_stage(chain: dict[str, Path], stage: str, kind: str) -> None:
    assert recognise(chain[stage]) == Recognised(kind, Stage(stage))


@pytest.mark.parametrize("stage", ["raw", "demos", "store"])
@pytest.mark.parametrize("suffix", ["", ".dat", ".csv", ".json"])
def test_the_name_of_an_hdf5_file_says_nothing(chain: dict[str, Path], stage: str, suffix: str) -> None:
    before = recognise(chain[stage])
    renamed = chain[stage].rename(chain[stage].with_name(f"renamed{suffix}"))
    assert recognise(renamed) == before


def test_an_hdf5_file_behind_a_user_block(tmp_path: Path) -> None:
    path = tmp_path / "blocked"
    with h5py.File(path, "w", userblock_size=1024) as handle:
        handle["data/demo_0/actions"] = np.zeros((2, 1))
    assert recognise(path).kind == "recording"


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (b"MRLDEMO1\0\0", "x.hdf5", "transitions"),
        (b"PAR1\x15\x04", "x.bin", "parquet"),
        (b"\0\0\0\x20ftypisom", "x", "video"),
        (b"\x1aE\xdf\xa3", "x.webm", "video"),
        (b"PK\x03\x04", "x.npz", "npz"),
        (b"\x93NUMPY", "x.npy", "npy"),
        (b"1,2\n", "x.CSV", "csv"),
        (b"\x80\x04", "x.pkl", "pickle"),
        (b"PK\x03\x04", "x.pt", "pickle"),
        (b"{}", "x.json", "json"),
        (b"<mujoco/>", "x.xml", "text"),
        (b"plain words", "README", "text"),
        (b"\x00\x01", "x", "unknown"),
        (b"", "x", "unknown"),
    ],
)
def test_other_files(tmp_path: Path, head: bytes, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(head)
    assert recognise(tmp_path / name).kind == kind


@pytest.mark.parametrize("name", ["ep_len", "ep_offset", "__manifest__"])
def test_one_mark_of_a_store_suffices(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as handle:
        handle[name] = np.zeros(3, np.uint8)
        handle["data"] = np.zeros(3)
    assert recognise(path) == Recognised("store", Stage.STORE)


def test_data_that_is_a_dataset_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as handle:
        handle["data"] = np.zeros(3)
    assert recognise(path).kind == "hdf5"


def test_folders(tmp_path: Path) -> None:
    assert recognise(tmp_path) == Recognised("folder")
    (tmp_path / "meta").mkdir()
    assert recognise(tmp_path) == Recognised("folder")
    (tmp_path / "meta" / "info.json").write_text("not even JSON")
    assert recognise(tmp_path) == Recognised("lerobot", Stage.LEROBOT)


@pytest.mark.parametrize("kind", KINDS)
def test_one_source_recognises_a_recording(tmp_path: Path, kind: str) -> None:
    path = write_recording(kind, tmp_path / "x_demo.hdf5", episodes=1, rows=(4, 5), image_size=32)
    found = kinds.raw_kind(path)
    assert found is not None
    assert found[0] == kind
    assert found[1]


def test_no_source_recognises_nonsense(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as handle:
        handle["nothing"] = 1
    assert kinds.raw_kind(path) is None
    path.write_bytes(b"broken")
    assert kinds.raw_kind(path) is None


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("recordin.hdf5", "Did you mean {0}/recording.hdf5?"),
        ("zzz", None),
        ("no/such.hdf5", "{0}/no does not"),
    ],
)
def test_an_absent_path_offers_the_near_one(tmp_path: Path, typed: str, hint: str | None) -> None:
    (tmp_path / "recording.hdf5").write_bytes(b"")
    with pytest.raises(UnreadableError) as caught:
        recognise(tmp_path / typed)
    assert caught.value.code == "missing-file"
    if hint is None:
        assert caught.value.hint is None
    else:
        assert hint.format(tmp_path) in str(caught.value.hint)


def test_a_way_out_of_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as handle:
        handle["ep_len"] = h5py.ExternalLink("/etc/x.h5", "/y")
    with pytest.raises(UntrustedError):
        recognise(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_could_not_run(invoke: Command, recording: Path) -> None:
    recording.chmod(stat.S_IWUSR)
    ran = invoke("inspect", recording)
    assert ran.code == 2
    assert "ermission" in ran.err
