"""IsaacLab recordings: every `format_version`, and L2 files themselves, which are IsaacLab v1 files.

Layout: IsaacLab's `HDF5DatasetFileHandler` (`/data/demo_<i>`, `initial_state`, `states`, `obs`, `actions`).
What is not here: the other kinds of the same family, see `trajpipe.sources.detection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from trajpipe.core import names
from trajpipe.core.episode import Column
from trajpipe.core.findings import Finding
from trajpipe.sources.base import ReadOptions, register
from trajpipe.sources.demo_source import DemoSource, Streams
from trajpipe.sources.detection import ISAACLAB
from trajpipe.sources.environment import env_name_of
from trajpipe.sources.isaac_environments import isaac_sites
from trajpipe.sources.reading import Defaults, format_version
from trajpipe.sources.recording import Recording


class IsaacLabSource(DemoSource):
    """IsaacLab's recorder: XYZW with `format_version` 1, scalar-first (WXYZ) everywhere before it."""

    kind = ISAACLAB
    title = "IsaacLab recordings (any format_version) and L2 files"
    env_type: ClassVar[int] = names.ENV_TYPE_GYM

    def defaults(self, recording: Recording, options: ReadOptions, /) -> Defaults:
        """Legacy files are wxyz at every `root_pose` and at the sites of their environment."""
        legacy = not format_version(recording) and not recording.is_l2
        sites = isaac_sites(env_name_of(recording, options.conventions))
        return Defaults("wxyz" if legacy else "xyzw", sites, "opencv", names.Alignment.BEFORE_ACTION)

    def check_recording(self, recording: Recording, options: ReadOptions, /) -> list[Finding]:
        """A missing `format_version` is named: it makes the file a legacy one."""
        found = super().check_recording(recording, options)
        if format_version(recording) is None:
            order = options.conventions.quaternion_order
            message = "format_version is missing"
            got = f"the declared {order}" if order else "legacy, wxyz"
            place = recording.place(None, f"@{names.ATTR_FORMAT_VERSION}")
            found.append(
                recording.finding("format-version-missing", message, place=place, got=got, expected=1)
            )
        return found

    def streams(self, columns: Mapping[str, Column], /) -> Streams | None:
        """Joint velocities: `obs/joint_vel[t+1] == states/…/joint_velocity[t]`, exactly."""
        robots = [p for p in columns if p.startswith("states/") and p.endswith("/joint_velocity")]
        obs = columns.get("obs/joint_vel")
        if obs is None or len(robots) != 1 or columns[robots[0]].shape[1:] != obs.shape[1:]:
            return None
        return Streams("obs/joint_vel", robots[0], slice(None), states_follow=True)


register(IsaacLabSource())
