"""Throughput of push and pull against the plain `huggingface_hub` client, on loopback, same files, same run.

    python bench/hub.py [--mb 300] [--rounds 7]

Ours hashes every byte on both ways; the plain client hashes uploads alone. Every round runs both clients, one
right after the other, in an order drawn anew; the figure is the median of the rounds' ratios, and the disk is
flushed before each. What is not here: a real network.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rounds import Stopwatch, measure

SMALL_FILES = 200
TARGET = 0.8


def write_files(folder: Path, megabytes: int) -> Path:
    """A store of so many MB and 200 small files, of random bytes."""
    draw = np.random.default_rng(0)
    (folder / "stores").mkdir(parents=True)
    (folder / "data/chunk-000").mkdir(parents=True)
    (folder / "stores/lift.h5").write_bytes(draw.bytes(megabytes * 1_000_000))
    for n in range(SMALL_FILES):
        (folder / f"data/chunk-000/episode_{n:06d}.parquet").write_bytes(draw.bytes(20_000))
    return folder


def main() -> int:
    """Print the ratios; exit code 1 when ours is below the target."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.pop("HF_HUB_OFFLINE", None)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        os.environ |= {"HF_HOME": str(work / "home"), "HF_HUB_DISABLE_XET": "1"}
        command = [sys.executable, "-m", "trajpipe.testing.hub_server", "--root", str(work / "hub")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                return _compare(work, server.stdout.readline().strip(), options.mb, options.rounds)
            finally:
                server.terminate()


def _compare(work: Path, url: str, megabytes: int, rounds: int) -> int:
    tree = write_files(work / "tree", megabytes)
    size = sum(p.stat().st_size for p in tree.rglob("*") if p.is_file()) / 1e6
    began = time.perf_counter()
    cases, worst = _cases(work, tree, url), 1e9
    for act in ("push", "pull"):
        timed = measure({name: case for name, case in cases.items() if name.endswith(act)}, rounds, seed=8)
        ours, plain = timed[f"ours {act}"], timed[f"plain {act}"]
        ratios = sorted(p / o for o, p in zip(ours.seconds, plain.seconds, strict=True))
        ratio = statistics.median(ratios)
        worst = min(worst, ratio)
        rates = f"ours {size / ours.median:5.0f} MB/s  plain {size / plain.median:5.0f} MB/s"
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        cpu = f"of processor time {1 / ours.cpu_ratio(plain):.2f}"
        print(f"{act}  {rates}  ratio {ratio:.2f} ({spread}; {cpu})  target {TARGET}", flush=True)
    print(f"{size:.0f} MB in {SMALL_FILES + 1} files, {rounds} rounds, {time.perf_counter() - began:.0f} s")
    return 0 if worst >= TARGET else 1


def _cases(work: Path, tree: Path, url: str) -> dict[str, Callable[[Stopwatch], None]]:
    """Push to a new repository while the server holds no content; pull the last one into an empty folder."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # public, not declared

    from trajpipe.hub import Publication, Repository, files_below, pull, push
    from trajpipe.testing.hub_server import WRITE_TOKEN

    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it advertises Xet
    login: dict[str, Any] = {"endpoint": url, "token": WRITE_TOKEN}
    api = HfApi(**login)
    repos: list[str] = []
    publication, serial = Publication(files_below(tree), "lift", "mit"), iter(range(10_000))

    def push_ours(repo: str) -> None:
        push(publication, Repository(repo, **login))

    def push_plain(repo: str) -> None:
        api.create_repo(repo, repo_type="dataset", private=True)
        api.upload_folder(repo_id=repo, repo_type="dataset", folder_path=tree)

    def for_pulls() -> None:
        """A new repository to pull from."""
        repos.append(f"org/pull{next(serial)}")
        push_ours(repos[-1])

    def pushing(act: Callable[[str], None]) -> Callable[[Stopwatch], None]:
        def case(watch: Stopwatch) -> None:
            # Contents are kept by hash: they must not be there.
            shutil.rmtree(work / "hub", ignore_errors=True)
            (work / "hub").mkdir()
            os.sync()
            with watch:
                act(f"org/push{next(serial)}")
            repos.clear()  # their contents are gone

        return case

    def pulling(act: Callable[[Path], object]) -> Callable[[Stopwatch], None]:
        def case(watch: Stopwatch) -> None:
            if not repos:
                for_pulls()
            shutil.rmtree(work / "out", ignore_errors=True)
            os.sync()
            with watch:
                act(work / "out")

        return case

    return {
        "ours push": pushing(push_ours),
        "plain push": pushing(push_plain),
        "ours pull": pulling(lambda out: pull(repos[-1], out, repository=Repository(repos[-1], **login))),
        "plain pull": pulling(
            lambda out: snapshot_download(repos[-1], repo_type="dataset", local_dir=out, **login)
        ),
    }


if __name__ == "__main__":
    sys.exit(main())
