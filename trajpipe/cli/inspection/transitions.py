"""`.demo` files: flat transitions with an episode table.

What is not here: the format, see `trajpipe.store.demo_file`.
"""

from pathlib import Path

from trajpipe.cli.inspection.model import Episodes, Inspection, Layout, Node, Ranges, tally
from trajpipe.cli.inspection.recordings import BLOCK_ROWS


def inspect_transitions(path: Path, found: Inspection) -> None:
    """Fill in widths, rows, episodes and the ranges of `action`.

    Raises:
        UnreadableError: it cannot be read.
        InputError: the file's size is not what its header says, or the version is unknown.
    """
    from trajpipe.store.demo_file import read_demo

    demo = read_demo(path)
    ranges = Ranges("action")
    for start in range(0, len(demo.rows), BLOCK_ROWS):
        ranges.add(demo.rows["action"][start : start + BLOCK_ROWS])
    found.ranges.append(ranges)
    lengths = [int(n) for n in demo.episodes["length"]]
    marks = tally("yes" if s else "no" for s in demo.episodes["success"].tolist())
    found.episodes = Episodes([str(i) for i in range(len(lengths))], lengths, success=marks)
    found.facts = {
        "rows": len(demo.rows),
        "obs_dim": demo.obs_dim,
        "act_dim": demo.act_dim,
        "rows with a human's intervention": int(demo.human.sum()),
    }
    dtype = demo.rows.dtype
    nodes = [Node(n, str(dtype[n].base), ("N", *dtype[n].shape)) for n in dtype.names or ()]
    found.layouts = [Layout("transition", nodes)]
