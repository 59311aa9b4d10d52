"""`env_args` as L2 wants it (`env_name`, `type`, `env_kwargs`), and the rate that a recording tells.

Nothing is made up: what a recording lacks comes from its own other attributes or the declaration, and is a
finding, else it is an error with the lines to add. What is not here: the environment itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from trajpipe.core import names
from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Severity
from trajpipe.hdf5 import attributes
from trajpipe.sources.recorded_text import reduced_value
from trajpipe.sources.recording import Recording

ENV_TYPE_ROBOSUITE: Final = 1
_MAX_DENOMINATOR: Final = 1001
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Environment:
    """What a recording says of its environment.

    Attributes:
        env_args: `env_name`, `type`, `env_kwargs` and whatever else was recorded, paths reduced.
        fps: Frames per second that the recording tells; None when it tells none.
        findings: What was defaulted.
    """

    env_args: Mapping[str, Any]
    fps: Fraction | None
    findings: tuple[Finding, ...]


def environment_of(recording: Recording, conventions: Conventions, env_type: int) -> Environment:
    """The environment of a recording.

    Args:
        recording: The open recording.
        conventions: Declared `env_args` and `env_name`, used when the recording's cannot be.
        env_type: robomimic's number for this kind of environment, when the recording has none.

    Raises:
        InputError: neither the recording nor the declaration gives them (`env-args-missing`).
    """
    found = list[Finding]()
    raw = _recorded(recording, conventions, found)
    value = dict(raw)
    if not isinstance(value.get("env_name"), str) or not value["env_name"]:
        value["env_name"] = _name(recording, conventions, found)
    if not isinstance(value.get("type"), int) or isinstance(value.get("type"), bool):
        value["type"] = env_type
        found.append(_defaulted(recording, "env_args has no type", got=env_type))
    if not isinstance(value.get("env_kwargs"), dict):
        value["env_kwargs"] = {}
        found.append(_defaulted(recording, "env_args has no env_kwargs", got="{}"))
    reduced: Mapping[str, Any] = reduced_value(value)
    return Environment(reduced, _rate(value), tuple(found))


def env_name_of(recording: Recording, conventions: Conventions) -> str | None:
    """The environment's registered name as recorded, else as declared; None when nobody tells."""
    try:
        value = attributes.json_object(recording.data, names.ATTR_ENV_ARGS) or {}
    except InputError:
        value = {}
    for name in (value.get("env_name"), conventions.env_name, (conventions.env_args or {}).get("env_name")):
        if isinstance(name, str) and name:
            return name
    return None


def _recorded(recording: Recording, conventions: Conventions, found: list[Finding]) -> Mapping[str, Any]:
    """The recording's env_args, else its env_info / env attributes, else the declared ones."""
    try:
        value = attributes.json_object(recording.data, names.ATTR_ENV_ARGS)
        why = "env_args is missing"
    except InputError:
        text = attributes.text(recording.data, names.ATTR_ENV_ARGS) or ""
        value, why = None, f"env_args is not strict JSON of an object ({text[:_SHOWN]!r})"
    if value is not None:
        return value
    told = _robosuite_attributes(recording)
    if told is not None:
        found.append(_defaulted(recording, why, got="the recording's own env_info and env attributes"))
        return told
    if conventions.env_args is not None:
        found.append(_defaulted(recording, why, got="the declared env_args"))
        return conventions.env_args
    if conventions.env_name is not None:
        found.append(_defaulted(recording, why, got=f"the declared env_name {conventions.env_name!r}"))
        return {"env_name": conventions.env_name}
    raise InputError(
        why,
        place=recording.place(None, f"data@{names.ATTR_ENV_ARGS}"),
        expected='JSON such as {"env_name": "…", "type": 2, "env_kwargs": {}}',
        hint=_lines_to_add(),
        code="env-args-missing",
    )


def _robosuite_attributes(recording: Recording) -> Mapping[str, Any] | None:
    """env_args of robosuite's `env_info`, `env` and `repository_version`, the way robomimic converts them."""
    name = attributes.text(recording.data, "env_name") or attributes.text(recording.data, "env")
    try:
        info = attributes.json_object(recording.data, "env_info")
    except InputError:
        info = None
    name = name or (info or {}).get("env_name")
    if not isinstance(name, str) or not name:
        return None
    # robosuite.make takes the name apart from the other arguments.
    kwargs = {key: value for key, value in (info or {}).items() if key != "env_name"}
    value: dict[str, Any] = {"env_name": name, "type": ENV_TYPE_ROBOSUITE, "env_kwargs": kwargs}
    version = attributes.text(recording.data, "repository_version")
    return value | ({"env_version": version} if version else {})


def _name(recording: Recording, conventions: Conventions, found: list[Finding]) -> str:
    name = attributes.text(recording.data, "env_name") or attributes.text(recording.data, "env")
    name = name or conventions.env_name
    if name is None:
        raise InputError(
            "env_args has no env_name",
            place=recording.place(None, f"data@{names.ATTR_ENV_ARGS}"),
            expected='"env_name": "…"',
            hint=_lines_to_add(),
            code="env-args-missing",
        )
    found.append(_defaulted(recording, "env_args has no env_name", got=name))
    return name


def _lines_to_add() -> str:
    return (
        "Add to the raw entry of data/datasets.yaml:\n"
        "    conventions:\n"
        "      env_name: <the task's registered name>\n"
        "or the whole object as `env_args: {env_name: …, type: 2, env_kwargs: {}}`. "
        "With convert: --env-name NAME."
    )


def _defaulted(recording: Recording, why: str, *, got: object) -> Finding:
    place = recording.place(None, f"data@{names.ATTR_ENV_ARGS}")
    return recording.finding("env-args-defaulted", f"{why}; a default was taken", place=place, got=got)


def _rate(env_args: Mapping[str, Any]) -> Fraction | None:
    """Control rate: IsaacLab's `sim_args` (dt times decimation), or robosuite's `control_freq`."""
    kwargs = env_args.get("env_kwargs")
    for holder in (env_args, kwargs if isinstance(kwargs, dict) else {}):
        sim = holder.get("sim_args")
        if isinstance(sim, dict):
            step = _positive(sim.get("dt")) * _positive(sim.get("decimation", 1))
            if step > 0:
                return (1 / step).limit_denominator(_MAX_DENOMINATOR)
        for key in ("control_freq", "fps"):
            if _positive(holder.get(key)) > 0:
                return _positive(holder.get(key)).limit_denominator(_MAX_DENOMINATOR)
    return None


def _positive(value: object) -> Fraction:
    """The number as a fraction; zero when it is no positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        return Fraction(0)
    return Fraction(value)


def rate_conflict(recording: Recording, told: Fraction | None, declared: Fraction | None) -> list[Finding]:
    """A warning when the declared rate is not the one that the recording tells; the declared one is taken."""
    if told is None or declared is None or told == declared:
        return []
    message = "the declared fps is not the recording's own; the declared one is taken"
    return [
        recording.finding(
            "fps-conflict", message, severity=Severity.WARN, got=f"{declared}", expected=f"{told}"
        )
    ]
