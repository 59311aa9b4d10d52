"""Loads a LeRobot dataset with the lerobot on PYTHONPATH (0.3.3 or 0.4.4): metadata, columns, chosen frames.

Prints one JSON object; `--save DIR` writes chosen camera frames as .npy.
What is not here: judging what was read.
"""

import argparse
import contextlib
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch

# The torchvision beside this torch has no compiled operators; it asks for two schemas while it is imported.
LIBRARY = torch.library.Library("torchvision", "DEF")
LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
LIBRARY.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def plain(value):
    """JSON's own form of what the loaders hand out."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def columns_of(dataset):
    """Shape, dtype and SHA-256 of every column that is not a camera, all rows."""
    out = {}
    bare = dataset.hf_dataset.with_format("numpy")
    for name in bare.column_names:
        if dataset.meta.features.get(name, {}).get("dtype") in ("video", "image"):
            continue
        array = np.ascontiguousarray(np.asarray(bare[name]))
        declared = dataset.meta.features.get(name, {}).get("dtype")
        array = (
            array.astype(declared) if declared in ("float32", "float64", "int64", "int32", "bool") else array
        )
        out[name] = {"shape": list(array.shape), "dtype": str(array.dtype)}
        if array.dtype != object:
            out[name]["sha256"] = hashlib.sha256(array.tobytes()).hexdigest()
    return out


def frame_of(dataset, index, save):
    """One item: scalars as they are, the mean colour of each camera; saved in full when asked for."""
    item, out = dataset[index], {"index": index, "task": None, "cameras": {}}
    out["task"] = item.get("task")
    out["episode_index"], out["timestamp"] = int(item["episode_index"]), float(item["timestamp"])
    for key in dataset.meta.camera_keys:
        image = item[key].numpy()
        out["cameras"][key] = {
            "shape": list(image.shape),
            "dtype": str(image.dtype),
            "mean": [float(v) for v in image.mean(axis=(1, 2))],
        }
        if save is not None:
            np.save(save / f"{key}__{index}.npy", image)
    return out


def episodes_of(meta):
    """Every key of every episode, the statistics left out."""
    rows = meta.episodes.values() if isinstance(meta.episodes, dict) else list(meta.episodes)
    return [{k: plain(v) for k, v in row.items() if not k.startswith("stats/")} for row in rows]


def tasks_of(meta):
    """Task index → text."""
    if isinstance(meta.tasks, dict):
        return {str(k): v for k, v in meta.tasks.items()}
    return {str(int(i)): text for text, i in meta.tasks["task_index"].items()}


def main():
    """Load the folder named on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--frames", default="", help="comma-separated global indices, negative from the end")
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        import lerobot
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        dataset = LeRobotDataset("local/dataset", root=arguments.root, video_backend="pyav")
        total = len(dataset)
        indices = [int(i) % total for i in arguments.frames.split(",") if i]
        if arguments.save is not None:
            arguments.save.mkdir(parents=True, exist_ok=True)
        out = {
            "version": lerobot.__version__,
            "codebase_version": str(dataset.meta.info["codebase_version"]),
            "episodes": dataset.num_episodes,
            "frames": total,
            "fps": dataset.fps,
            "features": plain(dataset.meta.features),
            "cameras": list(dataset.meta.camera_keys),
            "tasks": tasks_of(dataset.meta),
            "episode_rows": episodes_of(dataset.meta),
            "columns": columns_of(dataset),
            "stats": plain(dataset.meta.stats),
            "items": [frame_of(dataset, i, arguments.save) for i in indices],
        }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
