"""Texts of options: rates, quaternion sites, pairs, lists, patterns of dataset names, catalogues."""

from fractions import Fraction
from pathlib import Path

import pytest

from trajpipe.cli.verbs import options
from trajpipe.core.conventions import QuaternionSite
from trajpipe.core.errors import CatalogueError, MissingNameError, UsageError
from trajpipe_tests.cli.conftest import CATALOGUE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, None),
        ("20", Fraction(20)),
        ("29.97", Fraction(2997, 100)),
        ("30000/1001", Fraction(30000, 1001)),
        ("0.5", Fraction(1, 2)),
    ],
)
def test_rates_are_exact(text: str | None, value: Fraction | None) -> None:
    assert options.rate(text) == value


@pytest.mark.parametrize("text", ["0", "-20", "fast", "1/0", "", "nan"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a number above 0"):
        options.rate(text)


@pytest.mark.parametrize(
    ("text", "site"),
    [
        ("obs/eef_quat", QuaternionSite("obs/eef_quat")),
        ("*/root_pose:3", QuaternionSite("*/root_pose", (3,))),
        ("obs/object:3,10,17", QuaternionSite("obs/object", (3, 10, 17))),
        ("obs/goal:0:wxyz", QuaternionSite("obs/goal", (0,), "wxyz")),
        ("obs/goal:xyzw", QuaternionSite("obs/goal", (0,), "xyzw")),
        ("obs/phase_rot:none", QuaternionSite("obs/phase_rot", ())),
    ],
)
def test_quaternion_sites(text: str, site: QuaternionSite) -> None:
    assert options.quaternion_site(text) == site


@pytest.mark.parametrize("text", ["", ":3", "a:b", "a:1:wxyz:2", "a:3,", "a:-1", "a:0:zyxw"])
def test_what_is_no_site_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="PATH"):
        options.quaternion_site(text)


def test_the_lines_to_add_to_a_catalogue_as_options() -> None:
    message = """Add:
        - {path: actions, starts: [3]}
        - {path: obs/object, starts: [3, 10]}
        - {path: obs/eef_quat, starts: [0]}
        - {path: obs/phase, starts: []}"""
    assert options.quaternion_options(message) == (
        "--quaternions actions:3 --quaternions obs/object:3,10 --quaternions obs/eef_quat "
        "--quaternions obs/phase:none"
    )
    assert options.quaternion_options("the file is truncated") is None
    words = (options.quaternion_options(message) or "").split()[1::2]
    assert [options.quaternion_site(w).starts for w in words] == [(3,), (3, 10), (0,), ()]


def test_pairs_keep_their_order_and_may_hold_equals_signs() -> None:
    assert list(options.pairs(["b=1", "a=x=y", "c="], "--rename").items()) == [
        ("b", "1"),
        ("a", "x=y"),
        ("c", ""),
    ]
    assert options.pairs(None, "--rename") == {}


@pytest.mark.parametrize("given", [["a"], ["=1"], ["a=1", "a=2"]])
def test_what_is_no_pair_is_refused(given: list[str]) -> None:
    with pytest.raises(UsageError, match="--rename is KEY=VALUE"):
        options.pairs(given, "--rename")


def test_words_of_commas_and_repeats() -> None:
    assert options.words(["a, b", "c,,"]) == ("a", "b", "c")
    assert options.words([""]) == ()
    assert options.words(None) is None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder with a catalogue of three datasets."""
    text = CATALOGUE + "".join(
        f"  {name}:\n    raw:\n      - {{kind: isaaclab, glob: 'raw/{name}/*.hdf5'}}\n"
        for name in ("libero_goal", "libero_spatial")
    )
    (tmp_path / "datasets.yaml").write_text(text)
    return tmp_path


def test_dataset_names_and_patterns(root: Path) -> None:
    project = options.open_project(None, root)
    assert options.chosen_datasets(project, None) == ["lift", "libero_goal", "libero_spatial"]
    assert options.chosen_datasets(project, []) == ["lift", "libero_goal", "libero_spatial"]
    assert options.chosen_datasets(project, ["libero_*", "lift", "lift"]) == [
        "libero_goal",
        "libero_spatial",
        "lift",
    ]
    with pytest.raises(MissingNameError, match="libero_gaol"):
        options.chosen_datasets(project, ["libero_gaol"])
    with pytest.raises(MissingNameError, match="x_"):
        options.chosen_datasets(project, ["x_*"])


def test_a_catalogue_is_a_file_a_folder_or_the_roots(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAJPIPE_DATA", raising=False)
    for catalogue, data in ((root / "datasets.yaml", None), (root, None), (None, root)):
        assert options.open_project(catalogue, data).root == root
    elsewhere = root / "elsewhere"
    assert options.open_project(root, elsewhere).root == elsewhere
    monkeypatch.setenv("TRAJPIPE_DATA", str(root))
    assert options.open_project(None, None).root == root


def test_no_catalogue_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAJPIPE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogueError, match="begin with `trajpipe demo`") as caught:
        options.open_project(None, None)
    assert caught.value.code == "no-catalogue"
