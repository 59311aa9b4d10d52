"""What stands on the table, what the arm looks like, and where the cameras are.

What is not here: the motion (`trajpipe.testing.motion`) and the drawing (`trajpipe.testing.render`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.quaternions import multiply_xyzw, rotate_xyzw
from trajpipe.testing import kinematics
from trajpipe.testing.motion import Rollout, Scene, Task
from trajpipe.testing.render import Boxes, Camera

Array = NDArray[Any]

CUBE: Final = 0.0203
STATIC_FOVY: Final = 45.0
WRIST_FOVY: Final = 75.0
CABINET: Final = (0.66, 0.26)
DRAWER_HEIGHTS: Final = (0.05, 0.11, 0.17)
OPENED_DRAWER: Final = 1
_PALETTE: Final = (
    (0.85, 0.16, 0.14),
    (0.16, 0.62, 0.24),
    (0.15, 0.32, 0.82),
    (0.90, 0.74, 0.16),
    (0.55, 0.25, 0.65),
)
_HAND: Final = (
    ((0.0, 0.0, -0.105), (0.032, 0.10, 0.035), (0.90, 0.91, 0.92)),
    ((0.0, 0.0, -0.22), (0.045, 0.045, 0.08), (0.80, 0.82, 0.84)),
)
_FINGER: Final = ((0.010, 0.008, 0.034), (0.22, 0.22, 0.24))


def cubes(rng: np.random.Generator, count: int, task: Task) -> Scene:
    """Cubes of 4 cm, 11 cm or more apart; the first is grasped, the goal of `stack` is on the second."""
    spots = _apart(rng, count, 0.11)
    positions = np.column_stack((spots, np.full(count, CUBE)))
    goal = positions[1] + np.array([0.0, 0.0, 2 * CUBE]) if task == "stack" and count > 1 else None
    names = ("cube",) if count == 1 else tuple(f"cube_{i + 1}" for i in range(count))
    return Scene(names, np.full((count, 3), CUBE), positions, rng.uniform(-0.7, 0.7, count), 0, goal)


def tabletop(rng: np.random.Generator, task: Task) -> Scene:
    """A bowl, cheese, a bottle and a plate before a cabinet with three drawers (LIBERO's goal suite)."""
    half = np.array([[0.035, 0.035, 0.022], [0.022, 0.04, 0.016], [0.02, 0.02, 0.085], [0.06, 0.06, 0.008]])
    spots = np.array([[0.44, -0.10], [0.54, -0.22], [0.62, -0.10], [0.48, 0.07]]) + rng.uniform(
        -0.012, 0.012, (4, 2)
    )
    positions = np.column_stack((spots, half[:, 2]))
    goal = positions[3] + np.array([0.0, 0.0, half[3, 2] + half[0, 2]]) if task == "place" else None
    cabinet = np.asarray(CABINET) + rng.uniform(-0.012, 0.012, 2)
    handle = np.array([cabinet[0] - 0.13, cabinet[1], DRAWER_HEIGHTS[OPENED_DRAWER]])
    names = ("akita_black_bowl_1", "cream_cheese_1", "wine_bottle_1", "plate_1")
    return Scene(names, half, positions, rng.uniform(-0.1, 0.1, 4), 0, goal, cabinet, handle)


def _apart(rng: np.random.Generator, count: int, distance: float) -> Array:
    spots: list[Array] = []
    while len(spots) < count:
        spot = rng.uniform((0.40, -0.2), (0.60, 0.2))
        if all(np.linalg.norm(spot - other) > distance for other in spots):
            spots.append(spot)
    return np.stack(spots)


def boxes_of(rollout: Rollout, rows: slice) -> Boxes:
    """Everything that is drawn for the states `rows` of a rollout: objects, cabinet, hand and fingers."""
    eef_pos, eef_quat = rollout.eef_pos[rows], rollout.eef_quat[rows]
    parts = [(rollout.object_pos[rows], rollout.object_quat[rows])]
    half, colours = (
        [rollout.scene.half_sizes],
        [np.asarray(_PALETTE)[np.arange(len(rollout.scene.names)) % 5]],
    )
    for offset, size, colour in _HAND:
        parts.append(_on_hand(eef_pos, eef_quat, np.broadcast_to(offset, eef_pos.shape)))
        half.append(np.asarray([size]))
        colours.append(np.asarray([colour]))
    for side in (-1.0, 1.0):
        shift = np.zeros_like(eef_pos)
        shift[:, 1] = side * (rollout.fingers[rows] + _FINGER[0][1])
        shift[:, 2] = -0.022
        parts.append(_on_hand(eef_pos, eef_quat, shift))
        half.append(np.asarray([_FINGER[0]]))
        colours.append(np.asarray([_FINGER[1]]))
    if rollout.scene.cabinet is not None:
        _add_cabinet(rollout.scene.cabinet, rollout.slide[rows], parts, half, colours)
    position, orientation = (np.concatenate(values, axis=1) for values in zip(*parts, strict=True))
    return Boxes(position, orientation, np.concatenate(half), np.concatenate(colours))


def _on_hand(eef_pos: Array, eef_quat: Array, offset: Array) -> tuple[Array, Array]:
    return (eef_pos + rotate_xyzw(eef_quat, offset))[:, None], eef_quat[:, None]


def _add_cabinet(
    place: Array, slide: Array, parts: list[tuple[Array, Array]], half: list[Array], colours: list[Array]
) -> None:
    upright = np.tile([0.0, 0.0, 0.0, 1.0], (slide.size, 4, 1))
    position = np.empty((slide.size, 4, 3))
    position[:, 0] = (place[0] + 0.02, place[1], 0.11)
    for index, height in enumerate(DRAWER_HEIGHTS):
        position[:, 1 + index] = (place[0] - 0.1, place[1], height)
        position[:, 1 + index, 0] -= slide if index == OPENED_DRAWER else 0.0
    parts.append((position, upright))
    half.append(np.array([[0.10, 0.11, 0.11], [0.02, 0.10, 0.026], [0.02, 0.10, 0.026], [0.02, 0.10, 0.026]]))
    colours.append(np.array([[0.42, 0.28, 0.18], [0.58, 0.42, 0.27], [0.58, 0.42, 0.27], [0.58, 0.42, 0.27]]))


def static_camera(height: int, width: int, *, place: int = 0, cabinet: bool = False) -> Camera:
    """A camera that stands still and looks at the table.

    Args:
        height: Rows of pixels.
        width: Columns of pixels.
        place: Which of the places around the table, so that two static cameras differ.
        cabinet: True puts the first place where it sees the drawers open.
    """
    places = ((0.16, -0.78, 0.60) if cabinet else (1.15, 0.12, 0.62), (0.55, -0.85, 0.55), (0.62, 0.80, 0.70))
    position, at = np.asarray(places[place % len(places)]), np.array([0.47, 0.02, 0.08])
    return Camera(position, _looking(at - position), STATIC_FOVY, height, width)


def wrist_camera(rollout: Rollout, rows: slice, height: int, width: int) -> Camera:
    """A camera on the hand that looks along the fingers."""
    eef_pos, eef_quat = rollout.eef_pos[rows], rollout.eef_quat[rows]
    position = eef_pos + rotate_xyzw(eef_quat, np.broadcast_to((0.06, 0.0, -0.13), eef_pos.shape))
    turn = kinematics.about((0, 0, 1), -np.pi / 2)
    orientation = multiply_xyzw(eef_quat, np.broadcast_to(turn, eef_quat.shape))
    return Camera(position, orientation, WRIST_FOVY, height, width)


def _looking(direction: Array) -> Array:
    """Orientation of a camera that looks along `direction` with the horizon level (z forward, y down)."""
    forward = direction / np.linalg.norm(direction)
    yaw = np.arctan2(forward[1], forward[0])
    pitch = np.arcsin(-forward[2])
    level = multiply_xyzw(kinematics.about((0, 1, 0), np.pi / 2), kinematics.about((0, 0, 1), -np.pi / 2))
    return multiply_xyzw(
        multiply_xyzw(kinematics.about((0, 0, 1), yaw), kinematics.about((0, 1, 0), pitch)), level
    )
