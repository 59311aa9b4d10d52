"""The L2 writer: layout, attributes, refusals, bytes; read back with h5py alone.

What is not here: reading into episodes, see `test_reader.py`.
"""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.core.atomic import atomic_file
from trajpipe.core.episode import ArrayColumn, Episode, FunctionColumn
from trajpipe.core.errors import (
    DTypeError,
    InputError,
    OutputExistsError,
    SchemaError,
    StateError,
    TrajpipeError,
    UnreadableError,
)
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.demos import images
from trajpipe.demos.writer import DemosWriter
from trajpipe_tests.demos.builders import ENV_ARGS, RECIPE, SHA, episode, replaced, written


def test_root_and_data_attributes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hdf5", attributes={"bddl_file_name": "/opt/lib/x.bddl", "tag": "libero-v1"})
    with h5py.File(path) as file:
        assert file.attrs["format_version"] == 1
        assert file.attrs["format_version"].dtype.kind == "i"
        data = file["data"]
        assert list(data) == ["demo_0", "demo_1", "demo_2"]
        assert data.attrs["total"] == 12 + 19 + 26
        assert json.loads(data.attrs["env_args"]) == ENV_ARGS
        assert data.attrs["macros_image_convention"] == "opencv"
        assert data.attrs["tag"] == "libero-v1"
        assert data.attrs["bddl_file_name"] == "x.bddl"
        recipe = data.attrs["trajpipe"]
        assert recipe == json.dumps(json.loads(recipe), sort_keys=True, separators=(",", ":"))
        original = hashlib.sha256(b"/opt/lib/x.bddl").hexdigest()
        assert json.loads(recipe) == RECIPE | {"original_sha256": {"data@bddl_file_name": original}}


def test_demo_attributes(tmp_path: Path) -> None:
    long_text = "<mujoco>" + "x" * 91_000 + "</mujoco>"
    one = episode(attributes={"model_file": long_text, "init_state": np.arange(5.0), "names": ["a", "ü"]})
    with h5py.File(written(tmp_path / "a.hdf5", one)) as file:
        attributes = dict(file["data/demo_0"].attrs)
    assert attributes.pop("model_file") == long_text
    assert attributes.pop("init_state").tolist() == [0, 1, 2, 3, 4]
    assert attributes.pop("names").tolist() == ["a", "ü"]
    assert len(attributes.pop("content_sha256")) == 64
    assert {k: v.item() if isinstance(v, np.generic) else v for k, v in attributes.items()} == {
        "num_samples": 20,
        "success": True,
        "success_known": True,
        "seed": 7,
        "source": "teleop",
        "source_file": "recorded.hdf5",
        "source_demo": "demo_0",
        "source_sha256": SHA,
        "task": "lift the cube",
        "obs_alignment": "before_action",
    }


def test_success_is_an_hdf5_enum_bool(tmp_path: Path) -> None:
    with h5py.File(written(tmp_path / "a.hdf5", episode(success=False))) as file:
        attribute = file["data/demo_0"].attrs.get_id("success")
        assert attribute.get_type().get_class() == h5py.h5t.ENUM
        assert attribute.dtype == np.bool_


@pytest.mark.parametrize(
    ("success", "policy", "expected"),
    [
        (True, "keep", (True, True)),
        (False, "keep", (False, True)),
        (None, "keep", (True, False)),
        (None, "fail", (False, False)),
        (False, "drop", (False, True)),
    ],
)
def test_success_and_whether_it_is_known(
    tmp_path: Path, success: bool | None, policy: str, expected: tuple[bool, bool]
) -> None:
    path = written(tmp_path / "a.hdf5", episode(success=success), unknown_success=policy)
    with h5py.File(path) as file:
        attributes = file["data/demo_0"].attrs
        assert (attributes["success"], attributes["success_known"]) == expected


def test_unknown_success_under_drop_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="success is unknown") as caught:
        written(tmp_path / "a.hdf5", episode(success=None), unknown_success="drop")
    assert caught.value.code == "unknown-success"


