"""Worker processes that can be stopped: they finish cleaning up, say nothing, and leave no half-written file.

Ctrl-C and a closed terminal reach every process of it; only the parent acts and asks its workers to stop.
What is not here: what the workers do, see `run.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

from trajpipe.core import atomic

Result = TypeVar("Result")
_EXIT_STOPPED: Final = 128 + signal.SIGTERM


class _Stopped(SystemExit):
    """The parent asked this worker to stop: unwinds the task, so that its temporaries are removed."""


@contextmanager
def in_workers(
    jobs: int, function: Callable[..., Result], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
) -> Iterator[list[Future[Result]]]:
    """Futures of calls run in spawned processes; leaving the block early stops the workers.

    Args:
        jobs: Number of processes.
        function: A module-level function.
        calls: Positional and keyword arguments of each call; all must pickle.
    """
    others = set(multiprocessing.active_children())
    with _interrupts_held():  # the pool starts multiprocessing's resource tracker
        pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
    own: set[BaseProcess] = set()
    try:
        with _interrupts_held():
            futures = [pool.submit(_call, function, args, keywords) for args, keywords in calls]
            own = set(multiprocessing.active_children()) - others
        yield futures
    except BaseException:
        for process in own:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """SIGINT and SIGHUP wait while processes are started; they inherit the mask, and so never see either."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    hook = sys.unraisablehook  # a stop that lands in a weak reference's callback would be told of on stderr
    sys.unraisablehook = lambda lost: None if isinstance(lost.exc_value, _Stopped) else hook(lost)
    signal.signal(signal.SIGTERM, _stop)


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Stopped(_EXIT_STOPPED)


def _asked_to_stop() -> bool:
    """True after `_stop`: an exception raised in a C callback (h5py's visitors) can get lost on its way."""
    return signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def _call(function: Callable[..., Result], args: tuple[Any, ...], keywords: dict[str, Any]) -> Result:
    """Run one call; a worker that was asked to stop ends here, without taking another."""
    try:
        return function(*args, **keywords)
    finally:
        if _asked_to_stop():
            atomic.remove_own()
            os._exit(_EXIT_STOPPED)
