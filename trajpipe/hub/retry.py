"""Trying again what the Hub's client does not: GETs, commits, tags; bounded, with the server's own waits.

What is not here: what an attempt does. A caller whose request may have been carried out although its answer
was lost looks again before it repeats.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import tenacity

from trajpipe.hub.errors import HubError

T = TypeVar("T")
_LOG: Final = logging.getLogger(__name__)
_AGAIN: Final = (408, 409, 412, 429, 500, 502, 503, 504)
_UNREACHABLE: Final = "hub-unreachable"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a flaky Hub is put up with.

    Attributes:
        attempts: Tries of one request in all.
        first_wait_s: Wait before the second try; it doubles from try to try, with jitter.
        longest_wait_s: Upper bound of a wait, the server's own wish included.
    """

    attempts: int = 6
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0

    def call(self, attempt: Callable[[], T]) -> T:
        """The result of `attempt`, tried again after errors that may pass.

        Raises:
            HubError: the last try's, or the first that will not pass.
        """
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=self._wait,
            retry=tenacity.retry_if_exception(may_pass),
            before_sleep=_tell,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except HubError as error:
            error.exhausted = True  # a caller that tries again itself does not multiply the tries
            raise

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.wait_s if isinstance(error, HubError) else None
        if asked is not None:
            return min(asked, self.longest_wait_s)
        jitter = random.uniform(0, self.first_wait_s)  # noqa: S311 - clients are to be spread, nothing is secret
        return min(self.first_wait_s * 2.0 ** (state.attempt_number - 1), self.longest_wait_s) + jitter


DEFAULT_PATIENCE: Final = Patience()


def may_pass(error: BaseException) -> bool:
    """True for errors that another try may cure: no connection, a server in trouble, a moved head."""
    if not isinstance(error, HubError) or error.exhausted:
        return False
    return is_passing(error)


def is_passing(error: HubError) -> bool:
    """True for the kinds of trouble that may pass, however often it was tried."""
    return error.code == _UNREACHABLE or error.status in _AGAIN


def _tell(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    wait = state.next_action.sleep if state.next_action is not None else 0.0
    _LOG.info("try %d failed, the next in %.1f s: %s", state.attempt_number, wait, error)
