"""Rules of a motion store that look at it: columns, clips, quaternions, joint limits, feet.

MuJoCo and h5py alone. What is not here: rules that make the rows a second time, see `store_lafan_physics.py`;
rules of the motions in L2, see `demos_motion.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks import motion_reference as reference
from trajpipe.checks.motion_reading import Episode, episodes
from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import facts_of, opened
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.hdf5.attributes import plain
from trajpipe.motion.g1 import FEET, SOLE, SOLE_RADIUS, default_joint_pos, g1
from trajpipe.motion.skeleton_mjcf import mjcf_of, skeleton_of

NEEDS: Final = ("lafan",)
STAGE: Final = "store"
Array = NDArray[np.float64]
COLUMNS: Final = {
    "qpos": ("float32", (36,)),
    "qvel": ("float32", (35,)),
    "state": ("float32", (64,)),
    "privileged": ("float32", (463,)),
    "body_pos": ("float32", (93,)),
    "body_vel": ("float32", (93,)),
    "body_ang_vel": ("float32", (93,)),
    "body_quat": ("float32", (124,)),
    "motion_id": ("int32", ()),
}
UNIT: Final = 1e-5
LIMIT_SLACK: Final = 1e-4
CONTACT_M: Final = 0.02


def say(code: str, message: str, place: Place, got: object = None, expected: object = None) -> Finding:
    """An ERROR finding."""
    shown = [None if v is None else str(v)[:160] for v in (got, expected)]
    return Finding(code, Severity.ERROR, message, place, shown[0], shown[1])


def model_of(subject: Subject) -> reference.Model:
    """The robot as MuJoCo compiles it: the store's own model, else the built-in facts; once per run."""
    text = subject.context["lafan"].get("model")
    skeleton = g1() if text is None else skeleton_of(text, place="model")
    found: reference.Model = subject.fact("lafan-model", lambda: reference.compiled(mjcf_of(skeleton)))
    return found


def where(subject: Subject, episode: Episode, column: str, row: int | None = None) -> Place:
    """Where in the store: `row` counts from the episode's first."""
    at = None if row is None else episode.start + row
    return Place(subject.path.name, ":".join(episode.motion.source), column, at)


@check("lafan-columns", stage=STAGE, title="Columns, dtypes and widths are the motion store's", needs=NEEDS)
def columns(subject: Subject) -> Iterator[Finding]:
    """Exactly the contract's nine columns, in any order."""
    declared = {name: (kind, trailing) for name, kind, trailing in facts_of(subject).columns}
    for name in sorted(COLUMNS.keys() | declared.keys()):
        if declared.get(name) != COLUMNS.get(name):
            place, message = Place(subject.path.name, column=name), "a motion store has these columns"
            yield say(
                "lafan-columns", message, place, declared.get(name, "absent"), COLUMNS.get(name, "absent")
            )
    subject.count(len(declared), len(COLUMNS), "columns")


@check("lafan-clips", stage=STAGE, title="Each clip has its rows, its id, its name, its facts", needs=NEEDS)
def clips(subject: Subject) -> Iterator[Finding]:
    """Row counts by the contract's rule; `motion_id`, `motion_key` and the tasks name the clips in order."""
    code = "lafan-clips"
    facts, keys = facts_of(subject), _texts(subject, "motion_key")
    tasks = (
        [t.decode("utf-8", "replace") for _, t in sorted(facts.manifest.tasks.items())]
        if facts.manifest
        else []
    )
    count = 0
    for episode in episodes(subject):
        motion, count = episode.motion, count + 1
        wanted = len(reference.times_of(len(motion.joint_pos), motion.fps))
        if episode.stop - episode.start != wanted:
            got = episode.stop - episode.start
            yield say(
                code, "a clip has ceil(duration / 0.02) rows", where(subject, episode, "ep_len"), got, wanted
            )
        if not (episode.ids == episode.number).all():
            message = "motion_id is the clip's index in every row"
            yield say(code, message, where(subject, episode, "motion_id"), np.unique(episode.ids)[:4])
        name = motion.source[1]
        key = keys[episode.number] if episode.number < len(keys) else None
        if key not in (name, ":".join(motion.source)):
            yield say(code, "motion_key names the clip", where(subject, episode, "motion_key"), key, name)
    if keys != tasks:
        place = Place(subject.path.name, column="motion_key")
        yield say(code, "the task table holds the clips' names", place, tasks[:3], keys[:3])
    yield from _fixed_tables(subject)
    subject.count(count, count, "clips")


def _texts(subject: Subject, table: str) -> list[str]:
    with opened(subject.path) as store:
        return [str(plain(v)) for v in store[table][()].ravel().tolist()] if table in store else []


def _fixed_tables(subject: Subject) -> Iterator[Finding]:
    """Default joint angles by the model's joint names, and seconds per row."""
    wanted = {"default_dof_pos": default_joint_pos(model_of(subject).joints), "env_dt": np.array([0.02])}
    with opened(subject.path) as store:
        for name, expected in wanted.items():
            found = store[name][()] if name in store else None
            if found is None or found.shape != expected.shape or not np.array_equal(found, expected):
                place = Place(subject.path.name, column=name)
                yield say("lafan-clips", "a side table has the contract's values", place, found, expected)


