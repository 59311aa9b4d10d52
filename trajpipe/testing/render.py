"""A small software renderer: a table, shaded boxes, soft shadows and sensor noise, so that codecs behave as on real data.

Every frame depends on its own row and the seed alone: frames can be drawn in blocks of any size.
What is not here: where the boxes are, see `trajpipe.testing.scenes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.quaternions import conjugate_xyzw, rotate_xyzw
from trajpipe.testing import kinematics

Array = NDArray[Any]

_LIGHT: Final = np.array([0.35, 0.45, 0.82]) / np.linalg.norm([0.35, 0.45, 0.82])
_SUN: Final = 150.0
_FAR: Final = 1e6
_NOISE_PATTERNS: Final = 8


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera that stands still or moves with the hand.

    Attributes:
        position: (3,) or (T, 3) m.
        orientation: (4,) or (T, 4) xyzw; the camera looks along its +z, +x is right, +y is down.
        fovy: Vertical field of view, degrees.
        height: Rows of pixels.
        width: Columns of pixels.
    """

    position: Array
    orientation: Array
    fovy: float
    height: int
    width: int

    @property
    def moves(self) -> bool:
        """True when the pose has a time axis."""
        return self.position.ndim == 2

    def rays(self) -> Array:
        """(H, W, 3) unit directions in the camera's frame, row 0 on top."""
        focal = 0.5 * self.height / np.tan(np.radians(self.fovy) / 2.0)
        x = (np.arange(self.width) + 0.5 - self.width / 2.0) / focal
        y = (np.arange(self.height) + 0.5 - self.height / 2.0) / focal
        grid = np.stack((*np.meshgrid(x, y), np.ones((self.height, self.width))), axis=-1)
        return np.asarray(grid / np.linalg.norm(grid, axis=-1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Boxes:
    """What is drawn above the table.

    Attributes:
        position: (T, B, 3) m.
        orientation: (T, B, 4) xyzw.
        half_sizes: (B, 3) m.
        colours: (B, 3) in [0, 1].
        table: Height of the table top, m.
    """

    position: Array
    orientation: Array
    half_sizes: Array
    colours: Array
    table: float = 0.0


@dataclass(frozen=True, slots=True)
class Film:
    """The frames of one camera over one episode, drawn when read.

    Attributes:
        camera: Where from.
        boxes: What.
        seed: Of the noise.
        noise: Share of pixels that sensor noise changes by one step in each frame.
        top_first: False stores the bottom row first, as OpenGL reads its buffers.
    """

    camera: Camera
    boxes: Boxes
    seed: int = 0
    noise: float = 0.02
    top_first: bool = True

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(T, H, W, 3)."""
        return self.boxes.position.shape[0], self.camera.height, self.camera.width, 3

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Frames [start, stop) as (n, H, W, 3) uint8 RGB."""
        rays, noise = self.camera.rays(), self._noise()
        backdrop = None if self.camera.moves else _backdrop(*_world(self.camera, rays, 0), self.boxes)
        frames = np.empty((stop - start, *self.shape[1:]), dtype=np.uint8)
        for row in range(start, stop):
            image = _draw(self.camera, self.boxes, rays, row, backdrop) * 255.0 + 0.5
            image += noise[(row * 5) % len(noise)][..., None]
            frames[row - start] = np.clip(image, 0, 255).astype(np.uint8)
        return frames if self.top_first else frames[:, ::-1]

    def _noise(self) -> Array:
        rng = np.random.default_rng([self.seed, 77])
        steps = rng.choice(
            np.array([-1, 0, 1], dtype=np.int8),
            size=(_NOISE_PATTERNS, *self.shape[1:3]),
            p=[self.noise / 2, 1 - self.noise, self.noise / 2],
        )
        return np.asarray(steps)


def _pose(camera: Camera, row: int) -> tuple[Array, Array]:
    return (
        (camera.position[row], camera.orientation[row])
        if camera.moves
        else (camera.position, camera.orientation)
    )


def _world(camera: Camera, rays: Array, row: int) -> tuple[Array, Array]:
    position, orientation = _pose(camera, row)
    return position, rays @ kinematics.matrix(orientation).T


def _backdrop(position: Array, rays: Array, boxes: Boxes) -> tuple[Array, Array, Array]:
    """Colours (H, W, 3), depth (H, W) and the points (H, W, 2) where each ray meets the table's plane."""
    down = np.minimum(rays[..., 2], -1e-6)
    depth = (boxes.table - position[2]) / down
    depth = np.where(rays[..., 2] < -1e-6, depth, _FAR)
    points = position[:2] + rays[..., :2] * np.minimum(depth, 1e3)[..., None]
    x, y = points[..., 0], points[..., 1]
    inside = (x > -0.1) & (x < 1.0) & (np.abs(y) < 0.6) & (depth < _FAR)
    grain = 0.05 * np.sin(46.0 * y + 3.0 * np.sin(7.0 * x)) + 0.03 * np.sin(131.0 * y + 11.0 * x)
    lit = np.clip(0.62 + 0.22 * x + grain, 0.0, 1.0)[..., None] * np.array([0.86, 0.70, 0.52])
    wall = np.clip(0.45 + 0.35 * rays[..., 2], 0.12, 0.9)[..., None] * np.array([0.80, 0.84, 0.92])
    return np.where(inside[..., None], lit, wall), np.where(inside, depth, _FAR), points


def _draw(
    camera: Camera, boxes: Boxes, rays: Array, row: int, backdrop: tuple[Array, Array, Array] | None
) -> Array:
    position, world = _world(camera, rays, row)
    colours, depth, points = backdrop if backdrop is not None else _backdrop(position, world, boxes)
    image, depth = colours.copy(), depth.copy()
    rects = [_rectangle(camera, boxes, row, index) for index in range(boxes.half_sizes.shape[0])]
    for index, half in enumerate(boxes.half_sizes):
        _cast_shadow(image, depth, points, boxes.position[row, index], half, boxes.table)
    for index, rect in enumerate(rects):
        if rect is not None:
            _draw_box(image, depth, position, world, rect, boxes, row, index)
    return image


def _cast_shadow(image: Array, depth: Array, points: Array, centre: Array, half: Array, table: float) -> None:
    height = centre[2] - half[2] - table
    strength = 0.45 * np.exp(-height / 0.08)
    if strength < 0.02:
        return
    spread = 2.0 * (1.25 * float(half[:2].max()) + 0.2 * height) ** 2
    away = ((points - (centre[:2] - 0.4 * height * _LIGHT[:2])) ** 2).sum(axis=-1)
    near = (away < 3.0 * spread) & (depth < _FAR)
    image[near] *= (1.0 - strength * np.exp(-away[near] / spread))[..., None]


def _rectangle(camera: Camera, boxes: Boxes, row: int, index: int) -> tuple[slice, slice] | None:
    """Pixels that the box may cover; None when it is out of view."""
    signs = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), axis=-1).reshape(-1, 3)
    corners = signs * boxes.half_sizes[index]
    corners = boxes.position[row, index] + rotate_xyzw(
        np.tile(boxes.orientation[row, index], (8, 1)), corners
    )
    position, orientation = _pose(camera, row)
    seen = rotate_xyzw(np.tile(conjugate_xyzw(orientation), (8, 1)), corners - position)
    if (seen[:, 2] <= 0.01).all():
        return None
    if (seen[:, 2] <= 0.01).any():
        return slice(0, camera.height), slice(0, camera.width)
    focal = 0.5 * camera.height / np.tan(np.radians(camera.fovy) / 2.0)
    u = seen[:, 0] / seen[:, 2] * focal + camera.width / 2.0
    v = seen[:, 1] / seen[:, 2] * focal + camera.height / 2.0
    top, bottom = max(int(v.min()) - 1, 0), min(int(v.max()) + 2, camera.height)
    left, right = max(int(u.min()) - 1, 0), min(int(u.max()) + 2, camera.width)
    return (slice(top, bottom), slice(left, right)) if top < bottom and left < right else None


def _draw_box(
    image: Array,
    depth: Array,
    position: Array,
    rays: Array,
    rect: tuple[slice, slice],
    boxes: Boxes,
    row: int,
    index: int,
) -> None:
    turn = kinematics.matrix(boxes.orientation[row, index])
    origin = (position - boxes.position[row, index]) @ turn
    direction = rays[rect] @ turn
    direction = np.where(np.abs(direction) < 1e-9, 1e-9, direction)
    half = boxes.half_sizes[index]
    near, far = (-half - origin) / direction, (half - origin) / direction
    enter = np.minimum(near, far)
    entry = enter.max(axis=-1)
    hit = (entry < np.maximum(near, far).min(axis=-1)) & (entry > 0.0) & (entry < depth[rect])
    if not hit.any():
        return
    axis = enter[hit].argmax(axis=-1)
    normal = turn.T[axis] * -np.sign(direction[hit][np.arange(axis.size), axis])[:, None]
    shade = 0.38 + 0.62 * np.clip(normal @ _LIGHT, 0.0, 1.0) + 0.04 * np.sin(_SUN * entry[hit])
    image[rect][hit] = np.clip(shade[:, None] * boxes.colours[index], 0.0, 1.0)
    depth[rect][hit] = entry[hit]
