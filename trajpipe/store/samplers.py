"""Samplers: which rows to read next, as indices only; the sequences are noeira's, to the index.

What is not here: prioritized sampling (`prioritized`), and reading the rows (`residency`).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from trajpipe.core.errors import InputError, RowIndexError, SchemaError, StateError, UsageError
from trajpipe.store.episode_index import EpisodeIndex
from trajpipe.store.philox import HostStream, device_uniform, device_uniform_torch, seed64

MAX_TRIES: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class IndexBatch:
    """Row indices of a batch; `np.asarray(batch)` is its int64 array.

    Attributes:
        rows: int64, (B,) or windows (B, span + 1).
        weights: float32 (B,), importance weights of a prioritized draw; else None.
        is_first: bool, shape of `rows`: True on the first row of an episode; else None.
    """

    rows: NDArray[np.int64]
    weights: NDArray[np.float32] | None = None
    is_first: NDArray[np.bool_] | None = None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.rows, dtype=np.int64 if dtype is None else dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.rows)


class Sampler:
    """What all samplers share: a host stream, reseeding, and state that can be saved.

    Args:
        seed: 64 bits; negative seeds count as their two's complement.
    """

    _kind: ClassVar[str] = ""

    def __init__(self, seed: int = 0) -> None:
        self._stream = HostStream(seed64(seed))

    def reseed(self, seed: int) -> None:
        """Start the stream of another seed from its beginning."""
        self._stream = HostStream(seed64(seed))

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next draws depend on, as plain values and arrays."""
        return {
            "kind": type(self).__name__,
            "parameters": self._parameters(),
            "seed": self._stream.seed,
            "position": self._stream.position,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where the saved sampler stopped.

        Raises:
            InputError: the state is another kind's, or of other parameters.
        """
        mine = {"kind": type(self).__name__, "parameters": self._parameters()}
        theirs = {"kind": state.get("kind"), "parameters": state.get("parameters")}
        if mine != theirs:
            raise InputError("the state is of a sampler like this one", got=theirs, expected=mine)
        self._stream = HostStream(int(state["seed"]), int(state["position"]))

    def _parameters(self) -> dict[str, Any]:
        return {}


def require_batch(batch: int) -> int:
    """The batch size as int.

    Raises:
        UsageError: below 1.
    """
    if _whole(batch, "a batch size") < 1:
        raise UsageError("a batch has at least one row", got=batch)
    return int(batch)


def require_rows(rows: int, what: str = "n_rows") -> int:
    """A row count as int.

    Raises:
        UsageError: below 1.
    """
    if _whole(rows, what) < 1:
        raise UsageError(f"{what} is at least 1", got=rows)
    return int(rows)


def _whole(value: int, what: str) -> int:
    """A Python or NumPy integer as int; 10.5 would be cut to 10 without a word."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise UsageError(f"{what} is a whole number", got=repr(value)) from error


def _index_of_lengths(lengths: Any) -> EpisodeIndex:
    given = np.asarray(lengths)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InputError(
            "episodes are the store's index or their lengths",
            got=f"{given.dtype} of shape {given.shape}",
            expected="store.episodes, or integers (E,)",
        )
    counts = given.astype(np.int64)
    return EpisodeIndex.validated(counts, np.cumsum(counts) - counts)


def scaled(numbers: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Numbers in [0, 1] as indices below `count`: truncated, and clamped for the number 1."""
    indices = (numbers * count).astype(np.int64)
    return np.minimum(indices, count - 1, out=indices)


class UniformSampler(Sampler):
    """Uniform rows with replacement.

    Args:
        n_rows: Rows to draw from.
        seed: Seed of the host stream.
    """

    def __init__(self, n_rows: int, seed: int = 0) -> None:
        super().__init__(seed)
        self.n_rows = require_rows(n_rows)

    def draw(self, batch: int) -> IndexBatch:
        """`batch` rows in [0, n_rows)."""
        return IndexBatch(scaled(self._stream.take(require_batch(batch)), self.n_rows))

    def _parameters(self) -> dict[str, Any]:
        return {"n_rows": self.n_rows}


class WindowSampler(Sampler):
    """Uniform rows of one window, for `WindowedColumn`.

    Args:
        window_start: First row of the window.
        window_rows: Its rows.
        seed: Seed of the host stream.
    """

    def __init__(self, window_start: int, window_rows: int, seed: int = 0) -> None:
        super().__init__(seed)
        self.window_rows = require_rows(window_rows, "window_rows")
        self.move(window_start)

    def move(self, window_start: int, window_rows: int | None = None) -> None:
        """Draw from another window on, the stream going on.

        Raises:
            UsageError: a negative start, or no rows.
        """
        if window_start < 0:
            raise UsageError("a window starts at row 0 or after", got=window_start)
        self.window_start = int(window_start)
        if window_rows is not None:
            self.window_rows = require_rows(window_rows, "window_rows")

    def draw(self, batch: int) -> IndexBatch:
        """`batch` rows in [window_start, window_start + window_rows)."""
        rows = scaled(self._stream.take(require_batch(batch)), self.window_rows)
        rows += self.window_start
        return IndexBatch(rows)

    def state_dict(self) -> dict[str, Any]:
        """As `Sampler.state_dict`, with the window."""
        return {**super().state_dict(), "window": [self.window_start, self.window_rows]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As `Sampler.load_state_dict`; the window comes along."""
        super().load_state_dict(state)
        self.move(*state["window"])


class UniformDeviceSampler:
    """Uniform rows by one generator lane a row, as noeira draws them on its device.

    Args:
        n_rows: Rows to draw from.
        seed: Key of lane 0; lane i has `seed + i`.
        offset: Counter of the first draw; a draw of B rows moves it by 2·B.
    """

    def __init__(self, n_rows: int, seed: int = 0, offset: int = 0) -> None:
        self.n_rows, self.seed, self.offset = require_rows(n_rows), seed64(seed), int(offset)

    def draw(self, batch: int) -> IndexBatch:
        """`batch` rows in [0, n_rows), computed by numpy."""
        numbers = device_uniform(self.seed, self.offset, require_batch(batch))
        self.offset += 2 * batch
        rows = (numbers * np.float32(self.n_rows)).astype(np.int64)
        return IndexBatch(np.minimum(rows, self.n_rows - 1, out=rows))

    def draw_torch(self, batch: int, device: Any = "cpu") -> Any:
        """The rows that `draw` would give, as an int64 tensor computed on a torch device."""
        import torch

        numbers = device_uniform_torch(self.seed, self.offset, require_batch(batch), device)
        self.offset += 2 * batch
        scale = torch.tensor(float(np.float32(self.n_rows)), dtype=torch.float32, device=device)
        return (numbers * scale).to(torch.int64).clamp_(max=self.n_rows - 1)

    def reseed(self, seed: int) -> None:
        """Another key, from counter 0 on."""
        self.seed, self.offset = seed64(seed), 0

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next draws depend on."""
        parameters = {"n_rows": self.n_rows}
        return {
            "kind": type(self).__name__,
            "parameters": parameters,
            "seed": self.seed,
            "offset": self.offset,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where the saved sampler stopped.

        Raises:
            InputError: the state is another kind's, or of another row count.
        """
        if (state.get("kind"), state.get("parameters")) != (type(self).__name__, {"n_rows": self.n_rows}):
            got = f"{state.get('kind')} {state.get('parameters')}"
            raise InputError(
                "the state is of a sampler like this one", got=got, expected=f"n_rows {self.n_rows}"
            )
        self.seed, self.offset = int(state["seed"]), int(state["offset"])


class SequenceWindowSampler(Sampler):
    """Starts of windows of span + 1 rows.

    Args:
        n_rows: Rows to draw from.
        span: Steps of a window; it reads span + 1 rows.
        within_episode: False (noeira's default, which DreamerV3 relies on): windows may cross an episode's
            end, `is_first` marks where. True: only `draw_starts_in_episodes` may be used.
        seed: Seed of the host stream.

    Raises:
        UsageError: no window fits.
    """

    def __init__(self, n_rows: int, span: int, within_episode: bool = False, seed: int = 0) -> None:
        super().__init__(seed)
        self.n_rows, self.span = require_rows(n_rows), require_rows(span, "span")
        self.within_episode = bool(within_episode)
        self.n_valid = self.n_rows - self.span
        if self.n_valid < 1:
            got = f"{n_rows} rows"
            raise UsageError("a window of span + 1 rows fits", got=got, expected=f"≥ {span + 1}")

    def draw_starts(self, batch: int) -> IndexBatch:
        """First rows of `batch` windows, anywhere.

        Raises:
            StateError: the sampler is `within_episode`.
        """
        if self.within_episode:
            raise StateError(
                "windows stay within an episode", hint="Call draw_starts_in_episodes(episodes, batch)."
            )
        return IndexBatch(scaled(self._stream.take(require_batch(batch)), self.n_valid))

    def draw_starts_in_episodes(self, episodes: EpisodeIndex | NDArray[Any], batch: int) -> IndexBatch:
        """First rows of `batch` windows that each lie in one episode.

        Candidates are drawn one after another and rejected when their window crosses an episode's end; each
        try takes the next number of the stream.

        Args:
            episodes: The store's index, or the lengths of its episodes, integers (E,); covers `n_rows`.
            batch: How many.

        Raises:
            InputError: what is given is no index and no lengths.
            SchemaError: the index covers another row count.
            StateError: 100 tries in a row found none; there is no spanning window to fall back to.
        """
        require_batch(batch)
        if not isinstance(episodes, EpisodeIndex):
            episodes = _index_of_lengths(episodes)
        if episodes.n_rows != self.n_rows:
            got = f"{episodes.n_rows} rows"
            raise SchemaError("the episode index covers the sampler's rows", got=got, expected=self.n_rows)
        found: list[NDArray[np.int64]] = []
        count, since = 0, 0
        while count < batch:
            begin = self._stream.position
            starts = scaled(self._stream.take(max(2 * (batch - count), 64)), self.n_valid)
            inside = episodes.episode_of(starts) == episodes.episode_of(starts + self.span)
            hits = np.flatnonzero(inside)[: batch - count]
            since = self._require_tries(hits, since, len(starts), begin, done=count + len(hits) == batch)
            found.append(starts[hits])
            count += len(hits)
            if count == batch:
                self._stream.position = begin + int(hits[-1]) + 1
        return IndexBatch(np.concatenate(found))

    def _require_tries(
        self, hits: NDArray[np.int64], since: int, size: int, begin: int, *, done: bool
    ) -> int:
        """Tries since the last hit after this stretch, when no gap within it was too long."""
        ends = hits if done else np.append(hits, size)
        gaps = np.diff(ends, prepend=-1 - since)
        limit = np.where(ends == size, MAX_TRIES + 1, MAX_TRIES)
        late = np.flatnonzero(gaps > limit)
        if len(late):
            before = -1 - since if late[0] == 0 else int(ends[late[0] - 1])
            self._stream.position = begin + before + 1 + MAX_TRIES
            raise StateError(
                f"no window of {self.span + 1} rows within an episode was found in {MAX_TRIES} tries",
                hint="Use a shorter span: few episodes hold such a window.",
            )
        return 0 if done else int(gaps[-1]) - 1

    def expand_window(
        self, starts: ArrayLike | IndexBatch, episodes: EpisodeIndex | None = None
    ) -> IndexBatch:
        """All rows of windows.

        Args:
            starts: First rows, (B,).
            episodes: When given, `is_first` comes from it.

        Returns:
            Rows (B, span + 1).

        Raises:
            RowIndexError: a window does not lie in the rows.
        """
        first = np.asarray(starts, np.int64).reshape(-1)
        if first.size and (first.min() < 0 or first.max() >= self.n_valid):
            raise RowIndexError(
                "a window lies in the rows", got=first, expected=f"starts in [0, {self.n_valid})"
            )
        rows = first[:, None] + np.arange(self.span + 1)
        return IndexBatch(rows, is_first=None if episodes is None else episodes.is_first(rows))

    def _parameters(self) -> dict[str, Any]:
        return {"n_rows": self.n_rows, "span": self.span, "within_episode": self.within_episode}
