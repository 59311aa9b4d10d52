"""What every rule of L2 shares: the facts of its subject, read once per run, and how values are shown.

What is not here: the facts (`trajpipe.checks.demos_facts`) and the rules, see `trajpipe.checks.demos`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trajpipe.checks.demos_facts import FACTS, FileFacts
from trajpipe.checks.demos_scan import scan, sites_from
from trajpipe.checks.registry import Subject
from trajpipe.core import names
from trajpipe.core.errors import UnreadableError

STAGE: Final = names.Stage.DEMOS.value
_LISTED: Final = 5


def facts_of(subject: Subject) -> FileFacts:
    """The facts of a subject's file, read once per run.

    Raises:
        UnreadableError: the file cannot be opened, so nothing can be checked.
    """
    facts = facts_or_error(subject)
    if facts.error is not None:
        raise UnreadableError("not checked, for the file cannot be opened (demos-readable says why)")
    return facts


def facts_or_error(subject: Subject) -> FileFacts:
    """The same, with `error` set instead of raising."""
    conventions = subject.context.get("conventions", {})
    declared = tuple(sites_from(conventions.get("quaternions", ())))
    facts: FileFacts = subject.fact(FACTS, lambda: scan(subject.path, declared))
    return facts


def listed(items: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(items[:_LISTED]) + more


def shown(value: object) -> str:
    """A value for a finding: `absent`, or its form cut short."""
    return "absent" if value is None else repr(value)[:80]
