"""Rules of a motion store that make its rows a second time: kinematics, velocities, observations.

One pass over the clips serves all three. What is not here: how the rows are made again, see
`motion_reference.py`; rules that only look, see `store_lafan.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks import motion_reference as reference
from trajpipe.checks.motion_reading import Episode, episodes
from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_lafan import COLUMNS, NEEDS, STAGE, model_of, say, where
from trajpipe.checks.store_reading import facts_of
from trajpipe.core.findings import Finding
from trajpipe.motion.g1 import default_joint_pos

Array = NDArray[np.float64]
POSITION_M: Final = 1e-5
# How far MuJoCo's poses may be from ours in float64, metres: its share in a difference of two frames.
MUJOCO_M: Final = 1e-9
# A float32 quaternion is off by 2 * 2 * 2^-25 rad at most, so a turn between two by 2.4e-7; twice that.
TURN_ROUNDED: Final = 5e-7
# Just short of half a turn per frame the shorter way may be either.
HALF_TURN: Final = np.pi - 1e-3
# What the contract counts as off, rad/s, where it measures the reference: a quarter of a fast clip's values.
SPIN: Final = 2e-2
OBSERVED: Final = 2e-5
# Frames that turn less than this take the plain midpoint, which lies at most half of it away.
MIDPOINT_TURN: Final = 2.1e-3
TURN: Final = 1e-4
KINEMATICS: Final = "lafan-kinematics"
VELOCITIES: Final = "lafan-velocities"
OBSERVATIONS: Final = "lafan-observations"


@dataclass(slots=True)
class Proof:
    """What one pass over the clips found.

    Attributes:
        findings: Rule → its findings.
        measures: Rule → its numbers.
        rows: Rows looked at.
    """

    findings: dict[str, list[Finding]] = field(
        default_factory=lambda: {c: [] for c in (KINEMATICS, VELOCITIES, OBSERVATIONS)}
    )
    measures: dict[str, dict[str, float]] = field(
        default_factory=lambda: {
            KINEMATICS: {"worst_m": 0.0, "worst_rad": 0.0},
            VELOCITIES: {"worst_of_allowed": 0.0, "angular_share_off": 0.0},
            OBSERVATIONS: {},
        }
    )
    rows: int = 0

    def worst(self, code: str, name: str, value: float) -> None:
        """Keep the largest value of a measure."""
        self.measures[code][name] = max(self.measures[code][name], value)


def _proof(subject: Subject) -> Proof:
    found: Proof = subject.fact("lafan-proof", lambda: _prove(subject))
    return found


def _prove(subject: Subject) -> Proof:
    proof, model = Proof(), model_of(subject)
    default = default_joint_pos(model.joints).astype(np.float64)
    for episode in episodes(subject, tuple(n for n in COLUMNS if n != "motion_id")):
        motion = episode.motion
        index = {name: i for i, name in enumerate(motion.joints)}
        joint_pos = motion.joint_pos[:, [index[name] for name in model.joints]]
        poses = model.poses(motion.root_pos, motion.root_quat, joint_pos)
        turned = reference.matrices_of(episode.rows["body_quat"].reshape(len(episode.ids), -1, 4))
        _kinematics(proof, subject, episode, joint_pos, (*poses, turned))
        _velocities(proof, subject, episode, joint_pos, poses)
        made = {
            "state": reference.state_of(episode.rows, default),
            "privileged": reference.privileged_of(episode.rows, turned),
        }
        for column, values in made.items():
            _compare(proof, OBSERVATIONS, subject, episode, (column, episode.rows[column], values, OBSERVED))
        proof.rows += episode.stop - episode.start
    return proof


def _told(subject: Subject, code: str) -> Iterator[Finding]:
    proof = _proof(subject)
    subject.measures |= proof.measures[code]
    subject.count(proof.rows, facts_of(subject).n_rows, "rows")
    yield from proof.findings[code]


@check(KINEMATICS, stage=STAGE, title="MuJoCo puts every body where the store has it", needs=NEEDS)
def kinematics(subject: Subject) -> Iterator[Finding]:
    """L2's frames through MuJoCo, blended to 50 Hz, against `qpos`, `body_pos` and `body_quat`."""
    yield from _told(subject, KINEMATICS)


