"""The catalogue's content: defaults, merging, conventions, schema.

What is not here: messages, YAML and globs, see the files beside this one.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from trajpipe.core.conventions import ActionConvention, Conventions, QuaternionSite, TermConvention
from trajpipe.core.errors import MissingNameError
from trajpipe.core.names import Alignment
from trajpipe.pipeline.catalogue import Catalogue, RawEntry, catalogue_schema, load_catalogue
from trajpipe.sources.base import sources

FULL = """
version: 1
defaults:
  license: apache-2.0
  owners: [team:data]
  filter: {min_length: 5}
  conventions: {fps: 30, channel_order: bgr}
datasets:
  lift_mixed:
    description: Three sources of one task.
    raw:
      - kind: isaaclab
        glob: raw/lift_mixed/scripted_*.hdf5
        tag: scripted
        terms: {robot0_eef_pos: eef_pos}
        conventions:
          quaternion_order: wxyz
          quaternions:
            - {path: obs/eef_quat, starts: [0, 4], order: xyzw}
            - {path: obs/not_one, starts: []}
          images: opengl
          channel_order: rgb
          alignment: after_action
          fps: "30000/1001"
          unknown_success: drop
          env_name: Lift
          env_args: {env_name: Lift, env_kwargs: {a: [1, 2.5, null, true]}}
          action: {meaning: delta, frame: root, units: "m, rad", low: [-1], high: [1, 1, 2],
                   gripper: binary, gripper_open: -1}
          term_meanings: {joint_pos: {meaning: relative, frame: root, units: rad}}
          term_widths: {joint_pos: 7, eef_pos: 3}
        options: {allow_gaps: true}
    task: lift the cube
    task_name: lift_cube
    exclude: [{recording: x.hdf5, demo: demo_3, reason: dropped the cube}]
    filter: {only_success: true}
    splits: {seed: 3, valid_fraction: 0.25, group: task, use_masks: true}
    align: causal
    min_recordings: 2
    store: {float64_to_float32: [joint_*], images: true, compression: deflate,
            column_compression: {images: none}}
    export: {version: v2.1, fps: 29.97, robot_type: franka, state: [joint_pos], cameras: [front],
             video: {codec: h264, crf: 18}}
    demos: {image_layout: frames, fletcher32: true}
    schedule: {cron: "0 3 * * mon-fri", timezone: Europe/Berlin, enabled: true}
    hub: {repo: org/lift, private: false}
    license: cc-by-4.0
  small:
    raw: [{glob: [a.hdf5, b.hdf5]}]
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "datasets.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def full(tmp_path: Path) -> Catalogue:
    return load_catalogue(_write(tmp_path, FULL))


def test_every_key_reaches_the_model(full: Catalogue) -> None:
    one = full.dataset("lift_mixed")
    assert (one.name, one.description, one.task) == (
        "lift_mixed",
        "Three sources of one task.",
        "lift the cube",
    )
    assert one.task_in_file_names == "lift_cube"
    assert [(e.recording, e.demo, e.reason) for e in one.exclude] == [
        ("x.hdf5", "demo_3", "dropped the cube")
    ]
    assert one.splits.model_dump() == {"seed": 3, "valid_fraction": 0.25, "group": "task", "use_masks": True}
    assert (one.align, one.min_recordings, one.license) == ("causal", 2, "cc-by-4.0")
    assert one.demos.model_dump() == {"image_layout": "frames", "fletcher32": True}
    assert one.store.float64_to_float32 == ("joint_*",)
    assert (one.store.compression, one.store.column_compression) == ("deflate", {"images": "none"})
    assert one.export.fps == Fraction(2997, 100)
    assert (one.export.state, one.export.cameras) == (("joint_pos",), ("front",))
    assert (one.export.video.codec, one.export.video.crf) == ("h264", 18)
    assert one.schedule is not None
    assert (one.schedule.cron, one.schedule.timezone, one.schedule.enabled) == (
        "0 3 * * mon-fri",
        "Europe/Berlin",
        True,
    )
    assert one.hub is not None
    assert (one.hub.repo, one.hub.private) == ("org/lift", False)
    assert one.raw[0].options == {"allow_gaps": True}


def test_conventions_take_the_cores_form(full: Catalogue) -> None:
    assert full.dataset("lift_mixed").raw[0].to_conventions() == Conventions(
        quaternion_order="wxyz",
        quaternions=(QuaternionSite("obs/eef_quat", (0, 4), "xyzw"), QuaternionSite("obs/not_one", ())),
        images="opengl",
        channel_order="rgb",
        alignment=Alignment.AFTER_ACTION,
        fps=Fraction(30000, 1001),
        unknown_success="drop",
        action=ActionConvention("delta", "root", "m, rad", (-1.0,), (1.0, 1.0, 2.0), "binary", -1),
        terms={"robot0_eef_pos": "eef_pos"},
        term_meanings={"joint_pos": TermConvention("relative", "root", "rad")},
        term_widths={"joint_pos": 7, "eef_pos": 3},
        env_name="Lift",
        env_args={"env_name": "Lift", "env_kwargs": {"a": [1, 2.5, None, True]}},
    )


def test_conventions_are_plain_json_for_the_recipe(full: Catalogue) -> None:
    value = full.dataset("lift_mixed").raw[0].to_conventions().to_json()
    assert json.loads(json.dumps(value))["fps"] == "30000/1001"