@check(
    "lafan-quaternions", stage=STAGE, title="Quaternions have norm 1, the largest part positive", needs=NEEDS
)
def quaternions(subject: Subject) -> Iterator[Finding]:
    """`body_quat` (scalar last) and the root's in `qpos` (scalar first), which are one rotation."""
    code, rows = "lafan-quaternions", 0
    for episode in episodes(subject, ("qpos", "body_quat")):
        quats = episode.rows["body_quat"].reshape(-1, 31, 4)
        root = episode.rows["qpos"][:, 3:7]
        rows += len(quats)
        for column, values in (("body_quat", quats.reshape(len(quats), -1, 4)), ("qpos", root[:, None])):
            off = np.abs(np.linalg.norm(values, axis=2) - 1).max(axis=1)
            if not off.max() <= UNIT:
                row = int(np.argmax(~(off <= UNIT)))
                place = where(subject, episode, column, row)
                yield say(code, "a quaternion has norm 1", place, f"{off[row]:.3g} off", f"≤ {UNIT:g}")
        if not np.array_equal(root, quats[:, 0][:, [3, 0, 1, 2]]):
            place = where(subject, episode, "qpos")
            yield say(code, "qpos has the root's quaternion scalar first", place, root[0], quats[0, 0])
        parts = np.sort(np.abs(quats), axis=2)
        largest = np.take_along_axis(quats, np.abs(quats).argmax(axis=2)[..., None], axis=2)[..., 0]
        # A blend keeps the sign of the frame before it, though another part may take over: look at frames.
        at = reference.times_of(len(episode.motion.joint_pos), episode.motion.fps) * episode.motion.fps
        frame = at - np.floor(at) < 1e-6
        wrong = (largest < 0) & (parts[..., 3] - parts[..., 2] > 0.05)
        wrong &= frame[:, None] if len(frame) == len(wrong) else False
        if wrong.any():
            row = int(np.argmax(wrong.any(axis=1)))
            place = where(subject, episode, "body_quat", row)
            yield say(
                code, "a quaternion's largest component is positive", place, f"{int(wrong.sum())} are not"
            )
    subject.count(rows, facts_of(subject).n_rows, "rows")


@check(
    "lafan-joint-limits",
    stage=STAGE,
    title="Joint angles keep the model's limits",
    blocking=False,
    needs=NEEDS,
)
def joint_limits(subject: Subject) -> Iterator[Finding]:
    """How many values lie outside, and the worst; MuJoCo's own reading of the model says the limits."""
    model, values, outside, worst = model_of(subject), 0, 0, 0.0
    for episode in episodes(subject, ("qpos",)):
        angles = episode.rows["qpos"][:, 7:]
        beyond = np.maximum(model.ranges[:, 0] - angles, angles - model.ranges[:, 1])
        bad = beyond > LIMIT_SLACK
        values, outside = values + angles.size, outside + int(bad.sum())
        worst = max(worst, float(beyond.max(initial=0)))
        if bad.any():
            row, joint = (int(i) for i in np.unravel_index(int(beyond.argmax()), beyond.shape))
            low, high = model.ranges[joint]
            message = (
                f"{int(bad.sum())} of {angles.size} joint angles lie outside the model's limits; the worst"
            )
            place, got = (
                where(subject, episode, "qpos", row),
                f"{model.joints[joint]} {angles[row, joint]:.4f}",
            )
            yield Finding(
                "lafan-joint-limits", Severity.WARN, message, place, got, f"{low:.4f} to {high:.4f}"
            )
    subject.measures |= {"joint_values_outside": float(outside), "worst_rad_outside": worst}
    subject.count(values, values, "joint angles")


@check(
    "lafan-feet", stage=STAGE, title="Feet on the ground: penetration and skate", blocking=False, needs=NEEDS
)
def feet(subject: Subject) -> Iterator[Finding]:
    """Measurements, not judgements: how deep a sole goes below z = 0, how fast a touching foot slides."""
    model, rows, deepest, slides = model_of(subject), 0, 0.0, list[Array]()
    for episode in episodes(subject, ("body_pos", "body_quat", "body_vel")):
        count = episode.stop - episode.start
        position, speed = (episode.rows[n].reshape(count, -1, 3) for n in ("body_pos", "body_vel"))
        matrices = reference.matrices_of(episode.rows["body_quat"].reshape(count, -1, 4))
        for foot in FEET:
            body = model.bodies.index(foot)
            points = position[:, body, None, 2] + np.einsum("tj,pj->tp", matrices[:, body, 2], np.array(SOLE))
            lowest = points.min(axis=1) - SOLE_RADIUS
            deepest = max(deepest, float(-lowest.min(initial=0)))
            slides.append(np.linalg.norm(speed[lowest < CONTACT_M, body, :2], axis=1))
        rows += count
    sliding = np.concatenate(slides) if slides else np.zeros(0)
    mean = float(sliding.mean()) if len(sliding) else 0.0
    subject.measures |= {
        "penetration_m": deepest,
        "skate_mean_m_per_s": mean,
        "contact_share": len(sliding) / max(1, 2 * rows),
    }
    message = "a sole's deepest point below the ground, and how fast feet within 2 cm of it slide"
    got = f"{deepest:.4f} m; {mean:.3f} m/s on average over {len(sliding)} of {2 * rows} foot rows"
    yield Finding("lafan-feet", Severity.INFO, message, Place(subject.path.name), got)
    subject.count(rows, facts_of(subject).n_rows, "rows")
