"""Which licences may be published without a second thought, and how the Hub spells them.

What is not here: where a dataset's licence is declared (the catalogue).
"""

from __future__ import annotations

import re
from typing import Final

from trajpipe.core.errors import UsageError

_NONE: Final = ("", "none", "unknown", "other", "unlicensed", "noassertion", "proprietary")
_WORDS: Final = re.compile(r"[^a-z0-9]+")
# The Hub's own identifiers (its card validator refuses others); anything else goes under `license: other`.
_ON_THE_HUB: Final = frozenset(
    (
        "0bsd", "afl-3.0", "agpl-3.0", "apache-2.0", "artistic-2.0", "bsd", "bsd-2-clause", "bsd-3-clause",
        "bsd-3-clause-clear", "bsl-1.0", "c-uda", "cc", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0",
        "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-sa-3.0",
        "cc-by-sa-4.0", "cc0-1.0",
        "cdla-permissive-1.0", "cdla-permissive-2.0", "cdla-sharing-1.0", "ecl-2.0", "epl-1.0", "epl-2.0",
        "etalab-2.0", "eupl-1.1", "eupl-1.2", "gfdl", "gpl", "gpl-2.0", "gpl-3.0", "isc", "lgpl", "lgpl-2.1",
        "lgpl-3.0", "mit", "mpl-2.0", "ms-pl", "ncsa", "odbl", "odc-by", "ofl-1.1", "osl-3.0", "pddl",
        "unlicense", "wtfpl", "zlib",
    )
)  # fmt: skip
_SPELLED: Final = {
    "odbl-1.0": "odbl",
    "odc-by-1.0": "odc-by",
    "pddl-1.0": "pddl",
    "gpl-3.0-only": "gpl-3.0",
    "gpl-3.0-or-later": "gpl-3.0",
    "gpl-2.0-only": "gpl-2.0",
    "gpl-2.0-or-later": "gpl-2.0",
    "agpl-3.0-only": "agpl-3.0",
    "agpl-3.0-or-later": "agpl-3.0",
}


def restriction(licence: str | None) -> str | None:
    """Why data under this licence is not made public unasked; None when nothing is against it."""
    text = (licence or "").strip().lower()
    if text in _NONE:
        return "the dataset has no licence" if not text else f"`{licence}` is no licence"
    words = _WORDS.split(text)
    if "nc" in words or "noncommercial" in words or ("non" in words and "commercial" in words):
        return f"{licence} forbids commercial use"
    if "nd" in words or "noderivatives" in words or "noderivs" in words or "derivatives" in words:
        return f"{licence} forbids derivatives"
    return None


def require_publishable(licence: str | None, *, repo: str, allowed: bool) -> None:
    """Stop a public push of data whose licence does not plainly allow it.

    Args:
        licence: SPDX name or None.
        repo: Named in the error.
        allowed: The user said that it may be published all the same.

    Raises:
        UsageError: no licence, or a non-commercial or no-derivatives one, and `allowed` is False.
    """
    why = restriction(licence)
    if why is None or allowed:
        return
    raise UsageError(
        "a public push needs a licence that allows it",
        place=repo,
        got=why,
        hint="Set the dataset's `license:`, push to a private repository, or say --allow-license "
        "when you hold the rights.",
        code="licence",
    )


def hub_identifier(licence: str) -> str | None:
    """The Hub's identifier of an SPDX name (`Apache-2.0` → `apache-2.0`); None when it knows none."""
    text = licence.strip().lower()
    found = _SPELLED.get(text, text)
    return found if found in _ON_THE_HUB else None