def test_defaults_fill_what_a_dataset_lacks_key_by_key(full: Catalogue) -> None:
    mixed, small = full.dataset("lift_mixed"), full.dataset("small")
    assert (mixed.filter.only_success, mixed.filter.min_length) == (True, 5)
    assert (small.filter.only_success, small.filter.min_length) == (False, 5)
    assert (small.license, small.owners) == ("apache-2.0", ("team:data",))
    assert small.raw[0].conventions.fps == Fraction(30)
    assert small.raw[0].conventions.channel_order == "bgr"
    assert mixed.raw[0].conventions.channel_order == "rgb"


def test_a_datasets_conventions_serve_every_entry(tmp_path: Path) -> None:
    text = """
version: 1
datasets:
  lift:
    conventions: {fps: 20, images: opencv, action: {meaning: delta}}
    raw:
      - {glob: a.hdf5, conventions: {fps: 10}}
      - {glob: b.hdf5}
"""
    first, second = load_catalogue(_write(tmp_path, text)).dataset("lift").raw
    assert (first.conventions.fps, second.conventions.fps) == (Fraction(10), Fraction(20))
    assert first.conventions.images == second.conventions.images == "opencv"
    assert first.conventions.action.meaning == "delta"


def test_what_is_absent_has_the_documented_defaults(tmp_path: Path) -> None:
    one = load_catalogue(_write(tmp_path, "version: 1\ndatasets: {d: {raw: [{glob: a.h5}]}}")).dataset("d")
    assert one.raw[0].kind == "auto"
    assert one.raw[0].to_conventions() == Conventions()
    assert one.task_in_file_names == "d"
    assert (one.align, one.min_recordings, one.schedule, one.hub) == ("recorded", None, None, None)
    assert one.store.float64_to_float32 == ()
    assert (one.store.compression, one.export.form()) == ("zstd", ("v2.1", "h264", False))


@pytest.mark.parametrize(
    ("text", "narrow", "kept"),
    [
        ("true", ["action", "joint_pos"], []),
        ("false", [], ["action"]),
        ("[joint_*]", ["joint_pos"], ["action"]),
    ],
)
def test_single_precision_is_declared_for_all_or_by_name(
    tmp_path: Path, text: str, narrow: list[str], kept: list[str]
) -> None:
    body = f"version: 1\ndatasets: {{d: {{raw: [{{glob: a.h5}}], store: {{float64_to_float32: {text}}}}}}}"
    store = load_catalogue(_write(tmp_path, body)).dataset("d").store
    assert all(store.narrows(column) for column in narrow)
    assert not any(store.narrows(column) for column in kept)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20", Fraction(20)),
        ("29.97", Fraction(2997, 100)),
        ('"30000/1001"', Fraction(30000, 1001)),
        ("0.5", Fraction(1, 2)),
    ],
)
def test_a_rate_is_exact(tmp_path: Path, text: str, rate: Fraction) -> None:
    body = f"version: 1\ndatasets: {{d: {{raw: [{{glob: a.h5}}], export: {{fps: {text}}}}}}}"
    assert load_catalogue(_write(tmp_path, body)).dataset("d").export.fps == rate


def test_the_datasets_policy_for_unknown_success_serves_entries_that_do_not_say() -> None:
    entry = RawEntry(glob=("a.h5",))
    assert entry.to_conventions().unknown_success == "keep"
    assert entry.to_conventions("fail").unknown_success == "fail"


def test_models_are_frozen(full: Catalogue) -> None:
    with pytest.raises(ValueError, match="frozen"):
        full.dataset("small").task = "another"


def test_an_empty_catalogue_is_fine(tmp_path: Path) -> None:
    assert load_catalogue(_write(tmp_path, "version: 1\ndatasets: {}")).datasets == {}


def test_datasets_keep_the_files_order(tmp_path: Path) -> None:
    body = "version: 1\ndatasets: {b: {raw: [{glob: x.h5}]}, a: {raw: [{glob: y.h5}]}}"
    assert list(load_catalogue(_write(tmp_path, body)).datasets) == ["b", "a"]


def test_an_unknown_dataset_is_named_with_the_nearest(full: Catalogue) -> None:
    with pytest.raises(MissingNameError) as caught:
        full.dataset("lift_mixd")
    assert str(caught.value) == (
        f"{full.path}: no dataset of this name; got lift_mixd; expected one of lift_mixed, small. "
        "Did you mean `lift_mixed`?"
    )


def test_the_schema_is_a_json_schema_that_accepts_what_loads() -> None:
    schema = catalogue_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(FULL), schema)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"datasets": {"d": {"raw": [{"glob": "a.h5", "kind": "isaclab"}]}}},
        {"datasets": {"d": {"raw": [{"glob": "a.h5", "kindd": "auto"}]}}},
        {"datasets": {"d": {"raw": []}}},
        {"datasets": {"d": {"raw": [{"glob": "a.h5"}], "filter": {"min_length": 0}}}},
        {"datasets": {"d": {"raw": [{"glob": "a.h5"}], "export": {"fps": 0}}}},
    ],
)
def test_the_schema_refuses_what_does_not_load(change: dict[str, Any]) -> None:
    good = {"version": 1, "datasets": {"d": {"raw": [{"glob": "a.h5"}]}}}
    jsonschema.validate(good, catalogue_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(good | change, catalogue_schema())


def test_the_schema_describes_every_key_and_names_the_kinds() -> None:
    schema = catalogue_schema()
    assert schema["$defs"]["RawEntry"]["properties"]["kind"]["enum"] == ["auto", *sources()]
    models = [schema, *schema["$defs"].values()]
    undescribed = [
        f"{model['title']}.{name}"
        for model in models
        for name, value in model.get("properties", {}).items()
        if "description" not in value and "$ref" not in value  # a reference is described by its model
    ]
    assert undescribed == []