def test_every_dataset_is_kept_as_given(tmp_path: Path) -> None:
    one = episode()
    with h5py.File(written(tmp_path / "a.hdf5", one)) as file:
        demo = file["data/demo_0"]
        for path, column in {**one.columns, **one.extras}.items():
            stored = demo[path][()]
            assert stored.dtype == column.dtype, path
            np.testing.assert_array_equal(stored, column.read(0, column.shape[0]), err_msg=path)


def test_actions_become_float32_with_one_rounding(tmp_path: Path) -> None:
    actions = np.random.default_rng(3).normal(size=(20, 7))
    with h5py.File(written(tmp_path / "a.hdf5", replaced(episode(), {"actions": actions}))) as file:
        stored = file["data/demo_0/actions"]
        assert stored.dtype == np.float32
        np.testing.assert_array_equal(stored[()], actions.astype(np.float32))


def test_big_endian_columns_are_stored_little_endian(tmp_path: Path) -> None:
    values = np.arange(40, dtype=">f8").reshape(20, 2)
    with h5py.File(written(tmp_path / "a.hdf5", replaced(episode(), {"obs/x": values}))) as file:
        assert file["data/demo_0/obs/x"].dtype == np.dtype("<f8")
        np.testing.assert_array_equal(file["data/demo_0/obs/x"][()], values)


@pytest.mark.parametrize(("layout", "chunks"), [("strips", (16, 16, 20, 3)), ("frames", (1, 24, 20, 3))])
@pytest.mark.parametrize("fletcher32", [False, True])
def test_image_chunks(tmp_path: Path, layout: str, chunks: tuple[int, ...], fletcher32: bool) -> None:
    path = written(tmp_path / "a.hdf5", image_layout=layout, fletcher32=fletcher32)
    with h5py.File(path) as file:
        frames = file["data/demo_1/obs/front_rgb"]
        assert (frames.chunks, frames.compression) == (chunks, "gzip")
        assert all(d.fletcher32 is fletcher32 for d in _datasets(file["data/demo_1"]) if d.chunks)
        assert fletcher32 == (file["data/demo_1/actions"].chunks is not None)
        assert fletcher32 == file["data/demo_1/actions"].fletcher32
        expected = episode(1, 19).columns["obs/front_rgb"].read(0, 19)
        np.testing.assert_array_equal(frames[()], expected)


def _datasets(group: h5py.Group) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    group.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found


def test_chunks_are_plain_deflate(tmp_path: Path) -> None:
    with h5py.File(written(tmp_path / "a.hdf5")) as file:
        frames = file["data/demo_0/obs/front_rgb"]
        mask, raw = frames.id.read_direct_chunk((0, 0, 0, 0))
        strip = np.frombuffer(zlib.decompress(raw), np.uint8).reshape(frames.chunks)
        assert mask == 0
        np.testing.assert_array_equal(strip, frames[:16, :16] if frames.shape[0] >= 16 else frames[:, :16])


def test_strips_of_large_frames_hold_fewer_of_them() -> None:
    assert images.chunk_shape((100, 2160, 3840, 3), "strips") == (2, 16, 3840, 3)
    assert images.chunk_shape((100, 8000, 8000, 3), "strips") == (1, 16, 8000, 3)
    assert images.chunk_shape((3, 8, 9, 1), "strips") == (3, 8, 9, 1)


@pytest.mark.parametrize("layout", ["strips", "frames"])
def test_strips_beat_whole_frames_on_a_static_camera(tmp_path: Path, layout: str) -> None:
    rng = np.random.default_rng(0)
    background = rng.integers(0, 255, (1, 128, 128, 3)).astype(np.uint8)
    frames = np.repeat(background, 32, axis=0)
    one = replaced(episode(0, 32), {"obs/front_rgb": frames})
    with h5py.File(written(tmp_path / "a.hdf5", one, image_layout=layout)) as file:
        stored = file["data/demo_0/obs/front_rgb"]
        ratio = stored.nbytes / stored.id.get_storage_size()
    assert ratio > 8 if layout == "strips" else ratio < 1.1


