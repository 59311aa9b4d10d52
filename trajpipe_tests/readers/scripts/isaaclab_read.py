"""Reads an HDF5 file with IsaacLab 2.3.2's own HDF5DatasetFileHandler: every episode, every tensor.

The handler comes from the unpacked wheel (first argument); the simulator that its package imports is not
there, so its three modules are loaded alone. Prints one JSON object. What is not here: judging what was read.
"""

import argparse
import hashlib
import importlib
import json
import sys
import types
from pathlib import Path

import numpy as np


def handler_class(unpacked):
    """The wheel's handler class, loaded without the packages above it."""
    folders = list(Path(unpacked).rglob("isaaclab/utils/datasets"))
    if len(folders) != 1:
        sys.exit(f"{len(folders)} datasets packages below {unpacked}, expected 1")
    package = types.ModuleType("isaaclab_datasets")
    package.__path__ = [str(folders[0])]
    sys.modules[package.__name__] = package
    module = importlib.import_module("isaaclab_datasets.hdf5_dataset_file_handler")
    return module.HDF5DatasetFileHandler


def flatten(data, prefix=""):
    """Path → digest of each tensor of a nested dictionary."""
    out = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            out.update(flatten(value, f"{path}/"))
            continue
        array = np.ascontiguousarray(value.numpy())
        out[path] = {
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
    return out


def plain(value):
    """A numpy scalar as JSON's own."""
    return value.item() if isinstance(value, np.generic) else value


def main():
    """Read the file named on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("unpacked")
    parser.add_argument("path")
    arguments = parser.parse_args()
    handler = handler_class(arguments.unpacked)()
    handler.open(arguments.path)
    episodes = {}
    for name in handler.get_episode_names():
        episode = handler.load_episode(name, "cpu")
        episodes[name] = {
            "columns": flatten(episode.data),
            "success": plain(episode.success),
            "seed": plain(episode.seed),
            "first_action": episode.get_next_action().tolist(),
        }
    out = {"episodes": episodes, "count": handler.get_num_episodes(), "env_name": handler.get_env_name()}
    handler.close()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
