"""The hook that is told of failed runs: a webhook, or a function of the user's own.

`TRAJPIPE_FAILURE_HOOK=package.module:function` names a function that takes a mapping; without it the failure
is posted as JSON to `TRAJPIPE_FAILURE_WEBHOOK`. What is not here: who calls it, see `trajpipe.defs.sensors`.
"""

import importlib
import os
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from trajpipe.core import jsontext
from trajpipe.core.errors import StateError, UsageError

HOOK: Final = "TRAJPIPE_FAILURE_HOOK"
WEBHOOK: Final = "TRAJPIPE_FAILURE_WEBHOOK"
TIMEOUT_S: Final = 10.0

FailureHook = Callable[[Mapping[str, str]], None]


def failure_hook() -> FailureHook:
    """The hook that the environment names.

    Raises:
        UsageError: it names none, or no function of that name exists.
    """
    named = os.environ.get(HOOK)
    if named:
        return _function(named)
    if os.environ.get(WEBHOOK):
        return post
    raise UsageError("the failure sensor is on and nobody is to be told", expected=f"{WEBHOOK} or {HOOK} set")


def _function(named: str) -> FailureHook:
    module, _, name = named.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"{HOOK} names no function", got=named, expected="package.module:function"
        ) from error
    hook: FailureHook = found
    return hook


def post(failure: Mapping[str, str]) -> None:
    """Post a failure as JSON; `text` is what chat services show. The URL may be a secret: it is never told.

    Raises:
        UsageError: the URL is not one of http or https.
        StateError: the server cannot be reached or refuses.
    """
    url = os.environ[WEBHOOK]
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{WEBHOOK} is no web address", expected="https://…")
    partition = f" [{failure['partition']}]" if failure.get("partition") else ""
    text = f"trajpipe: {failure['job']}{partition} failed: {failure['error']}"
    body = jsontext.dumps({"text": text, **failure}).encode()
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        url, body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310 - the same
            return
    except OSError as error:
        raise StateError("the webhook was not told", got=type(error).__name__) from None