def test_grey_and_rgba_frames_and_empty_images(tmp_path: Path) -> None:
    grey = np.full((20, 5, 7, 1), 9, np.uint8)
    none = np.zeros((20, 0, 7, 3), np.uint8)
    with h5py.File(written(tmp_path / "a.hdf5", replaced(episode(), {"obs/g": grey, "obs/n": none}))) as file:
        np.testing.assert_array_equal(file["data/demo_0/obs/g"][()], grey)
        assert file["data/demo_0/obs/n"].shape == (20, 0, 7, 3)


def independent_content_hash(demo: h5py.Group) -> str:
    """The byte rule of `trajpipe.demos.content`, written again from its text."""
    paths: list[str] = []
    demo.visititems(lambda n, item: paths.append(n) if isinstance(item, h5py.Dataset) else None)
    digest = hashlib.sha256()
    for path in natural_sorted(paths):
        values: NDArray[Any] = demo[path][()]
        little = values.astype(values.dtype.newbyteorder("<"))
        shape = ",".join(str(n) for n in values.shape)
        digest.update(path.encode() + b"\0" + little.dtype.str.encode() + b"\0" + shape.encode() + b"\0")
        digest.update(little.tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("options", [{}, {"image_layout": "frames"}, {"fletcher32": True}])
def test_content_hash_follows_its_rule_and_not_the_layout(tmp_path: Path, options: dict[str, Any]) -> None:
    plain = written(tmp_path / "plain.hdf5")
    with h5py.File(written(tmp_path / "a.hdf5", **options)) as file, h5py.File(plain) as other:
        for name in file["data"]:
            recorded = file["data"][name].attrs["content_sha256"]
            assert recorded == independent_content_hash(file["data"][name])
            assert recorded == other["data"][name].attrs["content_sha256"]


def test_content_hash_tells_what_changed(tmp_path: Path) -> None:
    one = episode()
    wide = replaced(one, {"rewards": np.asarray(one.columns["rewards"].read(0, 20)).reshape(20, 1)})
    renamed = one.with_columns({p.replace("front", "side"): c for p, c in one.columns.items()})
    same = episode(attributes={}, task="another", tag="rl")
    path = written(tmp_path / "a.hdf5", one, wide, renamed, same)
    with h5py.File(path) as file:
        hashes = [file[f"data/demo_{i}"].attrs["content_sha256"] for i in range(4)]
    assert len(set(hashes[:3])) == 3
    assert hashes[3] == hashes[0]


def test_the_same_episodes_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (written(tmp_path / name).read_bytes() for name in ("a.hdf5", "b.hdf5"))
    assert first == second


def test_an_existing_path_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    path.write_text("mine")
    with pytest.raises(OutputExistsError, match="never writes over"):
        written(path)
    assert path.read_text() == "mine"


def test_masks_come_from_the_splits_of_episodes(tmp_path: Path) -> None:
    with h5py.File(written(tmp_path / "a.hdf5")) as file:
        assert file["mask/train"][()].tolist() == [b"demo_0", b"demo_2"]
        assert file["mask/valid"][()].tolist() == [b"demo_1"]
        assert file["mask/train"].dtype.kind == "S"


def test_masks_given_win_and_are_sorted(tmp_path: Path) -> None:
    with DemosWriter(tmp_path / "a.hdf5", env_args=ENV_ARGS, recipe={}) as writer:
        for i in range(12):
            assert writer.write(episode(i, 2)) == f"demo_{i}"
        writer.set_masks({"train": ["demo_10", "demo_2"], "valid": []})
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert file["mask/train"][()].tolist() == [b"demo_2", b"demo_10"]
        assert file["mask/valid"].shape == (0,)


@pytest.mark.parametrize(
    ("masks", "rule"),
    [
        ({"train": ["demo_9"]}, "names a demo that is not here"),
        ({"train": ["demo_0"], "valid": ["demo_0"]}, "share demos"),
    ],
)
def test_bad_masks_are_refused(tmp_path: Path, masks: dict[str, list[str]], rule: str) -> None:
    writer = DemosWriter(tmp_path / "a.hdf5", env_args=ENV_ARGS, recipe={})
    writer.write(episode())
    writer.set_masks(masks)
    with pytest.raises(InputError, match=rule):
        writer.close()
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert "format_version" not in file.attrs


def test_env_args_get_what_l2_wants(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hdf5", env_args={"env_name": "X", "xml": "/home/me/x.xml"})
    with h5py.File(path) as file:
        assert json.loads(file["data"].attrs["env_args"]) == {
            "env_kwargs": {},
            "env_name": "X",
            "type": 2,
            "xml": "x.xml",
        }
        assert "data@env_args" in json.loads(file["data"].attrs["trajpipe"])["original_sha256"]


@pytest.mark.parametrize(
    "env_args", [{}, {"env_name": 3}, {"env_name": "X", "type": "gym"}, {"env_name": "X", "env_kwargs": []}]
)
def test_env_args_of_another_kind_are_refused(tmp_path: Path, env_args: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="env_args needs") as caught:
        written(tmp_path / "a.hdf5", env_args=env_args)
    assert caught.value.code == "bad-env-args"
    assert not (tmp_path / "a.hdf5").exists()


def _place(path: str | None = None, row: int | None = None) -> Place:
    return Place("recorded.hdf5", "demo_0", path, row)


def _spoiled(path: str, row: int, value: float) -> Episode:
    one = episode()
    rows = np.array(one.columns[path].read(0, one.length))
    rows[row, 1] = value
    return replaced(one, {path: rows})


@pytest.mark.parametrize(
    ("bad", "kind", "code", "place"),
    [
        (
            _spoiled("actions", 5, np.nan),
            InputError,
            "nan-action",
            _place("actions", 5),
        ),
        (
            _spoiled("obs/joint_pos", 7, -np.inf),
            InputError,
            "nan-obs",
            _place("obs/joint_pos", 7),
        ),
        (
            replaced(episode(), {"actions": np.full((20, 7), 1e300)}),
            InputError,
            "nan-action",
            _place("actions", 0),
        ),
        (episode(tag="robot"), InputError, "bad-input", _place()),
        (episode(alignment="sideways"), InputError, "bad-input", _place()),
        (
            episode(columns={"obs/x": ArrayColumn(np.ones((20, 2)))}),
            InputError,
            "no-actions",
            _place(),
        ),
        (
            replaced(episode(), {"actions": np.ones(20)}),
            SchemaError,
            "bad-schema",
            _place(),
        ),
        (
            replaced(episode(), {"obs/text": np.array(["a"] * 20, "S1")}),
            DTypeError,
            "bad-dtype",
            _place("obs/text"),
        ),
        (
            replaced(episode(), {"obs": np.ones((20, 2))}),
            SchemaError,
            "bad-schema",
            _place(),
        ),
        (
            replaced(episode(), {"obs/../x": np.ones((20, 2))}),
            SchemaError,
            "bad-schema",
            _place(),
        ),
        (
            replaced(episode(), {"obs/joint_pos/x": np.ones((20, 2))}),
            SchemaError,
            "bad-schema",
            _place(),
        ),
        (
            episode(extras={"actions": ArrayColumn(np.ones((20, 2)))}),
            SchemaError,
            "bad-schema",
            _place(),
        ),
    ],
)
def test_a_refused_episode_says_where_and_leaves_no_trace(
    tmp_path: Path, bad: Episode, kind: type[TrajpipeError], code: str, place: Place
) -> None:
    with DemosWriter(tmp_path / "a.hdf5", env_args=ENV_ARGS, recipe={}) as writer:
        writer.write(episode(0))
        with pytest.raises(kind) as caught:
            writer.write(bad)
        assert writer.write(episode(1)) == "demo_1"
    assert (caught.value.code, caught.value.place) == (code, place)
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert list(file["data"]) == ["demo_0", "demo_1"]
        assert file["data"].attrs["total"] == 40


def test_an_episode_that_becomes_unreadable_half_way_is_taken_out(tmp_path: Path) -> None:
    def broken(start: int, stop: int) -> NDArray[np.uint8]:
        if stop > 16:
            raise UnreadableError("stored bytes cannot be read", code="broken-chunk")
        return np.zeros((stop - start, 24, 20, 3), np.uint8)

    one = episode(attributes={"model_file": "/home/a/x.xml"})
    frames = FunctionColumn(np.dtype(np.uint8), (20, 24, 20, 3), broken)
    bad = one.with_columns({**one.columns, "obs/front_rgb": frames})
    with DemosWriter(tmp_path / "a.hdf5", env_args=ENV_ARGS, recipe={}) as writer:
        with pytest.raises(UnreadableError):
            writer.write(bad)
        assert (writer.write(episode(1)), writer.total) == ("demo_0", 20)
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert list(file["data"]) == ["demo_0"]
        assert "original_sha256" not in json.loads(file["data"].attrs["trajpipe"])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "bad-input"),
        ("a\0b", "bad-input"),
        (np.zeros(20_000), "attribute-too-large"),
        ({}, "bad-input"),
    ],
)
def test_attributes_that_hdf5_cannot_hold_are_refused(tmp_path: Path, value: object, code: str) -> None:
    with pytest.raises(InputError) as caught:
        written(tmp_path / "a.hdf5", episode(attributes={"odd": value}))
    assert caught.value.code == code
    assert "/data/demo_0@odd" in str(caught.value)


