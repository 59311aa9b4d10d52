"""Every message of an invalid catalogue, whole: line, key, rule, got, expected, what to do.

What is not here: what YAML alone breaks, see `test_catalogue_text`.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from trajpipe.core.errors import CatalogueError
from trajpipe.pipeline.catalogue import InvalidCatalogueError, load_catalogue
from trajpipe.sources.base import sources

KINDS = ", ".join(["auto", *sources()])
DATASET = "  lift:\n    raw: [{glob: a.h5}]\n"
DATASET_KEYS = (
    "conventions, task, filter, splits, align, min_recordings, recordings_per_run, demos, store, export, "
    "schedule, hub, license, owners"
)


def _problems(folder: Path, text: str) -> list[str]:
    path = folder / "datasets.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidCatalogueError) as caught:
        load_catalogue(path)
    return [str(problem) for problem in caught.value.problems]


def _of_dataset(folder: Path, lines: str) -> list[str]:
    """Problems of a dataset whose keys begin on line 5."""
    return _problems(folder, f"version: 1\ndatasets:\n{DATASET}{lines}")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "    filtre: {min_length: 3}",
            (
                f"filtre: unknown key; expected one of {DATASET_KEYS}, description, raw, "
                "task_name, exclude. Did you mean `filter`?"
            ),
        ),
        (
            "    zzz: 1",
            (f"zzz: unknown key; expected one of {DATASET_KEYS}, description, raw, task_name, exclude"),
        ),
        ("    task: 5", "task: the value has the wrong type; got 5; expected text"),
        (
            "    filter: {only_success: yes}",
            ('filter.only_success: the value has the wrong type; got "yes"; expected true or false'),
        ),
        (
            "    filter: {min_length: 2.5}",
            "filter.min_length: the value has the wrong type; got 2.5; expected a whole number",
        ),
        (
            "    filter: {min_length: three}",
            ('filter.min_length: the value has the wrong type; got "three"; expected a whole number'),
        ),
        (
            "    filter: {min_length: 0}",
            "filter.min_length: the number is too small; got 0; expected 1 or more",
        ),
        (
            "    filter: 5",
            ("filter: the value has the wrong type; got 5; expected a mapping of keys to values"),
        ),
        (
            "    splits: {valid_fraction: 1}",
            "splits.valid_fraction: the number is too large; got 1; expected less than 1",
        ),
        (
            "    splits: {valid_fraction: some}",
            ('splits.valid_fraction: the value has the wrong type; got "some"; expected a number'),
        ),
        ('    splits: {group: ""}', "splits.group: the value is empty; expected text"),
        (
            "    align: casual",
            'align: the value is not allowed; got "casual"; expected one of recorded, causal',
        ),
        (
            "    store: {compression: gzip}",
            (
                'store.compression: the value is not allowed; got "gzip"; '
                "expected one of zstd, deflate, shuffle-deflate, none"
            ),
        ),
        (
            "    store: {float64_to_float32: 1}",
            "store.float64_to_float32: the value has the wrong type; got 1; expected a list",
        ),
        (
            "    export: {video: {crf: 52}}",
            "export: h264 has no crf of 52; expected 0 to 51",
        ),
        (
            "    export: {fps: 0}",
            (
                "export.fps: a rate must be above 0; got 0; "
                'expected a positive number, or a fraction in quotes such as "30000/1001"'
            ),
        ),
        (
            "    export: {fps: 1/0}",
            (
                'export.fps: a rate must be a number; got "1/0"; '
                'expected a positive number, or a fraction in quotes such as "30000/1001"'
            ),
        ),
        (
            "    export: {fps: true}",
            (
                "export.fps: a rate must be a number; got true; "
                'expected a positive number, or a fraction in quotes such as "30000/1001"'
            ),
        ),
        (
            "    schedule: {cron: 61 3 * * *}",
            (
                'schedule.cron: a cron schedule is not valid; got "61 3 * * *"; expected five '
                'fields (minute hour day month weekday) such as "0 3 * * *", '
                "or @hourly, @daily, @weekly, @monthly, @yearly"
            ),
        ),
        (
            "    schedule: {timezone: UTC}",
            "schedule.cron: a required key is missing",
        ),
        (
            '    schedule: {cron: "@daily", timezone: Mars/Base}',
            (
                'schedule.timezone: no such time zone; got "Mars/Base"; '
                "expected an IANA name such as UTC or Europe/Berlin"
            ),
        ),
        (
            "    hub: {repo: lift}",
            ('hub.repo: a Hub repository is not valid; got "lift"; expected <organisation or user>/<name>'),
        ),
        (
            "    owners: me",
            'owners: the value has the wrong type; got "me"; expected a list',
        ),
        (
            "    owners: [me]",
            ('owners[0]: an owner is not valid; got "me"; expected an e-mail address or `team:<name>`'),
        ),
        (
            '    exclude: ["x.hdf5:demo_3"]',
            (
                'exclude[0]: an exclusion needs a reason; got "x.hdf5:demo_3"; '
                'expected {recording: x.hdf5, demo: demo_3, reason: "…"}'
            ),
        ),
        (
            "    exclude: [x.hdf5]",
            (
                'exclude[0]: an exclusion needs a reason; got "x.hdf5"; '
                'expected {recording: x.hdf5, reason: "…"}'
            ),
        ),
        (
            "    exclude: [{recording: x.hdf5}]",
            "exclude[0].reason: a required key is missing",
        ),
        (
            "    task_name: lift the cube",
            (
                'task_name: a task\'s name is not valid; got "lift the cube"; '
                "expected letters, digits and _, not beginning with a digit"
            ),
        ),
        (
            "    task_name: lift__cube",
            (
                "task_name: a task's name in file names must not hold `__`; got lift__cube; "
                "expected one _ at a time. Set `task_name:`."
            ),
        ),
    ],
)
def test_a_datasets_keys(tmp_path: Path, lines: str, message: str) -> None:
    assert _of_dataset(tmp_path, lines) == [f"line 5 · datasets.lift.{message}"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "{glob: a.h5, kind: isaclab}",
            (
                f'kind: no source of this kind; got "isaclab"; expected one of {KINDS}. '
                "Did you mean `isaaclab`?"
            ),
        ),
        ("{kind: isaaclab}", "glob: a required key is missing"),
        ("{glob: []}", "glob: the list is empty; expected one item at least"),
        (
            "{glob: a.h5, tag: My Tag}",
            ('tag: a tag is not valid; got "My Tag"; expected one of scripted, rl, teleop, mocap, unknown'),
        ),
        (
            "{glob: a.h5, tag: teleopp}",
            (
                'tag: a tag is not valid; got "teleopp"; '
                "expected one of scripted, rl, teleop, mocap, unknown. Did you mean `teleop`?"
            ),
        ),
        ("{glob: 7}", "glob: the value has the wrong type; got 7; expected text, or a list of texts"),
        (
            "{glob: a.h5, terms: {x: a/b}}",
            (
                'terms.x: a term\'s name is not valid; got "a/b"; '
                "expected letters, digits, _ and ., not beginning with a digit"
            ),
        ),
        (
            "{glob: a.h5, conventions: {images: upside}}",
            ('conventions.images: the value is not allowed; got "upside"; expected one of opengl, opencv'),
        ),
        (
            "{glob: a.h5, conventions: {alignment: before}}",
            (
                'conventions.alignment: the value is not allowed; got "before"; '
                "expected one of before_action, after_action"
            ),
        ),
        (
            "{glob: a.h5, conventions: {quaternions: [{path: q, starts: [0, 3]}]}}",
            ("conventions.quaternions[0]: two quaternions overlap; expected starts at least 4 apart"),
        ),
        (
            "{glob: a.h5, conventions: {quaternions: [{path: q, starts: [-1]}]}}",
            (
                "conventions.quaternions[0]: a quaternion cannot begin before the column; "
                "expected starts of 0 or more"
            ),
        ),
        (
            "{glob: a.h5, conventions: {action: {low: [-1, -1], high: [1, 1, 1]}}}",
            (
                "conventions.action: `low` and `high` have different lengths; "
                "expected one value for all, or one per dimension"
            ),
        ),
        (
            "{glob: a.h5, conventions: {action: {low: [1], high: [1, 2]}}}",
            (
                "conventions.action: a lower bound must be below its upper bound; "
                "expected low < high in every dimension"
            ),
        ),
        (
            "{glob: a.h5, conventions: {action: {gripper_open: 2}}}",
            ("conventions.action.gripper_open: the value is not allowed; got 2; expected one of 1, -1"),
        ),
        (
            "{glob: a.h5, conventions: {term_widths: {a: 0, b: 2}}}",
            (
                "conventions: a term's width must be 1 or more (a: 0); "
                "expected widths in the order of the columns"
            ),
        ),
        (
            "{glob: a.h5, conventions: {action: {meening: delta}}}",
            (
                "conventions.action.meening: unknown key; expected one of meaning, frame, "
                "units, low, high, gripper, gripper_open. Did you mean `meaning`?"
            ),
        ),
        (
            "{glob: a.h5, conventions: {term_meanings: {q: {unit: rad}}}}",
            (
                "conventions.term_meanings.q.unit: unknown key; "
                "expected one of meaning, frame, units. Did you mean `units`?"
            ),
        ),
    ],
)
def test_a_raw_entrys_keys(tmp_path: Path, entry: str, message: str) -> None:
    text = f"version: 1\ndatasets:\n  lift:\n    raw: [{entry}]\n"
    assert _problems(tmp_path, text) == [f"line 4 · datasets.lift.raw[0].{message}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "datasets: {}",
            "line 1 · version: a required key is missing",
        ),
        ("version: 1", "line 1 · datasets: a required key is missing"),
        ("version: 2\ndatasets: {}", "line 1 · version: the value is not allowed; got 2; expected one of 1"),
        (
            "- 1",
            "line 1: the catalogue is not a mapping; got [1]; expected the keys version and datasets",
        ),
        (
            "version: 1\ndataset: {}\ndatasets: {}",
            (
                "line 2 · dataset: unknown key; expected one of version, defaults, datasets. Did you "
                "mean `datasets`?"
            ),
        ),
        (
            "version: 1\ndatasets:\n  9lift: {raw: [{glob: a.h5}]}",
            (
                'line 3 · datasets.9lift: a dataset\'s name is not valid; got "9lift"; '
                "expected letters, digits and _, not beginning with a digit"
            ),
        ),
        (
            "version: 1\ndatasets:\n  lift: {raw: []}",
            "line 3 · datasets.lift.raw: the list is empty; expected one item at least",
        ),
        (
            "version: 1\ndatasets:\n  lift: hello",
            (
                'line 3 · datasets.lift: the value has the wrong type; got "hello"; '
                "expected a mapping of keys to values"
            ),
        ),
        (
            "version: 1\ndatasets:\n  lift__a: {raw: [{glob: a.h5}]}",
            (
                "line 3 · datasets.lift__a: a task's name in file names must not hold `__`; got lift__a; "
                "expected one _ at a time. Set `task_name:`."
            ),
        ),
        (
            "version: 1\ndatasets:\n  a: {raw: [{glob: a.h5}]}\n  b: {raw: [{glob: b.h5}], task_name: A}",
            (
                "line 4 · datasets.b.task_name: the dataset `a` has the same task name, their L2 "
                "files would be one; "
                "got A. Set another `task_name:`."
            ),
        ),
        (
            (
                "version: 1\ndefaults:\n  filters: {min_length: 3}\ndatasets:\n  a: {raw: [{glob: a.h5}]}\n"
                "  b: {raw: [{glob: b.h5}]}"
            ),
            f"line 3 · defaults.filters: unknown key; expected one of {DATASET_KEYS}. Did you mean `filter`?",
        ),
        (
            "version: 1\ndefaults:\n  filter: {min_length: 0}\ndatasets:\n  a: {raw: [{glob: a.h5}]}",
            "line 3 · defaults.filter.min_length: the number is too small; got 0; expected 1 or more",
        ),
        (
            "version: 1\ndefaults:\n  conventions: {images: up}\ndatasets:\n  a: {raw: [{glob: a.h5}]}",
            (
                'line 3 · defaults.conventions.images: the value is not allowed; got "up"; '
                "expected one of opengl, opencv"
            ),
        ),
        (
            "version: 1\ndatasets:\n  a:\n    conventions: {images: up}\n    raw: [{glob: a.h5}]",
            (
                'line 4 · datasets.a.conventions.images: the value is not allowed; got "up"; '
                "expected one of opengl, opencv"
            ),
        ),
    ],
)
def test_the_file_as_a_whole(tmp_path: Path, text: str, message: str) -> None:
    assert _problems(tmp_path, text) == [message]


MIX = """version: 1
datasets:
  lift:
    raw:
      - {{kind: isaaclab, glob: a.h5, conventions: {first}}}
      - {{kind: robomimic, glob: [b.h5, c.h5], conventions: {second}}}
