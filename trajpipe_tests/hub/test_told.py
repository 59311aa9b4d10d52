"""What a dataset's publisher and reader are told and can ask for: login, card, options, progress, what moves.

What is not here: the protocol (`test_push_pull.py`), a dataset's whole way (`test_project.py`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from trajpipe.defs import build_defs
from trajpipe.hub import Repository, pull, push
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.publish import push_dataset
from trajpipe.pipeline.run import run
from trajpipe.testing import write_recording
from trajpipe.testing.hub_server import WRITE_TOKEN
from trajpipe_tests.hub.conftest import published
from trajpipe_tests.hub.hubs import REPO, Hub, OwnHub, contents, environment, repository
from trajpipe_tests.hub.test_project import CATALOGUE


def record(root: Path, number: int) -> None:
    """One more recording of the dataset; it sorts last."""
    path = root / f"raw/day{number}/scripted_{number}.hdf5"
    write_recording(
        "isaaclab", path, episodes=2, rows=(12, 16), seed=number, image_size=64, cameras=("table_cam",)
    )


@pytest.fixture
def data(own: OwnHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, online: None) -> Path:
    """A project of two recordings with all stages built, and the environment as a user sets it."""
    monkeypatch.setenv("HF_ENDPOINT", own.url)
    monkeypatch.setenv("HF_TOKEN", WRITE_TOKEN)
    root = tmp_path / "data"
    for number in range(2):
        record(root, number)
    (root / "datasets.yaml").write_text(CATALOGUE, encoding="utf-8")
    assert run(Project.open(root / "datasets.yaml")).ok
    return root


def test_one_more_recording_that_sorts_last_moves_its_files_the_store_and_the_metadata(
    own: OwnHub, data: Path
) -> None:
    push_dataset(Project.open(data / "datasets.yaml"), "lift")
    record(data, 2)
    project = Project.open(data / "datasets.yaml")
    assert run(project).ok
    plan = push_dataset(project, "lift", dry_run=True)
    result = push_dataset(project, "lift")
    video = "videos/chunk-000/observation.images.table_cam/episode_{:06d}.mp4"
    assert {p for p in result.uploaded if not p.startswith("meta/")} == {
        *(f"data/chunk-000/episode_{n:06d}.parquet" for n in (4, 5)),
        *(video.format(n) for n in (4, 5)),
        "demos/scripted_lift__day2__scripted_2.hdf5",
        "stores/lift.h5",
        "README.md",
        "assets/contact_sheet.png",
        "certificate.json",
        "trajpipe.json",
    }
    assert set(result.uploaded) == {*plan.uploaded, "trajpipe.json"}
    assert result.deleted == ()
    assert result.moved <= plan.moved + 100_000  # the manifest is known when all else is there


def test_the_card_s_three_lines_work(own: OwnHub, data: Path, tmp_path: Path) -> None:
    project = Project.open(data / "datasets.yaml")
    result = push_dataset(project, "lift")
    card = (pull(REPO, tmp_path / "out").path / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)\n```", card, re.DOTALL)
    assert [block.count("\n") for block in blocks] == [2, 2]
    lerobot, ours = blocks
    assert f'LeRobotDataset("{REPO}", revision="v2.1")' in lerobot
    code = f"{ours}\nprint(store.n_episodes, store.n_rows)"
    (tmp_path / "reader").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "reader",
        env=environment(own, tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "4"
    assert (tmp_path / "reader/lift/stores/lift.h5").read_bytes() == (data / "stores/lift.h5").read_bytes()
    assert f"trajpipe pull {REPO}@{result.tag}" in card


def test_a_dagster_instance_keeps_no_token(
    own: OwnHub, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Runs that push, and that fail to: databases, logs and outputs of a persistent instance are searched."""
    home = tmp_path / "dagster_home"
    home.mkdir()
    defs = build_defs(catalogue=data / "datasets.yaml")
    job = defs.resolve_job_def("lift_push")
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        assert job.execute_in_process(instance=instance).success
        own.fault("status", "GET .*/revision/", status=403, times=1)
        assert not job.execute_in_process(instance=instance, raise_on_error=False).success
        assert len(instance.get_runs()) == 2
    files = [p for p in home.rglob("*") if p.is_file()]
    assert len(files) > 5
    assert [p for p in files if WRITE_TOKEN.encode() in p.read_bytes()] == []
    said = capfd.readouterr()
    assert WRITE_TOKEN not in said.out + said.err


