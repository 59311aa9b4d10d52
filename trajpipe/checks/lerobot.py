"""All rules of the stage `lerobot`: importing this module registers them.

What is not here: the rules themselves, one module per subject beside this one.
"""

from __future__ import annotations

from trajpipe.checks import (
    certificate,
    certificate_counts,
    lerobot_gr00t,
    lerobot_l2,
    lerobot_meta,
    lerobot_rows,
    lerobot_stats,
    lerobot_video,
)

__all__ = [
    "certificate",
    "certificate_counts",
    "lerobot_gr00t",
    "lerobot_l2",
    "lerobot_meta",
    "lerobot_rows",
    "lerobot_stats",
    "lerobot_video",
]
