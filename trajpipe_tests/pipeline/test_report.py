"""Reports of every stage: what they hold, what they leave out and say, their bound, their bytes.

What is not here: how they look in a browser, see `trajpipe_tests/browser/test_report.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import TrajpipeError, UsageError
from trajpipe.core.names import Stage
from trajpipe.pipeline.convert import convert
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.report import write_report
from trajpipe.pipeline.report_options import ReportOptions
from trajpipe.pipeline.report_subject import subject_of_dataset, subject_of_path
from trajpipe.pipeline.run import run
from trajpipe.testing import write_recording

HOSTILE = '</script><img src=x onerror="alert(1)"><!--'
_BLOCK = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', re.DOTALL)
MakeProject = Callable[..., Project]


def blocks_of(page: Path) -> dict[str, Any]:
    """The inert data of a page by their ids."""
    return {name: json.loads(text) for name, text in _BLOCK.findall(page.read_text("utf-8"))}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes with a camera."""
    path = tmp_path_factory.mktemp("report") / "teleop_lift.hdf5"
    write_recording(
        "isaaclab", path, episodes=4, rows=(20, 30), seed=3, cameras=("table_cam",), image_size=32
    )
    return path


@pytest.fixture(scope="module")
def outputs(recording: Path) -> dict[Stage, Path]:
    """The recording and what becomes of it."""
    folder = recording.parent
    made = {Stage.RAW: recording}
    for stage, to, name in (
        (Stage.DEMOS, "demos", "l2.hdf5"),
        (Stage.STORE, "store", "lift.h5"),
        (Stage.LEROBOT, "lerobot-v2.1", "lift"),
    ):
        made[stage] = folder / name
        assert all(r.ok for r in convert([recording], made[stage], to))
    return made


@pytest.mark.parametrize("stage", list(Stage))
def test_every_stage_has_frames_curves_and_facts_of_each_episode(
    outputs: dict[Stage, Path], stage: Stage, tmp_path: Path
) -> None:
    made = write_report(subject_of_path(outputs[stage], stage), tmp_path / "a.html")
    assert (made.episodes, made.indexed, made.detailed) == (4, 4, 4)
    assert made.bytes == made.path.stat().st_size
    blocks = blocks_of(made.path)
    index = blocks["index"]
    assert index["outputs"] == [{"name": outputs[stage].name, "stage": stage.value}]
    lengths = [end.shape[0] for end in _actions(outputs[Stage.RAW])]
    assert index["length"] == lengths
    for number, length in enumerate(lengths):
        detail = blocks[f"d{number}"]
        assert [f["n"].rsplit("/", 1)[-1] for f in detail["f"]] == ["table_cam"]
        assert detail["f"][0]["rows"][0] == 0
        assert detail["f"][0]["rows"][-1] == length - 1
        assert detail["c"][0]["n"] in ("action", "actions")
        assert detail["c"][0]["p"] == length
    text = made.path.read_text("utf-8")
    assert "action distribution" in text
    assert "contact sheet" in text


def _actions(path: Path) -> list[Any]:
    with h5py.File(path) as file:
        data = file["data"]
        return [data[f"demo_{i}"]["actions"][()] for i in range(len(data))]


