"""IsaacLab recordings: every `format_version`, and L2 files themselves, which are IsaacLab v1 files.

Layout: IsaacLab's `HDF5DatasetFileHandler` (`/data/demo_<i>`, `initial_state`, `states`, `obs`, `actions`).
What is not here: the other kinds of the same family, see `trajpipe.sources.detection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from trajpipe.core import names
from trajpipe.core.conventions import QuaternionSite
from trajpipe.core.episode import Column
from trajpipe.core.findings import Finding
from trajpipe.sources.base import ReadOptions, register
from trajpipe.sources.demo_source import DemoSource, Streams
from trajpipe.sources.detection import ISAACLAB
from trajpipe.sources.environment import env_name_of
from trajpipe.sources.reading import Defaults, Reading, format_version
from trajpipe.sources.recording import Recording

# Poses of assets in the scene: position, then quaternion.
ROOT_POSES: Final = (QuaternionSite("root_pose", (3,)), QuaternionSite("*/root_pose", (3,)))
# Sites of an environment's own observation terms, by the beginning of its registered name. Each was read off
# a real recording; environments that are not here are asked about.
ENVIRONMENT_SITES: Final[Mapping[str, tuple[QuaternionSite, ...]]] = {
    "Isaac-Stack-Cube-Franka-IK-Rel": (
        QuaternionSite("obs/eef_quat", (0,)),
        QuaternionSite("obs/cube_orientations", (0, 4, 8)),
        # Three cubes as position and quaternion, then relative positions.
        QuaternionSite("obs/object", (3, 10, 17)),
    ),
}


class IsaacLabSource(DemoSource):
    """IsaacLab's recorder: XYZW with `format_version` 1, scalar-first (WXYZ) everywhere before it."""

    kind = ISAACLAB
    title = "IsaacLab recordings (any format_version) and L2 files"
    env_type: ClassVar[int] = names.ENV_TYPE_GYM

    def defaults(self, recording: Recording, options: ReadOptions, /) -> Defaults:
        """Legacy files are wxyz at every `root_pose` and at the sites of their environment."""
        legacy = not format_version(recording) and not recording.is_l2
        name = env_name_of(recording, options.conventions) or ""
        known = (sites for prefix, sites in ENVIRONMENT_SITES.items() if name.startswith(prefix))
        sites = (*next(known, ()), *ROOT_POSES)
        return Defaults("wxyz" if legacy else "xyzw", sites, "opencv", names.Alignment.BEFORE_ACTION)

    def asks_for_quaternions(self, reading: Reading, /) -> bool:
        """A legacy file's undeclared candidates are refused, unless its order is declared to be xyzw."""
        return not reading.recording.is_l2 and reading.quaternions.order == "wxyz"

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
