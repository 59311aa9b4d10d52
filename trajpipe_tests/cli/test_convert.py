"""`trajpipe convert`: every target, options, several sources, refusals with the words that help."""

import json
from pathlib import Path

import h5py
import pytest

from trajpipe.testing import KINDS, write_recording
from trajpipe_tests.cli.conftest import Command
from trajpipe_tests.cli.test_check import legacy


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("to", ["demos", "store", "lerobot-v2.1"])
def test_every_kind_to_every_target(invoke: Command, tmp_path: Path, kind: str, to: str) -> None:
    cameras = None if kind == "libero" else ()
    path = write_recording(kind, tmp_path / "take_demo.hdf5", episodes=2, rows=(8, 9), cameras=cameras)
    output = tmp_path / "out"
    ran = invoke("convert", path, output, "--to", to, "--fps", "20", "--task", "Do it.", "--env-name", "Env")
    assert ran.code == 0, ran.out + ran.err
    assert "written 2 · rejected 0" in ran.out
    found = output / "take_demo.hdf5" if to == "demos" else output
    stage = {"demos": "demos", "store": "store"}.get(to, "lerobot")
    assert invoke("check", found, "--json").json["reports"][0]["stage"] == stage
    assert invoke("check", found).code == 0


def test_the_target_is_told_by_the_suffix(invoke: Command, built: Path, tmp_path: Path) -> None:
    by, none = "by the suffix of", "as there is no suffix in"
    for name, target, why in (
        ("a.hdf5", "demos", by),
        ("b.h5", "store", by),
        ("c", "lerobot-v2.1", none),
    ):
        ran = invoke("convert", built / "take.hdf5", tmp_path / name, "--fps", "20")
        assert ran.code == 0
        assert f"--to {target}, {why} {name}" in ran.err
        assert (tmp_path / name).exists()
    ran = invoke("convert", built / "take.hdf5", tmp_path / "d.zip")
    assert ran.code == 2
    assert "--to is needed" in ran.err


@pytest.mark.parametrize(("word", "target"), [("lerobot", "lerobot-v2.1"), ("l2", "demos")])
def test_short_words_for_targets(
    invoke: Command, built: Path, tmp_path: Path, word: str, target: str
) -> None:
    ran = invoke("convert", built / "take.hdf5", tmp_path / "out", "--to", word, "--fps", "20", "--json")
    stage = "demos" if target == "demos" else "lerobot"
    assert ran.json["results"][-1]["stage"] == stage


def test_a_run_ends_with_counts_path_and_next_command(trajpipe: Command, built: Path, tmp_path: Path) -> None:
    ran = trajpipe("convert", built / "take.hdf5", "o.h5", "--to", "store")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[-4:] == ["o.h5", "next:", "  trajpipe inspect o.h5", "  trajpipe check o.h5"]
    assert lines[-5].startswith("read 3 · written 3 · rejected 0 · ")
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.endswith(".json")) == ["o.h5"]


def test_json(invoke: Command, built: Path, tmp_path: Path) -> None:
    value = invoke("convert", built / "take.hdf5", tmp_path / "o.h5", "--json").json
    assert value["ok"] is True
    assert value["destination"] == str(tmp_path / "o.h5")
    assert [r["stage"] for r in value["results"]] == ["demos", "store"]
    assert value["next"]


