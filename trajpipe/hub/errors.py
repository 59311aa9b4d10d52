"""What the Hub's client raises, in our words: which repository, what is wrong, what to do; never the token.

What is not here: deciding what is tried again, see `retry.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from trajpipe.core.errors import TrajpipeError

_QUERY: Final = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]+")
_TOKEN: Final = re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")
_LOGIN: Final = "Run `hf auth login`, or put a token into HF_TOKEN"


class HubError(TrajpipeError, OSError):
    """The Hub refused, or could not be reached.

    Attributes:
        status: HTTP status of the answer; None when there was none.
        wait_s: Seconds that the server asked to wait; None when it did not say.
        exhausted: It was tried as often as the caller has patience for.
    """

    code = "hub"
    status: int | None = None
    wait_s: float | None = None
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """What an error may name, and what it must not.

    Attributes:
        repo: Repository, `org/name`.
        endpoint: URL of the Hub.
        token: The token in use, to be taken out of every text; None without one.
        revision: Tag or commit asked for, when there is one.
    """

    repo: str
    endpoint: str
    token: str | None = None
    revision: str | None = None

    def __repr__(self) -> str:
        return f"Context({self.repo} at {self.endpoint})"

    def clean(self, text: object) -> str:
        """A text without the token, without anything shaped like one, and without signed URLs' queries."""
        out = str(text)
        if self.token:
            out = out.replace(self.token, "***")
        return _QUERY.sub(r"\1", _TOKEN.sub("***", out))


@contextmanager
def translated(context: Context) -> Iterator[None]:
    """Raise what the client raises inside as a `HubError`.

    The client's error is not chained: its text may hold what must not be shown.

    Raises:
        HubError: in place of any error of the client or the network.
    """
    try:
        yield
    except TrajpipeError:
        raise
    except Exception as error:
        made = translate(error, context)
        if made is None:
            raise
        raise made from None


def translate(error: BaseException, context: Context) -> HubError | None:
    """The `HubError` that a client's or the network's error amounts to; None when it is neither."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    for one in _chain(error):
        if isinstance(one, HfHubHTTPError):
            return _of_status(one, context)
        if isinstance(one, OfflineModeIsEnabled):
            return offline(context)
        if isinstance(one, LocalTokenNotFoundError):
            return _made(context, "the Hub needs a login", hint=f"{_LOGIN}.", code="hub-login")
        if isinstance(one, httpx2.TransportError):
            return _made(
                context,
                "the Hub cannot be reached",
                got=f"{type(one).__name__}: {context.clean(one)}".rstrip(": "),
                expected=f"an answer from {context.endpoint}",
                hint="Check the network and HF_ENDPOINT; the same command goes on where this one stopped.",
                code="hub-unreachable",
            )
    if type(error).__module__.startswith("huggingface_hub") or isinstance(error, httpx2.HTTPError):
        return _made(context, "the Hub's client failed", got=context.clean(error))
    return None


def offline(context: Context) -> HubError:
    """The error of a call that needs the network in offline mode."""
    return _made(
        context,
        "offline mode is on",
        got="HF_HUB_OFFLINE",
        hint="Unset HF_HUB_OFFLINE, or use a copy that was pulled before: `trajpipe verify DEST`.",
        code="hub-offline",
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what caused it: the client wraps upload errors."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _of_status(error: Any, context: Context) -> HubError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    status = int(error.response.status_code)
    said = context.clean(error.server_message or error.response.reason_phrase or "")
    got = f"{status} {said}".strip()
    if isinstance(error, GatedRepoError):
        out = _made(
            context,
            "the repository is gated",
            got=got,
            hint=f"Accept its terms on {context.endpoint}/datasets/{context.repo} with your account.",
            code="hub-gated",
        )
    elif isinstance(error, RevisionNotFoundError):
        out = _made(
            context,
            "the repository has no such tag or commit",
            got=context.revision or got,
            hint=f"`trajpipe pull {context.repo}` takes the newest published version.",
            code="hub-no-revision",
        )
    elif status == 401 or isinstance(error, RepositoryNotFoundError):
        out = _not_seen(status, got, context)
    else:
        out = _of_other_status(status, got, context)
    out.status, out.wait_s = status, wait_of(error.response.headers)
    return out


def _not_seen(status: int, got: str, context: Context) -> HubError:
    """401 and 404 look alike: the Hub hides what a token may not see."""
    if status == 401 and context.token:
        return _made(
            context,
            "the Hub does not accept the token, or it may not see this repository",
            got=got,
            hint="Make a new token on the Hub's settings page; " + _LOGIN[0].lower() + _LOGIN[1:] + ".",
            code="hub-bad-token",
        )
    hint = (
        "Check the name; if it is private, use a token of a member of its organisation."
        if context.token
        else f"Check the name; if it is private: {_LOGIN[0].lower()}{_LOGIN[1:]}."
    )
    rule = "there is no such repository, or it is private and the login may not see it"
    return _made(context, rule, got=got, hint=hint, code="hub-no-repository")


def _of_other_status(status: int, got: str, context: Context) -> HubError:
    again = "The same command goes on where this one stopped."
    rules = {
        403: (
            "the token may not do this",
            f"Use a token with the write role for {context.repo.split('/')[0]}.",
            "hub-forbidden",
        ),
        404: ("a file is not in the repository", "Check the revision.", "hub-no-file"),
        409: ("the repository is being changed by somebody else", again, "hub-conflict"),
        412: ("the repository was changed meanwhile", again, "hub-conflict"),
        416: ("the Hub's file is shorter than what is here", again, "hub-range"),
        429: ("the Hub limits the rate of requests", f"Wait some minutes. {again}", "hub-rate-limit"),
    }
    fallback = ("the Hub refused the request", "See what it says.", "hub")
    if status >= 500:
        fallback = ("the Hub is in trouble", f"Try later. {again}", "hub-server")
    rule, hint, code = rules.get(status, fallback)
    return _made(context, rule, got=got, hint=hint, code=code)


def wait_of(headers: Any) -> float | None:
    """Seconds that a server asks to wait (`Retry-After`, `RateLimit`); None when it does not say."""
    from huggingface_hub.utils._http import parse_ratelimit_headers

    text = headers.get("Retry-After")
    if text is not None and text.strip().isdigit():
        return float(text)
    found = parse_ratelimit_headers(headers)
    return float(found.reset_in_seconds) if found is not None and found.remaining == 0 else None


def _made(
    context: Context,
    rule: str,
    *,
    got: str | None = None,
    expected: str | None = None,
    hint: str | None = None,
    code: str = "hub",
) -> HubError:
    return HubError(rule, place=context.repo, got=got, expected=expected, hint=hint, code=code)
