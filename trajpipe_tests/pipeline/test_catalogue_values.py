"""Field types of the catalogue: what each accepts and refuses.

What is not here: their messages in a file, see `test_catalogue_errors`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from trajpipe.pipeline.catalogue_values import (
    Cron,
    DatasetName,
    HubRepository,
    OneOrMany,
    Owner,
    Rate,
    Tag,
    TaskName,
    TermName,
    TermsOrFlag,
    TimeZone,
)


def _read(kind: Any, value: Any) -> Any:
    return TypeAdapter(kind).validate_python(value)


def _refused(kind: Any, value: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        _read(kind, value)
    return str(caught.value.errors()[0]["msg"])


@pytest.mark.parametrize(
    "text",
    [
        "0 3 * * *",
        "*/15 * * * *",
        "0 0 1,15 * *",
        "0-30/5 9-17 * * 1-5",
        "59 23 31 12 7",
        "0 3 * jan-mar,DEC Mon-Fri",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@yearly",
    ],
)
def test_cron_schedules(text: str) -> None:
    assert _read(Cron, text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 3 * *",
        "0 3 * * * *",
        "60 3 * * *",
        "0 24 * * *",
        "0 3 0 * *",
        "0 3 32 * *",
        "0 3 * 13 *",
        "0 3 * * 8",
        "0 3 * mon *",
        "0 3 * * jan",
        "5-1 3 * * *",
        "*/0 3 * * *",
        "1,,2 3 * * *",
        "-1 3 * * *",
        "x 3 * * *",
        "@reboot",
        "0 3 * * ²",
    ],
)
def test_what_is_no_cron_schedule(text: str) -> None:
    assert _refused(Cron, text) == "a cron schedule is not valid"


@given(st.integers(0, 59), st.integers(0, 23), st.integers(1, 31), st.integers(1, 12), st.integers(0, 7))
def test_every_single_time_is_a_schedule(minute: int, hour: int, day: int, month: int, weekday: int) -> None:
    text = f"{minute} {hour} {day} {month} {weekday}"
    assert _read(Cron, text) == text


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        (20, Fraction(20)),
        (29.97, Fraction(2997, 100)),
        ("30000/1001", Fraction(30000, 1001)),
        ("25", Fraction(25)),
    ],
)
def test_rates(value: object, rate: Fraction) -> None:
    assert _read(Rate, value) == rate


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (0, "a rate must be above 0"),
        (-20, "a rate must be above 0"),
        ("-1/2", "a rate must be above 0"),
        ("1/0", "a rate must be a number"),
        ("fast", "a rate must be a number"),
        (True, "a rate must be a number"),
        ([20], "a rate must be a number"),
        (float("inf"), "a rate must be a number"),
        (float("nan"), "a rate must be a number"),
    ],
)
def test_what_is_no_rate(value: object, rule: str) -> None:
    assert _refused(Rate, value) == rule


@given(st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=100_000))
def test_a_rate_in_text_is_exact(rate: Fraction) -> None:
    assert _read(Rate, f"{rate.numerator}/{rate.denominator}") == rate


def test_one_or_many() -> None:
    assert _read(OneOrMany, "a.h5") == ("a.h5",)
    assert _read(OneOrMany, ["a.h5", "b.h5"]) == ("a.h5", "b.h5")
    assert "at least 1 item" in _refused(OneOrMany, [])
    assert _refused(OneOrMany, [1]) == "Input should be a valid string"


def test_names_or_a_flag() -> None:
    assert _read(TermsOrFlag, True) == ("*",)
    assert _read(TermsOrFlag, False) == ()
    assert _read(TermsOrFlag, ["joint_*"]) == ("joint_*",)
    assert "tuple" in _refused(TermsOrFlag, "joint_*")


@pytest.mark.parametrize("text", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
def test_time_zones(text: str) -> None:
    assert _read(TimeZone, text) == text


@pytest.mark.parametrize("text", ["", "Mars", "../etc/passwd", "/etc/localtime", "Europe/Atlantis", "\0"])
def test_what_is_no_time_zone(text: str) -> None:
    assert _refused(TimeZone, text) == "no such time zone"


@pytest.mark.parametrize(
    "text", ["team:data", "team:robot-learning.v2", "jo@example.org", "j.o+x@mail.example.co"]
)
def test_owners(text: str) -> None:
    assert _read(Owner, text) == text


@pytest.mark.parametrize(
    "text", ["", "jo", "team:", "team:a b", "jo@example", "jo@@example.org", "@example.org"]
)
def test_what_is_no_owner(text: str) -> None:
    assert _refused(Owner, text) == "an owner is not valid"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (DatasetName, ["lift", "Lift_2", "_x"], ["", "2lift", "lift-2", "a b", "a/b", "lift\n", "lïft"]),
        (TaskName, ["lift", "KITCHEN_SCENE5"], ["", "a b", "a/b", "../a"]),
        (Tag, ["rl", "mocap", "unknown"], ["", "RL", "my tag", "rl_x", "teleopp", "human-2"]),
        (TermName, ["eef_pos", "obs.a", "_q"], ["", "a/b", "2q", "a b", ".a"]),
        (HubRepository, ["org/name", "a-b/c.d_e"], ["", "name", "a/b/c", "/b", "a/", "a b/c"]),
    ],
)
def test_names(kind: Any, good: list[str], bad: list[str]) -> None:
    assert [_read(kind, text) for text in good] == good
    for text in bad:
        assert _refused(kind, text).endswith("is not valid")