@check(VELOCITIES, stage=STAGE, title="Velocities follow from the poses", needs=NEEDS)
def velocities(subject: Subject) -> Iterator[Finding]:
    """Differences of MuJoCo's poses, filtered and blended, as exact as float32 frames let them be."""
    yield from _told(subject, VELOCITIES)


@check(OBSERVATIONS, stage=STAGE, title="state and privileged follow from the other columns", needs=NEEDS)
def observations(subject: Subject) -> Iterator[Finding]:
    """Made again in float64 with rotation matrices from the store's own columns."""
    yield from _told(subject, OBSERVATIONS)


def _kinematics(
    proof: Proof, subject: Subject, episode: Episode, joint_pos: Array, poses: tuple[Array, Array, Array]
) -> None:
    """`poses`: MuJoCo's positions and matrices of the frames, and the matrices of the stored rows."""
    motion, rows = episode.motion, episode.rows
    frames = np.concatenate([motion.root_pos, joint_pos], axis=1)
    positions = reference.interpolated(poses[0], motion.fps).reshape(-1, 93)
    angles = reference.interpolated(frames, motion.fps)
    stored = np.delete(rows["qpos"], range(3, 7), axis=1)
    apart = _compare(
        proof, KINEMATICS, subject, episode, ("body_pos", rows["body_pos"], positions, POSITION_M)
    )
    proof.worst(KINEMATICS, "worst_m", apart)
    _compare(proof, KINEMATICS, subject, episode, ("qpos", stored, angles, POSITION_M))
    good, turned = _turns_apart(poses[2], poses[1], motion.fps)
    proof.worst(KINEMATICS, "worst_rad", float(turned.max(initial=0)))
    if not good.all():
        row = int(np.argmax(~good.all(axis=1)))
        place, got = where(subject, episode, "body_quat", row), f"{turned[row].max():.3g} rad apart"
        proof.findings[KINEMATICS].append(say(KINEMATICS, "a body's rotation is MuJoCo's", place, got))


def _velocities(
    proof: Proof, subject: Subject, episode: Episode, joint_pos: Array, poses: tuple[Array, Array]
) -> None:
    fps, rows = episode.motion.fps, episode.rows
    frames = poses[0].reshape(len(joint_pos), -1)
    differences: Array = np.asarray(np.gradient(frames, 1 / fps, axis=0))
    speed = reference.interpolated(reference.filtered(differences), fps)
    joints = np.diff(joint_pos, axis=0) * fps
    joints = reference.interpolated(np.concatenate([joints, joints[-2:-1]]), fps)
    for name, stored, expected, positions in (
        ("body_vel", rows["body_vel"], speed, frames),
        ("qvel", rows["qvel"][:, 6:], joints, joint_pos),
    ):
        allowed = _rounded(positions, expected, fps)
        _compare(proof, VELOCITIES, subject, episode, (name, stored, expected, allowed))
        if stored.shape == expected.shape:
            share = float((np.abs(stored - expected) / allowed).max(initial=0))
            proof.worst(VELOCITIES, "worst_of_allowed", share)
    for part, column in ((slice(0, 3), "body_vel"), (slice(3, 6), "body_ang_vel")):
        if not np.array_equal(rows["qvel"][:, part], rows[column][:, :3]):
            message = f"qvel holds the root's velocities, the first three of {column}"
            place = where(subject, episode, "qvel")
            proof.findings[VELOCITIES].append(say(VELOCITIES, message, place))
    _spins(proof, subject, episode, reference.turns_of(poses[1]))


def _rounded(positions: Array, rates: Array, fps: float) -> Array:
    """(D,) how far rates may be off because the frames that they are differences of are float32.

    Two frames are each off by half a unit in the last place at most, a one-sided difference by a whole one
    times the frame rate; a filter whose weights sum to 1, and a blend, add nothing. The rates are rounded
    too, before the blend and after it. A clip that walks 100 m away has coarser velocities than one that
    stays: 30 fps times 7.6e-6 m there.

    Args:
        positions: (n, D) frames.
        rates: (rows, D) expected.
        fps: The frames' rate.
    """
    last_place = np.spacing(np.abs(positions).max(axis=0).astype(np.float32)).astype(np.float64)
    out: Array = fps * (last_place + 2 * MUJOCO_M) + 2.0**-23 * np.abs(rates).max(axis=0, initial=0)
    return out


