"""robomimic files: low-dimensional and image observations, `mask/*`, `next_obs`, RoboTurk sub-groups.

Its `dataset_states_to_obs` turns MuJoCo's bottom-up renderings over before it stores them
(`EnvRobosuite.get_observation` reverses the rows of every rgb key), so images are top row first by default; a
`macros_image_convention` attribute or a declaration says otherwise. Early IsaacLab collectors recorded in
this form too, with scalar-first quaternions: such files are asked about as IsaacLab's own are.
What is not here: raw robosuite collections, see `trajpipe.sources.robosuite`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trajpipe.core import names
from trajpipe.core.episode import Column
from trajpipe.sources.base import ReadOptions, register
from trajpipe.sources.demo_source import DemoSource, Streams
from trajpipe.sources.detection import ROBOMIMIC
from trajpipe.sources.environment import env_name_of
from trajpipe.sources.isaac_environments import is_isaac, isaac_sites
from trajpipe.sources.reading import Defaults
from trajpipe.sources.recording import Recording

_JOINTS: Final = "obs/robot0_joint_pos"


class RobomimicSource(DemoSource):
    """robomimic: `*_quat` is XYZW; flat `states` hold MuJoCo's WXYZ free joints and stay as recorded."""

    kind = ROBOMIMIC
    title = "robomimic and RoboTurk files"

    def defaults(self, recording: Recording, options: ReadOptions, /) -> Defaults:
        """XYZW; an IsaacLab environment's recording is scalar-first, as before `format_version` 1."""
        env_name = env_name_of(recording, options.conventions)
        before = names.Alignment.BEFORE_ACTION
        if is_isaac(env_name):
            return Defaults("wxyz", isaac_sites(env_name), alignment=before)
        return Defaults(alignment=before)

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
