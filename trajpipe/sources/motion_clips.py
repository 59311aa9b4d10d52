"""Motion clips as recorded, before they become episodes: joints mapped by name, quaternions judged.

What is not here: file formats, see `motion_csv.py`, `motion_pickle.py` and `motion_npz.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.motion.g1 import JOINTS, JOINTS_23, g1
from trajpipe.motion.kinematics import forward

OPTIONS: Final = (
    "columns",
    "header_rows",
    "joint_names",
    "joints",
    "missing_joints",
    "normalise_quaternions",
)
# A unit quaternion of six decimals is off by less; one beyond REFUSED_NORM is no rotation.
UNIT_TOLERANCE: Final = 1e-5
REFUSED_NORM: Final = 1e-2
# Published revisions of the model put a body up to 11 mm apart.
MISPLACED_M: Final = 0.03


@dataclass(frozen=True, slots=True)
class MotionOptions:
    """What the raw entry's `options:` say of motion clips.

    Attributes:
        header_rows: Lines of a CSV before the numbers; None = found.
        columns: Names of a CSV's columns in order; None = its header, else the data set's order.
        joints: Names of the joint columns in order, where the file names none; None = by their number.
        joint_names: Joint name in the file → the robot's.
        missing_joints: Joint → angle for joints that the file lacks; `*` = all; None = none may lack.
        normalise_quaternions: Scale quaternions to norm 1.
    """

    header_rows: int | None = None
    columns: tuple[str, ...] | None = None
    joints: tuple[str, ...] | None = None
    joint_names: Mapping[str, str] = field(default_factory=dict)
    missing_joints: Mapping[str, float] | None = None
    normalise_quaternions: bool = False


def motion_options(options: Mapping[str, Any]) -> MotionOptions:
    """The options of a raw entry.

    Raises:
        InputError: an unknown key, or a value of another kind.
    """
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise InputError(
            "no such option of a motion clip",
            got=", ".join(unknown),
            expected=", ".join(OPTIONS),
            code="bad-option",
        )
    missing: Any = options.get("missing_joints")
    if isinstance(missing, (int, float)) and not isinstance(missing, bool):
        missing = {"*": missing}
    header, normalise = options.get("header_rows"), options.get("normalise_quaternions", False)
    _require(header is None or (type(header) is int and header >= 0), "header_rows is a count", header)
    _require(isinstance(normalise, bool), "normalise_quaternions is true or false", normalise)
    names = options.get("joint_names", {})
    good = isinstance(names, Mapping) and all(isinstance(n, str) for n in names.values())
    _require(good, "joint_names maps the file's names to the robot's", names)
    good = missing is None or (isinstance(missing, Mapping) and all(_is_number(v) for v in missing.values()))
    _require(good, "missing_joints is an angle, or a map of joint to angle", missing)
    return MotionOptions(
        header,
        _words(options.get("columns"), "columns"),
        _words(options.get("joints"), "joints"),
        dict(names),
        None if missing is None else {str(k): float(v) for k, v in missing.items()},
        normalise,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _words(value: Any, key: str) -> tuple[str, ...] | None:
    good = value is None or (isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value))
    _require(good, f"{key} is a list of names", value)
    return None if value is None else tuple(value)


def _require(good: bool, rule: str, got: Any) -> None:
    if not good:
        raise InputError(rule, got=repr(got)[:80], code="bad-option")


@dataclass(frozen=True, slots=True, eq=False)
class RawClip:
    """A clip as a file has it.

    Attributes:
        name: Clip name.
        fps: Its own rate; None when the file has none.
        root_pos: (n, 3) metres.
        root_quat: (n, 4) scalar last, as recorded.
        joints: Names of the joint columns, in the file's order.
        joint_pos: (n, len(joints)) radians.
        findings: Oddities met.
        left_out: Names of what the file holds besides.
        bodies: Body → recorded world positions (n, 3), where the file has them: evidence, not carried over.
    """

    name: str
    fps: Fraction | None
    root_pos: NDArray[np.float64]
    root_quat: NDArray[np.float64]
    joints: tuple[str, ...]
    joint_pos: NDArray[np.float64]
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()
    bodies: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.joint_pos)


def joint_set(count: int, options: MotionOptions, place: Place) -> tuple[str, ...]:
    """Names of joint columns that a file does not name: declared, else the known set of that many.

    Raises:
        InputError: neither fits.
    """
    if options.joints is not None:
        if len(options.joints) != count:
            raise InputError(
                "`joints` names each joint column", place=place, got=len(options.joints), expected=count
            )
        return options.joints
    known = {len(JOINTS): JOINTS, len(JOINTS_23): JOINTS_23}
    if count not in known:
        raise InputError(
            "the joints of a clip are known by name",
            place=place,
            got=f"{count} unnamed joint columns",
            expected="29 or 23, or names",
            hint="Add `options: {joints: [left_hip_pitch_joint, …]}` to the raw entry, in the file's order, "
            "or pass --option 'joints=[…]'.",
            code="joints-unnamed",
        )
    return known[count]


def mapped_joints(
    clip: RawClip, options: MotionOptions, place: Place
) -> tuple[NDArray[np.float64], list[Finding]]:
    """The clip's joint angles in the robot's order, (n, 29), and what was filled in.

    Joints are matched by name, never by position.

    Raises:
        InputError: a name is unknown or comes twice, or a joint is missing and not declared so.
    """
    own = [_robot_name(n, options.joint_names) for n in clip.joints]
    strange = [n for n, o in zip(clip.joints, own, strict=True) if o not in JOINTS]
    if strange:
        raise InputError(
            "a joint of the clip is not the robot's",
            place=place,
            got=", ".join(strange[:5]),
            expected=f"one of {', '.join(JOINTS)}",
            hint="Map it with `options: {joint_names: {theirs: ours}}` (--option 'joint_names={…}').",
            code="joint-sets-differ",
        )
    twice = [n for n, count in Counter(own).items() if count > 1]
    if twice:
        raise InputError("a joint comes twice", place=place, got=", ".join(twice), code="joint-sets-differ")
    absent = [j for j in JOINTS if j not in own]
    fill = _filled(absent, options.missing_joints, place)
    out = np.empty((len(clip), len(JOINTS)))
    for index, joint in enumerate(JOINTS):
        out[:, index] = fill[joint] if joint in fill else clip.joint_pos[:, own.index(joint)]
    return out, _of_missing(fill, place)


def _robot_name(name: str, mapping: Mapping[str, str]) -> str:
    """The robot's name of a joint: mapped, else itself, with `_joint` where it was left off."""
    name = mapping.get(name, name).strip()
    return name if name in JOINTS or f"{name}_joint" not in JOINTS else f"{name}_joint"