def test_options_reach_the_output(invoke: Command, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.hdf5"
    options = [
        "--task",
        "立方体 を持ち上げる",
        "--tag",
        "mocap",
        "--rename",
        "eef_pos=hand",
        "--fps",
        "29.97",
    ]
    assert invoke("convert", built / "take.hdf5", out, *options).code == 0
    with h5py.File(out) as handle:
        demo = handle["data/demo_0"]
        assert demo.attrs["task"] == "立方体 を持ち上げる"
        assert demo.attrs["source"] == "mocap"
        assert "hand" in demo["obs"]
        assert "eef_pos" not in demo["obs"]


def test_state_and_cameras_of_an_export(invoke: Command, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "o"
    options = ["--state", "joint_pos,gripper_pos", "--fps", "20", "--task", "x"]
    assert invoke("convert", built / "take.hdf5", out, *options).code == 0
    features = json.loads((out / "meta/info.json").read_text())["features"]
    modality = json.loads((out / "meta/modality.json").read_text())
    assert list(modality["state"]) == ["joint_pos", "gripper_pos"]
    assert "observation.images.table_cam" in features
    assert invoke("convert", built / "take.hdf5", tmp_path / "p", *options, "--cameras", "").code == 0
    features = json.loads((tmp_path / "p/meta/info.json").read_text())["features"]
    assert not [f for f in features if "image" in f]


def test_the_form_of_an_export(invoke: Command, built: Path, tmp_path: Path) -> None:
    common = ("convert", built / "take.hdf5", tmp_path / "o", "--fps", "20", "--task", "x")
    fine = ("--to", "lerobot-v3.0", "--codec", "av1", "--crf", "25", "--robot-type", "panda")
    ran = invoke(*common, *fine)
    assert ran.code == 0, ran.out + ran.err
    info = json.loads((tmp_path / "o/meta/info.json").read_text())
    assert (info["codebase_version"], info["robot_type"]) == ("v3.0", "panda")
    assert info["features"]["observation.images.table_cam"]["info"]["video.codec"] == "av1"
    recipe = json.loads((tmp_path / "o.recipe.json").read_text())
    assert recipe["options"]["crf"] == 25
    for wrong, why in (
        (("--to", "lerobot-v3.0", "--gr00t"), "GR00T reads v2.0 and v2.1 only"),
        (("--to", "lerobot-v2.1", "--gr00t", "--codec", "png"), "GR00T's video readers decode h264 only"),
        (("--to", "lerobot-v2.1", "--crf", "52"), "no such crf of h264"),
    ):
        ran = invoke(*common, *wrong)
        assert ran.code == 2
        assert why in ran.err


def test_filters_reject_with_reasons(invoke: Command, tmp_path: Path) -> None:
    path = write_recording(
        "isaaclab", tmp_path / "a.hdf5", episodes=4, lengths=(20, 5, 20, 20), failures=(2,), cameras=()
    )
    ran = invoke("convert", path, tmp_path / "o.hdf5", "--only-success", "--min-length", "10")
    assert ran.code == 0
    assert "read 4 · written 2 · rejected 2 (1 not-successful, 1 too-short)" in ran.out
    assert "a.hdf5:demo_1  too-short" in ran.out
    assert "a.hdf5:demo_2  not-successful" in ran.out


def test_several_sources_become_one_dataset_and_a_broken_one_is_listed(
    invoke: Command, built: Path, tmp_path: Path
) -> None:
    second = write_recording(
        "isaaclab",
        tmp_path / "b.hdf5",
        episodes=2,
        rows=(8, 9),
        seed=4,
        image_size=64,
        cameras=("table_cam",),
    )
    broken = tmp_path / "broken.hdf5"
    broken.write_bytes(b"")
    ran = invoke("convert", built / "take.hdf5", second, broken, tmp_path / "o.h5")
    assert ran.code == 1
    assert "ERROR empty-file" in ran.out
    with h5py.File(tmp_path / "o.h5") as store:
        assert len(store["ep_len"]) == 5


def test_an_unchanged_output_is_not_built_again(invoke: Command, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.hdf5"
    arguments = ("convert", built / "take.hdf5", out)
    assert invoke(*arguments, "--json").json["results"][-1]["status"] == "built"
    assert invoke(*arguments, "--json").json["results"][-1]["status"] == "unchanged"
    assert invoke(*arguments, "--force", "--json").json["results"][-1]["status"] == "built"


def test_undeclared_quaternions_are_told_as_options_that_work(invoke: Command, tmp_path: Path) -> None:
    path = legacy(tmp_path)
    ran = invoke("convert", path, tmp_path / "o.hdf5")
    assert ran.code == 1
    assert "ERROR quaternion-undeclared" in ran.out
    (line,) = [x for x in ran.err.splitlines() if x.startswith("on the command line: ")]
    options = line.removeprefix("on the command line: ").split()
    assert invoke("convert", path, tmp_path / "o.hdf5", *options).code == 0
    assert not (tmp_path / "other.hdf5").exists()


def test_a_rate_that_is_missing_names_the_option(invoke: Command, tmp_path: Path) -> None:
    path = write_recording(
        "isaaclab", tmp_path / "a.hdf5", episodes=1, rows=(8, 9), cameras=(), sim_args=False
    )
    ran = invoke("convert", path, tmp_path / "o")
    assert ran.code == 1
    assert "--fps" in ran.out
    assert not (tmp_path / "o").exists()
    assert invoke("convert", path, tmp_path / "o", "--fps", "20").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("take.hdf5",), "convert needs a source and a destination"),
        (("take.hdf5", "o", "--to", "lerobot-v2.l"), "Did you mean lerobot-v2.1?"),
        (("take.hdf5", "o.h5", "--fps", "fast"), "--fps is a number above 0"),
        (("take.hdf5", "o.h5", "--quaternions", "a:b"), "PATH[:STARTS[:ORDER]]"),
        (("take.hdf5", "o.h5", "--rename", "a"), "KEY=VALUE"),
        (("take.hdf5", "o.h5", "--term-width", "a=x"), "whole number"),
        (("take.hdf5", "o.h5", "--tag", "robot"), "scripted"),
        (("take.hdf5", "o.h5", "--min-length", "0"), "--min-length"),
        (("take.hdf5", "take.hdf5", "--to", "demos"), "the destination is one of the sources"),
    ],
)
def test_usage_errors_say_what_to_type(
    invoke: Command, built: Path, arguments: tuple[str, ...], words: str
) -> None:
    before = sorted(built.iterdir())
    ran = invoke("convert", *arguments, cwd=built)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert sorted(built.iterdir()) == before


