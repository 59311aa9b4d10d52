"""Made-up but lifelike demonstrations: reach, grasp, lift, stack, place and pull, as minimum-jerk paths.

A rollout of T actions has T + 1 states, so that both ways of pairing obs and actions can be recorded.
What is not here: how frames look (`trajpipe.testing.render`) and how a recorder stores it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.quaternions import conjugate_xyzw, multiply_xyzw, rotate_xyzw
from trajpipe.testing import kinematics

Array = NDArray[Any]
Task = Literal["lift", "stack", "place", "pull"]
Style = Literal["scripted", "rl", "teleop"]

HOVER: Final = 0.11
LIFT: Final = 0.22
PULL: Final = 0.14
_DOWN: Final = kinematics.about((1, 0, 0), np.pi)
# amplitude (m) and frequency (cycles per episode) of what a hand or a learned policy adds to the path
_TREMOR: Final = {"scripted": (0.0, 1.0), "rl": (0.0015, 14.0), "teleop": (0.004, 5.0)}


@dataclass(frozen=True, slots=True)
class Scene:
    """Objects at the start of an episode, in the robot's base frame.

    Attributes:
        names: N object names.
        half_sizes: (N, 3) m.
        positions: (N, 3) m.
        yaws: (N,) rad.
        target: Index of the object to grasp.
        goal: (3,) m: where its centre ends; None for `pull` and `lift`.
        cabinet: (2,) m: where the cabinet stands, a little elsewhere in each episode; None = there is none.
        handle: (3,) m: where `pull` grasps.
    """

    names: tuple[str, ...]
    half_sizes: Array
    positions: Array
    yaws: Array
    target: int = 0
    goal: Array | None = None
    cabinet: Array | None = None
    handle: Array | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode: S = T + 1 states and T actions, float64.

    Attributes:
        scene: What stood on the table.
        dt: Seconds per row.
        joints: (S, 7) rad.
        fingers: (S,) opening of one finger, m.
        eef_pos: (S, 3) m.
        eef_quat: (S, 4) xyzw.
        object_pos: (S, N, 3) m.
        object_quat: (S, N, 4) xyzw.
        slide: (S,) m, how far the drawer is out.
        grasped: (S,) bool.
        grip: (T,) +1 open, -1 closed, as commanded.
        success: True when the task was done.
    """

    scene: Scene
    dt: float
    joints: Array
    fingers: Array
    eef_pos: Array
    eef_quat: Array
    object_pos: Array
    object_quat: Array
    slide: Array
    grasped: Array
    grip: Array
    success: bool

    @property
    def length(self) -> int:
        """Number of actions T."""
        return int(self.grip.shape[0])

    def velocity(self, values: Array) -> Array:
        """Backward difference per second of (S, …) values; zero at the start, where all is at rest."""
        return np.concatenate((np.zeros_like(values[:1]), np.diff(values, axis=0))) / self.dt

    def angular_velocity(self, quats: Array) -> Array:
        """(S, …, 3) rad/s in the world frame of (S, …, 4) xyzw quaternions."""
        turned = kinematics.rotation_vector(multiply_xyzw(quats[1:], conjugate_xyzw(quats[:-1])))
        return np.concatenate((np.zeros_like(turned[:1]), turned)) / self.dt

    def delta_pose(self) -> Array:
        """(T, 6) what each action asks for: metres and the rotation vector from one state to the next."""
        turn = multiply_xyzw(self.eef_quat[1:], conjugate_xyzw(self.eef_quat[:-1]))
        return np.concatenate((np.diff(self.eef_pos, axis=0), kinematics.rotation_vector(turn)), axis=1)


def minimum_jerk(times: Array, knots: Sequence[float], values: Array) -> Array:
    """Minimum-jerk interpolation between knots, at rest at each.

    Args:
        times: (S,) in [0, 1].
        knots: K increasing times.
        values: (K, D).

    Returns:
        (S, D).
    """
    edges = np.asarray(knots)
    segment = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    u = np.clip((times - edges[segment]) / (edges[segment + 1] - edges[segment]), 0.0, 1.0)
    blend = (u**3 * (10.0 - 15.0 * u + 6.0 * u**2))[:, None]
    return np.asarray(values[segment] * (1.0 - blend) + values[segment + 1] * blend)


@dataclass(frozen=True, slots=True)
class _Plan:
    knots: tuple[float, ...]
    points: Array
    close_at: float
    open_at: float


def _plan(task: Task, scene: Scene, start: Array) -> _Plan:
    up = np.array([0.0, 0.0, 1.0])
    if task == "pull":
        handle = scene.handle if scene.handle is not None else np.array([0.5, 0.2, 0.15])
        out = handle - np.array([PULL, 0.0, 0.0])
        points = [start, handle + HOVER * up, handle, handle, out, out, out + HOVER * up]
        return _Plan((0.0, 0.3, 0.46, 0.54, 0.82, 0.88, 1.0), np.stack(points), 0.48, 0.84)
    at = scene.positions[scene.target]
    if task == "lift":
        points = [start, at + HOVER * up, at, at, at + LIFT * up]
        return _Plan((0.0, 0.38, 0.58, 0.68, 1.0), np.stack(points), 0.6, 2.0)
    goal = scene.goal if scene.goal is not None else scene.positions[-1] + 0.041 * up
    points = [
        start,
        at + HOVER * up,
        at,
        at,
        at + LIFT * up,
        goal + HOVER * up,
        goal,
        goal,
        goal + HOVER * up,
    ]
    return _Plan((0.0, 0.2, 0.32, 0.38, 0.52, 0.68, 0.82, 0.88, 1.0), np.stack(points), 0.34, 0.84)


