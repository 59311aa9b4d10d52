"""Throughput of push and pull against the plain `huggingface_hub` client, on loopback, same files, same run.

    python bench/hub.py [--mb 300] [--rounds 3]

Ours hashes every byte on both ways; the plain client hashes uploads alone. What is not here: a real network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rounds import Stopwatch, measure

SMALL_FILES = 200


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
    """Print the ratios; exit code 1 when ours is below 0.8 of the plain client's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
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
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, not declared
        disable_progress_bars,
    )

    from trajpipe.hub import Publication, Repository, files_below, pull, push
    from trajpipe.testing.hub_server import WRITE_TOKEN

    disable_progress_bars()
    tree = write_files(work / "tree", megabytes)
    api = HfApi(endpoint=url, token=WRITE_TOKEN)
    serial = iter(range(10_000))
    latest = {"ours": "", "plain": ""}

    def forget() -> None:
        """The server keeps contents by hash: what is to be uploaded must not be there."""
        for blob in (work / "hub").iterdir():
            blob.unlink()

    def ours_push(watch: Stopwatch) -> None:
        forget()
        latest["ours"] = repo = f"org/ours{next(serial)}"
        with watch:
            push(
                Publication(files_below(tree), "lift", "mit"),
                Repository(repo, endpoint=url, token=WRITE_TOKEN),
            )
        shutil.rmtree(work / "ours", ignore_errors=True)
        _pull_ours(repo, times["ours pull"])

    def _pull_ours(repo: str, watch: Stopwatch) -> None:
        with watch:
            pull(repo, work / "ours", repository=Repository(repo, endpoint=url, token=WRITE_TOKEN))

    def plain_push(watch: Stopwatch) -> None:
        forget()
        latest["plain"] = repo = f"org/plain{next(serial)}"
        with watch:
            api.create_repo(repo, repo_type="dataset", private=True)
            api.upload_folder(repo_id=repo, repo_type="dataset", folder_path=tree)
        shutil.rmtree(work / "plain", ignore_errors=True)
        with times["plain pull"]:
            snapshot_download(
                repo, repo_type="dataset", local_dir=work / "plain", endpoint=url, token=WRITE_TOKEN
            )

    times = {"ours pull": Stopwatch(), "plain pull": Stopwatch()}
    cases: dict[str, Callable[[Stopwatch], None]] = {"ours": ours_push, "plain": plain_push}
    began = time.perf_counter()
    timed = measure(cases, rounds)
    size = sum(p.stat().st_size for p in tree.rglob("*") if p.is_file()) / 1e6
    ratio_push = timed["plain"].median / timed["ours"].median
    ratio_pull = times["plain pull"].total / times["ours pull"].total
    print(
        f"push  ours {size / timed['ours'].median:6.0f} MB/s  plain {size / timed['plain'].median:6.0f} MB/s"
    )
    print(f"push  processor time of this process, plain / ours {timed['plain'].cpu_ratio(timed['ours']):.2f}")
    print(
        f"push  ratio {ratio_push:.2f}   pull  ratio {ratio_pull:.2f}   ({time.perf_counter() - began:.0f} s)"
    )
    return 0 if min(ratio_push, ratio_pull) >= 0.8 else 1


if __name__ == "__main__":
    sys.exit(main())