"""


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (
            "{term_meanings: {q: {meaning: relative, units: rad}}}",
            "{term_meanings: {q: {meaning: absolute, units: rad}}}",
            "the term `q` differently: (meaning relative, units rad) and (meaning absolute, units rad)",
        ),
        (
            "{term_meanings: {q: {frame: world}}}",
            "{}",
            "the term `q` differently: (frame world) and (nothing)",
        ),
        (
            "{action: {meaning: delta}}",
            "{action: {meaning: absolute}}",
            "the action differently: (meaning delta) and (meaning absolute)",
        ),
    ],
)
def test_mixed_entries_must_declare_one_meaning(tmp_path: Path, first: str, second: str, what: str) -> None:
    assert _problems(tmp_path, MIX.format(first=first, second=second)) == [
        (
            "line 3 · datasets.lift: raw[0] (isaaclab a.h5) and raw[1] (robomimic b.h5, c.h5) "
            f"declare {what}; "
            "expected one meaning in all raw entries of a dataset. "
            "Declare it under the dataset's `conventions:`, or rename one term with `terms:`."
        )
    ]


def test_entries_that_agree_are_fine(tmp_path: Path) -> None:
    same = "{term_meanings: {q: {meaning: relative}}, action: {meaning: delta, low: [-1]}}"
    path = tmp_path / "datasets.yaml"
    path.write_text(MIX.format(first=same, second=same), encoding="utf-8")
    assert len(load_catalogue(path).dataset("lift").raw) == 2


def test_all_problems_come_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = "version: 1\ndatasets:\n  lift:\n    raw: [{glob: a.h5, kind: nope}]\n    task: 1\n    align: x\n"
    path = tmp_path / "datasets.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError) as caught:
        load_catalogue(path)
    assert str(caught.value).splitlines() == [
        f"{path}: the catalogue has 3 problems:",
        f'  line 4 · datasets.lift.raw[0].kind: no source of this kind; got "nope"; expected one of {KINDS}',
        "  line 5 · datasets.lift.task: the value has the wrong type; got 1; expected text",
        '  line 6 · datasets.lift.align: the value is not allowed; got "x"; expected one of recorded, causal',
    ]


def test_a_long_value_is_shortened(tmp_path: Path) -> None:
    (message,) = _of_dataset(tmp_path, f"    align: {'x' * 200}")
    assert f'got "{"x" * 76}…; expected' in message


def test_problems_have_a_plain_form_and_the_error_survives_pickling(tmp_path: Path) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text("version: 2\ndatasets: {}", encoding="utf-8")
    with pytest.raises(InvalidCatalogueError) as caught:
        load_catalogue(path)
    assert [p.to_json() for p in caught.value.problems] == [
        {"line": 1, "key": "version", "rule": "the value is not allowed", "got": "2", "expected": "one of 1"}
    ]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
