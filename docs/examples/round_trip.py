"""A store's whole round trip: write it, push it, pull it to a fresh place, open it, verify it.

    python docs/examples/round_trip.py            with a small Hub on this machine
    python docs/examples/round_trip.py org/name   with your repository (HF_TOKEN or `hf auth login`)

What is not here: recordings and the pipeline, see README.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from trajpipe.hub import Repository, pull, push, verify
from trajpipe.pipeline.publish import publication_of_path
from trajpipe.store import ColumnSpec, TrajectoryStore, TrajectoryStoreWriter

LENGTHS = (40, 25, 60)


def write_store(path: Path) -> Path:
    """Three episodes of 7 actions and a 9-joint state, by a seeded generator."""
    draw = np.random.default_rng(0)
    columns = [
        ColumnSpec("action", np.dtype("float32"), (7,)),
        ColumnSpec("state", np.dtype("float32"), (9,)),
    ]
    with TrajectoryStoreWriter(path, columns, env_id="example", seed=0) as writer:
        for rows in LENGTHS:
            writer.append(
                action=draw.normal(size=(rows, 7)).astype(np.float32),
                state=draw.normal(size=(rows, 9)).astype(np.float32),
            )
            writer.end_episode()
    return path


def round_trip(repository: Repository, folder: Path) -> None:
    """Push, pull, reopen, verify; raises when anything differs."""
    written = write_store(folder / "example.h5")
    pushed = push(publication_of_path(written, repository.repo, "apache-2.0"), repository)
    print(f"pushed {pushed.repo}@{pushed.tag}: {pushed.moved} bytes sent")

    pulled = pull(f"{pushed.repo}@{pushed.tag}", folder / "fresh", repository=repository)
    print(f"pulled {pulled.files} files into {pulled.path}: {pulled.moved} bytes received")
    again = pull(f"{pushed.repo}@{pushed.tag}", folder / "fresh", repository=repository)
    assert again.moved == 0, "what is there is not fetched again"

    fresh = pulled.path / "stores/example.h5"
    assert fresh.read_bytes() == written.read_bytes(), "the pulled store has other bytes"
    with TrajectoryStore(written) as ours, TrajectoryStore(fresh) as theirs:
        assert theirs.n_episodes == len(LENGTHS)
        for name in ours.columns:
            for episode in range(ours.n_episodes):
                assert np.array_equal(ours.read_episode(name, episode), theirs.read_episode(name, episode))
    assert verify(pulled.path).ok
    print("the same bytes, the same rows, every hash verified")


def main() -> None:
    """Run with the repository named, else with a small Hub on this machine."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if len(sys.argv) > 1:
            repository = Repository(sys.argv[1])
        else:
            from trajpipe.testing.hub_server import WRITE_TOKEN, HubServer

            server = stack.enter_context(HubServer(folder / "hub"))
            repository = Repository("org/example", endpoint=server.url, token=WRITE_TOKEN)
        round_trip(repository, folder)


if __name__ == "__main__":
    main()