def _spins(proof: Proof, subject: Subject, episode: Episode, turns: Array) -> None:
    """`turns`: (n, B, 3) from each frame to the next by MuJoCo's matrices."""
    fps, stored = episode.motion.fps, episode.rows["body_ang_vel"]
    spin = reference.interpolated(reference.filtered(turns * fps), fps).reshape(-1, 93)
    either = np.sqrt(np.square(turns).sum(axis=2)) > HALF_TURN
    if either.any() and stored.shape == spin.shape:
        near = reference.interpolated(reference.filtered(either.astype(np.float64)), fps) > 0
        stored = np.where(np.repeat(near, 3, axis=1), spin, stored)
    allowed = fps * TURN_ROUNDED + 2.0**-23 * np.abs(spin).max(axis=0, initial=0)
    _compare(proof, VELOCITIES, subject, episode, ("body_ang_vel", stored, spin, allowed))
    off = np.abs(stored - spin) > SPIN if stored.shape == spin.shape else np.ones(1)
    proof.worst(VELOCITIES, "angular_share_off", float(np.mean(off)))


def _compare(
    proof: Proof,
    code: str,
    subject: Subject,
    episode: Episode,
    column: tuple[str, Array, Array, float | Array],
) -> float:
    """The worst distance; an ERROR where a column is off by more than a tolerance plus 1e-6 of it.

    `column`: name, stored rows, expected rows, tolerance (one, or one per dimension).
    """
    name, stored, expected, tolerance = column
    if stored.shape != expected.shape:
        place = where(subject, episode, name)
        proof.findings[code].append(say(code, "another shape", place, stored.shape, expected.shape))
        return float("inf")
    apart = np.abs(stored - expected)
    bad = ~(apart - 1e-6 * np.abs(expected) <= tolerance)
    if bad.any():
        row, dim = (int(i) for i in np.argwhere(bad)[0])
        message = f"{int(bad.sum())} values differ from what they must be; the first, dimension {dim}"
        allowed = np.broadcast_to(tolerance, expected.shape[1:])[dim]
        got, wanted = f"{stored[row, dim]:.9g}", f"{expected[row, dim]:.9g} ± {allowed:.2g}"
        proof.findings[code].append(say(code, message, where(subject, episode, name, row), got, wanted))
    return float(apart.max(initial=0))


def _turns_apart(stored: Array, matrices: Array, fps: float) -> tuple[NDArray[Any], Array]:
    """Whether each stored rotation lies where it must between its frames, and how far off it is.

    Args:
        stored: (rows, B, 3, 3), of the store.
        matrices: (n, B, 3, 3), MuJoCo's of the frames.
        fps: The frames' rate.

    Returns:
        (rows, B) truth values, and (rows, B) radians between the turns since the frame before.
    """
    at = reference.times_of(len(matrices), fps) * fps
    first = np.minimum(np.floor(at).astype(int), len(matrices) - 2)
    if stored.shape != (len(at), *matrices.shape[1:]):
        return np.zeros((1, 1), bool), np.full((1, 1), np.inf)
    turn = reference.log_of(np.einsum("tbij,tbik->tbjk", matrices[:-1], matrices[1:]))
    turned = np.sqrt(np.square(turn).sum(axis=2))[first]
    since = reference.log_of(np.einsum("tbij,tbik->tbjk", matrices[first], stored))
    since -= turn[first] * (at - first)[:, None, None]
    apart: Array = np.sqrt(np.square(since).sum(axis=2))
    # A row at a frame's very time may count to the frame before or after: both midpoints are right.
    allowed = np.where(turned < MIDPOINT_TURN, MIDPOINT_TURN, TURN)
    at_frame = np.minimum(at - first, 1 - (at - first)) < 1e-6
    allowed[at_frame] = np.maximum(allowed[at_frame], MIDPOINT_TURN)
    return apart <= allowed, apart
