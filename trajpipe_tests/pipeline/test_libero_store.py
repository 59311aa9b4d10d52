"""The store of a LIBERO suite: its columns, its checks (each passing and failing), groups and caps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks.registry import CheckReport
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Severity
from trajpipe.mjcf.document import parse
from trajpipe.mjcf.joints import joint_table
from trajpipe.pipeline.build_store import build_store, check_store
from trajpipe.pipeline.convert import convert
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import Status
from trajpipe.pipeline.run import run
from trajpipe.pipeline.store_libero import language_of_task, scene_of, suites, task_list
from trajpipe.pipeline.store_plan import LiberoOptions, StorePlan
from trajpipe.testing import write_recording

TASKS = ("open_the_middle_drawer_of_the_cabinet", "put_the_bowl_on_the_plate")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two raw recordings of two demos each and their L2 files."""
    folder = tmp_path_factory.mktemp("suite")
    for number, task in enumerate(TASKS):
        raw = write_recording(
            "libero",
            folder / f"{task}_demo.hdf5",
            episodes=2,
            rows=(8, 12),
            seed=number,
            image_size=64,
            language=task.replace("_", " "),
        )
        (result,) = convert([raw], folder / "l2" / f"{task}.hdf5", "demos")
        assert result.ok, result.error
    return folder


def plan_of(suite: Path, target: Path, **changes: object) -> StorePlan:
    """The plan of the suite's store."""
    values: dict[str, object] = {
        "dataset": "goal",
        "inputs": tuple(suite / "l2" / f"{task}.hdf5" for task in TASKS),
        "target": target,
        "libero": LiberoOptions("libero_goal"),
        "raw": {f"{t}_demo.hdf5": suite / f"{t}_demo.hdf5" for t in TASKS},
    }
    return StorePlan(**{**values, **changes})  # type: ignore[arg-type]  # keywords of one dataclass


@pytest.fixture(scope="module")
def store(suite: Path) -> Path:
    """The built store."""
    result = build_store(plan_of(suite, suite / "goal.h5"))
    assert result.ok, result.error or [str(f) for f in result.checks.findings()]
    return suite / "goal.h5"


@pytest.fixture
def mutated(suite: Path, store: Path, tmp_path: Path) -> Callable[..., CheckReport]:
    """Change a copy of the store by a function of the open file and check it."""

    def check(change: Callable[[h5py.File], None], **changes: object) -> CheckReport:
        copy = tmp_path / "copy.h5"
        shutil.copy(store, copy)
        with h5py.File(copy, "r+") as file:
            change(file)
        return check_store(plan_of(suite, copy, **changes), copy)

    return check


def first_error(report: CheckReport, code: str) -> Finding:
    """The first ERROR of a rule."""
    result = next(r for r in report.results if r.code == code)
    return next(f for f in result.findings if f.severity is Severity.ERROR)


def test_the_columns_are_the_contracts(store: Path) -> None:
    with h5py.File(store) as file:
        manifest = bytes(file["__manifest__"][()]).decode().splitlines()
        assert manifest[1] == "env_id=libero_demos:libero_goal"
        assert [line for line in manifest if line.startswith("column=")] == [
            "column=action:float32:7",
            "column=state:float64:78",
            "column=joint_states:float32:7",
            "column=gripper_states:float32:2",
            "column=qpos:float32:28",
            "column=task_index:int32:1",
            "column=images:uint8:2,3,64,64",
        ]
        tasks = [line for line in manifest if line.startswith("task=")]
        assert tasks[0] == 'task=0\t"open the middle drawer of the cabinet"'
        assert len(tasks) == 10
        assert set(np.unique(file["task_index"][()])) == {0, 3}


def test_the_state_is_rewritten_into_robot_fixtures_objects(suite: Path, store: Path) -> None:
    with h5py.File(suite / f"{TASKS[0]}_demo.hdf5") as raw, h5py.File(store) as file:
        demo = raw["data/demo_0"]
        theirs = joint_table(parse(demo.attrs["model_file"]))
        states, ours = demo["states"][()], file["state"][: len(demo["states"])]
    fixtures = [j for j in theirs.joints[9:] if j.type != "free"]
    assert len(fixtures) == 4
    np.testing.assert_array_equal(ours[:, :9], states[:, 1:10])
    for number, joint in enumerate(fixtures):
        np.testing.assert_array_equal(ours[:, 9 + number], states[:, 1 + joint.qpos])
    cube = next(j for j in theirs.joints if j.type == "free")
    np.testing.assert_array_equal(ours[:, 13:20], states[:, 1 + cube.qpos : 8 + cube.qpos])