def test_bytes_and_undecodable_text_survive(tmp_path: Path) -> None:
    odd = b"caf\xe9".decode("utf-8", "surrogateescape")
    one = episode(attributes={"a": b"bytes", "b": odd, "c": np.bytes_(b"numpy"), "d": ""})
    with h5py.File(written(tmp_path / "a.hdf5", one)) as file:
        attributes = file["data/demo_0"].attrs
        assert (attributes["a"], attributes["c"], attributes["d"]) == ("bytes", "numpy", "")
        assert attributes["b"].encode("utf-8", "surrogateescape") == b"caf\xe9"


def test_recorded_attributes_never_override_ours(tmp_path: Path) -> None:
    one = episode(attributes={"num_samples": 3, "success": False, "source": "rl", "total": 1})
    with h5py.File(written(tmp_path / "a.hdf5", one)) as file:
        attributes = file["data/demo_0"].attrs
        assert (attributes["num_samples"], attributes["success"], attributes["source"]) == (
            20,
            True,
            "teleop",
        )


def test_paths_in_recorded_text_are_reduced_and_hashed(tmp_path: Path) -> None:
    xml = '<mesh file="/Users/jo/robosuite/link0.stl"/>'
    with h5py.File(written(tmp_path / "a.hdf5", episode(attributes={"model_file": xml}))) as file:
        assert file["data/demo_0"].attrs["model_file"] == '<mesh file="link0.stl"/>'
        recipe = json.loads(file["data"].attrs["trajpipe"])
    assert recipe["original_sha256"] == {"demo_0@model_file": hashlib.sha256(xml.encode()).hexdigest()}


