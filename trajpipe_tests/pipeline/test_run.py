"""Running whole projects: what lands, what is rejected, what is rebuilt, what stays."""

from __future__ import annotations

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core import names
from trajpipe.core.errors import CatalogueError, MissingNameError, UsageError
from trajpipe.core.names import Stage
from trajpipe.hub import Receipt
from trajpipe.pipeline.gate import GateOptions, gate
from trajpipe.pipeline.gate_outcomes import State
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult, Status
from trajpipe.pipeline.run import RunOptions, plan, run
from trajpipe.testing import write_recording
from trajpipe_tests.pipeline.conftest import CATALOGUE, MakeProject


def hashes(root: Path) -> dict[str, str]:
    """Relative path → SHA-256 of every visible output."""
    out = {}
    for folder in ("demos", "stores", "lerobot"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                out[path.relative_to(root).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return out


def reopen(project: Project) -> Project:
    """The project as a new process sees it."""
    return Project.open(project.catalogue.path)


def test_every_stage_is_built_and_every_check_passes(make_project: MakeProject) -> None:
    project = make_project(2, cameras=("front",))
    result = run(project)
    problems = [str(f) for r in result.results for f in r.checks.findings()]
    assert result.ok, problems
    assert [(r.stage, r.status) for r in result.results] == [
        (Stage.DEMOS, Status.BUILT),
        (Stage.DEMOS, Status.BUILT),
        (Stage.STORE, Status.BUILT),
        (Stage.LEROBOT, Status.BUILT),
    ]
    assert result.ledger.summary() == "read 4 · written 4 · rejected 0"
    assert sorted(p.name for p in (project.root / "demos").glob("*.hdf5")) == [
        "scripted_lift__take_00.hdf5",
        "scripted_lift__take_01.hdf5",
    ]
    assert project.store_path("lift").is_file()
    assert (project.lerobot_path("lift") / "meta" / "info.json").is_file()


def test_a_task_with_one_recording_has_a_plain_file_name(make_project: MakeProject) -> None:
    project = make_project(1)
    run(project, options=RunOptions(stages=(Stage.DEMOS,)))
    assert [p.name for p in (project.root / "demos").glob("*.hdf5")] == ["scripted_lift.hdf5"]


def test_a_second_run_does_nothing_and_says_so(make_project: MakeProject) -> None:
    project = make_project(2)
    first = run(project)
    before = hashes(project.root)
    second = run(reopen(project))
    assert {r.status for r in second.results} == {Status.UNCHANGED}
    assert second.ok
    assert second.ledger.summary() == first.ledger.summary()
    assert [r.checks.to_json() for r in second.results] == [r.checks.to_json() for r in first.results]
    assert hashes(project.root) == before


def test_the_same_input_builds_the_same_bytes(make_project: MakeProject) -> None:
    project = make_project(2, cameras=("front",))
    run(project)
    before = {k: v for k, v in hashes(project.root).items() if not k.endswith(names.SUFFIX_RECIPE)}
    run(reopen(project), options=RunOptions(force=True))
    after = {k: v for k, v in hashes(project.root).items() if not k.endswith(names.SUFFIX_RECIPE)}
    assert after == before


def test_one_changed_recording_of_ten_rebuilds_one_l2_file_and_what_depends_on_it(
    make_project: MakeProject,
) -> None:
    project = make_project(10)
    run(project)
    before = hashes(project.root)
    write_recording(
        "isaaclab", project.root / "raw/lift/take_04.hdf5", episodes=3, rows=(8, 12), seed=99, cameras=()
    )
    result = run(reopen(project))
    built = [(r.stage, r.key) for r in result.results if r.status is Status.BUILT]
    assert built == [(Stage.DEMOS, "take_04"), (Stage.STORE, ""), (Stage.LEROBOT, "")]
    changed = {k for k, v in hashes(project.root).items() if before.get(k) != v and k.endswith(".hdf5")}
    assert changed == {"demos/scripted_lift__take_04.hdf5"}


def test_a_touched_but_equal_recording_is_unchanged(make_project: MakeProject) -> None:
    project = make_project(1)
    run(project)
    raw = project.root / "raw/lift/take_00.hdf5"
    raw.write_bytes(raw.read_bytes())
    result = run(reopen(project))
    assert {r.status for r in result.results} == {Status.UNCHANGED}


def test_twenty_recordings_of_which_three_are_broken_land_seventeen(make_project: MakeProject) -> None:
    project = make_project(20)
    raw = project.root / "raw" / "lift"
    whole = (raw / "take_03.hdf5").read_bytes()
    (raw / "take_03.hdf5").write_bytes(whole[: len(whole) // 2])
    (raw / "take_07.hdf5").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with h5py.File(raw / "take_11.hdf5", "r+") as file:
        for name in list(file["data"]):
            del file["data"][name]
    result = run(project)
    demos = {r.key: r for r in result.results if r.stage is Stage.DEMOS}
    broken = {key: r for key, r in demos.items() if not r.ok}
    assert sorted(broken) == ["take_03", "take_07", "take_11"]
    codes = {key: next(r.checks.findings()).code for key, r in broken.items()}
    assert codes == {"take_03": "truncated", "take_07": "git-lfs-pointer", "take_11": "no-demos"}
    assert all(r.status is Status.FAILED and r.error for r in broken.values())
    store = next(r for r in result.results if r.stage is Stage.STORE)
    assert store.ok
    assert store.facts["episodes"] == 34
    assert sorted(store.ledger.failed) == ["take_03.hdf5", "take_07.hdf5", "take_11.hdf5"]
    assert not result.ok
    with h5py.File(project.store_path("lift")) as file:
        assert len(file["ep_len"]) == 34


def test_worker_processes_give_the_same_outputs(make_project: MakeProject) -> None:
    project = make_project(4)
    run(project)
    before = {k: v for k, v in hashes(project.root).items() if k.endswith((".hdf5", ".h5"))}
    result = run(reopen(project), options=RunOptions(jobs=2, force=True))
    assert result.ok
    assert [r.key for r in result.results[:4]] == ["take_00", "take_01", "take_02", "take_03"]
    assert {k: v for k, v in hashes(project.root).items() if k.endswith((".hdf5", ".h5"))} == before


def test_a_rejected_episode_is_in_the_ledger_with_its_reason(make_project: MakeProject) -> None:
    project = make_project(1)
    with h5py.File(project.root / "raw/lift/take_00.hdf5", "r+") as file:
        file["data/demo_1/actions"][3, 2] = np.nan
    result = run(project)
    demos = result.results[0]
    assert demos.ok
    assert demos.ledger.summary() == "read 2 · written 1 · rejected 1 (1 nan-action)"
    rejection = demos.ledger.rejected[0]
    assert (rejection.recording, rejection.episode, rejection.reason) == (
        "take_00.hdf5",
        "demo_1",
        "nan-action",
    )
    assert "row 3" in rejection.detail
    stored = project.stored_ledger(demos.path)
    assert stored is not None
    assert stored.to_json() == demos.ledger.to_json()


def test_an_episode_with_a_broken_chunk_is_rejected_and_the_rest_lands(make_project: MakeProject) -> None:
    project = make_project(1, cameras=("front",))
    raw = project.root / "raw/lift/take_00.hdf5"
    with h5py.File(raw) as file:
        dataset = file["data/demo_0/obs/front"]
        info = dataset.id.get_chunk_info(0)
    with raw.open("r+b") as handle:
        handle.seek(info.byte_offset + info.size // 2)
        handle.write(b"\xff" * 64)
    result = run(project)
    demos = result.results[0]
    assert demos.ok, demos.error
    assert demos.ledger.summary() == "read 2 · written 1 · rejected 1 (1 unreadable)"
    with h5py.File(demos.path) as file:
        assert list(file["data"]) == ["demo_0"]
        assert file["data/demo_0"].attrs["source_demo"] == "demo_1"


def test_a_recording_that_breaks_keeps_its_old_l2_file_and_leaves_the_store(
    make_project: MakeProject,
) -> None:
    project = make_project(2)
    run(project)
    old = (project.root / "demos/scripted_lift__take_01.hdf5").read_bytes()
    (project.root / "raw/lift/take_01.hdf5").write_bytes(b"")
    result = run(reopen(project))
    assert [(r.stage, r.status) for r in result.results] == [
        (Stage.DEMOS, Status.UNCHANGED),
        (Stage.DEMOS, Status.FAILED),
        (Stage.STORE, Status.BUILT),
        (Stage.LEROBOT, Status.BUILT),
    ]
    assert (project.root / "demos/scripted_lift__take_01.hdf5").read_bytes() == old
    assert result.results[2].facts["episodes"] == 2
    assert "take_01.hdf5" in result.results[2].ledger.failed


def test_a_removed_recording_keeps_its_l2_file_and_the_ledger_says_so(make_project: MakeProject) -> None:
    project = make_project(3)
    run(project)
    (project.root / "raw/lift/take_02.hdf5").unlink()
    result = run(reopen(project))
    assert (project.root / "demos/scripted_lift__take_02.hdf5").is_file()
    store = next(r for r in result.results if r.stage is Stage.STORE)
    assert store.facts["episodes"] == 4
    assert store.ledger.summary() == "read 6 · written 4 · rejected 2 (2 removed)"
    assert {r.recording for r in store.ledger.rejected} == {"scripted_lift__take_02.hdf5"}


def test_a_recording_whose_l2_file_gets_another_name_is_not_called_removed(make_project: MakeProject) -> None:
    project = make_project(2)
    second = (project.root / "raw/lift/take_01.hdf5").rename(project.root / "second.hdf5")
    project = reopen(project)
    run(project)
    assert (project.root / "demos/scripted_lift.hdf5").is_file()
    second.rename(project.root / "raw/lift/take_01.hdf5")
    result = run(reopen(project))
    store = next(r for r in result.results if r.stage is Stage.STORE)
    assert store.ledger.summary() == "read 4 · written 4 · rejected 0"
    (project.root / "raw/lift/take_00.hdf5").unlink()  # now the file of the one that stays has another name
    result = run(reopen(project))
    store = next(r for r in result.results if r.stage is Stage.STORE)
    assert store.ledger.summary() == "read 4 · written 2 · rejected 2 (2 removed)"
    assert {r.recording for r in store.ledger.rejected} == {"scripted_lift__take_00.hdf5"}


def test_a_dataset_without_a_usable_recording_blocks_its_store(make_project: MakeProject) -> None:
    project = make_project(1)
    (project.root / "raw/lift/take_00.hdf5").write_bytes(b"<!DOCTYPE html><html>login</html>")
    result = run(project)
    assert [r.status for r in result.results] == [Status.FAILED, Status.BLOCKED, Status.BLOCKED]
    assert "0 of 1 recordings are ready" in str(result.results[1].error)
    assert not (project.root / "stores").exists()


def test_min_recordings_blocks_the_store(make_project: MakeProject) -> None:
    project = make_project(2, catalogue=CATALOGUE + "    min_recordings: 2\n")
    (project.root / "raw/lift/take_00.hdf5").write_bytes(b"")
    result = run(project)
    assert result.results[2].status is Status.BLOCKED
    assert "1 of 2 recordings are ready, 2 needed" in str(result.results[2].error)


def test_an_excluded_demo_and_recording_are_listed_with_their_reasons(make_project: MakeProject) -> None:
    extra = (
        "    exclude:\n"
        "      - {recording: take_00.hdf5, demo: demo_1, reason: the cube fell}\n"
        "      - {recording: take_01, reason: wrong camera}\n"
    )
    project = make_project(3, catalogue=CATALOGUE + extra)
    result = run(project, options=RunOptions(stages=(Stage.DEMOS,)))
    first, second, third = result.results
    assert [(r.episode, r.reason, r.detail) for r in first.ledger.rejected] == [
        ("demo_1", "excluded", "the cube fell")
    ]
    assert second.status is Status.FAILED
    assert "wrong camera" in str(second.error)
    assert third.ok


def test_a_dry_run_says_what_would_be_done_and_does_nothing(make_project: MakeProject) -> None:
    project = make_project(2)
    assert [(s.stage, s.state) for s in plan(project)] == [
        (Stage.DEMOS, "missing"),
        (Stage.DEMOS, "missing"),
        (Stage.STORE, "missing"),
        (Stage.LEROBOT, "missing"),
    ]
    assert not (project.root / "demos").exists()
    run(project)
    assert {s.state for s in plan(reopen(project))} == {"ready"}
    write_recording("isaaclab", project.root / "raw/lift/take_00.hdf5", episodes=1, seed=7, cameras=())
    assert [s.state for s in plan(reopen(project))] == ["stale", "ready", "stale", "stale"]


def test_one_recording_can_be_chosen_by_key_or_name(make_project: MakeProject) -> None:
    project = make_project(2)
    for chosen in ("take_01", "take_01.hdf5"):
        result = run(reopen(project), options=RunOptions(recordings=(chosen,), stages=(Stage.DEMOS,)))
        assert [r.key for r in result.results] == ["take_01"]


def test_unknown_names_are_refused_with_the_known_ones(make_project: MakeProject) -> None:
    project = make_project(1)
    with pytest.raises(MissingNameError, match="take_00"):
        run(project, options=RunOptions(recordings=("take_99",)))
    with pytest.raises(MissingNameError, match="lift"):
        run(project, ["lfit"])
    with pytest.raises(UsageError, match="jobs must be 1 or more"):
        RunOptions(jobs=0)


def test_two_datasets_that_would_write_one_file_are_refused(tmp_path: Path) -> None:
    write_recording("libero", tmp_path / "raw/open_it_demo.hdf5", episodes=1, rows=(4, 4), cameras=())
    entry = "    raw: [{kind: libero, glob: raw/*.hdf5}]\n"
    (tmp_path / "datasets.yaml").write_text(f"version: 1\ndatasets:\n  one:\n{entry}  two:\n{entry}")
    with pytest.raises(CatalogueError, match=r"unknown_open_it\.hdf5.*one/open_it_demo and two/open_it_demo"):
        run(Project.open(tmp_path / "datasets.yaml"))


def test_splits_are_written_to_every_stage(make_project: MakeProject) -> None:
    project = make_project(4, catalogue=CATALOGUE + "    splits: {seed: 3, valid_fraction: 0.25}\n")
    assert run(project).ok
    valid = []
    for path in sorted((project.root / "demos").glob("*.hdf5")):
        with h5py.File(path) as file:
            if len(file["mask/valid"]):
                valid.append(path.name)
                assert len(file["mask/train"]) == 0
    assert len(valid) == 1
    with h5py.File(project.store_path("lift")) as file:
        kinds = [file["split_names"][i].decode() for i in file["ep_split"][:]]
        files = [n.decode() for n in file["ep_file"][:]]
    assert {n for n, k in zip(files, kinds, strict=True) if k == "valid"} == {
        valid[0].removeprefix("scripted_lift__")
    }
    assert kinds.count("valid") == 2


def test_a_model_file_beside_a_recording_is_an_input_too(tmp_path: Path) -> None:
    raw = write_recording(
        "robosuite", tmp_path / "raw/take.hdf5", episodes=1, rows=(4, 4), model="name", cameras=()
    )
    (tmp_path / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  d:\n    raw: [{kind: robosuite, glob: raw/*.hdf5}]\n"
    )

    def demos() -> Status:
        options = RunOptions(stages=(Stage.DEMOS,))
        return run(Project.open(tmp_path / "datasets.yaml"), options=options).results[0].status

    assert [demos(), demos()] == [Status.BUILT, Status.UNCHANGED]
    (model,) = raw.parent.rglob("*.xml")
    model.write_text(model.read_text().replace("<mujoco", "<!-- edited --><mujoco", 1))
    assert [demos(), demos()] == [Status.BUILT, Status.UNCHANGED]


ON_THE_HUB = """\
  absent:
    raw: [{kind: isaaclab, hub: org/raw@v1, glob: "*.hdf5"}]
    license: apache-2.0
"""


def test_a_dataset_that_cannot_be_fetched_fails_alone(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    project = make_project(1, catalogue=CATALOGUE.replace("datasets:\n", f"datasets:\n{ON_THE_HUB}"))
    watched: list[StageResult] = []
    result = run(project, watch=watched.append)
    assert [(r.dataset, r.stage, r.status) for r in result.results] == [
        ("absent", Stage.DEMOS, Status.FAILED),
        ("lift", Stage.DEMOS, Status.BUILT),
        ("lift", Stage.STORE, Status.BUILT),
        ("lift", Stage.LEROBOT, Status.BUILT),
    ]
    assert watched == result.results
    assert not result.ok
    assert "org/raw" in str(result.results[0].error)
    assert result.ledger.failed == {"absent": result.results[0].error}
    only = run(reopen(project), ["absent"], RunOptions(recordings=("day1",)))
    assert [r.status for r in only.results] == [Status.FAILED]

    folder = project.root / "raw/absent/org__raw"
    Path(folder).mkdir(parents=True)
    (folder / "day1.hdf5").write_bytes((project.root / "raw/lift/take_00.hdf5").read_bytes())
    assert not run(reopen(project), ["absent"]).ok  # of which revision that is nobody knows
    gated = gate(reopen(project), GateOptions())
    assert gated.code == 2
    assert [f.unit for f in gated.failures] == ["absent/demos"]
    states = {o.state for o in gated.outcomes if o.dataset == "lift"}
    assert State.PASSED in states
    assert not states & {State.FAILED, State.NEVER_RAN, State.NOT_REACHED}
    (folder / names.HUB_RECEIPT).write_text(Receipt("org/raw", "0" * 40, "v1").to_text())
    assert run(reopen(project), ["absent"]).ok  # the pinned one is there: the Hub isn't asked
