"""The page as one file: head, overview, inert data, script; its content policy, its size bound.

Nothing outside the file is named in it, and only the one style and the one script of its hashes may act.
What is not here: what is in it, see `html_model`.
"""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import IO, Any, Final

from trajpipe.core import atomic
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.provenance import package_version
from trajpipe.report import html_overview as overview
from trajpipe.report.html_model import Report, index_of
from trajpipe.report.html_text import data_block, escaped

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")
_OF_THE_FOLDER: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_DETAILS: Final = "{{details}}"


@dataclass(slots=True)
class Details:
    """Frames and curves of episodes, written aside until the overview is known.

    Attributes:
        file: A nameless temporary file.
        max_bytes: Most bytes that may be added in all.
        written: Bytes added.
        number: Blocks added.
    """

    file: IO[bytes]
    max_bytes: int
    written: int = 0
    number: int = 0

    def add(self, value: Any) -> int | None:
        """Add one block; its number, or None when it has no room any more."""
        data = data_block(f"d{self.number}", value).encode("utf-8")
        if self.written + len(data) > self.max_bytes:
            return None
        self.file.write(data)
        self.written += len(data)
        self.number += 1
        return self.number - 1


@contextmanager
def details(folder: Path, max_bytes: int) -> Iterator[Details]:
    """An empty `Details` whose file lies in `folder`, which is made.

    Raises:
        OSError: the system refuses (no space, read-only, …); names the folder, not a temporary file in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            yield Details(file, max_bytes)
    except OSError as error:
        if error.errno in _OF_THE_FOLDER and not isinstance(error, TrajpipeError):
            error.filename = str(folder)
        raise


def write_page(report: Report, added: Details, target: Path) -> int:
    """Write the page in one step; bytes written.

    Args:
        report: The overview and the index.
        added: Frames and curves that the index points to.
        target: The file; an older one is replaced.
    """
    head, tail = (_filled(part, report) for part in _asset("html").split(_DETAILS))
    with atomic.atomic_file(target) as temporary, temporary.open("wb") as page:
        page.write(head.encode("utf-8"))
        added.file.seek(0)
        shutil.copyfileobj(added.file, page)
        page.write(tail.encode("utf-8"))
        return page.tell()


def size_without_details(report: Report) -> int:
    """Bytes of the page but for frames and curves."""
    return sum(len(_filled(part, report).encode("utf-8")) for part in _asset("html").split(_DETAILS))


def _filled(template: str, report: Report) -> str:
    """The template with its places filled, once: what is filled in is not looked at again."""
    return _PLACE.sub(lambda found: _content(found[1], report), template)


def _content(place: str, report: Report) -> str:
    plain = {
        "title": report.title,
        "subtitle": report.subtitle,
        "version": package_version(),
        "first": f"{min(overview.FIRST_PAGE, len(report.episodes)):,}",
        "known": f"{report.known:,}",
    }
    if place in plain:
        return escaped(plain[place])
    if place in ("style", "script"):
        return _asset("css" if place == "style" else "js")
    if place == "policy":
        return escaped(content_policy())
    if place == "index":
        return data_block("index", index_of(report))
    if place == "rows":
        return overview.first_rows(report.episodes)
    section = {
        "tiles": overview.tiles,
        "stages": overview.stages,
        "pictures": overview.pictures,
        "notes": overview.notes,
        "certificate": overview.certificate,
        "checks": overview.checks,
        "ledger": overview.ledger,
    }[place]
    return section(report)


def content_policy() -> str:
    """Nothing may be fetched; pictures are in the page; one style and one script may act, by their hashes."""
    style, script = (_source_hash(_asset(kind)) for kind in ("css", "js"))
    return (
        f"default-src 'none'; img-src data:; style-src {style}; script-src {script}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source_hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _asset(kind: str) -> str:
    return (resources.files("trajpipe.report") / f"html_page.{kind}").read_text("utf-8")