def test_the_stored_login_is_used(
    own: OwnHub, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `hf auth login` wrote, when HF_TOKEN is not set."""
    stored = tmp_path / "token"
    stored.write_text(WRITE_TOKEN + "\n")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(stored))
    monkeypatch.setenv("HF_ENDPOINT", own.url)
    push(published(tree), Repository(REPO))
    assert pull(REPO, tmp_path / "out").files
    logins = {
        a.authorization for a in own.asked() if a.host.startswith("127.0.0.1") and "/store/" not in a.path
    }
    assert logins <= {f"Bearer {WRITE_TOKEN}", None}
    assert f"Bearer {WRITE_TOKEN}" in logins


def test_progress_tells_bytes_up_to_the_total(hub: Hub, tree: Path, tmp_path: Path) -> None:
    told: dict[str, list[tuple[int, int | None]]] = {}

    def progress(what: str, done: int, total: int | None) -> None:
        told.setdefault(what, []).append((done, total))

    size = sum(len(data) for data in contents(tree).values())
    push(published(tree), repository(hub), progress=progress)
    out = pull(REPO, tmp_path / "out", repository=repository(hub), progress=progress)
    assert set(told) == {"hashed bytes", "uploaded bytes", "downloaded bytes"}  # the CLI's bars add the rate
    assert told["hashed bytes"][-1] == (size, size)
    assert told["downloaded bytes"][-1] == (out.bytes, out.bytes)
    for rows in told.values():
        done = [d for d, _ in rows]
        assert done == sorted(done)
        assert all(total is not None and d <= total for d, total in rows)


def command(own: OwnHub, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run trajpipe."""
    login = environment(own, folder / "home")
    line = [sys.executable, "-m", "trajpipe", *words]
    return subprocess.run(line, cwd=folder, env=login, capture_output=True, text=True, check=False)


def test_a_path_is_pushed_in_the_open_with_a_message(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    (tree / "stores/lift.h5").unlink()  # of random bytes here, and a store is looked into
    refused = command(own, tmp_path, "push", "./tree", "--repo", REPO, "--public")
    assert refused.returncode == 2
    assert "licence" in refused.stderr
    assert own.server.shelf.repos == {}
    words = ("--public", "--license", "mit", "--message", "first light", "--tag", "v1")
    done = command(own, tmp_path, "push", "./tree", "--repo", REPO, *words)
    assert done.returncode == 0, done.stderr
    stored = own.server.shelf.repos[REPO]
    assert not stored.private
    assert {c.title for c in stored.commits.values()} == {"initial commit", "first light"}
    assert stored.tags["v1"] == stored.branches["main"]
    assert "license: mit" in (repository(own).read("README.md", stored.tags["v1"]) or b"").decode()
    anybody = Repository(REPO, endpoint=own.url, token=False)
    assert contents(pull(f"{REPO}@v1", tmp_path / "anybody", repository=anybody).path) == contents(tree)


def test_episodes_are_chosen_on_the_command_line(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    push(published(tree), repository(own))
    done = command(own, tmp_path, "pull", REPO, "some", "--episodes", "0,2-3")
    assert done.returncode == 0, done.stderr
    kept = sorted(p for p in contents(tmp_path / "some") if p.startswith("data/"))
    assert kept == [f"data/chunk-000/episode_{n:06d}.parquet" for n in (0, 2, 3)]
    assert command(own, tmp_path, "pull", REPO, "more", "--episodes", "3-1").returncode == 2
    assert command(own, tmp_path, "pull", REPO, "more", "--only", "nothing").returncode == 2
    assert not (tmp_path / "more").exists()


def test_verify_says_what_is_missing_damaged_and_foreign(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    push(published(tree), repository(own))
    out = pull(REPO, tmp_path / "out", repository=repository(own)).path
    (out / "meta/episodes.jsonl").unlink()
    (out / "stores/lift.h5").write_bytes(b"x")
    (out / "mine.txt").write_text("mine")
    done = command(own, tmp_path, "verify", "out")
    assert done.returncode == 1
    for path in ("meta/episodes.jsonl", "stores/lift.h5", "mine.txt"):
        assert path in done.stdout + done.stderr
