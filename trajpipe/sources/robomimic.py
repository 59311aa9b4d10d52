"""robomimic files: low-dimensional and image observations, `mask/*`, `next_obs`, RoboTurk sub-groups.

Layout: robomimic's dataset contract. Its `dataset_states_to_obs` turns MuJoCo's bottom-up renderings over
before it stores them (`EnvRobosuite.get_observation` reverses the rows of every rgb key), so images are top row
first by default; a `macros_image_convention` attribute or a declaration says otherwise.
What is not here: raw robosuite collections, see `trajpipe.sources.robosuite`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trajpipe.core.episode import Column
from trajpipe.sources.base import register
from trajpipe.sources.demo_source import DemoSource, Streams
from trajpipe.sources.detection import ROBOMIMIC

_JOINTS: Final = "obs/robot0_joint_pos"


class RobomimicSource(DemoSource):
    """robomimic: `*_quat` is XYZW; flat `states` hold MuJoCo's WXYZ free joints and stay as recorded."""

    kind = ROBOMIMIC
    title = "robomimic and RoboTurk files"

    def streams(self, columns: Mapping[str, Column], /) -> Streams | None:
        """The first robot's joint positions: they follow the time word in the flat MuJoCo state."""
        obs, states = columns.get(_JOINTS), columns.get("states")
        if obs is None or states is None or len(obs.shape) != 2 or len(states.shape) != 2:
            return None
        width = obs.shape[1]
        if states.shape[1] <= width or obs.dtype != states.dtype:
            return None
        return Streams(_JOINTS, "states", slice(1, 1 + width), states_follow=False)


register(RobomimicSource())
