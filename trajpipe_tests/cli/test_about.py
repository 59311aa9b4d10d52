"""`version`, `sources`, `checks`, `schema`."""

import importlib.metadata

import jsonschema
import pytest
import yaml

from trajpipe import __version__
from trajpipe.core.names import Stage
from trajpipe.testing import KINDS
from trajpipe_tests.cli.conftest import CATALOGUE, REPOSITORY, Command


def test_version_names_the_formats_and_packages(invoke: Command) -> None:
    value = invoke("version", "--json").json
    assert value["trajpipe"] == __version__
    assert value["formats"]["LeRobot codebase_version"] == "v2.1"
    assert value["packages"]["h5py"] == importlib.metadata.version("h5py")
    text = invoke("version").out
    for name, version in value["packages"].items():
        assert name in text
        assert (version or "not installed") in text


def test_sources_has_every_kind(invoke: Command) -> None:
    value = invoke("sources", "--json").json
    kinds = {s["kind"] for s in value["sources"]}
    assert kinds >= set(KINDS)
    text = invoke("sources", "-q").out
    for source in value["sources"]:
        assert source["kind"] in text
        assert source["title"]


def test_checks_has_rules_of_every_stage_with_unique_codes(invoke: Command) -> None:
    rules = invoke("checks", "--json").json["checks"]
    assert {r["stage"] for r in rules} == {s.value for s in Stage}
    keys = [(r["stage"], r["code"]) for r in rules]
    assert len(set(keys)) == len(keys)
    assert f"{len(rules)} rules" in invoke("checks").out


@pytest.mark.parametrize("stage", [s.value for s in Stage])
def test_checks_of_one_stage(invoke: Command, stage: str) -> None:
    rules = invoke("checks", "--stage", stage, "--json").json["checks"]
    assert {r["stage"] for r in rules} == {stage}


def test_an_unknown_stage_lists_the_stages(invoke: Command) -> None:
    ran = invoke("checks", "--stage", "hub")
    assert ran.code == 2
    assert "raw, demos, store, lerobot" in ran.err


def test_the_schema_accepts_the_bundled_catalogue_and_refuses_a_wrong_one(invoke: Command) -> None:
    ran = invoke("schema")
    assert ran.out == invoke("schema", "--json").out
    validator = jsonschema.Draft202012Validator(ran.json)
    validator.check_schema(ran.json)
    bundled = yaml.safe_load((REPOSITORY / "data" / "datasets.yaml").read_text())
    assert list(validator.iter_errors(bundled)) == []
    wrong = yaml.safe_load(CATALOGUE.replace("glob:", "globb:"))
    assert list(validator.iter_errors(wrong)) != []