def test_fixture_poses_are_each_episodes_own(suite: Path, store: Path) -> None:
    with h5py.File(store) as file:
        names = [n.decode() for n in file["fixture_names"][()]]
        positions = file["fixture_pos"][()]
        assert file["fixture_quat"].shape == (4, len(names), 4)
    cabinet = next(i for i, n in enumerate(names) if "cabinet" in n)
    assert len(np.unique(positions[:, cabinet], axis=0)) > 1
    assert np.isfinite(positions).all()


def test_every_check_says_what_it_looked_at(suite: Path, store: Path) -> None:
    report = check_store(plan_of(suite, store), store)
    results = {r.code: r for r in report.results}
    with h5py.File(store) as file:
        values = file["state"].size
    assert results["libero-state-ulp"].measures == {
        "values_compared": values,
        "values_differing": 0,
        "worst_ulp": 0,
    }
    poses = results["libero-fk"].measures
    assert poses["worst_world_m"] < 1e-9
    assert poses["swapped_joints_moved_m"] > 1e-3
    assert poses["world_with_another_demos_fixtures_m"] > 1e-3
    assert str(results["libero-images"].counted) == "checked 4 of 4 episodes"


def swap(file: h5py.File, column: str, a: int, b: int) -> None:
    """Swap two words of every row."""
    rows = file[column][()]
    rows[:, [a, b]] = rows[:, [b, a]]
    file[column][...] = rows


def test_swapped_joints_are_caught_by_value_and_by_pose(mutated: Callable[..., CheckReport]) -> None:
    report = mutated(lambda f: swap(f, "state", 1, 3))
    finding = first_error(report, "libero-state-ulp")
    assert "robot0_joint2 qpos" in finding.message
    assert finding.place.row == 0
    assert "a body stands elsewhere" in first_error(report, "libero-fk").message


