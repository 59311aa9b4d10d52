"""Runs lerobot 0.4.4's own v2.1 → v3.0 converter on a copy of a dataset; the source is not touched.

Prints one JSON object with the converted folder. What is not here: reading the result, see lerobot_read.py.
"""

import argparse
import contextlib
import json
import shutil
import sys
from pathlib import Path

import torch

LIBRARY = torch.library.Library("torchvision", "DEF")
LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
LIBRARY.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def main():
    """Convert the folder named on the command line into a new folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        import lerobot
        from lerobot.datasets.v30.convert_dataset_v21_to_v30 import convert_dataset

        shutil.copytree(arguments.source, arguments.target)
        convert_dataset(arguments.target.name, root=arguments.target.parent, push_to_hub=False)
    files = sorted(
        p.relative_to(arguments.target).as_posix() for p in arguments.target.rglob("*") if p.is_file()
    )
    print(json.dumps({"version": lerobot.__version__, "root": str(arguments.target), "files": files}))


if __name__ == "__main__":
    main()