def test_an_unknown_source_is_a_finding_and_an_absent_one_wrong_usage(
    invoke: Command, tmp_path: Path
) -> None:
    (tmp_path / "notes.hdf5").write_text("no HDF5")
    ran = invoke("convert", "notes.hdf5", "o.hdf5")
    assert ran.code == 1
    assert "Failed" in ran.out
    ran = invoke("convert", "absent.hdf5", "o.hdf5")
    assert ran.code == 2
    assert "a source is not there" in ran.err
    assert not (tmp_path / "o.hdf5").exists()


def test_a_kind_can_be_named(invoke: Command, built: Path, tmp_path: Path) -> None:
    assert invoke("convert", built / "take.hdf5", tmp_path / "o.hdf5", "--kind", "isaaclab").code == 0
    ran = invoke("convert", built / "take.hdf5", tmp_path / "p.hdf5", "--kind", "isaclab")
    assert ran.code in (1, 2)
    assert "Did you mean `isaaclab`?" in ran.out + ran.err
    assert "isaaclab" in ran.out + ran.err


@pytest.mark.shared
def test_the_real_isaaclab_recording_to_every_target(
    invoke: Command, shared_data: Path, tmp_path: Path
) -> None:
    source = shared_data / "isaaclab" / "dataset.hdf5"
    for name in ("o.hdf5", "o.h5", "o"):
        ran = invoke("convert", source, tmp_path / name, "--fps", "20", "--task", "Stack the cubes.")
        assert ran.code == 0
        assert "read 10 · written 10 · rejected 0" in ran.out
        for code in ("total-wrong", "numbering-gaps", "legacy-quaternions", "format-version-missing"):
            assert f"INFO  {code}" in ran.out
    with h5py.File(tmp_path / "o.hdf5") as handle:
        assert (handle.attrs["format_version"], handle["data"].attrs["total"]) == (1, 2163)
        assert len(handle["data"]) == 10


def test_the_same_recording_twice_is_told_and_can_fail(invoke: Command, tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "take.hdf5", episodes=2, rows=(8, 9))
    twin = tmp_path / "twin.hdf5"
    twin.write_bytes(path.read_bytes())
    for number, sources in enumerate(([path, path], [path, twin], [tmp_path / "." / "take.hdf5", path])):
        ran = invoke("convert", *sources, tmp_path / f"{number}.h5", "--json")
        assert ran.code == 0
        found = [f for r in ran.json["results"][-1]["checks"]["results"] for f in r["findings"]]
        assert [f["severity"] for f in found if f["code"] == "recordings-identical"] == ["warn"]
        assert "equal byte for byte" in invoke("convert", *sources, tmp_path / f"{number}.h5").out
        assert invoke("convert", *sources, tmp_path / f"{number}.h5", "--fail-on", "warn").code == 1
    other = write_recording("isaaclab", tmp_path / "other.hdf5", episodes=2, rows=(8, 9), seed=7)
    assert "byte for byte" not in invoke("convert", path, other, tmp_path / "two.h5").out


