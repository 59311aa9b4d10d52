"""Read an L2 file with h5py alone: python docs/examples/read_l2.py data/demos/teleop_lift.hdf5."""

import json
import sys

import h5py

with h5py.File(sys.argv[1]) as file:
    data = file["data"]
    print("format_version", file.attrs["format_version"], "· rows", data.attrs["total"])
    print("environment", json.loads(data.attrs["env_args"])["env_name"])
    for name in sorted(data, key=lambda n: int(n.removeprefix("demo_"))):
        demo = data[name]
        actions = demo["actions"][:]  # (T, A) float32
        terms = {t: d.shape[1:] for t, d in demo.get("obs", {}).items() if isinstance(d, h5py.Dataset)}
        print(name, demo.attrs["source"], repr(demo.attrs["task"]), actions.shape, terms)
        if "initial_state/libero/init_state" in demo:
            print("  initial state", demo["initial_state/libero/init_state"].shape)
        print("  recorded by", demo.attrs["source_file"], demo.attrs["source_demo"])
