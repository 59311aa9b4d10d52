"""The options of every verb: before it and after it, with the same meaning; help texts; near misses."""

import pytest

from trajpipe import __version__
from trajpipe.cli.app import VERBS
from trajpipe_tests.cli.conftest import ESCAPE, Command


@pytest.mark.parametrize("arguments", [("--json", "version"), ("version", "--json")])
def test_json_before_and_after_the_verb(invoke: Command, arguments: tuple[str, ...]) -> None:
    ran = invoke(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["trajpipe"] == __version__


@pytest.mark.parametrize("arguments", [("--version",), ("run", "--version"), ("inspect", "--version")])
def test_version_needs_neither_a_verb_nor_its_arguments(invoke: Command, arguments: tuple[str, ...]) -> None:
    ran = invoke(*arguments)
    assert (ran.code, ran.out, ran.err) == (0, f"trajpipe {__version__}\n", "")


def test_version_as_json(invoke: Command) -> None:
    assert invoke("--version", "--json").json == {"trajpipe": __version__}


def test_no_arguments_print_the_help(invoke: Command) -> None:
    ran = invoke()
    assert ran.code == 0
    assert ran.out == invoke("--help").out == invoke("-h").out


def test_the_help_lists_every_verb_with_one_line_and_examples(invoke: Command) -> None:
    text = invoke("--help").out
    for name, verb in VERBS.items():
        assert any(line.split()[:1] == [name] for line in text.splitlines()), name
        assert verb.help.split(".")[0].split()[0] in text
    assert "Examples:\n  trajpipe demo" in text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_the_global_options_and_fits_80_columns(invoke: Command, verb: str) -> None:
    ran = invoke(verb, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: trajpipe {verb}")
    for option in (
        "--json",
        "--force",
        "-v, --verbose",
        "-q, --quiet",
        "--no-color",
        "--version",
        "-h, --help",
    ):
        assert f"  {option}" in ran.out
    usage = ran.out.partition("Examples:")[0]
    assert max(len(line) for line in usage.splitlines()) <= 80


@pytest.mark.parametrize(
    ("verb", "usage"),
    [("run", "[DATASET…]"), ("convert", "SRC… DEST"), ("inspect", "PATH…"), ("version", "")],
)
def test_the_usage_line_names_the_arguments(invoke: Command, verb: str, usage: str) -> None:
    assert invoke(verb, "--help").out.splitlines()[0] == f"Usage: trajpipe {verb} [OPTIONS] {usage}".rstrip()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("inspct", "inspect"), ("ls", "list"), ("validate", "check"), ("build", "run"), ("show", "inspect")],
)
def test_a_near_miss_names_the_verb(invoke: Command, typed: str, meant: str) -> None:
    ran = invoke(typed)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error [bad-usage] no such verb",
        f"  got       {typed}",
        f"  hint      Did you mean {meant}? See `trajpipe --help`.",
    ]


def test_a_word_like_no_verb_lists_the_verbs(invoke: Command) -> None:
    ran = invoke("xyzzy")
    assert ran.code == 2
    assert f"expected  one of {', '.join(VERBS)}\n" in ran.err


def test_an_unknown_option_names_the_near_one(invoke: Command) -> None:
    ran = invoke("version", "--jsn")
    assert ran.code == 2
    assert "--json" in ran.err
    assert "See `trajpipe version --help`." in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("convert", "a.hdf5", "-o", "b.h5"), "The output is the last argument: SRC… DEST."),
        (("convert", "a.hdf5", "b", "--format", "store"), "The target is named with --to."),
        (("run", "--workers", "4"), "Workers are counted with --jobs."),
        (("run", "--dataset", "lift"), "Datasets are arguments, without an option."),
        (("list", "--config", "x.yaml"), "The catalogue is named with --catalogue."),
        (("run", "--overwrite"), "What exists is replaced with --force."),
        (("check", "a.h5", "--debug"), "Tracebacks are shown with -v -v."),
    ],
)
def test_options_of_other_tools_are_answered_with_ours(
    invoke: Command, arguments: tuple[str, ...], words: str
) -> None:
    ran = invoke(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert f"  hint      {words} See `trajpipe {arguments[0]} --help`." in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect",),
        ("version", "superfluous"),
        ("check",),
        ("-q",),
        ("run", "--jobs", "many"),
        ("run", "-j", "0"),
    ],
)
def test_usage_errors_exit_2_without_a_word_on_stdout(invoke: Command, arguments: tuple[str, ...]) -> None:
    ran = invoke(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error [bad-usage] ")
    assert "Traceback" not in ran.err


def test_quiet_silences_hints_and_keeps_data(invoke: Command) -> None:
    loud, quiet = invoke("sources"), invoke("-q", "sources")
    assert quiet.out == loud.out
    assert loud.err
    assert quiet.err == ""


def test_verbose_counts_on_both_sides(invoke: Command, tmp_path: object) -> None:
    once = invoke("-v", "inspect", "absent")
    twice = invoke("-v", "inspect", "-v", "absent")
    assert "Traceback" not in once.err
    assert "Traceback" in twice.err
    assert once.code == twice.code == 2


def test_colours_only_when_asked_for(trajpipe: Command) -> None:
    assert ESCAPE not in trajpipe("version").out
    assert ESCAPE in trajpipe("version", FORCE_COLOR="1").out
    assert ESCAPE not in trajpipe("--no-color", "version", FORCE_COLOR="1").out
    assert ESCAPE not in trajpipe("version", "--no-color", FORCE_COLOR="1").out
