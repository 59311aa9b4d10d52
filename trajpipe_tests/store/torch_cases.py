"""What the torch test runs in an interpreter that has torch: every check is an assert.

What is not here: pytest; that interpreter need not have it (`test_torch` starts this).
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from trajpipe.core.errors import RowIndexError, SchemaError, UsageError
from trajpipe.store import (
    PrioritizedSampler,
    ResidentColumn,
    SequenceWindowSampler,
    TrajectoryStore,
    UniformDeviceSampler,
    UniformSampler,
)
from trajpipe.store.torch_data import RowDataset, SampledDataset

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def raises(error: type[Exception], call: Any) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


def device_mirror(store: TrajectoryStore) -> None:
    """A gather on the device equals the host's bit for bit; out of range raises."""
    indices = np.random.default_rng(0).integers(0, store.n_rows, (5, 7))
    for device in DEVICES:
        for name in store.columns:
            host = ResidentColumn.load(store, name, copy=name != "action")
            mirror = host.to_device(device)
            expected = host.gather(indices)
            for form in (indices, torch.from_numpy(indices), torch.from_numpy(indices).to(device)):
                got = mirror.gather(form)
                assert str(got.device).startswith(device)
                assert got.cpu().numpy().tobytes() == expected.tobytes()
            assert len(mirror) == store.n_rows
            for wrong in ([store.n_rows], [-1], torch.tensor([2**40])):
                raises(RowIndexError, lambda m=mirror, w=wrong: m.gather(w))
    host = ResidentColumn(np.zeros(3, np.uint16), store.columns["action"])
    raises(SchemaError, host.to_device)


def device_sampler() -> None:
    """numpy and torch give the same indices."""
    for device in DEVICES:
        for rows, seed, offset in [(50, 0xC0FFEEDECADE0042, 0), (10**7, 2**64 - 3, 2**33 + 5), (1, 0, 0)]:
            a, b = (UniformDeviceSampler(rows, seed, offset) for _ in range(2))
            for batch in (1, 32, 1000):
                assert a.draw(batch).rows.tolist() == b.draw_torch(batch, device).tolist()
            assert a.state_dict() == b.state_dict()


def map_style(path: Path, store: TrajectoryStore) -> None:
    rows = {name: store.load_column(name) for name in store.columns}
    single = store.torch_dataset()
    assert len(single) == store.n_rows
    for i in (0, 17, store.n_rows - 1, -1):
        for name, tensor in single[i].items():
            assert np.array_equal(np.asarray(tensor), rows[name][i]), name
    raises(RowIndexError, lambda: single[store.n_rows])
    windows = RowDataset(path, ["action", "images"], window=5)
    starts = [o + k for o, n in zip(store.ep_offset, store.ep_len, strict=True) for k in range(n - 4)]
    assert len(windows) == len(starts)
    for i, start in enumerate(starts):
        assert np.array_equal(np.asarray(windows[i]["action"]), rows["action"][start : start + 5])
    raises(UsageError, lambda: RowDataset(path, window=10_000))
    raises(UsageError, lambda: RowDataset(path, window=0))
    assert len(pickle.dumps(windows)) < 1000, "pickles small, open or not"


def iterable_style(path: Path, store: TrajectoryStore) -> None:
    rows = store.load_column("action")
    for make in (
        lambda: UniformSampler(store.n_rows, 3),
        lambda: UniformDeviceSampler(store.n_rows, 3),
    ):
        batches = list(store.torch_dataset(["action"], sampler=make(), batch_size=8, batches=5))
        reference = make()
        for batch in batches:
            expected = reference.draw(8).rows
            assert batch["index"].tolist() == expected.tolist()
            assert np.array_equal(batch["action"].numpy(), rows[expected])
    sampler = PrioritizedSampler(store.n_rows)
    sampler.note_added_rows(np.arange(store.n_rows))
    (batch,) = SampledDataset(path, sampler, 8, ["action"], batches=1)
    assert batch["weights"].tolist() == [1.0] * 8
    for within in (False, True):
        sequence = SequenceWindowSampler(store.n_rows, 4, within)
        (batch,) = SampledDataset(path, sequence, 8, ["action"], batches=1)
        assert batch["action"].shape == (8, 5, 7)
        assert batch["is_first"].shape == (8, 5)
        assert not within or not batch["is_first"][:, 1:].any()
    raises(UsageError, lambda: store.torch_dataset(sampler=sampler))
    raises(UsageError, lambda: store.torch_dataset(sampler=sampler, batch_size=4, window=3))
    raises(UsageError, lambda: SampledDataset(path, sampler, 0))


def workers(path: Path, store: TrajectoryStore) -> None:
    """Two workers, forked and spawned: the same items, the sampler's own order."""
    rows = store.load_column("action")
    reference = UniformSampler(store.n_rows, 9)
    expected = [reference.draw(6).rows.tolist() for _ in range(7)]
    for context in ("fork", "spawn"):
        dataset = store.torch_dataset(["action", "images"])
        dataset[3]  # opened in this process too: each worker must open its own
        loader = DataLoader(dataset, batch_size=16, num_workers=2, multiprocessing_context=context)
        assert np.array_equal(torch.cat([b["action"] for b in loader]).numpy(), rows)
        sampled = SampledDataset(path, UniformSampler(store.n_rows, 9), 6, ["action"], batches=7)
        loader = DataLoader(sampled, batch_size=None, num_workers=2, multiprocessing_context=context)
        assert [b["index"].tolist() for b in loader] == expected
        assert len(pickle.dumps(sampled)) < 1000


def main(path: Path) -> None:
    with TrajectoryStore(path) as store:
        device_mirror(store)
        device_sampler()
        map_style(path, store)
        iterable_style(path, store)
        workers(path, store)
    print("torch cases passed on", ", ".join(DEVICES))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
