"""Where IsaacLab's environments keep quaternions in their recordings, by the registered name.

What is not here: converting them, see `trajpipe.sources.quaternion_sites`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trajpipe.core.conventions import QuaternionSite

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


def is_isaac(env_name: str | None) -> bool:
    """True for a name that IsaacLab registers (`Isaac-Lift-Cube-Franka-IK-Rel-v0`)."""
    return bool(env_name) and str(env_name).startswith("Isaac-")


def isaac_sites(env_name: str | None) -> tuple[QuaternionSite, ...]:
    """Sites of an environment by its registered name, those of the scene's assets included."""
    found = (sites for prefix, sites in ENVIRONMENT_SITES.items() if (env_name or "").startswith(prefix))
    return (*next(found, ()), *ROOT_POSES)
