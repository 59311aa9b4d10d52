"""An output that was changed after it was built is found by the hash beside it, at every stage."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from trajpipe.checks.registry import CheckResult, run_checks
from trajpipe.core import names, provenance
from trajpipe.core.findings import Severity
from trajpipe.core.names import Stage
from trajpipe.pipeline.convert import convert
from trajpipe.testing import write_recording


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[Stage, Path]:
    """An output of each stage with its stamp."""
    folder = tmp_path_factory.mktemp("stamp")
    raw = write_recording("isaaclab", folder / "a.hdf5", episodes=1, rows=(8, 8), cameras=())
    targets = {
        Stage.DEMOS: (folder / "l2.hdf5", "demos"),
        Stage.STORE: (folder / "s.h5", "store"),
        Stage.LEROBOT: (folder / "lr", "lerobot-v2.1"),
    }
    for path, to in targets.values():
        assert convert([raw], path, to)[-1].ok
    return {stage: path for stage, (path, _) in targets.items()}


def result_of(stage: Stage, path: Path) -> CheckResult:
    """The result of the stage's stamp rule."""
    (result,) = run_checks(stage, path, select=[f"{stage}-stamp"]).results
    return result


@pytest.mark.parametrize("stage", [Stage.DEMOS, Stage.STORE, Stage.LEROBOT])
def test_an_untouched_output_passes_and_a_changed_one_fails(outputs: dict[Stage, Path], stage: Stage) -> None:
    path = outputs[stage]
    assert result_of(stage, path).passed
    if stage is Stage.LEROBOT:
        with (path / "meta" / "tasks.jsonl").open("a") as handle:
            handle.write("\n")
    else:
        with h5py.File(path, "r+") as file:
            column = file["action"] if stage is Stage.STORE else file["data/demo_0/actions"]
            column[3, 0] += 0.5
    (finding,) = result_of(stage, path).findings
    assert (finding.code, finding.severity) == (f"{stage}-stamp", Severity.ERROR)
    stamp = provenance.read_stamp(path)
    assert stamp is not None
    assert finding.expected == stamp["output"]["sha256"]
    assert finding.got == provenance.sha256_path(path)
    provenance.beside(path, names.SUFFIX_RECIPE).unlink()
    assert result_of(stage, path).passed


def test_a_claim_has_no_hash_to_compare_with(outputs: dict[Stage, Path], tmp_path: Path) -> None:
    path = tmp_path / "s.h5"
    path.write_bytes(b"")
    provenance.claim(path, provenance.Recipe("store", {}, {}, "x"), {})
    assert result_of(Stage.STORE, path).passed


def write(path: Path, text: str, *, folder: bool) -> None:
    """An output of this content, a file or a folder."""
    if folder:
        (path / "meta").mkdir(parents=True, exist_ok=True)
    (path / "meta/info.json" if folder else path).write_text(text)


@pytest.mark.parametrize("stage", [Stage.DEMOS, Stage.STORE, Stage.LEROBOT])
def test_after_a_kill_between_output_and_stamp_old_and_new_are_ours(tmp_path: Path, stage: Stage) -> None:
    path, new, folder = tmp_path / "output", tmp_path / ".new", stage is Stage.LEROBOT
    recipe = provenance.Recipe(stage.value, {}, {}, "2")
    write(path, "old", folder=folder)
    provenance.stamp(path, provenance.Recipe(stage.value, {}, {}, "1"))
    write(new, "new", folder=folder)
    coming = provenance.identity_of(new)
    provenance.claim(path, recipe, coming)
    assert result_of(stage, path).passed  # killed before the output came
    path.rename(tmp_path / "kept")
    new.rename(path)
    assert provenance.identity_of(path) == coming
    assert result_of(stage, path).passed  # killed before its stamp was written
    assert not provenance.unchanged(path, recipe)  # it is built again
    write(path, "mine", folder=folder)
    (finding,) = result_of(stage, path).findings
    assert finding.expected == " or ".join(sorted(provenance.hashes_of(provenance.read_stamp(path))))
    assert str(coming["sha256"]) in str(finding.expected)