def test_stages_of_a_dataset_are_one_list_side_by_side(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project(2, cameras=("table_cam",), size=32)
    assert run(project, ["lift"]).ok
    made = write_report(subject_of_dataset(project, "lift"), tmp_path / "a.html")
    assert (made.episodes, made.indexed) == (4, 4)
    blocks = blocks_of(made.path)
    index = blocks["index"]
    assert [o["stage"] for o in index["outputs"]] == ["demos", "demos", "store", "lerobot"]
    stages = [[index["outputs"][o]["stage"] for o, *_ in parts] for parts in index["parts"]]
    assert stages == [["demos", "store", "lerobot"]] * 4
    for parts in index["parts"]:
        rows = [blocks[f"d{d}"]["f"][0]["rows"] for _, d, _, _ in parts]
        assert rows[0] == rows[1] == rows[2]
        assert len({length for *_, length in parts}) == 1
    text = made.path.read_text("utf-8")
    assert "Proven: raw = L2 = store = LeRobot" in text
    assert "lift the cube" in text
    assert "read 4 · written 4 · rejected 0" in text


def test_a_certificate_of_other_bytes_proves_nothing(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project(1)
    assert run(project, ["lift"]).ok
    card = project.lerobot_path("lift") / "meta" / "info.json"
    card.write_text(card.read_text("utf-8") + "\n")
    made = write_report(
        subject_of_dataset(project, "lift"), tmp_path / "a.html", ReportOptions(run_rules=False)
    )
    text = made.path.read_text("utf-8")
    assert "Proven" not in text
    assert "it proves nothing of what is there now" in text


def test_a_rejected_episode_is_told_with_its_reason(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project(1)
    raw = next((project.root / "raw" / "lift").iterdir())
    with h5py.File(raw, "r+") as file:
        file["data/demo_1/actions"][3, 2] = np.nan
    run(project, ["lift"])
    made = write_report(subject_of_dataset(project, "lift"), tmp_path / "a.html")
    text = made.path.read_text("utf-8")
    assert "<b>1 of 2</b><span>rejected</span>" in text.replace(' class=""', "")
    assert "<code>nan-action</code>" in text
    assert "rejection funnel" in text


def test_a_dataset_that_is_not_built_is_told_of(make_project: MakeProject, tmp_path: Path) -> None:
    made = write_report(subject_of_dataset(make_project(1), "lift"), tmp_path / "a.html")
    assert made.indexed == 0
    text = made.path.read_text("utf-8")
    assert text.count(">missing</span>") == 3
    assert "not ingested yet" in text


def test_findings_stand_beside_their_episode(outputs: dict[Stage, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.hdf5"
    broken.write_bytes(outputs[Stage.DEMOS].read_bytes())
    with h5py.File(broken, "r+") as file:
        file["data/demo_2/actions"][1, 0] = np.nan
    blocks = blocks_of(write_report(subject_of_path(broken, Stage.DEMOS), tmp_path / "a.html").path)
    told = blocks["index"]["findings"]
    assert [bool(f) for f in told] == [False, False, True, False]
    assert any("demo_2" in f and f.startswith("demos: ERROR") for f in told[2])
    curve = blocks["d2"]["c"][0]
    assert (curve["n"], curve["bad"]) == ("actions", 1)


def test_results_that_are_stored_are_not_made_again(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project(1)
    assert run(
        project,
        ["lift"],
    ).ok
    path = project.demos_path(project.recordings("lift")[0])
    checks = path.with_name(path.name + ".checks.json")
    value = json.loads(checks.read_text("utf-8"))
    value["results"][0]["title"] = "a title of the stored results"
    checks.write_text(json.dumps(value))
    quick = ReportOptions(run_rules=False)
    told = write_report(subject_of_path(path, Stage.DEMOS), tmp_path / "a.html", quick).path.read_text(
        "utf-8"
    )
    assert "a title of the stored results" in told
    with h5py.File(path, "r+") as file:
        file["data"].attrs["note"] = "changed since"
    later = write_report(subject_of_path(path, Stage.DEMOS), tmp_path / "b.html", quick).path.read_text(
        "utf-8"
    )
    assert "a title of the stored results" not in later
    assert "No checks ran." in later


def test_hostile_texts_stay_texts(recording: Path, tmp_path: Path) -> None:
    l2 = tmp_path / "l2.hdf5"
    assert all(r.ok for r in convert([recording], l2, "demos"))
    with h5py.File(l2, "r+") as file:
        for demo in file["data"].values():
            demo.attrs["task"] = HOSTILE
            demo.attrs["source_file"] = "{{script}}" + HOSTILE
        file["data/demo_0"].move("obs/eef_pos", f"obs/{HOSTILE.replace('/', '')}")
    made = write_report(subject_of_path(l2, Stage.DEMOS), tmp_path / "a.html")
    text = made.path.read_text("utf-8")
    assert "<img src=x" not in text
    assert text.count("<script>") == 1
    blocks = blocks_of(made.path)
    assert blocks["index"]["tables"]["task"] == [HOSTILE]
    assert blocks["index"]["tables"]["recording"] == ["{{script}}" + HOSTILE]
    assert any("onerror" in c["n"] for c in blocks["d0"]["c"])
    outside = _BLOCK.sub("", text)
    assert not re.findall(r"<img(?! src=\"data:image/(?:png|jpeg);base64,)", outside)
    assert not re.findall(r"""(?:src|href)=["'](?!data:image/|#)""", outside)


def test_the_same_input_gives_the_same_bytes(outputs: dict[Stage, Path], tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(subject_of_path(outputs[Stage.LEROBOT], Stage.LEROBOT), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_the_bound_holds_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "many.hdf5"
    write_recording("isaaclab", path, episodes=1, rows=(12, 12), cameras=("table_cam",), image_size=32)
    with h5py.File(path, "r+") as file:
        for number in range(1, 400):
            file["data"].copy("demo_0", f"demo_{number}")
        file["data"].attrs["total"] = 400 * 12
    options = ReportOptions(max_bytes=1 << 20, run_rules=False)
    made = write_report(subject_of_path(path, Stage.DEMOS), tmp_path / "a.html", options)
    assert made.bytes <= 1 << 20
    assert made.episodes == made.indexed == 400
    assert 50 < made.detailed < 400
    assert any(f"{made.detailed:,} of 400 listed episodes" in note for note in made.notes)
    blocks = blocks_of(made.path)
    kept = [i for i, parts in enumerate(blocks["index"]["parts"]) if parts[0][1] is not None]
    assert max(kept) > 380, "episodes in detail are spread over all"
    assert made.path.read_text("utf-8").count("<td>demo_") == 100


def test_evidence_beyond_the_bound_is_cut_and_counted(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project(1, cameras=("table_cam",), size=32)
    assert run(project, ["lift"]).ok
    path = project.demos_path(project.recordings("lift")[0])
    checks = path.with_name(path.name + ".checks.json")
    value = json.loads(checks.read_text("utf-8"))
    long = "<" * 500
    value["results"][0]["findings"] = [
        {"code": "odd", "severity": "warn", "message": long, "place": {"column": f"c{i}"}, "got": long}
        for i in range(3000)
    ]
    value["results"][0]["counts"] = [["odd", "warn", f"c{i}", 1] for i in range(3000)]
    checks.write_text(json.dumps(value))
    options = ReportOptions(max_bytes=1 << 20)
    made = write_report(subject_of_dataset(project, "lift"), tmp_path / "a.html", options)
    assert made.bytes <= 1 << 20
    assert (made.indexed, made.detailed) == (2, 2)
    assert any("no room for the pictures of" in note for note in made.notes)
    assert re.search(r"The first \d+ of 3,\d+ findings are listed", made.path.read_text("utf-8"))


def test_only_the_episodes_asked_for(outputs: dict[Stage, Path], tmp_path: Path) -> None:
    subject = subject_of_path(outputs[Stage.DEMOS], Stage.DEMOS)
    for asked, wanted in ((("demo_1",), [1]), (("0:2",), [0, 1]), (("demo_[23]", "0:1"), [0, 2, 3])):
        made = write_report(subject, tmp_path / "a.html", ReportOptions(episodes=asked))
        assert blocks_of(made.path)["index"]["name"] == [f"demo_{i}" for i in wanted]
        assert made.episodes == 4
        assert f"{len(wanted)} of 4 episodes were asked for: {', '.join(asked)}." in made.notes
    with pytest.raises(UsageError, match="no episode of this name"):
        write_report(subject, tmp_path / "b.html", ReportOptions(episodes=("demo_9",)))
    assert not (tmp_path / "b.html").exists()


def test_no_frames_when_none_are_wanted(outputs: dict[Stage, Path], tmp_path: Path) -> None:
    made = write_report(
        subject_of_path(outputs[Stage.STORE], Stage.STORE), tmp_path / "a.html", ReportOptions(frames=0)
    )
    assert blocks_of(made.path)["d0"]["f"] == []


def test_an_episode_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "l2.hdf5"
    write_recording("isaaclab", path, episodes=3, rows=(6, 6))
    with h5py.File(path, "r+") as file:
        own = file["data/demo_1"]
        rows = own["obs/joint_pos"][()]
        del own["obs/joint_pos"]
        own.create_dataset("obs/joint_pos", data=rows, chunks=rows.shape, compression="gzip")
        offset = own["obs/joint_pos"].id.get_chunk_info(0).byte_offset
    with path.open("r+b") as handle:
        handle.seek(offset)
        handle.write(b"\xff" * 16)
    made = write_report(
        subject_of_path(path, Stage.DEMOS), tmp_path / "a.html", ReportOptions(run_rules=False)
    )
    assert (made.indexed, made.detailed) == (3, 2)
    told = blocks_of(made.path)["index"]["findings"]
    assert [len(f) for f in told] == [0, 1, 0]
    assert "could not be read" in told[1][0]


def test_undeclared_quaternions_are_shown_as_recorded(tmp_path: Path) -> None:
    path = tmp_path / "own.hdf5"
    write_recording("isaaclab", path, episodes=2, rows=(6, 6))
    with h5py.File(path, "r+") as file:
        file.attrs.pop("format_version", None)
        for demo in file["data"].values():
            demo["obs/my_link_quat"] = np.tile(np.array([1, 0, 0, 0], np.float32), (6, 1))
    made = write_report(subject_of_path(path, Stage.RAW), tmp_path / "a.html")
    assert made.detailed == 2
    assert "quaternions are shown as recorded" in made.path.read_text("utf-8")


def test_a_file_that_cannot_be_read_leaves_an_older_report_alone(tmp_path: Path) -> None:
    path, target = tmp_path / "cut.hdf5", tmp_path / "a.html"
    write_recording("isaaclab", path, episodes=1, rows=(6, 6))
    path.write_bytes(path.read_bytes()[:2000])
    target.write_text("older")
    with pytest.raises(TrajpipeError):
        write_report(subject_of_path(path, Stage.RAW), target)
    assert target.read_text() == "older"


@pytest.mark.parametrize("wrong", [{"max_bytes": 1000}, {"frames": 13}, {"frames": -1}])
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        ReportOptions(**wrong)  # type: ignore[arg-type]  # each is one of its integers


def test_real_recordings_of_every_kind(shared_data: Path, tmp_path: Path) -> None:
    for name, stage, episodes in (
        ("isaaclab/dataset.hdf5", Stage.RAW, 10),
        ("lafan_g1/dance1_subject2.csv", Stage.RAW, 1),
        ("robosuite/lift/demo.hdf5", Stage.RAW, 3),
        ("stable_worldmodel/pusht_swm_small.h5", Stage.STORE, 4),
        ("lerobot/v3.0_g1_bottle_2ep", Stage.LEROBOT, 2),
        ("lerobot/v2.1_screwdriver_panel_ls_080225_4_e5", Stage.LEROBOT, 5),
    ):
        quick = ReportOptions(run_rules=False)
        made = write_report(subject_of_path(shared_data / name, stage), tmp_path / "a.html", quick)
        assert (made.indexed, made.detailed) == (episodes, episodes), name
        assert all(b["c"] for n, b in blocks_of(made.path).items() if n != "index"), name
