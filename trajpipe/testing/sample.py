"""The bundled sample: small raw recordings of every kind, as `data/datasets.yaml` declares them.

Each set shows what the pipeline is for: mixed sources, repairs, and a few demos that are honestly rejected.
What is not here: the catalogue itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trajpipe.core import names
from trajpipe.core.temporaries import temporary_beside
from trajpipe.testing.recording import write_recording


@dataclass(frozen=True, slots=True)
class SampleFile:
    """One raw file of the sample.

    Attributes:
        path: Below the data folder.
        kind: Kind of recording.
        options: Keywords of `write_recording`.
    """

    path: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


_LIFT: Final = {"episodes": 4, "rows": (32, 44)}

SAMPLE: Final = (
    # three kinds of driver, one task; the policy fails once, a script wrote one NaN
    SampleFile(
        "raw/lift_mixed/scripted_lift.hdf5", "isaaclab", {**_LIFT, "seed": 11, "defects": ("nan-action",)}
    ),
    SampleFile(
        "raw/lift_mixed/rl_lift.hdf5", "isaaclab", {**_LIFT, "seed": 12, "style": "rl", "failures": (2,)}
    ),
    # an early hand-driven collection: robomimic's form, other term names, scalar-first quaternions
    SampleFile(
        "raw/lift_mixed/teleop_lift.hdf5",
        "robomimic",
        {
            "episodes": 3,
            "lengths": (48, 5, 52),
            "seed": 13,
            "style": "teleop",
            "environment": "isaaclab",
            "quaternion_order": "wxyz",
            "next_obs": False,
            "masks": False,
            "cameras": ("table_image", "wrist_image"),
        },
    ),
    # a recorder of 2.x: no format_version, wxyz in five places, deleted demos that `total` still counts
    SampleFile(
        "raw/stack_legacy/teleop_stack.hdf5",
        "isaaclab",
        {
            "episodes": 6,
            "rows": (48, 60),
            "seed": 21,
            "style": "teleop",
            "task": "stack",
            "format_version": None,
            "sim_args": False,
            "gzip": False,
            "cameras": ("table_cam",),
            "numbers": (0, 1, 2, 6, 9, 12),
            "defects": ("numbering-gap", "total-wrong"),
        },
    ),
    SampleFile(
        "raw/libero_sample/put_the_bowl_on_the_plate_demo.hdf5",
        "libero",
        {"episodes": 2, "rows": (34, 42), "seed": 31, "style": "teleop", "task": "place"},
    ),
    SampleFile(
        "raw/libero_sample/open_the_middle_drawer_of_the_cabinet_demo.hdf5",
        "libero",
        {"episodes": 2, "rows": (30, 38), "seed": 32, "style": "teleop", "task": "pull", "gzip": True},
    ),
    SampleFile(
        "raw/robomimic_image/lift_ph_image.hdf5",
        "robomimic",
        {"episodes": 4, "rows": (34, 44), "seed": 41, "style": "teleop", "next_obs": False, "gzip": True},
    ),
    SampleFile(
        "raw/robosuite_raw/stack_demo.hdf5",
        "robosuite",
        {"episodes": 3, "rows": (50, 64), "seed": 51, "style": "teleop", "task": "stack"},
    ),
)


def write_sample(folder: Path, *, replace: bool = False) -> list[Path]:
    """Write the sample's raw files that are not there yet, each whole or not at all.

    Args:
        folder: The data folder; files go to `raw/<dataset>/` below it.
        replace: Write files that exist, too.

    Returns:
        Every file of the sample, in order.
    """
    paths = []
    for sample in SAMPLE:
        target = Path(folder) / sample.path
        if replace or not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = temporary_beside(target)
            try:
                write_recording(sample.kind, temporary, **sample.options).replace(target)
            finally:
                temporary.unlink(missing_ok=True)
        paths.append(target)
    return paths


def sample_datasets() -> list[str]:
    """Names of the sample's datasets, in order."""
    found = [sample.path.removeprefix(f"{names.FOLDER_RAW}/").split("/", 1)[0] for sample in SAMPLE]
    return list(dict.fromkeys(found))
