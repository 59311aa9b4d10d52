"""A small software renderer: table, shaded boxes, soft shadows, noise: codecs behave as on real frames.

Every frame depends on its own row and the seed alone: frames can be drawn in blocks of any size.
What is not here: where the boxes are, see `trajpipe.testing.scenes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.testing import kinematics

Array = NDArray[Any]

_LIGHT: Final = np.array([0.35, 0.45, 0.82]) / np.linalg.norm([0.35, 0.45, 0.82])
_FAR: Final = 1e6
_NEAR: Final = 0.01
_NOISE_PATTERNS: Final = 8
_EDGE: Final = np.float32(np.exp(-3.0))
_CORNERS: Final = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), axis=-1).reshape(-1, 3)
_RIM: Final = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])


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

    @property
    def focal(self) -> float:
        """Focal length in pixels."""
        return float(0.5 * self.height / np.tan(np.radians(self.fovy) / 2.0))

    def rays(self) -> Array:
        """(H, W, 3) float32 unit directions in the camera's frame, row 0 on top."""
        x = (np.arange(self.width) + 0.5 - self.width / 2.0) / self.focal
        y = (np.arange(self.height) + 0.5 - self.height / 2.0) / self.focal
        grid = np.stack((*np.meshgrid(x, y), np.ones((self.height, self.width))), axis=-1)
        return np.asarray(grid / np.linalg.norm(grid, axis=-1, keepdims=True), dtype=np.float32)


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
        shots = _shots(self.camera, self.boxes, slice(start, stop))
        rays, noise = self.camera.rays(), self._noise()
        backdrop = (
            None if self.camera.moves else _backdrop(shots.position[0], rays @ shots.turn[0].T, self.boxes)
        )
        frames = np.empty((stop - start, *self.shape[1:]), dtype=np.uint8)
        for index in range(stop - start):
            image = _draw(shots, self.boxes, rays, index, backdrop)
            np.multiply(image, 254.0, out=image)
            image += noise[((start + index) * 5) % len(noise)][..., None]
            frames[index] = image
        return frames if self.top_first else frames[:, ::-1]

    def _noise(self) -> Array:
        """Patterns (8, H, W) of -1, 0 and 1, moved up to 1 so that nothing wraps below 0."""
        rng = np.random.default_rng([self.seed, 77])
        shape = (_NOISE_PATTERNS, *self.shape[1:3])
        hit = rng.random(shape, dtype=np.float32) < self.noise
        return np.asarray(1.0 + hit * rng.choice(np.array([-1.0, 1.0]), size=shape), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _Shots:
    """What a block of n frames needs, worked out at once.

    Attributes:
        position: (n, 3) of the camera.
        turn: (n, 3, 3) of the camera: columns are its axes.
        box_turn: (n, B, 3, 3).
        box_position: (n, B, 3).
        box_rect: (n, B, 4) top, bottom, left, right: the pixels each box may cover.
        shadow: (n, B, 3) strength, and where the shadow falls.
        shadow_spread: (n, B) squared width, m².
        shadow_rect: (n, B, 4).
    """

    position: Array
    turn: Array
    box_turn: Array
    box_position: Array
    box_rect: Array
    shadow: Array
    shadow_spread: Array
    shadow_rect: Array


def _shots(camera: Camera, boxes: Boxes, rows: slice) -> _Shots:
    position, turn = boxes.position[rows], kinematics.matrix(boxes.orientation[rows])
    count = position.shape[0]
    seen_from = camera.position[rows] if camera.moves else np.tile(camera.position, (count, 1))
    looking = camera.orientation[rows] if camera.moves else np.tile(camera.orientation, (count, 1))
    axes = kinematics.matrix(looking)
    corners = position[:, :, None] + np.einsum("nbij,bcj->nbci", turn, _CORNERS * boxes.half_sizes[:, None])
    height = position[..., 2] - boxes.half_sizes[:, 2] - boxes.table
    strength = 0.45 * np.exp(-np.maximum(height, 0.0) / 0.08)
    spread = 2.0 * (1.25 * boxes.half_sizes[:, :2].max(axis=1) + 0.2 * np.maximum(height, 0.0)) ** 2
    spot = position[..., :2] - 0.4 * height[..., None] * _LIGHT[:2]
    rim = spot[:, :, None] + _RIM * np.sqrt(3.0 * spread)[..., None, None]
    rim = np.concatenate((rim, np.full((*rim.shape[:3], 1), boxes.table)), axis=-1)
    return _Shots(
        position=seen_from,
        turn=axes.astype(np.float32),
        box_turn=turn,
        box_position=position,
        box_rect=_rectangles(camera, seen_from, axes, corners),
        shadow=np.concatenate((strength[..., None], spot), axis=-1),
        shadow_spread=spread,
        shadow_rect=_rectangles(camera, seen_from, axes, rim),
    )


def _rectangles(camera: Camera, position: Array, axes: Array, points: Array) -> Array:
    """(n, B, 4) top, bottom, left, right of the pixels that (n, B, P, 3) points span; empty when unseen."""
    seen = np.einsum("nbpi,nij->nbpj", points - position[:, None, None], axes)
    behind = seen[..., 2] <= _NEAR
    scale = camera.focal / np.maximum(seen[..., 2], _NEAR)
    u = seen[..., 0] * scale + camera.width / 2.0
    v = seen[..., 1] * scale + camera.height / 2.0
    edges = np.stack(
        (v.min(axis=-1) - 1, v.max(axis=-1) + 2, u.min(axis=-1) - 1, u.max(axis=-1) + 2), axis=-1
    )
    edges[behind.any(axis=-1)] = (0, camera.height, 0, camera.width)
    edges[behind.all(axis=-1)] = 0
    limits = np.array([camera.height, camera.height, camera.width, camera.width])
    return np.asarray(np.clip(edges, 0, limits), dtype=np.int64)


def _backdrop(position: Array, rays: Array, boxes: Boxes) -> tuple[Array, Array, Array]:
    """Colours (H, W, 3), depth (H, W) and points (H, W, 2) where rays meet the table's plane; float32."""
    down = np.minimum(rays[..., 2], np.float32(-1e-6))
    depth = np.float32(boxes.table - position[2]) / down
    points = position[:2].astype(np.float32) + rays[..., :2] * np.minimum(depth, np.float32(1e3))[..., None]
    x, y = points[..., 0], points[..., 1]
    inside = (x > -0.1) & (x < 1.0) & (np.abs(y) < 0.6) & (rays[..., 2] < -1e-6)
    grain = np.float32(0.05) * np.sin(46.0 * y + 3.0 * np.sin(7.0 * x)) + 0.03 * np.sin(131.0 * y + 11.0 * x)
    lit = np.clip(0.62 + 0.22 * x + grain, 0.0, 1.0)
    wall = np.clip(0.45 + 0.35 * rays[..., 2], 0.12, 0.9)
    wood, paint = np.array([0.86, 0.70, 0.52], np.float32), np.array([0.80, 0.84, 0.92], np.float32)
    colours = np.where(inside, lit, wall)[..., None] * np.where(inside[..., None], wood, paint)
    return colours, np.where(inside, depth, np.float32(_FAR)), points


def _draw(
    shots: _Shots, boxes: Boxes, rays: Array, index: int, backdrop: tuple[Array, Array, Array] | None
) -> Array:
    turn = shots.turn[index]
    colours, depth, points = backdrop or _backdrop(shots.position[index], rays @ turn.T, boxes)
    image, depth = colours * _shadows(points, depth, shots, index)[..., None], depth.copy()
    for box in range(boxes.half_sizes.shape[0]):
        top, bottom, left, right = shots.box_rect[index, box]
        if top < bottom and left < right:
            rect = slice(top, bottom), slice(left, right)
            _draw_box(image[rect], depth[rect], rays[rect] @ turn.T, boxes, shots, (index, box))
    return image


def _shadows(points: Array, depth: Array, shots: _Shots, index: int) -> Array:
    """(H, W) share of the light that reaches the table under every box near it."""
    light = np.ones_like(depth)
    for box, (strength, *spot) in enumerate(shots.shadow[index].astype(np.float32)):
        top, bottom, left, right = shots.shadow_rect[index, box]
        if strength > 0.02 and top < bottom and left < right:
            rect = slice(top, bottom), slice(left, right)
            away = (points[rect][..., 0] - spot[0]) ** 2 + (points[rect][..., 1] - spot[1]) ** 2
            fall = np.exp(away * np.float32(-1.0 / shots.shadow_spread[index, box])) - _EDGE
            light[rect] *= 1.0 - strength * np.maximum(fall, 0.0)
    light[depth >= _FAR] = 1.0
    return light


def _draw_box(
    image: Array, depth: Array, rays: Array, boxes: Boxes, shots: _Shots, at: tuple[int, int]
) -> None:
    turn, half = shots.box_turn[at].astype(np.float32), boxes.half_sizes[at[1]].astype(np.float32)
    origin = ((shots.position[at[0]] - shots.box_position[at]) @ shots.box_turn[at]).astype(np.float32)
    direction = rays @ turn
    direction[np.abs(direction) < 1e-7] = 1e-7
    inverse = 1.0 / direction
    middle, reach = -origin * inverse, half * np.abs(inverse)
    enter, leave = middle - reach, middle + reach
    entry = np.maximum(np.maximum(enter[..., 0], enter[..., 1]), enter[..., 2])
    exit_ = np.minimum(np.minimum(leave[..., 0], leave[..., 1]), leave[..., 2])
    hit = (entry < exit_) & (entry > 0.0) & (entry < depth)
    if not hit.any():
        return
    axis = enter[hit].argmax(axis=-1)
    facing = -np.sign(direction[hit][np.arange(axis.size), axis])
    shade = 0.38 + 0.62 * np.clip((_LIGHT.astype(np.float32) @ turn)[axis] * facing, 0.0, 1.0)
    shade += 0.04 * np.sin(150.0 * entry[hit])
    image[hit] = np.clip(shade[:, None] * boxes.colours[at[1]].astype(np.float32), 0.0, 1.0)
    depth[hit] = entry[hit]