def test_the_share_that_must_stay_and_exclusions(invoke: Command, tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "take.hdf5", episodes=4, rows=(8, 9))
    other = write_recording("isaaclab", tmp_path / "other.hdf5", episodes=4, rows=(8, 9), seed=7)
    ran = invoke("convert", path, other, tmp_path / "a.h5", "--exclude", "demo_3,take:demo_0", "--json")
    assert ran.code == 0, ran.err
    rejected = [
        (entry["recording"], r["episode"], r["reason"])
        for result in ran.json["results"][:2]
        for entry in result["ledger"]["entries"]
        for r in entry["rejected"]
    ]
    assert sorted(rejected) == [
        ("other.hdf5", "demo_3", "excluded"),
        ("take.hdf5", "demo_0", "excluded"),
        ("take.hdf5", "demo_3", "excluded"),
    ]
    ran = invoke("convert", path, tmp_path / "b.hdf5", "--exclude", "demo_3,demo_2", "--min-kept", "0.75")
    assert ran.code == 1
    assert "too-few-kept" in ran.out
    assert not (tmp_path / "b.hdf5").exists()
    assert invoke("convert", path, tmp_path / "b.hdf5", "--exclude", "demo_3", "--min-kept", "0.75").code == 0
    assert "exclude-not-found" in invoke("convert", path, tmp_path / "c.hdf5", "--exclude", "demo_9").out
    ran = invoke("convert", path, tmp_path / "d.hdf5", "--exclude", "tkae:demo_0")
    assert (ran.code, "names no source" in ran.err) == (2, True)
    whole = invoke("convert", path, other, tmp_path / "e.h5", "--exclude", "other.hdf5", "--json")
    assert whole.json["results"][-1]["facts"]["episodes"] == 4


def test_filters_hold_for_l2_sources_too(invoke: Command, tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "take.hdf5", episodes=3, rows=(8, 9))
    assert invoke("convert", path, tmp_path / "l2.hdf5").code == 0
    ran = invoke("convert", tmp_path / "l2.hdf5", tmp_path / "s.h5", "--exclude", "demo_0", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["results"][-1]["facts"]["episodes"] == 2


def test_an_export_without_a_rate_fails_before_anything_is_built(invoke: Command, tmp_path: Path) -> None:
    path = write_recording("robosuite", tmp_path / "demo.hdf5", episodes=2, rows=(8, 9))
    ran = invoke("convert", path, tmp_path / "out", "--to", "lerobot-v2.1", "--json")
    assert ran.code == 1
    results = ran.json["results"]
    assert [r["stage"] for r in results] == ["lerobot"]
    assert results[0]["checks"]["results"][0]["code"] == "fps-unknown"
    assert "--fps" in results[0]["error"]


def test_destinations_that_would_cost_a_source_are_refused_before_any_work(
    invoke: Command, tmp_path: Path
) -> None:
    raw, twin = tmp_path / "raw", tmp_path / "twin"
    raw.mkdir()
    twin.mkdir()
    path = write_recording("isaaclab", raw / "take.hdf5", episodes=2, rows=(8, 9))
    other = write_recording("isaaclab", twin / "take.hdf5", episodes=2, rows=(8, 9), seed=7)
    lerobot = tmp_path / "lr"
    export = ("--to", "lerobot-v2.1", "--fps", "20", "--task", "Lift.", "--codec", "png")
    assert invoke("convert", path, lerobot, *export).code == 0
    (lerobot / "more.hdf5").write_bytes(path.read_bytes())
    (tmp_path / "link.h5").symlink_to("no/where")
    (tmp_path / "hard.hdf5").hardlink_to(path)
    before = path.read_bytes()
    refused: list[tuple[tuple[str | Path, ...], str]] = [
        ((path, raw, "--to", "demos"), "is one of the sources"),
        ((path, tmp_path / "hard.hdf5"), "is one of the sources"),
        ((lerobot, lerobot / "sub", "--to", "lerobot-v2.1"), "lies inside a source"),
        ((lerobot / "more.hdf5", lerobot, *export), "holds a source"),
        ((path, other, tmp_path / "both", "--to", "demos"), "two sources would become one file"),
        ((path, tmp_path / "link.h5"), "a link to what is not there"),
    ]
    for arguments, words in refused:
        ran = invoke("convert", *arguments, "--force")
        assert ran.code == 2, arguments
        assert words in ran.err
    assert path.read_bytes() == before
    assert (lerobot / "more.hdf5").is_file()
    assert not (lerobot / "sub").exists()
    assert not (tmp_path / "both").exists()


def test_a_store_without_a_manifest_is_a_store_for_convert_too(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "foreign.h5"
    with h5py.File(path, "w") as file:
        file["ep_len"], file["ep_offset"] = [6, 4], [0, 6]
        file["action"] = [[float(i), 0.5] for i in range(10)]
        file["state"] = [[float(i)] for i in range(10)]
    assert invoke("inspect", path, "--json").json["kind"] == "store"
    asked = ("--to", "lerobot-v2.1", "--task", "Push.")
    assert "fps-unknown" in invoke("convert", path, tmp_path / "a", *asked).out
    ran = invoke("convert", path, tmp_path / "a", *asked, "--fps", "10", "--state", "state", "--json")
    assert ran.code == 0, ran.out
    assert ran.json["results"][-1]["facts"]["episodes"] == 2
