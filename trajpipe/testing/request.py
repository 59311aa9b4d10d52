"""What is asked of a generated recording: the options that all kinds share, and the rollouts they give.

What is not here: what a format makes of a rollout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from trajpipe.core.errors import UsageError
from trajpipe.testing import scenes
from trajpipe.testing.motion import Rollout, Style, Task, roll_out
from trajpipe.testing.render import Camera, Film

Options = TypeVar("Options")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Options that every kind understands.

    Attributes:
        episodes: Number of demos.
        rows: Shortest and longest episode, in actions.
        seed: Decides everything that is random.
        image_size: Height and width of every camera, or camera → size.
        cameras: Names; one with `wrist` or `hand` in it rides on the hand. None = the kind's usual ones.
        lengths: Exact number of actions per demo, instead of `rows`.
        failures: Demos (by position) in which the gripper misses the object.
        style: Who drives: `scripted`, `rl` or `teleop`.
        task: What is done: `lift`, `stack`, `place` or `pull`; None = the kind's usual one.
        numbers: Number in the name `demo_<i>` per demo, instead of counting.
        fps: Rows per second.
        noise: Share of pixels that sensor noise touches.
    """

    episodes: int = 3
    rows: tuple[int, int] = (40, 60)
    seed: int = 0
    image_size: int | Mapping[str, int] = 84
    cameras: tuple[str, ...] | None = None
    lengths: tuple[int, ...] | None = None
    failures: tuple[int, ...] = ()
    style: Style = "scripted"
    task: Task | None = None
    numbers: tuple[int, ...] | None = None
    fps: int = 20
    noise: float = 0.02

    def __post_init__(self) -> None:
        for name in ("lengths", "numbers"):
            given = getattr(self, name)
            if given is not None and len(given) != self.episodes:
                raise UsageError(
                    f"`{name}` needs one value per episode", got=len(given), expected=self.episodes
                )
        if self.episodes < 1 or not 1 <= self.rows[0] <= self.rows[1] or min(self.lengths or (1,)) < 1:
            raise UsageError(
                "a recording has episodes of 1 or more rows",
                got=f"episodes={self.episodes}, rows={self.rows}",
            )

    def demo_names(self, first: int = 0) -> list[str]:
        """`demo_<i>` per episode, counting from `first` unless numbers were given."""
        numbers = self.numbers or range(first, first + self.episodes)
        return [f"demo_{number}" for number in numbers]

    def rollouts(self, task: Task, *, objects: int = 1, tabletop: bool = False) -> Iterator[Rollout]:
        """One rollout per episode; each has a random stream of its own, so adding episodes changes none."""
        for index in range(self.episodes):
            rng = np.random.default_rng([self.seed, index])
            length = int(rng.integers(self.rows[0], self.rows[1] + 1))
            scene = scenes.tabletop(rng, task) if tabletop else scenes.cubes(rng, objects, task)
            yield roll_out(
                rng,
                scene,
                self.lengths[index] if self.lengths is not None else length,
                task=task,
                style=self.style,
                succeed=index not in self.failures,
                dt=1.0 / self.fps,
            )

    def films(
        self, rollout: Rollout, rows: slice, usual: tuple[str, ...], *, top_first: bool = True
    ) -> dict[str, Film]:
        """Camera → film of the states `rows`.

        Args:
            rollout: What happens.
            rows: Which of its S states are filmed.
            usual: Cameras when none were asked for.
            top_first: False stores the bottom row first.
        """
        boxes = scenes.boxes_of(rollout, rows)
        films = {}
        for index, name in enumerate(usual if self.cameras is None else self.cameras):
            size = self.image_size if isinstance(self.image_size, int) else self.image_size[name]
            camera = self._camera(name, index, rollout, rows, size)
            films[name] = Film(
                camera, boxes, seed=self.seed * 31 + index, noise=self.noise, top_first=top_first
            )
        return films

    def _camera(self, name: str, index: int, rollout: Rollout, rows: slice, size: int) -> Camera:
        if "wrist" in name or "hand" in name:
            return scenes.wrist_camera(rollout, rows, size, size)
        return scenes.static_camera(size, size, place=index, cabinet=rollout.scene.cabinet is not None)


def options_from(kind: str, form: type[Options], values: Mapping[str, Any]) -> Options:
    """A dataclass of options from keywords.

    Raises:
        UsageError: an unknown option; names the allowed ones.
    """
    allowed = [f.name for f in fields(form)]  # type: ignore[arg-type]  # every form here is a dataclass
    unknown = sorted(set(values) - set(allowed))
    if unknown:
        common = [f.name for f in fields(Request)]
        raise UsageError(
            f"no such option of a generated `{kind}` recording",
            got=", ".join(unknown),
            expected=f"one of {', '.join(sorted({*allowed, *common}))}",
        )
    return form(**values)