def test_one_value_six_ulp_off_is_caught(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        rows = file["state"][()]
        for _ in range(6):
            rows[5, 0] = np.nextafter(rows[5, 0], np.inf)
        file["state"][...] = rows

    report = mutated(change)
    finding = first_error(report, "libero-state-ulp")
    assert finding.place.row == 5
    result = next(r for r in report.results if r.code == "libero-state-ulp")
    assert result.measures["values_differing"] == 1
    assert result.measures["worst_ulp"] == 6
    assert next(r for r in report.results if r.code == "libero-fk").passed


def test_a_zero_must_meet_a_zero(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        file["state"][0, 0] = 0.0

    assert "got 0.0" in str(first_error(mutated(change), "libero-state-ulp"))


def test_another_demos_fixtures_are_caught_in_the_world_frame(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        file["fixture_pos"][...] = np.roll(file["fixture_pos"][()], 1, axis=0)

    report = mutated(change)
    assert next(r for r in report.results if r.code == "libero-state-ulp").passed
    assert "world" in str(first_error(report, "libero-fk").got)


def test_qpos_that_is_not_its_parts_names_word_and_row(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        file["qpos"][4, 10] += 1e-3

    finding = first_error(mutated(change), "libero-qpos")
    assert (finding.place.column, finding.place.row) == ("qpos", 4)
    assert "word 10" in finding.message


def test_two_hot_words_are_caught(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        file["qpos"][2, 20] = 1

    assert "word 20" in first_error(mutated(change), "libero-qpos").message


def test_a_task_index_of_another_task_is_caught(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        file["task_index"][...] = 0

    report = mutated(change)
    finding = first_error(report, "libero-tasks")
    assert (finding.got, finding.expected) == ("{0}", "3")


def test_a_task_text_that_is_not_problem_infos_is_caught(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        text = bytes(file["__manifest__"][()]).replace(b'"put the bowl on', b'"Put the bowl on')
        del file["__manifest__"]
        file["__manifest__"] = np.frombuffer(text, np.uint8)

    finding = first_error(mutated(change), "libero-tasks")
    assert finding.got == "'Put the bowl on the plate'"


def test_nothing_that_moves_is_caught(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        start, length = int(file["ep_offset"][1]), int(file["ep_len"][1])
        file["joint_states"][start : start + length] = file["joint_states"][start]

    finding = first_error(mutated(change), "libero-moves")
    assert finding.place.column == "joint_states"
    assert "demo_1" in str(finding.place.demo)


def test_episodes_of_one_row_are_told_as_the_cause_with_the_remedy(tmp_path: Path) -> None:
    raw = write_recording("libero", tmp_path / "x_demo.hdf5", episodes=2, rows=(1, 1), image_size=64)
    result = convert([raw], tmp_path / "x.h5", "store")[-1]
    assert not result.ok
    finding = first_error(result.checks, "libero-moves")
    assert finding.message.startswith("every episode has one row, so nothing can move")
    assert "--min-length 2" in finding.message
    assert (finding.got, finding.expected) == ("1 row in each", "2 rows or more")


def test_images_upside_down_or_with_swapped_channels_are_caught(mutated: Callable[..., CheckReport]) -> None:
    def upside_down(file: h5py.File) -> None:
        file["images"][...] = file["images"][()][:, :, :, ::-1]

    def swapped(file: h5py.File) -> None:
        file["images"][...] = file["images"][()][:, :, ::-1]

    assert "first row" in first_error(mutated(upside_down), "libero-images").message
    assert "channel means" in first_error(mutated(swapped), "libero-images").message


def test_demos_out_of_order_are_caught(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        file["ep_demo"][...] = file["ep_demo"][()][[1, 0, 2, 3]]

    assert "not in numeric order" in first_error(mutated(change), "libero-numbering").message


def test_another_column_or_dtype_is_caught(mutated: Callable[..., CheckReport]) -> None:
    def change(file: h5py.File) -> None:
        rows = file["joint_states"][()].astype(np.float64)
        del file["joint_states"]
        file["joint_states"] = rows

    finding = first_error(mutated(change), "libero-columns")
    assert (finding.got, finding.expected) == ("float64 (7,)", "float32 (7,)")


def test_a_target_model_and_a_joint_order_give_the_same_store(suite: Path, tmp_path: Path) -> None:
    with h5py.File(suite / f"{TASKS[0]}_demo.hdf5") as raw:
        text = raw["data/demo_0"].attrs["model_file"]
    (tmp_path / "target.xml").write_text(text)
    names = joint_table(parse(text)).names
    states = []
    for options in (
        LiberoOptions("libero_goal", model=tmp_path / "target.xml"),
        LiberoOptions("libero_goal", joints=names),
    ):
        result = build_store(plan_of(suite, tmp_path / "x.h5", libero=options, images=False), force=True)
        assert result.ok, result.error
        with h5py.File(tmp_path / "x.h5") as file:
            states.append(file["state"][()])
    np.testing.assert_array_equal(states[0], states[1])
    with h5py.File(suite / f"{TASKS[0]}_demo.hdf5") as raw:
        recorded = raw["data/demo_0/states"][:, 1:]
    np.testing.assert_array_equal(states[0][: len(recorded)], recorded)


def test_without_the_state_column_models_do_not_matter(suite: Path, tmp_path: Path) -> None:
    options = LiberoOptions("libero_goal", state=False)
    result = build_store(plan_of(suite, tmp_path / "x.h5", libero=options, images=False))
    assert result.ok, result.error
    with h5py.File(tmp_path / "x.h5") as file:
        assert "state" not in file
        assert "fixture_pos" not in file


def test_a_cap_per_task_is_in_the_ledger(suite: Path, tmp_path: Path) -> None:
    result = build_store(plan_of(suite, tmp_path / "x.h5", demos_per_task=1, images=False))
    assert result.ok, [str(f) for f in result.checks.findings()]
    assert result.ledger.summary() == "read 4 · written 2 · rejected 2 (2 over-cap)"


def test_a_task_outside_the_suite_is_refused() -> None:
    with pytest.raises(InputError, match=r"fly_away.*one of 10 tasks"):
        task_list(LiberoOptions("libero_goal"), {"fly_away": "fly away"})
    assert task_list(LiberoOptions("mine"), {"b": "B", "a": "A"}) == ["a", "b"]
    assert task_list(LiberoOptions("mine", tasks=("c", "a", "b")), {"b": "B"}) == ["a", "b", "c"]


def test_the_built_in_suites_are_liberos() -> None:
    assert {name: len(tasks) for name, tasks in suites().items()} == {
        "libero_10": 10,
        "libero_90": 90,
        "libero_goal": 10,
        "libero_object": 10,
        "libero_spatial": 10,
    }
    assert scene_of("LIVING_ROOM_SCENE5_put_it") == "LIVING_ROOM_SCENE5"
    assert scene_of("put_it") == ""
    assert language_of_task("KITCHEN_SCENE10_close_the_top_drawer") == "close the top drawer"


CATALOGUE = """\
version: 1
datasets:
  mixed:
    raw: [{kind: libero, glob: raw/*.hdf5, tag: teleop}]
    store: {suite: mine, images: false%s}
"""


def scenes(root: Path) -> Project:
    """A suite of two scenes whose models differ in width."""
    for scene, objects in (("KITCHEN_SCENE1", "place"), ("STUDY_SCENE2", "pull")):
        write_recording(
            "libero",
            root / "raw" / f"{scene}_do_it_demo.hdf5",
            episodes=1,
            rows=(6, 6),
            image_size=64,
            task=objects,
        )
    with h5py.File(root / "raw" / "STUDY_SCENE2_do_it_demo.hdf5", "r+") as file:
        demo = file["data/demo_0"]
        text = demo.attrs["model_file"]
        extra = '<body name="knob"><joint name="knob" type="hinge"/></body></worldbody>'
        demo.attrs["model_file"] = text.replace("</worldbody>", extra)
        states = demo["states"][()]
        nq = joint_table(parse(text)).nq
        wider = np.insert(np.insert(states, states.shape[1], 0.25, axis=1), 1 + nq, 0.5, axis=1)
        del demo["states"]
        demo["states"] = wider
        demo.attrs["init_state"] = wider[0]
    return Project.open(root / "datasets.yaml")


def test_scenes_that_differ_are_refused_and_grouped_on_request(tmp_path: Path) -> None:
    (tmp_path / "datasets.yaml").write_text(CATALOGUE % "")
    result = run(scenes(tmp_path))
    refused = next(r for r in result.results if r.stage == "store")
    assert refused.status is Status.FAILED
    assert "one store has one remap table" in str(refused.error)
    assert "group_by: scene" in str(refused.error)
    (tmp_path / "datasets.yaml").write_text(CATALOGUE % ", group_by: scene")
    project = Project.open(tmp_path / "datasets.yaml")
    built = next(r for r in run(project).results if r.stage == "store")
    assert built.ok, [str(f) for f in built.checks.findings()]
    assert built.facts == {"episodes": 2, "rows": 12, "stores": 2}
    folder = tmp_path / "stores" / "mixed"
    assert sorted(p.name for p in folder.glob("*.h5")) == [
        "KITCHEN_SCENE1.lowdim.h5",
        "STUDY_SCENE2.lowdim.h5",
    ]
    again = next(r for r in run(Project.open(tmp_path / "datasets.yaml")).results if r.stage == "store")
    assert again.status is Status.UNCHANGED


@pytest.mark.shared
def test_the_generated_tasks_of_libero_come_out_exact(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "libero_generated"
    raw = sorted(folder.glob("*.hdf5"))
    for files, suite_name in ((raw[1:], "libero_goal"), (raw[:1], "libero_90")):
        l2 = [convert([f], tmp_path / "l2" / f.name, "demos")[0].path for f in files]
        target = folder / f"{files[0].stem}_0_target_kinematic.xml"
        plan = StorePlan(
            "x",
            tuple(l2),
            tmp_path / f"{suite_name}.h5",
            libero=LiberoOptions(suite_name, model=target),
            raw={f.name: f for f in files},
        )
        result = build_store(plan)
        assert result.ok, [str(f) for f in result.checks.findings()]
        measures = {k: v for r in result.checks.results for k, v in r.measures.items()}
        assert measures["values_compared"] > 3000
        assert measures["worst_ulp"] == 0
        assert measures["worst_world_m"] <= 1e-6
        assert measures["worst_relative_m"] <= 1e-6
        assert measures["swapped_joints_moved_m"] > 1e-3
        with h5py.File(plan.target) as store:
            mean = store["images"][: len(store["ep_len"])].mean()
        assert 10 < mean < 245
