"""Reads an HDF5 file with robomimic 0.3.0: every row through SequenceDataset, and get_dataset_info.

Prints one JSON object. What is not here: judging what was read; the tests do that.
"""

import argparse
import contextlib
import hashlib
import io
import json
import runpy
import sys

import h5py
import numpy as np
import robomimic
import robomimic.utils.obs_utils as obs_utils
from robomimic.utils.dataset import SequenceDataset


def flat_terms(path):
    """Observation terms that are datasets, and those among them that are images."""
    with h5py.File(path, "r") as handle:
        demo = handle["data"][min(handle["data"])]
        obs = {k: v for k, v in demo["obs"].items() if isinstance(v, h5py.Dataset)} if "obs" in demo else {}
        keys = [k for k in ("actions", "rewards", "dones", "states") if isinstance(demo.get(k), h5py.Dataset)]
        images = sorted(k for k, v in obs.items() if v.dtype == np.uint8 and v.ndim == 4)
        masks = sorted(handle["mask"]) if "mask" in handle else []
    return sorted(obs), images, keys, masks


def digest(rows):
    """Shape, dtype and SHA-256 of stacked rows."""
    array = np.ascontiguousarray(np.stack(rows))
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
    }


def read_rows(path, terms, keys, mask):
    """Every row of every demo as SequenceDataset hands it out, one row per item."""
    dataset = SequenceDataset(
        hdf5_path=path,
        obs_keys=terms,
        dataset_keys=keys,
        hdf5_cache_mode="all",
        hdf5_use_swmr=False,
        filter_by_attribute=mask,
        load_next_obs=False,
    )
    rows = {name: {} for name in dataset.demos}
    for index in range(len(dataset)):
        item = dataset[index]
        into = rows[dataset._index_to_demo_id[index]]
        for term, value in item.get("obs", {}).items():
            into.setdefault(f"obs/{term}", []).append(value[0])
        for key in keys:
            into.setdefault(key, []).append(item[key][0])
    return dataset, {name: {k: digest(v) for k, v in columns.items()} for name, columns in rows.items()}


def dataset_info(path):
    """What robomimic's own get_dataset_info says, and the error it ends with, if any."""
    said, error, before = io.StringIO(), None, sys.argv
    sys.argv = ["get_dataset_info", "--dataset", path, "--verbose"]
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_module("robomimic.scripts.get_dataset_info", run_name="__main__")
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    finally:
        sys.argv = before
    return said.getvalue(), error


def main():
    """Read the file named on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    path = parser.parse_args().path
    terms, images, keys, masks = flat_terms(path)
    with contextlib.redirect_stdout(sys.stderr):
        low_dim = [t for t in terms if t not in images]
        obs_utils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": low_dim, "rgb": images}})
        dataset, demos = read_rows(path, terms, keys, None)
        by_mask = {mask: list(read_rows(path, terms, keys, mask)[0].demos) for mask in masks}
    info, error = dataset_info(path)
    out = {
        "version": robomimic.__version__,
        "demos": list(dataset.demos),
        "transitions": len(dataset),
        "columns": demos,
        "masks": by_mask,
        "info": info,
        "info_error": error,
    }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
