"""Rewriting (qpos, qvel) rows by joint name into another model's addresses, and the table file of it.

qpos and qvel have address maps of their own: they diverge after the first free joint.
What is not here: reading joint tables, see `joints.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import atomic
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.mjcf.joints import Joint, JointTable, JointType

TABLE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Pair:
    """One joint in both models.

    Attributes:
        theirs: The joint where rows come from.
        ours: The joint where they go.
    """

    theirs: Joint
    ours: Joint


@dataclass(frozen=True)
class JointRemap:
    """A map of joints from a source model to a target model.

    Attributes:
        pairs: One per joint, in the source's address order.
        family: What the table holds for: a suite or a scene family.
        tasks: Number of tasks whose models gave this one table.
    """

    pairs: tuple[Pair, ...]
    family: str = ""
    tasks: int = field(default=1, compare=False)

    @property
    def nq(self) -> int:
        """Width of qpos."""
        return sum(p.ours.nq for p in self.pairs)

    @property
    def nv(self) -> int:
        """Width of qvel."""
        return sum(p.ours.nv for p in self.pairs)

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        """For each word of an output row (qpos, qvel): its place in an input row (qpos, qvel)."""
        out = np.empty(self.nq + self.nv, np.int64)
        for p in self.pairs:
            out[p.ours.qpos : p.ours.qpos + p.ours.nq] = p.theirs.qpos + np.arange(p.theirs.nq)
            start = self.nq + p.ours.dof
            out[start : start + p.ours.nv] = self.nq + p.theirs.dof + np.arange(p.theirs.nv)
        return out

    def apply(self, rows: NDArray[Any], *, place: object | None = None) -> NDArray[Any]:
        """Rewrite rows of (qpos, qvel) into the target's addresses; values are copied bit for bit.

        Args:
            rows: (T, nq + nv), without the time word.
            place: Named in the error.

        Returns:
            (T, nq + nv) of the same dtype.

        Raises:
            SchemaError: a row of another width; names both counts.
        """
        if rows.ndim != 2 or rows.shape[1] != self.nq + self.nv:
            raise SchemaError(
                "a state row has nq + nv words",
                place=place,
                got=rows.shape,
                expected=f"(T, {self.nq} + {self.nv})",
                code="bad-state-width",
            )
        return np.ascontiguousarray(rows[:, self._columns])


def remap(
    theirs: JointTable,
    ours: JointTable,
    *,
    names: Mapping[str, str] | None = None,
    family: str = "",
    place: object | None = None,
) -> JointRemap:
    """Match two joint tables by (mapped) name and type.

    Args:
        theirs: Source table.
        ours: Target table.
        names: Source joint name → target joint name, for those that differ.
        family: Noted in the table.
        place: Named in the error.

    Raises:
        InputError: the sets differ; every joint that is missing, unknown or of another type is named.
    """
    names = dict(names or {})
    targets = {j.name: j for j in ours.joints}
    wanted = {names.get(j.name, j.name): j for j in theirs.joints}
    problems = [f"{n} is not in the target" for n in wanted if n not in targets]
    problems += [f"{n} is not in the recording" for n in targets if n not in wanted]
    problems += [
        f"{n} is {j.type} in the recording and {targets[n].type} in the target"
        for n, j in wanted.items()
        if n in targets and targets[n].type is not j.type
    ]
    if len(wanted) != len(theirs.joints):
        problems.append("two joints of the recording map to one name")
    if problems:
        raise InputError(
            "both models have the same joints",
            place=place,
            got="; ".join(problems),
            hint="Map names with `target: names:`, or choose the right target model.",
            code="joint-sets-differ",
        )
    return JointRemap(tuple(Pair(j, targets[n]) for n, j in wanted.items()), family)


def robot_fixtures_objects(theirs: JointTable) -> JointTable:
    """The built-in target order: the robot's joints, then fixtures', then free objects', each as recorded.

    A joint belongs to the robot when its name begins with `robot` or `gripper`; to an object when it is free.
    """

    def rank(joint: Joint) -> int:
        if joint.name.startswith(("robot", "gripper")):
            return 0
        return 2 if joint.type is JointType.FREE else 1

    return theirs.reordered([j.name for j in sorted(theirs.joints, key=rank)])


def same_table(tables: Mapping[str, JointRemap], *, hint: str = "") -> JointRemap:
    """The one table that all tasks give.

    Args:
        tables: Task or recording → its table.
        hint: Said when they differ.

    Raises:
        InputError: they differ; lists the groups.
    """
    groups: dict[tuple[Pair, ...], list[str]] = {}
    for name, table in tables.items():
        key = tuple(Pair(_address(p.theirs), _address(p.ours)) for p in table.pairs)
        groups.setdefault(key, []).append(name)
    if len(groups) != 1:
        listed = "; ".join(
            f"{len(members)} with {sum(p.ours.nq + p.ours.nv for p in key)} words ({members[0]}, …)"
            for key, members in groups.items()
        )
        raise InputError(
            "one store has one remap table", got=listed, hint=hint or None, code="remap-tables-differ"
        )
    first = next(iter(tables.values()))
    return JointRemap(first.pairs, first.family, len(tables))


def _address(joint: Joint) -> Joint:
    return Joint(joint.name, joint.type, joint.qpos, joint.dof)


def write_table(path: Path, table: JointRemap) -> None:
    """Write `state_remap_<suite>.kv`, the form that noeira reads."""
    lines = [
        "# joint=<theirs> <ours> <their_qadr> <our_qadr> <nq_j> <their_vadr> <our_vadr> <nv_j>",
        f"schema_version={TABLE_VERSION}",
        f"family={table.family}",
        f"nq={table.nq}",
        f"nv={table.nv}",
        f"tasks={table.tasks}",
    ]
    for p in table.pairs:
        a, b = p.theirs, p.ours
        lines.append(f"joint={a.name} {b.name} {a.qpos} {b.qpos} {b.nq} {a.dof} {b.dof} {b.nv}")
    atomic.write_text(path, "\n".join(lines) + "\n")


def read_table(path: Path) -> JointRemap:
    """Read a `state_remap_<suite>.kv`.

    Raises:
        InputError: a line of another form, another version, addresses that do not fit; names the line.
    """
    values: dict[str, str] = {}
    pairs: list[Pair] = []
    for number, raw in enumerate(path.read_text("utf-8").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, separator, value = line.partition("=")
        where = f"{path.name} line {number}"
        if not separator:
            raise InputError("a line is key=value", place=where, got=line)
        if key == "joint":
            pairs.append(_pair(value.split(), where))
        else:
            values[key] = value
    if values.get("schema_version") != str(TABLE_VERSION):
        raise InputError(
            "the remap table has another version",
            place=path.name,
            got=values.get("schema_version"),
            expected=TABLE_VERSION,
        )
    table = JointRemap(tuple(pairs), values.get("family", ""), _count(values.get("tasks", "1"), path.name))
    _check_addresses(table, values, path.name)
    return table


def _pair(parts: Sequence[str], where: str) -> Pair:
    if len(parts) != 8:
        raise InputError("a joint line has 8 fields", place=where, got=len(parts))
    theirs, ours = parts[:2]
    their_q, our_q, nq, their_v, our_v, nv = (_count(p, where) for p in parts[2:])
    kinds = {(7, 6): JointType.FREE, (4, 3): JointType.BALL, (1, 1): JointType.HINGE}
    if (nq, nv) not in kinds:
        raise InputError(
            "no joint has these widths", place=where, got=f"{nq} {nv}", expected="7 6, 4 3 or 1 1"
        )
    kind = kinds[nq, nv]
    return Pair(Joint(theirs, kind, their_q, their_v), Joint(ours, kind, our_q, our_v))


def _count(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError("a count is a whole number", place=where, got=text)
    return int(text)


def _check_addresses(table: JointRemap, values: Mapping[str, str], where: str) -> None:
    """Both sides' spans must tile [0, nq) and [0, nv) exactly."""
    for side in ("theirs", "ours"):
        joints = [getattr(p, side) for p in table.pairs]
        for what, width in (("qpos", "nq"), ("dof", "nv")):
            spans = sorted((getattr(j, what), getattr(j, width)) for j in joints)
            end = 0
            for start, size in spans:
                if start != end:
                    got = f"{side} {what} {start}"
                    raise InputError("addresses leave gaps or overlap", place=where, got=got, expected=end)
                end += size
            if values.get(width) != str(end):
                said = values.get(width)
                raise InputError(f"{width} is the joints' sum", place=where, got=said, expected=end)
