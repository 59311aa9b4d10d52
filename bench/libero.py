"""The image path of a LIBERO suite against the loop that one would write with h5py: raw → L2, L2 → store.

    python bench/libero.py [--demos 4] [--rows 150] [--rounds 7] [--frames RECORDING.hdf5 …]

Frames are generated, or those of real recordings, repeated: how well they deflate is half of the matter.

Both sides do the same work: inflate, turn over, deflate; then inflate, HWC → CHW, zstd. Checks are left
out on both sides. What is not here: low-dimensional columns, which cost nothing, and memory (`memory.py`).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

import h5py
import hdf5plugin
import numpy as np
from rounds import Row, Stopwatch, measure, report

from trajpipe.core.provenance import Recipe
from trajpipe.demos.select import Filters
from trajpipe.pipeline.build_store import write_store
from trajpipe.pipeline.ingest import IngestPlan, write_demos
from trajpipe.pipeline.store_plan import LiberoOptions, StorePlan
from trajpipe.testing import write_recording

TARGET: Final = 0.4
CAMERAS: Final = ("agentview_rgb", "eye_in_hand_rgb")
TASK: Final = "put_the_bowl_on_the_plate"


def naive_l2(raw: Path, out: Path) -> None:
    """Raw → L2 images, demo by demo: read, turn over, write with gzip."""
    out.unlink(missing_ok=True)
    with h5py.File(raw) as source, h5py.File(out, "w") as target:
        for demo in source["data"]:
            for camera in CAMERAS:
                frames = source[f"data/{demo}/obs/{camera}"][()][:, ::-1]
                target.create_dataset(
                    f"data/{demo}/obs/{camera}",
                    data=frames,
                    chunks=(1, *frames.shape[1:]),
                    compression="gzip",
                )
            for column in ("actions", "states"):
                target[f"data/{demo}/{column}"] = source[f"data/{demo}/{column}"][()]


def naive_store(l2: Path, out: Path) -> None:
    """L2 → store images, demo by demo: read, transpose, append with zstd."""
    out.unlink(missing_ok=True)
    with h5py.File(l2) as source, h5py.File(out, "w") as target:
        images = None
        for demo in source["data"]:
            frames = [source[f"data/{demo}/obs/{camera}"][()] for camera in CAMERAS]
            block = np.stack([f.transpose(0, 3, 1, 2) for f in frames], axis=1)
            if images is None:
                images = target.create_dataset(
                    "images",
                    shape=(0, *block.shape[1:]),
                    maxshape=(None, *block.shape[1:]),
                    chunks=(16, *block.shape[1:]),
                    dtype=np.uint8,
                    **hdf5plugin.Zstd(clevel=1),
                )
            images.resize(len(images) + len(block), axis=0)
            images[-len(block) :] = block


def put_frames(raw: Path, recordings: list[Path]) -> None:
    """Replace a recording's frames by those of others, joined and repeated; another start for each demo."""
    for camera in CAMERAS:
        parts = []
        for path in recordings:
            with h5py.File(path) as file:
                parts += [file[f"data/{demo}/obs/{camera}"][()] for demo in file["data"]]
        frames = np.concatenate(parts)
        with h5py.File(raw, "r+") as file:
            for number, demo in enumerate(file["data"]):
                data = file[f"data/{demo}/obs/{camera}"]
                data[...] = np.take(frames, np.arange(len(data)) + 5 * number, axis=0, mode="wrap")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demos", type=int, default=4)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--frames", type=Path, nargs="+", default=[], help="real recordings of 128 by 128")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        raw = write_recording(
            "libero", root / f"{TASK}_demo.hdf5", episodes=args.demos, rows=(args.rows, args.rows), gzip=True
        )
        if args.frames:
            put_frames(raw, args.frames)
        ingest = IngestPlan("bench", "x", raw, "libero", root / "l2.hdf5", filters=Filters())
        recipe = Recipe("demos", {raw.name: ""}, {}, "bench")
        write_demos(ingest, recipe, root / "l2.hdf5")
        naive_l2(raw, root / "naive.hdf5")
        store = StorePlan("bench", (root / "l2.hdf5",), root / "s.h5", libero=LiberoOptions("libero_goal"))

        def ours_store(_: Stopwatch) -> None:
            write_store(store, Recipe("store", {}, {}, "bench"), root / "out.h5")

        found = measure(
            {
                "naive l2": lambda _: naive_l2(raw, root / "n.hdf5"),
                "ours l2": lambda _: _unit(write_demos(ingest, recipe, root / "o.hdf5")),
                "naive store": lambda _: naive_store(root / "naive.hdf5", root / "n.h5"),
                "ours store": ours_store,
            },
            args.rounds,
        )
        sizes = {n: (root / n).stat().st_size / 1e6 for n in ("naive.hdf5", "l2.hdf5", "n.h5", "out.h5")}
    frames = args.demos * args.rows * len(CAMERAS)
    rows = [
        Row(
            f"{stage}",
            "naive h5py loop",
            found[f"ours {key}"].ratio(found[f"naive {key}"]),
            TARGET,
            f"{frames / found[f'ours {key}'].median:,.0f} frames/s against "
            f"{frames / found[f'naive {key}'].median:,.0f}; {sizes[ours]:.1f} MB against {sizes[theirs]:.1f}",
        )
        for stage, key, ours, theirs in (
            ("raw → L2", "l2", "l2.hdf5", "naive.hdf5"),
            ("L2 → store", "store", "out.h5", "n.h5"),
        )
    ]
    print(report(rows))


def _unit(_: object) -> None:
    """Throw a result away."""


if __name__ == "__main__":
    main()