def _tremor(rng: np.random.Generator, style: Style, times: Array) -> Array:
    amplitude, frequency = _TREMOR[style]
    phases = rng.uniform(0.0, 2.0 * np.pi, (3, 3))
    rates = frequency * rng.uniform(0.6, 1.6, (3, 3))
    waves = np.sin(2.0 * np.pi * rates * times[:, None, None] + phases).sum(axis=1) / 3.0
    return np.asarray(amplitude * waves * np.sin(np.pi * times)[:, None] ** 0.5)


def roll_out(
    rng: np.random.Generator,
    scene: Scene,
    length: int,
    *,
    task: Task = "lift",
    style: Style = "scripted",
    succeed: bool = True,
    dt: float = 0.05,
) -> Rollout:
    """One episode of `length` actions.

    Args:
        rng: Drawn from for the start pose, the tremor and, in a failure, the miss.
        scene: Objects and the goal.
        length: Number of actions T ≥ 1.
        task: What is done.
        style: Who does it: a script, a learned policy (fast jitter) or a hand (slow tremor).
        succeed: False makes the gripper close beside the object.
        dt: Seconds per row.
    """
    times = np.linspace(0.0, 1.0, length + 1)
    start = np.array([0.42, 0.0, 0.34]) + rng.uniform(-0.03, 0.03, 3)
    plan = _plan(task, scene, start)
    miss = np.zeros(3) if succeed else np.array([0.0, rng.choice([-0.055, 0.055]), 0.0])
    path = minimum_jerk(times, plan.knots, plan.points) + _tremor(rng, style, times)
    path = path + miss * minimum_jerk(times, (0.0, plan.knots[1], 1.0), np.array([[0.0], [1.0], [1.0]]))
    turn = _nearest_quarter(scene.yaws[scene.target]) if task != "pull" else 0.0
    yaw = minimum_jerk(times, (0.0, plan.knots[1], 1.0), np.array([[0.0], [turn], [turn]]))[:, 0]
    wanted = multiply_xyzw(kinematics.about((0, 0, 1), yaw), np.broadcast_to(_DOWN, (length + 1, 4)))
    joints = kinematics.inverse(path, wanted)
    eef_pos, eef_quat = kinematics.forward(joints)
    closed = (times >= plan.close_at) & (times < plan.open_at)
    held = (times >= plan.close_at + 0.03) & (times < plan.open_at) & succeed
    width = float(scene.half_sizes[scene.target, 1]) if succeed and task != "pull" else 0.006
    object_pos, object_quat = _objects(scene, task, held, eef_pos, eef_quat)
    return Rollout(
        scene=scene,
        dt=dt,
        joints=joints,
        fingers=_fingers(times, plan, width),
        eef_pos=eef_pos,
        eef_quat=eef_quat,
        object_pos=object_pos,
        object_quat=object_quat,
        slide=_slide(task, held, eef_pos),
        grasped=held,
        grip=np.where(closed[1:], -1.0, 1.0),
        success=succeed,
    )


def _nearest_quarter(yaw: float) -> float:
    """A box looks the same every quarter turn: the smallest turn that lines the fingers up with it."""
    return float((yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4)


def _fingers(times: Array, plan: _Plan, width: float) -> Array:
    knots = [-1.0, plan.close_at, plan.close_at + 0.05]
    values = [kinematics.FINGER_OPEN, kinematics.FINGER_OPEN, width]
    if plan.open_at < 1.0:
        knots += [plan.open_at, plan.open_at + 0.05]
        values += [width, kinematics.FINGER_OPEN]
    return minimum_jerk(times, [*knots, 3.0], np.asarray([*values, values[-1]])[:, None])[:, 0]


def _objects(scene: Scene, task: Task, held: Array, eef_pos: Array, eef_quat: Array) -> tuple[Array, Array]:
    steps = held.shape[0]
    position = np.tile(scene.positions, (steps, 1, 1))
    orientation = np.tile(kinematics.about((0, 0, 1), scene.yaws), (steps, 1, 1))
    rows = np.flatnonzero(held)
    if task == "pull" or rows.size == 0:
        return position, orientation
    first, last, which = int(rows[0]), int(rows[-1]), scene.target
    back = conjugate_xyzw(eef_quat[first])
    offset = rotate_xyzw(back, position[first, which] - eef_pos[first])
    turn = multiply_xyzw(back, orientation[first, which])
    position[rows, which] = eef_pos[rows] + rotate_xyzw(
        eef_quat[rows], np.broadcast_to(offset, (rows.size, 3))
    )
    orientation[rows, which] = multiply_xyzw(eef_quat[rows], np.broadcast_to(turn, (rows.size, 4)))
    position[last + 1 :, which] = position[last, which]
    orientation[last + 1 :, which] = orientation[last, which]
    return position, orientation


def _slide(task: Task, held: Array, eef_pos: Array) -> Array:
    slide = np.zeros(held.shape[0])
    rows = np.flatnonzero(held)
    if task == "pull" and rows.size:
        slide[rows] = np.clip(eef_pos[rows[0], 0] - eef_pos[rows, 0], 0.0, PULL)
        slide[rows[-1] + 1 :] = slide[rows[-1]]
    return slide
