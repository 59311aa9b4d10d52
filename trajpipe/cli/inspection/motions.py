"""Motion clips in CSV, pickle and npz files: clips, rates, joints, ranges.

What is not here: judging them, see `trajpipe check`; tables that are no clip, see `inspection.tables`.
"""

from collections import Counter
from pathlib import Path

import numpy as np

from trajpipe.cli.formatting import count
from trajpipe.cli.inspection.model import Episodes, Inspection, Layout, Node, Ranges
from trajpipe.core.errors import TrajpipeError


def inspect_motions(path: Path, found: Inspection) -> bool:
    """Fill in the clips of a motion file; False, with a note, when it cannot be read as one."""
    from trajpipe.sources.base import ReadOptions, source
    from trajpipe.sources.lafan import DEFAULT_FPS, KIND, read_clips

    try:
        clips = read_clips(path, ReadOptions())
    except TrajpipeError as error:
        found.notes.append(f"not read as a motion clip: {error}")
        return False
    found.kind, found.title = KIND, source(KIND).title
    rates = Counter(f"{float(clip.fps or DEFAULT_FPS):g}" for clip in clips)
    joints = clips[0].joints
    seconds = sum((len(clip) - 1) / float(clip.fps or DEFAULT_FPS) for clip in clips)
    found.facts = {
        "clips": len(clips),
        "frames per second": ", ".join(rates),
        "seconds": round(seconds, 3),
        "joints": len(joints),
    }
    found.episodes = Episodes(
        [c.name for c in clips], [len(c) for c in clips], tags=Counter(mocap=len(clips))
    )
    found.episodes.success["unknown"] = len(clips)
    shapes = {"joint_pos": (len(joints),), "root_pos": (3,), "root_quat": (4,)}
    note = {"root_quat": "scalar last"}
    nodes = [Node(name, "float64", ("T", *shape), note=note.get(name, "")) for name, shape in shapes.items()]
    found.layouts = [Layout(f"each of {count(len(clips), 'clip')}", nodes)]
    ranges = Ranges("joint_pos")
    ranges.names = list(joints)
    for clip in clips:
        if clip.joints == joints:
            ranges.add(np.asarray(clip.joint_pos))
    found.ranges.append(ranges)
    others = sorted({name for clip in clips for name in clip.left_out})
    if others:
        found.notes.append(f"also holds {', '.join(others)}")
    found.notes += dict.fromkeys(finding.message for clip in clips for finding in clip.findings)
    return True
