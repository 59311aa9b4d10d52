"""`trajpipe doctor`, `gc` and `init`: exit codes and what people read; `dev`'s port and environment."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from trajpipe.cli.dagster_session import stop
from trajpipe.cli.verbs.dev import free_port
from trajpipe.core.errors import StateError
from trajpipe.pipeline.init_dagster_home import prepare_home
from trajpipe_tests.cli.conftest import Command
from trajpipe_tests.defs.test_daemons import DAEMON, running, signs_of_life


def test_doctor_tells_of_dead_runs_and_ends_them(invoke: Command, data: Path, tmp_path: Path) -> None:
    none = invoke("doctor")
    assert none.code == 0
    assert "there is no instance at" in " ".join(none.out.split())
    prepare_home(tmp_path / ".dagster")
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    with dg.DagsterInstance.from_config(str(tmp_path / ".dagster")) as instance:
        run = create_run_for_test(instance, job_name="lift_demos", status=dg.DagsterRunStatus.STARTED)
        instance.report_engine_event(f"Started process for run (pid: {done.pid}).", run)
    sick = invoke("doctor", "--json")
    assert sick.code == 1
    wrong = [d for d in sick.json["diagnoses"] if d["grade"] == "wrong"]
    assert [d["what"] for d in wrong] == ["runs"]
    assert run.run_id in wrong[0]["text"]
    mended = invoke("doctor", "--fix")
    assert mended.code == 0
    assert "nothing is wrong" in mended.out
    assert "take_0, take_1, take_2" in mended.out  # recordings without a partition


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_two_real_daemons_are_seen_at_once_and_gone_as_soon_as_they_end(
    tmp_path: Path, invoke: Command
) -> None:
    home = tmp_path / ".dagster"
    for folder in (home, tmp_path / "other"):
        prepare_home(folder)
    (tmp_path / "datasets.yaml").write_text("version: 1\ndatasets: {}\n")
    doctor = ("doctor", "--root", tmp_path, "--json")

    def said() -> tuple[int, str]:
        ran = invoke(*doctor)
        (one,) = [d for d in ran.json["diagnoses"] if d["what"] == "daemons"]
        return ran.code, one["text"]

    assert said() == (0, "none is running: no process on this machine")
    with running(DAEMON, home) as first, running(DAEMON, tmp_path / "other"):
        assert said() == (0, f"one is running: process {first}")
        with running(DAEMON, home) as second:
            pids = ", ".join(map(str, sorted((first, second))))
            assert said() == (1, f"2 daemons work on one instance: processes {pids}")
    signs_of_life(home, abcdefghij=3)  # what the later one leaves behind
    code, text = said()
    assert code == 0
    assert text.startswith("none is running: no process on this machine; last signs of life: abcdefgh ")


def test_an_instance_that_cannot_be_written_is_told_of_and_not_opened(
    invoke: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".dagster"
    prepare_home(home)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != home and allowed(path, mode))
    looked = invoke("doctor")
    assert looked.code == 0
    assert "can't be written: not looked at" in " ".join(looked.out.split())
    assert not (home / "storage").exists(), "it was not opened"
    started = invoke("dev")
    assert started.code == 2
    assert "Dagster's instance can't be written" in started.err


def test_gc_deletes_nothing_unless_told(invoke: Command, data: Path) -> None:
    invoke("run", "--stage", "demos")
    assert "nothing to collect" in invoke("gc").out
    (data / "datasets.yaml").write_text("version: 1\ndatasets: {}\n")
    dry = invoke("gc")
    assert (dry.code, dry.err) == (0, "nothing was deleted: --no-dry-run deletes\n")
    assert "could go data/demos/scripted_lift__take_0.hdf5" in " ".join(dry.out.split())
    assert len(list((data / "demos").glob("*.hdf5"))) == 3
    wet = invoke("gc", "--no-dry-run", "--json")
    assert (wet.code, len(wet.json["garbage"]), wet.json["dry_run"]) == (0, 3, False)
    assert [p for p in (data / "demos").iterdir() if not p.name.startswith(".")] == []


def test_init_tells_what_it_wrote_and_what_comes_next(invoke: Command, tmp_path: Path) -> None:
    ran = invoke("init", "new", "--dataset", "pick_cup")
    assert ran.code == 0
    assert "wrote  new/data/datasets.yaml" in ran.out
    assert ran.out.splitlines()[-5:] == [
        "  cd new",
        "  cp RECORDINGS data/raw/pick_cup/",
        "  trajpipe list",
        "  trajpipe dev",
        "  trajpipe gate",
    ]
    again = invoke("init", "new", "--dataset", "pick_cup", "--json").json
    assert (again["written"], len(again["kept"])) == ([], 7)
    assert "next:" not in invoke("init", "new", "--dataset", "pick_cup", "-q").out
    assert invoke("list", cwd=tmp_path / "new").code == 0
    assert invoke("init", "new", "--dataset", "no name", cwd=tmp_path).code == 2


def test_dev_needs_a_project_that_dagster_can_find(invoke: Command, data: Path) -> None:
    assert invoke("dev", "--catalogue", "nowhere.yaml").code == 2
    (data / "datasets.yaml").rename(data / "other.yaml")
    ran = invoke("dev", "--catalogue", "data/other.yaml")
    assert (ran.code, "Dagster's processes find a project by its folder" in ran.err) == (2, True)


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < free_port("127.0.0.1", port) < port + 20
    with pytest.raises(StateError, match="no port is free"):
        free_port("203.0.113.1", 3000)


def test_stopping_ends_what_ignores_the_signal_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajpipe.cli.dagster_session.STOP_S", 0.3)
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    stop(process)
    process.stdout.close()
    assert process.returncode == -9
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _runs(child):
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
