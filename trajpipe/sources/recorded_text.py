"""Paths in recorded text reduced to base names, so that nobody's disk layout reaches an output.

Absolute paths anywhere, relative ones where a name says that a file or folder follows. By pattern alone:
nothing is parsed as XML, resolved or opened.
What is not here: what an absolute path is, see `trajpipe.core.paths`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from trajpipe.core import jsontext
from trajpipe.core.errors import InputError
from trajpipe.core.paths import base_name, is_absolute_path, without_absolute_paths

_PATH_KEY: Final = re.compile(r"(file|path|dir|directory|folder)(_?(name|s))?$", re.IGNORECASE)
_PATH_ATTRIBUTE: Final = re.compile(r"(file|path|dir|folder|src|href)$", re.IGNORECASE)
_SCHEME: Final = re.compile(r"^(?!file:)[A-Za-z][A-Za-z0-9+.\-]+://")
# Names inside a USD scene (`/World/envs/env_0/Robot`, `{ENV_REGEX_NS}/Robot`) are on nobody's disk.
_SCENE_PATH: Final = re.compile(r"^(?:/World\b|/Visuals\b|\{)")
_XML_ATTRIBUTE: Final = re.compile(r"(?<![\w:.\-])([\w:.\-]+)(\s*=\s*)(\"[^\"]*\"|'[^']*')")


def without_paths(text: str, *, name: str = "") -> str:
    """Recorded text with every file-system path in it reduced to its base name.

    JSON stays JSON (written anew only when something in it changed), MJCF stays MJCF: attributes that name
    files or folders (`file`, `meshdir`, `texturedir`, …) are reduced whether absolute or relative, other
    values when they are absolute. Web addresses and USD scene paths are left alone.

    Args:
        text: An attribute's text.
        name: The attribute's name: one that ends in file, path, dir or folder may hold a relative path.

    Returns:
        The text; the same object when it holds no path.
    """
    head = text.lstrip()[:1]
    if head in ("{", "["):
        try:
            value = jsontext.loads(text)
        except InputError:
            return without_absolute_paths(text)
        reduced = reduced_value(value)
        return text if reduced == value else jsontext.dumps(reduced, sort_keys=False)
    if head == "<" and ("</" in text or "/>" in text):
        return without_absolute_paths(_XML_ATTRIBUTE.sub(_xml_attribute, text))
    return _value(text, bool(_PATH_KEY.search(name)))


def reduced_value(value: Any, key: str = "") -> Any:
    """A plain JSON value with the paths in its strings reduced; keys are left as they are."""
    if isinstance(value, dict):
        return {k: reduced_value(v, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [reduced_value(v, key) for v in value]
    return _value(value, bool(_PATH_KEY.search(key))) if isinstance(value, str) else value


def _value(text: str, names_a_path: bool) -> str:
    if "/" not in text and "\\" not in text:
        return text
    if names_a_path and "\n" not in text and not _SCHEME.match(text) and not _SCENE_PATH.match(text):
        return base_name(text)
    return without_absolute_paths(text)


def _xml_attribute(match: re.Match[str]) -> str:
    name, equals, quoted = match.groups()
    quote, value = quoted[0], quoted[1:-1]
    named = bool(_PATH_ATTRIBUTE.search(name)) and ("/" in value or "\\" in value)
    if _SCHEME.match(value) or not (named or is_absolute_path(value)):
        return match.group(0)
    return f"{name}{equals}{quote}{base_name(value)}{quote}"
