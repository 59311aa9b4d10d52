"""The instances' configurations in docs/deploy: each is valid for the Dagster that is installed.

What is not here: clusters; what the files say of themselves is that they were tried or not.
"""

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._config import process_config, resolve_to_config_type
from dagster._core.instance.config import dagster_instance_config

from trajpipe_tests.conftest import REPOSITORY

DEPLOY = REPOSITORY / "docs/deploy"
FILES = sorted(p.name for p in DEPLOY.glob("*.dagster.yaml"))


def _read(name: str) -> dict[str, Any]:
    value = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def test_every_kind_of_deployment_has_its_file() -> None:
    kinds = {"one-machine", "several-machines", "kubernetes", "docker"}
    assert {name.removesuffix(".dagster.yaml") for name in FILES} == kinds


@pytest.mark.parametrize("name", FILES)
def test_it_is_a_valid_instance_configuration(name: str, tmp_path: Path) -> None:
    shutil.copy(DEPLOY / name, tmp_path / "dagster.yaml")
    config, _ = dagster_instance_config(str(tmp_path))
    assert config["telemetry"] == {"enabled": False}
    assert config["run_monitoring"]["max_runtime_seconds"] > 0
    assert config["concurrency"]["runs"]["max_concurrent_runs"] > 0


def test_the_one_for_one_machine_makes_an_instance(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "one-machine.dagster.yaml", tmp_path / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.run_monitoring_enabled
        assert instance.run_retries_enabled
        assert not instance.telemetry_enabled


@pytest.mark.parametrize("name", [n for n in FILES if not n.startswith("one")])
def test_those_for_several_use_postgres_by_the_driver_that_is_installed(name: str) -> None:
    assert _read(name)["storage"]["postgres"]["postgres_db"]["scheme"] == "postgresql+psycopg2"


@pytest.mark.parametrize("name", ["kubernetes.dagster.yaml", "docker.dagster.yaml"])
def test_what_was_not_tried_says_so_first(name: str) -> None:
    assert (DEPLOY / name).read_text(encoding="utf-8").startswith("# NOT TRIED")


def test_no_password_stands_in_a_file() -> None:
    for name in FILES:
        storage = _read(name).get("storage", {}).get("postgres", {}).get("postgres_db", {})
        assert isinstance(storage.get("password", {}), dict), name


def test_the_ray_launcher_takes_its_configuration() -> None:
    launcher = pytest.importorskip("dagster_ray", reason="trajpipe[ray] is not installed").RayRunLauncher
    given = _read("several-machines.dagster.yaml")["run_launcher"]
    assert (given["module"], given["class"]) == ("dagster_ray", "RayRunLauncher")
    result = process_config(resolve_to_config_type(launcher.config_type()), given["config"])
    if not result.success:  # an address from the environment needs one there
        assert all("RAY_ADDRESS" in str(error.message) for error in result.errors or ()), result.errors
