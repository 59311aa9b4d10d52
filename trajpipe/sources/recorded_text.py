"""Paths in recorded text reduced to base names, so that nobody's disk layout reaches an output.

Works on plain text, JSON text and MJCF text by pattern alone: nothing is parsed as XML, resolved or opened.
What is not here: which attributes are kept, see `trajpipe.sources.recorded_attributes`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from trajpipe.core import jsontext
from trajpipe.core.errors import InputError

_PATH_KEY: Final = re.compile(r"(file|path|dir|directory|folder)(_?(name|s))?$", re.IGNORECASE)
_PATH_ATTRIBUTE: Final = re.compile(r"file|path|dir$|folder|src|href", re.IGNORECASE)
_SCHEME: Final = re.compile(r"^(?!file:)[A-Za-z][A-Za-z0-9+.\-]+://")
_ABSOLUTE: Final = re.compile(r"^(?:file://|~[\w.\-]*[/\\]|[A-Za-z]:[/\\]|\\\\|/)")
_WITH_SUFFIX: Final = re.compile(
    r"[/\\][^/\\]*\.(?:xml|mjcf|urdf|usda?|usdc|usdz|obj|stl|dae|msh|png|jpe?g|bddl|hdf5|h5|json|ya?ml|npz|npy|pkl|pth?|py|txt|mp4)$",
    re.IGNORECASE,
)
# Names inside a USD scene (`/World/envs/env_0/Robot`) look like paths and are not on anybody's disk.
_SCENE_PATH: Final = re.compile(r"^/(?:World|Visuals|Render|OmniverseKit_)\b")
_FILE_SYSTEM_ROOT: Final = re.compile(
    r"^(?:file://)?/(?:home|Users|root|opt|usr|var|tmp|mnt|media|data|srv|etc|scratch|work|workspace|workspaces"
    r"|private|Volumes|Applications|nfs|net|lustre|gpfs|cluster|projects?|shared|export|app|code|content|run|dev)/"
)
_XML_ATTRIBUTE: Final = re.compile(r"(?<![\w:.\-])([\w:.\-]+)(\s*=\s*)(\"[^\"]*\"|'[^']*')")
_QUOTED: Final = re.compile(
    r"(?<![\w])(?P<quote>['\"])(?P<path>(?:file://|~[\w.\-]*/|[A-Za-z]:[/\\]|\\\\|/)[^'\"\n]*)(?P=quote)"
)
_EMBEDDED: Final = re.compile(
    r"(?<![\w.:/<~\\-])(?:file://)?(?:~[\w.\-]*|[A-Za-z]:)?(?:[/\\][^\s/\\'\"<>|;,()\[\]{}=]+){2,}[/\\]?"
)


def base_name(path: str) -> str:
    """Last part of a POSIX or Windows path, trailing separators ignored: `/a/b/c.xml` → `c.xml`."""
    parts = [p for p in re.split(r"[/\\]", path) if p not in ("", ".")]
    return parts[-1] if parts else ""


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
            return _free_text(text)
        reduced = reduced_value(value)
        return text if reduced == value else jsontext.dumps(reduced, sort_keys=False)
    if head == "<" and ("</" in text or "/>" in text):
        return _free_text(_XML_ATTRIBUTE.sub(_xml_attribute, text))
    return _value(text, bool(_PATH_KEY.search(name)))


def reduced_value(value: Any, key: str = "") -> Any:
    """A plain JSON value with the paths in its strings reduced; keys are left as they are."""
    if isinstance(value, dict):
        return {k: reduced_value(v, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [reduced_value(v, key) for v in value]
    return _value(value, bool(_PATH_KEY.search(key))) if isinstance(value, str) else value


def _value(text: str, names_a_path: bool) -> str:
    """One string value: whole-string paths first, then paths inside running text."""
    if _SCHEME.match(text) or _SCENE_PATH.match(text):
        return text
    single = "\n" not in text and ("/" in text or "\\" in text)
    if single and (names_a_path or _is_whole_path(text)):
        return base_name(text) or text
    return _free_text(text)


def _is_whole_path(text: str) -> bool:
    if _WITH_SUFFIX.search(text) and " " not in text:
        return True
    if not _ABSOLUTE.match(text):
        return False
    return len([p for p in re.split(r"[/\\]", text) if p]) >= 2 and (
        " " not in text or bool(_FILE_SYSTEM_ROOT.match(text))
    )


def _xml_attribute(match: re.Match[str]) -> str:
    name, equals, quoted = match.groups()
    quote, value = quoted[0], quoted[1:-1]
    names_a_path = bool(_PATH_ATTRIBUTE.search(name)) and ("/" in value or "\\" in value)
    if _SCHEME.match(value) or not (names_a_path or _FILE_SYSTEM_ROOT.match(value)):
        return match.group(0)
    return f"{name}{equals}{quote}{base_name(value)}{quote}"


def _free_text(text: str) -> str:
    if "/" not in text and "\\" not in text:
        return text
    text = _QUOTED.sub(_quoted_path, text)
    return _EMBEDDED.sub(lambda match: _kept_or_base(match.group(0)), text)


def _quoted_path(match: re.Match[str]) -> str:
    quote, path = match.group("quote"), match.group("path")
    return f"{quote}{_kept_or_base(path)}{quote}"


def _kept_or_base(path: str) -> str:
    return path if _SCENE_PATH.match(path) or path.startswith("//") else base_name(path) or path
