"""Small recordings written by h5py alone, and reading them through a source.

What is not here: lifelike recordings, see `trajpipe.testing`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core.conventions import Conventions
from trajpipe.core.episode import Description, Episode, whole
from trajpipe.core.findings import Finding
from trajpipe.core.ledger import Rejection
from trajpipe.sources.base import ReadOptions, detect, source

ISAAC_ENV = json.dumps({"env_name": "Isaac-Toy-v0", "type": 2, "env_kwargs": {}})
ROBOSUITE_ENV = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {"control_freq": 20}})


@dataclass
class Demo:
    """One demo of a small recording: datasets by path, attributes by name."""

    tree: Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)


def write(
    path: Path,
    demos: Mapping[str, Demo],
    *,
    data: Mapping[str, Any] | None = None,
    root: Mapping[str, Any] | None = None,
    masks: Mapping[str, list[str]] | None = None,
) -> Path:
    """Write a recording of the `/data/demo_<i>` family exactly as told."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as handle:
        handle.attrs.update(root or {})
        group = handle.create_group("data")
        group.attrs.update({} if data is None else data)
        for name, demo in demos.items():
            inner = group.create_group(name)
            inner.attrs.update(demo.attrs)
            for where, values in demo.tree.items():
                inner[where] = values
        for name, members in (masks or {}).items():
            handle[f"mask/{name}"] = np.array(members, dtype="S")
    return path


def random(*shape: int, seed: int = 0, dtype: str = "f4") -> NDArray[Any]:
    """Values far from unit norm, so that nothing looks like a quaternion by chance."""
    return (5.0 + np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def quaternions(*shape: int, seed: int = 1, dtype: str = "f4") -> NDArray[Any]:
    """Unit quaternions (…, 4), no two components alike."""
    q = np.random.default_rng(seed).normal(size=(*shape, 4))
    return np.asarray(q / np.linalg.norm(q, axis=-1, keepdims=True), dtype=dtype)


def frames(length: int, height: int = 12, width: int = 16, channels: int = 3, seed: int = 2) -> NDArray[Any]:
    """uint8 (T, H, W, C) frames that differ, with a coloured corner: top left is 200, 100, 50, …."""
    out = np.random.default_rng(seed).integers(0, 90, (length, height, width, channels), dtype=np.uint8)
    out[:, 0, 0] = [200, 100, 50, 25][:channels]
    return out


def isaac_demo(length: int = 6, *, seed: int = 0, **more: Any) -> Demo:
    """A minimal IsaacLab demo; more datasets by path with `__` for `/`."""
    tree: dict[str, Any] = {
        "actions": random(length, 7, seed=seed),
        "obs/joint_pos": random(length, 9, seed=seed + 100),
    }
    tree |= {key.replace("__", "/"): value for key, value in more.items()}
    return Demo(tree, {"num_samples": length, "success": True})


def isaac_file(path: Path, demos: Mapping[str, Demo] | None = None, **options: Any) -> Path:
    """A small IsaacLab v1 recording; `root={}` makes it a legacy one."""
    demos = demos if demos is not None else {"demo_0": isaac_demo(), "demo_1": isaac_demo(4, seed=1)}
    total = sum(len(d.tree["actions"]) for d in demos.values() if "actions" in d.tree)
    data = {"env_args": ISAAC_ENV, "total": total} | options.pop("data", {})
    return write(path, demos, data=data, root=options.pop("root", {"format_version": 1}), **options)


@dataclass
class Read:
    """What a source made of a recording; columns are in memory already."""

    description: Description
    episodes: list[Episode]
    rejections: list[Rejection]
    findings: list[Finding]
    values: dict[str, dict[str, NDArray[Any]]]
    extras: dict[str, dict[str, NDArray[Any]]]

    def codes(self) -> list[str]:
        """Codes of all findings, in order."""
        return [f.code for f in self.findings]

    def finding(self, code: str) -> Finding:
        """The one finding of a code."""
        found = [f for f in self.findings if f.code == code]
        assert len(found) == 1, f"{len(found)} findings {code!r} in {self.codes()}"
        return found[0]


def read(
    path: Path,
    *,
    kind: str | None = None,
    conventions: Conventions | None = None,
    options: dict[str, Any] | None = None,
) -> Read:
    """Read a whole recording through its source, the way the pipeline does."""
    reported = list[Finding]()
    reader = source(kind) if kind else detect(path)
    asked = ReadOptions(conventions or Conventions(), "ab" * 32, reported.append, options or {})
    description = reader.describe(path, asked)
    out = Read(description, [], [], list(description.findings), {}, {})
    for item in reader.episodes(path, asked):
        if isinstance(item, Rejection):
            out.rejections.append(item)
            continue
        out.episodes.append(item)
        out.values[item.name] = {p: np.array(whole(c)) for p, c in item.columns.items()}
        out.extras[item.name] = {p: np.array(whole(c)) for p, c in item.extras.items()}
    out.findings.extend(reported)
    return out