def _filled(absent: Sequence[str], declared: Mapping[str, float] | None, place: Place) -> dict[str, float]:
    declared = declared or {}
    undeclared = [j for j in absent if j not in declared and "*" not in declared]
    if undeclared:
        raise InputError(
            "a joint that the clip lacks must be declared",
            place=place,
            got=f"no {', '.join(undeclared)}",
            hint="Add `options: {missing_joints: 0.0}` to the raw entry (or a map of joint to angle), "
            "or pass --option missing_joints=0.0.",
            code="joints-missing",
        )
    return {j: declared.get(j, declared.get("*", 0.0)) for j in absent}


def _of_missing(fill: Mapping[str, float], place: Place) -> list[Finding]:
    if not fill:
        return []
    listed = ", ".join(f"{j} {angle:g}" for j, angle in fill.items())
    where = Place(place.file, place.demo, "obs/joint_pos")
    message = f"{len(fill)} joints are not in the recording and were filled in as declared"
    return [Finding("joints-filled-in", Severity.WARN, message, where, listed)]


def checked_quaternions(
    clip: RawClip, options: MotionOptions, place: Place
) -> tuple[NDArray[np.float64], list[Finding]]:
    """The root's quaternions as recorded, or scaled to norm 1 when told; what is off is a finding.

    Raises:
        InputError: a norm so far from 1 that it is no rotation, and scaling was not asked for.
    """
    norms = np.linalg.norm(clip.root_quat, axis=1)
    off = np.abs(norms - 1)
    bad = ~(off <= UNIT_TOLERANCE)
    if not bad.any():
        return clip.root_quat, []
    row = int(np.argmax(np.where(np.isfinite(off), off, np.inf)))
    where = Place(place.file, place.demo, "obs/root_quat", row)
    if not options.normalise_quaternions and not off[row] <= REFUSED_NORM:
        raise InputError(
            "a root quaternion is no rotation",
            place=where,
            got=f"norm {norms[row]:.6g} ({int(bad.sum())} of {len(norms)} rows are off)",
            expected="1",
            hint="Add `options: {normalise_quaternions: true}` (--option normalise_quaternions=true) where "
            "the recording only scales them.",
            code="quaternion-not-unit",
        )
    if options.normalise_quaternions and not np.all(norms > 1e-6):
        raise InputError("a zero quaternion cannot be scaled", place=where, code="quaternion-not-unit")
    done = (
        "scaled to 1" if options.normalise_quaternions else "kept; `normalise_quaternions: true` scales them"
    )
    message = f"{int(bad.sum())} of {len(norms)} root quaternions have a norm other than 1 ({done})"
    finding = Finding("quaternion-not-unit", Severity.WARN, message, where, f"{norms[row]:.6g}", "1")
    return (clip.root_quat / norms[:, None] if options.normalise_quaternions else clip.root_quat), [finding]


def misplaced_bodies(clip: RawClip, joint_pos: NDArray[np.float64], place: Place) -> list[Finding]:
    """Recorded bodies that the robot's joints do not lead to: joints mixed up, or another quaternion order.

    Args:
        clip: The clip; without recorded bodies there is nothing to find.
        joint_pos: (n, 29) in the robot's order.
        place: Named in the finding.
    """
    known = [name for name in clip.bodies if name in g1().bodies]
    if not known:
        return []
    positions, _ = forward(g1(), clip.root_pos, clip.root_quat, joint_pos)
    apart = {n: float(np.abs(positions[:, g1().body(n)] - clip.bodies[n]).max(initial=0)) for n in known}
    wrong = {name: distance for name, distance in apart.items() if not distance <= MISPLACED_M}
    if not wrong:
        return []
    listed = ", ".join(f"{name} {distance:.3f} m" for name, distance in wrong.items())
    message = "recorded bodies are not where the joints put them: are joints or quaternions in another order?"
    return [Finding("bodies-misplaced", Severity.WARN, message, Place(place.file, place.demo), listed[:160])]


def one_rate(clips: Iterable[RawClip], default: Fraction) -> Fraction | None:
    """The rate that all clips have; None when they differ."""
    rates = {clip.fps or default for clip in clips}
    return rates.pop() if len(rates) == 1 else None


def rate_from(value: Any, place: Place) -> Fraction:
    """A positive rate of a file.

    Raises:
        InputError: it is none.
    """
    number = np.asarray(value).reshape(-1)
    good = number.size == 1 and number.dtype.kind in "iuf" and 0 < float(number[0]) < 1e5
    if not good:
        raise InputError("fps is a positive number", place=place, got=repr(value)[:60], code="bad-fps")
    return Fraction(float(number[0])).limit_denominator(1_000_000)


ReadClips = Callable[[Any, MotionOptions], list[RawClip]]
