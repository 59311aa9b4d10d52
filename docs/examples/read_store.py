"""Read a store with h5py, hdf5plugin for images: python docs/examples/read_store.py data/stores/x.h5."""

import sys

import h5py
import hdf5plugin  # noqa: F401  (registers zstd; a store without images needs h5py alone)

with h5py.File(sys.argv[1]) as file:
    lines = bytes(file["__manifest__"][:]).decode().splitlines()
    columns = [line.removeprefix("column=").split(":")[0] for line in lines if line.startswith("column=")]
    tasks = [line.split("\t", 1)[1].strip('"') for line in lines if line.startswith("task=")]
    offsets, lengths = file["ep_offset"][:], file["ep_len"][:]
    print(len(lengths), "episodes,", int(lengths.sum()), "rows,", len(tasks), "tasks")
    for name in columns:
        print(f"{name:16} {file[name].dtype} {file[name].shape}")
    start, stop = offsets[0], offsets[0] + lengths[0]
    task = int(file["task_index"][start].ravel()[0])
    print("first episode:", repr(tasks[task]), "action", file["action"][start:stop].shape)
    if "images" in file:
        frame = file["images"][start, 0]  # camera 0, (3, H, W) uint8, row 0 is the top
        print("first frame:", frame.shape, "mean", round(float(frame.mean()), 2))
    if "fixture_names" in file:
        for body, pos in zip(file["fixture_names"][:], file["fixture_pos"][0], strict=True):
            print("fixture", body.decode(), pos)
