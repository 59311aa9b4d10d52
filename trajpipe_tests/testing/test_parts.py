"""The parts that recordings and defects are put together with: trees, options, the register of defects.

What is not here: whole recordings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import InputError, MissingNameError, UsageError
from trajpipe.testing import write_recording
from trajpipe.testing.defects import DEFECTS, Injection, registry
from trajpipe.testing.defects.registry import Opened, defect, defects, one, replace
from trajpipe.testing.isaaclab import IsaacLabOptions
from trajpipe.testing.layout import Tree, write_attributes, write_tree
from trajpipe.testing.libero import LiberoOptions
from trajpipe.testing.request import Request, options_from


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[h5py.File]:
    with h5py.File(tmp_path / "x.hdf5", "w") as opened:
        yield opened


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A recording with images, open for change."""
    path = write_recording("isaaclab", tmp_path / "y.hdf5", numbers=(1, 10, 2), rows=(4, 4), image_size=8)
    with h5py.File(path, "r+") as file:
        yield Opened(file, np.random.default_rng(0), "test")


# --- trees ---


def test_a_tree_is_written_in_its_order_with_its_types(handle: h5py.File) -> None:
    tree: Tree = {"b": np.arange(3), "a": {"z": np.ones((2, 2), np.float32), "y": np.array([True, False])}}
    write_tree(handle, tree)
    assert handle["b"].dtype == np.int64
    assert handle["a/z"].dtype == np.float32
    assert handle["a/y"].dtype == np.bool_
    assert handle["b"].chunks is None
    assert list(handle["a"]) == ["y", "z"]  # HDF5 lists by name


def test_a_compressed_tree_keeps_its_values(handle: h5py.File) -> None:
    values = np.random.default_rng(0).normal(size=(50, 3))
    write_tree(handle, {"a": {"b": values}}, gzip=4)
    assert handle["a/b"].compression == "gzip"
    assert handle["a/b"].compression_opts == 4
    np.testing.assert_array_equal(handle["a/b"][...], values)


def test_attributes_have_the_types_that_recorders_write(handle: h5py.File) -> None:
    long = "x" * 100_000
    write_attributes(handle, {"n": 3, "ok": True, "text": long, "state": np.arange(4.0)})
    assert handle.attrs.get_id("n").dtype == np.int64
    assert handle.attrs.get_id("ok").dtype == np.bool_
    assert handle.attrs["text"] == long
    assert handle.attrs["state"].shape == (4,)


# --- options ---


def test_options_are_told_apart_by_name() -> None:
    assert options_from("isaaclab", IsaacLabOptions, {"gzip": False}) == IsaacLabOptions(gzip=False)
    assert options_from("libero", LiberoOptions, {}) == LiberoOptions()
    with pytest.raises(UsageError, match=r"got datagen_info, states; expected one of .*language"):
        options_from("libero", LiberoOptions, {"states": True, "datagen_info": True})


@pytest.mark.parametrize(("version", "xyzw"), [(None, False), (0, False), (1, True)])
def test_only_format_version_1_is_scalar_last(version: int | None, xyzw: bool) -> None:
    assert IsaacLabOptions(format_version=version).xyzw is xyzw


def test_demo_names_count_from_where_the_format_does() -> None:
    assert Request(episodes=2).demo_names() == ["demo_0", "demo_1"]
    assert Request(episodes=2).demo_names(first=1) == ["demo_1", "demo_2"]
    assert Request(episodes=2, numbers=(7, 3)).demo_names(first=1) == ["demo_7", "demo_3"]


def test_rollouts_depend_on_seed_and_position_alone() -> None:
    one_, two = (list(Request(seed=4, episodes=n).rollouts("lift")) for n in (2, 3))
    for a, b in zip(one_, two, strict=False):
        np.testing.assert_array_equal(a.joints, b.joints)
    other = next(Request(seed=5).rollouts("lift"))
    assert other.joints.shape != one_[0].joints.shape or (other.joints != one_[0].joints).any()


def test_a_miss_does_not_change_the_other_episodes() -> None:
    good, bad = (list(Request(failures=f).rollouts("lift")) for f in ((), (1,)))
    assert [r.success for r in bad] == [True, False, True]
    np.testing.assert_array_equal(good[2].eef_pos, bad[2].eef_pos)
    assert (good[1].eef_pos != bad[1].eef_pos).any()


# --- the register of defects ---


def test_an_opened_file_lists_demos_in_natural_order(opened: Opened) -> None:
    assert [str(demo.name) for demo in opened.demos()] == ["/data/demo_1", "/data/demo_2", "/data/demo_10"]
    assert opened.a_demo().name in {demo.name for demo in opened.demos()}


def test_an_opened_file_tells_terms_and_images_apart(opened: Opened) -> None:
    demo = opened.demos()[0]
    assert opened.image_terms(demo) == ["obs/table_cam", "obs/wrist_cam"]
    terms = opened.float_terms(demo)
    assert "obs/eef_pos" in terms
    assert not set(terms) & set(opened.image_terms(demo))
    assert len(opened.all_images()) == 6
    del demo["obs"]
    assert opened.image_terms(demo) == []
    assert all(path.startswith("states/") for path in opened.float_terms(demo))


def test_a_row_is_never_the_first_when_there_are_more(opened: Opened) -> None:
    dataset = opened.demos()[0]["actions"]
    assert {opened.a_row(dataset) for _ in range(60)} == {1, 2, 3}
    replace(opened.demos()[0], "actions", dataset[:1])
    assert opened.a_row(opened.demos()[0]["actions"]) == 0


def test_a_file_without_images_is_refused_by_a_defect_of_images(opened: Opened) -> None:
    for demo in opened.demos():
        del demo["obs"]
    with pytest.raises(InputError, match="needs a recording with images; got test"):
        opened.all_images()


def test_a_hit_names_the_demo_without_its_folder(opened: Opened) -> None:
    found = opened.hit(opened.demos()[2], "actions", row=3, detail="here")
    assert found == Injection("test", "demo_10", "actions", 3, "here")
    assert opened.hit() == Injection("test")


def test_a_name_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))

    @defect("unplugged", "the camera was unplugged")
    def unplugged(opened: Opened) -> Injection:
        return opened.hit()

    assert one("unplugged").title == "the camera was unplugged"
    assert list(defects()) == sorted(defects())
    with pytest.raises(MissingNameError, match="two defects of one name; got unplugged"):
        defect("unplugged", "again")(unplugged)


def test_the_list_of_defects_covers_the_contract_s_table() -> None:
    """Each row of "Cases people hit in public trackers" that is a fault of an input file."""
    rows = {
        "truncated",
        "no-demos",
        "numbering",
        "format-version-missing",
        "legacy-quaternions",
        "total-wrong",
        "num-samples-missing",
        "no-success",
        "obs-actions-conflict",
        "actions-out-of-range",
        "mask-overlap",
        "no-obs",
        "env-args-missing",
        "env-args-repr",
        "env-args-bytes",
        "images-opengl",
        "images-opencv",
        "meshes-on-authors-disk",
        "images-chw",
        "images-grey",
        "images-rgba",
        "images-ambiguous",
        "stale-first-frame",
        "nan-action",
        "inf-obs",
    }
    assert rows <= set(DEFECTS)
