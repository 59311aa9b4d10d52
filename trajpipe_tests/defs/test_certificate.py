"""The certificate in Dagster: its checks block, its counts and the worst frame are on the asset.

What is not here: the rules.
"""

import base64
import io
from pathlib import Path

import dagster as dg
import pytest
from PIL import Image

from trajpipe.checks.registry import checks_of
from trajpipe.defs.certificate import certificate_metadata
from trajpipe.defs.metadata import stage_metadata
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe_tests.defs.conftest import write_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A small project, all stages built."""
    return Project.open(write_project(tmp_path_factory.mktemp("certified") / "data", good=1, broken=False))


def test_its_rules_are_blocking_checks_of_the_lerobot_asset() -> None:
    rules = {c.code: c.blocking for c in checks_of("lerobot") if c.code.startswith("certificate-")}
    assert len(rules) == 5
    assert all(rules.values())


def test_counts_and_the_worst_frame_are_on_the_asset(project: Project) -> None:
    result = run(project).results[-1]
    assert result.ok, result.error
    metadata = stage_metadata(result)
    assert metadata["certificate"] == "passed"
    table = metadata["certificate counts"]
    assert isinstance(table, dg.TableMetadataValue)
    rows = [record.data for record in table.records]
    assert [row["stage"] for row in rows] == ["raw", "demos", "store", "lerobot"]
    assert {row["episodes"] for row in rows} == {2}
    shown = metadata.get("worst frame")
    assert isinstance(shown, dg.MarkdownMetadataValue)
    text, _, inline = str(shown.value).partition("base64,")
    assert "dB (source, export)" in text
    picture = base64.b64decode(inline.rstrip(")"))
    assert len(picture) <= 30_000
    width, height = Image.open(io.BytesIO(picture)).size
    assert width > height


def test_without_a_certificate_nothing_is_shown(tmp_path: Path) -> None:
    assert certificate_metadata(tmp_path / "absent") == {}
