"""`trajpipe.json`: every file of a published version with its size and SHA-256, and the recipe.

The version's name is a hash over the data files, so a tag can only ever mean one content.
What is not here: writing it to a repository (`push.py`), comparing a folder with it (`verify.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trajpipe.core import jsontext, names, provenance
from trajpipe.core.errors import InputError
from trajpipe.hub.listing import require_safe

PART_STORE: Final = "store"
PART_LEROBOT: Final = "lerobot"
PART_DEMOS: Final = "demos"
PART_CARD: Final = "card"
PART_OTHER: Final = "other"
PARTS: Final = (PART_STORE, PART_LEROBOT, PART_DEMOS, PART_OTHER)
TAG_DIGITS: Final = 16
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_LEROBOT_FOLDERS: Final = ("meta", "data", "videos", "images")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One file of a published version.

    Attributes:
        path: Path in the repository, `/` between parts.
        size: Bytes.
        sha256: Hex SHA-256.
        part: `store`, `lerobot`, `demos`, `other`, or `card` for the dataset card and the certificate.
    """

    path: str
    size: int
    sha256: str
    part: str

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"path": self.path, "size": self.size, "sha256": self.sha256, "part": self.part}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a published version is.

    Attributes:
        entries: All files but the manifest itself, sorted by path.
        dataset: Name of the dataset.
        license: SPDX name of the data's licence; None when unknown.
        recipe: How the files were made: seed, inputs' hashes, options, versions; plain JSON values.
    """

    entries: tuple[Entry, ...]
    dataset: str
    license: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> tuple[Entry, ...]:
        """The entries but the card."""
        return tuple(e for e in self.entries if e.part != PART_CARD)

    @property
    def data_version(self) -> str:
        """Hex SHA-256 over path, size and hash of every data file."""
        lines = [f"{e.path}\0{e.size}\0{e.sha256}\n" for e in sorted(self.data)]
        return provenance.sha256_bytes("".join(lines).encode())

    @property
    def tag(self) -> str:
        """The immutable tag: `v` and the first digits of the data version."""
        return names.HUB_TAG_PREFIX + self.data_version[:TAG_DIGITS]

    @property
    def total_bytes(self) -> int:
        """Size of all files, bytes."""
        return sum(e.size for e in self.entries)

    def to_text(self) -> str:
        """The file: sorted, indented, the same text for the same content."""
        value = {
            "format": names.HUB_MANIFEST_FORMAT,
            "version": names.HUB_MANIFEST_VERSION,
            "data_version": self.data_version,
            "dataset": self.dataset,
            "license": self.license,
            "files": [e.to_json() for e in sorted(self.entries)],
            "recipe": dict(self.recipe),
        }
        return jsontext.dumps(value, indent=2) + "\n"

    @classmethod
    def parse(cls, text: str | bytes, *, place: object) -> Manifest:
        """Read a manifest that came from elsewhere.

        Args:
            text: The file.
            place: Named in errors.

        Raises:
            InputError: not a manifest, of a newer form, or its version is not that of its files.
            UntrustedError: a file name could leave the folder, or comes twice.
        """
        value = jsontext.loads(text, place=place)
        if not isinstance(value, dict) or value.get("format") != names.HUB_MANIFEST_FORMAT:
            raise _broken(place, "it is not a manifest of trajpipe")
        if value.get("version") != names.HUB_MANIFEST_VERSION:
            raise _broken(place, f"its form is version {value.get('version')!r}, known is 1")
        files, recipe, licence = value.get("files"), value.get("recipe"), value.get("license")
        if not isinstance(files, list) or not isinstance(recipe, dict):
            raise _broken(place, "files or recipe are missing")
        entries = tuple(sorted(_entry(f, place) for f in files))
        require_safe([e.path for e in entries] + [names.HUB_MANIFEST], place=place)
        made = cls(
            entries, str(value.get("dataset", "")), licence if isinstance(licence, str) else None, recipe
        )
        if value.get("data_version") != made.data_version:
            raise _broken(place, "its data_version is not the hash of its files")
        return made


def entry_of(path: str, size: int, sha256: str) -> Entry:
    """An entry whose part follows from the path."""
    return Entry(path, size, sha256, part_of(path))


def part_of(path: str) -> str:
    """Which part a path belongs to: `stores/…`, `demos/…`, a LeRobot tree at the root, or other."""
    top, _, below = path.partition("/")
    if path in (names.HUB_CARD, names.HUB_CONTACT_SHEET, names.CERTIFICATE):
        return PART_CARD
    if below and top == names.FOLDER_STORES:
        return PART_STORE
    if below and top == names.FOLDER_DEMOS:
        return PART_DEMOS
    if below and top in _LEROBOT_FOLDERS:
        return PART_LEROBOT
    return PART_OTHER


def lerobot_tag(paths: Iterable[str], info: bytes | None) -> str | None:
    """The tag that LeRobot's loader asks for; None when there is no LeRobot tree.

    Args:
        paths: Paths in the repository.
        info: Content of `meta/info.json`; None when absent.
    """
    if info is None or not any(part_of(p) == PART_LEROBOT for p in paths):
        return None
    try:
        value = jsontext.loads(info, place="meta/info.json")
    except InputError:
        return None
    version = value.get("codebase_version") if isinstance(value, dict) else None
    return version if version in names.HUB_LEROBOT_TAGS else None


def _entry(value: Any, place: object) -> Entry:
    if not isinstance(value, dict):
        raise _broken(place, "a file is no mapping")
    path, size, sha, part = (value.get(k) for k in ("path", "size", "sha256", "part"))
    if not isinstance(path, str) or not isinstance(sha, str) or not _HEX.fullmatch(sha):
        raise _broken(place, f"the file {path!r} has no path or hash")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0 or not isinstance(part, str):
        raise _broken(place, f"the file {path!r} has no size or part")
    return Entry(path, size, sha, part)


def _broken(place: object, why: str) -> InputError:
    return InputError(
        f"{names.HUB_MANIFEST} is not valid",
        place=place,
        got=why,
        hint="Push the dataset again with trajpipe, or pull another version.",
        code="bad-manifest",
    )
