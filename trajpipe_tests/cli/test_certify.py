"""`trajpipe certify`: what it prints, its exit codes.

What is not here: the rules, see `trajpipe_tests/pipeline/test_certify.py`.
"""

from pathlib import Path

import h5py
import pytest

from trajpipe.cli.main import main
from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import Command


@pytest.fixture
def stages(tmp_path: Path) -> tuple[str, str, str, str]:
    """A recording, its L2 file, store and LeRobot folder, all made by `convert`."""
    raw = write_recording(
        "isaaclab", tmp_path / "take.hdf5", episodes=2, rows=(8, 9), seed=1, cameras=(), format_version=1
    )
    l2, store, lerobot = (str(tmp_path / name) for name in ("l2.hdf5", "take.h5", "take_lerobot"))
    for source, target, to in ((str(raw), l2, "demos"), (l2, store, "store"), (l2, lerobot, "lerobot-v2.1")):
        assert main(["convert", source, target, "--to", to, "--fps", "20", "--task", "lift", "-q"]) == 0
    return str(raw), l2, store, lerobot


def test_four_files_made_one_by_one_are_one(invoke: Command, stages: tuple[str, ...]) -> None:
    ran = invoke("certify", *stages)
    assert ran.code == 0, ran.err
    assert "5 rules: 5 passed" in ran.out
    assert ran.out.rstrip().endswith("take_lerobot.certificate.json")
    value = invoke("certify", *stages, "--json").json
    assert value["passed"] is True
    assert Path(value["certificate"]).is_file()


def test_a_difference_is_exit_code_1_and_says_where(invoke: Command, stages: tuple[str, ...]) -> None:
    with h5py.File(stages[2], "r+") as file:
        file["action"][5, 2] += 1
    ran = invoke("certify", *stages)
    assert ran.code == 1
    assert "certificate-store" in ran.out
    assert "demo_0 · action · row 5" in ran.out


@pytest.mark.parametrize("options", [("--psnr", "0"), ("--psnr", "nan")])
def test_a_bound_that_is_none_is_a_usage_error(
    invoke: Command, stages: tuple[str, ...], options: tuple[str, ...]
) -> None:
    ran = invoke("certify", *stages, *options)
    assert ran.code == 2
    assert "--psnr is a number of dB above 0" in ran.err


def test_a_word_that_means_it_is_told(invoke: Command) -> None:
    ran = invoke("prove", "x")
    assert "Did you mean certify?" in ran.err


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ((0, 2, 1, 3), "the second argument"),
        ((0, 1, 1, 3), "the third argument"),
        ((0, 1, 2, 2), "the fourth argument"),
        ((2, 1, 2, 3), "the first argument"),
        ((0, 0, 2, 3), "the second argument"),
        ((3, 2, 1, 0), "the second argument"),
    ],
)
def test_arguments_in_another_order_are_a_usage_error(
    invoke: Command, stages: tuple[str, ...], order: tuple[int, ...], said: str
) -> None:
    ran = invoke("certify", *(stages[i] for i in order))
    assert ran.code == 2
    assert f"{said} is not what stands in that place" in ran.err
    assert "The order is RAW L2 STORE LEROBOT." in ran.err
    assert "internal" not in ran.err
