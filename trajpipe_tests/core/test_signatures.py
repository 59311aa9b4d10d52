"""HDF5's signature: at the file's beginning, at a user block's end, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajpipe.core.signatures import HDF5, looks_like_hdf5


@pytest.mark.parametrize("offset", [0, 512, 1024, 2048, 32768, 65536])
def test_the_signature_is_found_after_a_user_block(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\0" * offset + HDF5 + b"rest")
    assert looks_like_hdf5(path)


@pytest.mark.parametrize("data", [b"", HDF5[:7], b"\0" + HDF5, b"\0" * 256 + HDF5, b"\0" * 131072 + HDF5])
def test_elsewhere_it_means_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(data)
    assert not looks_like_hdf5(path)


def test_what_cannot_be_read_is_no_hdf5(tmp_path: Path) -> None:
    assert not looks_like_hdf5(tmp_path)
    assert not looks_like_hdf5(tmp_path / "absent")