def test_a_closed_writer_refuses_episodes(tmp_path: Path) -> None:
    writer = DemosWriter(tmp_path / "a.hdf5", env_args=ENV_ARGS, recipe={})
    writer.close()
    writer.close()
    with pytest.raises(StateError, match="closed"):
        writer.write(episode())


def _interrupted(target: Path) -> None:
    with (
        atomic_file(target) as temporary,
        DemosWriter(temporary, env_args=ENV_ARGS, recipe={}) as writer,
    ):
        writer.write(episode())
        assert temporary.exists()
        raise KeyboardInterrupt


def test_an_interrupted_writing_leaves_nothing_at_the_target(tmp_path: Path) -> None:
    target = tmp_path / "out" / "a.hdf5"
    with pytest.raises(KeyboardInterrupt):
        _interrupted(target)
    assert list(target.parent.iterdir()) == []


def test_memory_is_bounded_by_a_block(tmp_path: Path) -> None:
    """80 MB of float rows and 123 MB of frames pass through in a third of that."""
    frames = FunctionColumn(
        np.dtype(np.uint8), (400, 320, 320, 3), lambda a, b: np.zeros((b - a, 320, 320, 3), np.uint8)
    )
    wide = FunctionColumn(
        np.dtype(np.float32), (400, 50_000), lambda a, b: np.zeros((b - a, 50_000), np.float32)
    )
    columns = {"actions": ArrayColumn(np.zeros((400, 7))), "obs/rgb": frames, "obs/wide": wide}
    tracemalloc.start()
    written(tmp_path / "a.hdf5", episode(0, 400, columns=columns, extras={}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 << 20
