"""The failure sensor and its hook: a real server is told of a real failed run; its URL is told to nobody."""

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import pytest

from trajpipe.core.errors import StateError, UsageError
from trajpipe.defs.failure_hook import HOOK, WEBHOOK, failure_hook, post
from trajpipe.defs.sensors import run_failures
from trajpipe_tests.defs.conftest import BROKEN, Built

FAILURE = {"run_id": "1", "job": "lift_demos", "partition": "day1", "error": "it broke"}
TOLD: list[Mapping[str, str]] = []


def note(failure: Mapping[str, str]) -> None:
    """A hook of the user's own."""
    TOLD.append(failure)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[Any], list[int]]]:
    """A server that keeps what it is sent, and the status it answers with."""
    received: list[Any] = []
    status = [200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        monkeypatch.setenv(WEBHOOK, f"http://127.0.0.1:{listening.server_port}/secret")
        monkeypatch.delenv(HOOK, raising=False)
        yield received, status
        listening.shutdown()
        thread.join()


def _sensor_context(built: Built) -> Any:
    run = built.demos[BROKEN]
    failed = [e for e in run.all_events if e.is_run_failure or e.is_step_failure][-1]
    return dg.build_run_status_sensor_context(
        "run_failures", failed, built.runner.instance, run.dagster_run
    ).for_run_failure()


def test_a_failed_run_is_posted(built: Built, server: tuple[list[Any], list[int]]) -> None:
    run_failures(_sensor_context(built))
    ((told),) = server[0]
    assert (told["job"], told["partition"]) == ("lift_demos", BROKEN)
    assert told["run_id"] == built.demos[BROKEN].run_id
    assert told["text"].startswith(f"trajpipe: lift_demos [{BROKEN}] failed: ")


def test_the_text_is_what_chat_services_show(server: tuple[list[Any], list[int]]) -> None:
    post(FAILURE)
    assert server[0] == [FAILURE | {"text": "trajpipe: lift_demos [day1] failed: it broke"}]


def test_a_refusal_is_said_without_the_url(server: tuple[list[Any], list[int]]) -> None:
    server[1][0] = 500
    with pytest.raises(StateError, match="the webhook was not told; got HTTPError") as error:
        post(FAILURE)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


def test_an_address_that_is_not_of_the_web_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK, "file:///etc/passwd")
    with pytest.raises(UsageError, match="no web address") as error:
        post(FAILURE)
    assert "passwd" not in str(error.value)


def test_a_function_may_be_named_instead(
    built: Built, server: tuple[list[Any], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOOK, f"{__name__}:note")
    TOLD.clear()
    run_failures(_sensor_context(built))
    assert [failure["partition"] for failure in TOLD] == [BROKEN]
    assert server[0] == []


@pytest.mark.parametrize("named", ["nowhere.at_all:x", "json:no_such", "json", ":", "json:"])
def test_a_name_of_no_function_is_refused(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv(HOOK, named)
    with pytest.raises(UsageError, match="names no function"):
        failure_hook()


def test_nobody_to_tell_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOOK, raising=False)
    monkeypatch.delenv(WEBHOOK, raising=False)
    with pytest.raises(UsageError, match="nobody is to be told"):
        failure_hook()
