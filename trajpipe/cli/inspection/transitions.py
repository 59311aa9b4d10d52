"""`.demo` files: flat transitions with an episode table.

What is not here: writing or importing them.
"""

import os
import struct
from pathlib import Path
from typing import Final

import numpy as np

from trajpipe.cli.inspection.model import Episodes, Inspection, Layout, Node, Ranges, tally
from trajpipe.core.errors import InputError

_HEADER: Final = struct.Struct("<8sIIIQI")
_EPISODE: Final = np.dtype([("start", "<u8"), ("length", "<u8"), ("success", "<u4")])
_BLOCK: Final = 65_536


def inspect_transitions(path: Path, found: Inspection) -> None:
    """Fill in widths, rows, episodes and the ranges of `act`.

    Raises:
        InputError: the file's size is not what its header says, or the version is unknown.
    """
    with path.open("rb") as handle:
        head = handle.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise InputError("a .demo file has a whole header", place=path, got=f"{len(head)} bytes")
        _, version, obs, act, rows, episodes = _HEADER.unpack(head)
        row = _row(obs, act)
        expected = _HEADER.size + rows * row.itemsize + episodes * _EPISODE.itemsize
        actual = os.fstat(handle.fileno()).st_size
        if version != 1 or actual != expected:
            raise InputError(
                "a .demo file has the size that its header says",
                place=path,
                got=f"version {version}, {actual} bytes",
                expected=f"version 1, {expected} bytes",
            )
        ranges = Ranges("act")
        left = rows
        while left:
            block = np.frombuffer(handle.read(min(left, _BLOCK) * row.itemsize), dtype=row)
            ranges.add(block["act"])
            left -= len(block)
        table = np.frombuffer(handle.read(), dtype=_EPISODE)
    lengths = [int(n) for n in table["length"]]
    marks = tally("yes" if s else "no" for s in table["success"].tolist())
    found.episodes = Episodes([str(i) for i in range(episodes)], lengths, success=marks)
    found.facts = {"rows": rows, "obs_dim": obs, "act_dim": act}
    nodes = [Node(n, str(row[n].base), ("N", *row[n].shape)) for n in row.names or ()]
    found.layouts = [Layout("transition", nodes)]
    found.ranges.append(ranges)


def _row(obs: int, act: int) -> "np.dtype[np.void]":
    fields = [("obs", "<f4", (obs,)), ("act", "<f4", (act,)), ("reward", "<f4"), ("next_obs", "<f4", (obs,))]
    return np.dtype([*fields, ("done", "<f4"), ("flags", "<u4")])
