"""Provenance: SHA-256 of inputs and outputs, package version, options; the recipe stamp beside an output.

The stamp decides "unchanged": inputs, options and code version are equal, and the output's own hash is.
What is not here: which options matter; each stage passes its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajpipe.core import atomic, jsontext, names
from trajpipe.core.errors import InputError


def package_version() -> str:
    """Trajpipe's own version."""
    from trajpipe import __version__

    return __version__


def sha256_bytes(data: bytes) -> str:
    """Hex SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file, read in 1 MiB blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_folder(folder: Path) -> str:
    """Hex SHA-256 over a folder: every file's relative POSIX path and hash in sorted order.

    Raises:
        InputError: the folder holds a symbolic link that leaves it.
    """
    digest = hashlib.sha256()
    root = folder.resolve()
    for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).as_posix()):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise InputError("a link leaves the folder", place=path)
        if path.is_file():
            digest.update(os.fsencode(f"{path.relative_to(folder).as_posix()}\0{sha256_file(path)}\n"))
    return digest.hexdigest()


def sha256_path(path: Path) -> str:
    """Hex SHA-256 of a file or a folder."""
    return sha256_folder(path) if path.is_dir() else sha256_file(path)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; 0 when absent."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size if path.exists() else 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an output is made of.

    Attributes:
        stage: `demos`, `store` or `lerobot`.
        inputs: Name of each input (base name, never a path) → SHA-256.
        options: Everything that changes the bytes, plain JSON values.
        code: Version of the stage's meaning; raised when the same input must give other bytes.
        package: trajpipe's version (recorded; a new package with the same `code` does not rebuild).
    """

    stage: str
    inputs: Mapping[str, str]
    options: Mapping[str, Any]
    code: str
    package: str = field(default_factory=package_version)

    def to_json(self) -> dict[str, Any]:
        """Plain form with sorted keys."""
        return {
            "version": names.RECIPE_VERSION,
            "stage": self.stage,
            "inputs": dict(sorted(self.inputs.items())),
            "options": dict(self.options),
            "code": self.code,
            "package": self.package,
        }

    def key(self) -> str:
        """Hex SHA-256 over what decides "unchanged": stage, inputs, options, code."""
        value = self.to_json()
        del value["package"]
        return sha256_bytes(jsontext.dumps(value).encode())


def beside(output: Path, suffix: str) -> Path:
    """`<name><suffix>` beside an output, e.g. `x.hdf5.recipe.json`."""
    return output.with_name(output.name + suffix)


def stamp(
    output: Path,
    recipe: Recipe,
    extra: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write `<output>.recipe.json`: the recipe, its key, the output's SHA-256 and size.

    The output's modification time and inode are kept too, so that an untouched file need not be hashed again.

    Args:
        output: The output.
        recipe: What it was made of.
        extra: Kept in the stamp.
        identity: Of the output, where `identity_of` told it already.
    """
    made = dict(identity or identity_of(output))
    value = recipe.to_json() | {"key": recipe.key(), "output": made} | dict(extra or {})
    atomic.write_json(beside(output, names.SUFFIX_RECIPE), value)
    return value


def claim(output: Path, recipe: Recipe, coming: Mapping[str, Any]) -> None:
    """Say that what is about to appear in an output's place is ours, whatever stamp is there.

    A claim never counts as unchanged; `stamp` replaces it. After a kill in between it still tells our own
    output from a file that somebody else put there, or changed.

    Args:
        output: The output.
        recipe: What it is made of.
        coming: Identity of what will be published, see `identity_of`.
    """
    before = read_stamp(output) or recipe.to_json() | {"key": "", "output": {}}
    atomic.write_json(beside(output, names.SUFFIX_RECIPE), before | {"coming": dict(coming)})


def hashes_of(stamp: Mapping[str, Any] | None) -> set[str]:
    """SHA-256s that an output of this stamp may have: of what was made and, after a kill, what came then."""
    recorded = [] if stamp is None else [stamp["output"], stamp.get("coming") or {}]
    return {str(one["sha256"]) for one in recorded if "sha256" in one}


def read_stamp(output: Path) -> dict[str, Any] | None:
    """The stamp beside an output; None when absent or not a stamp of this version."""
    path = beside(output, names.SUFFIX_RECIPE)
    if not path.is_file():
        return None
    try:
        value = jsontext.loads(path.read_bytes(), place=path)
    except InputError:
        return None
    if not isinstance(value, dict) or value.get("version") != names.RECIPE_VERSION:
        return None
    return value if isinstance(value.get("output"), dict) else None


def unchanged(output: Path, recipe: Recipe) -> bool:
    """True when the stamp's key equals the recipe's and the output on disk is the one that was stamped."""
    value = read_stamp(output)
    if value is None or value.get("key") != recipe.key() or not output.exists():
        return False
    recorded = value["output"]
    if recorded.get("touch") == touch_of(output):
        return True
    return bool(recorded.get("sha256") == sha256_path(output))


def identity_of(output: Path) -> dict[str, Any]:
    """SHA-256, size and touch of an output; the same under a temporary name in the same folder."""
    return {"sha256": sha256_path(output), "size": size_of(output), "touch": touch_of(output)}


def touch_of(path: Path) -> list[int]:
    """Modification time (ns), size and inode: equal touches mean untouched bytes.

    A folder's touch is one number over the names, times and sizes of all files below it.
    """
    if path.is_dir():
        lines = [f"{p.relative_to(path).as_posix()} {touch_of(p)}" for p in path.rglob("*") if p.is_file()]
        return [int(sha256_bytes("\n".join(sorted(lines)).encode())[:15], 16)]
    status = path.stat()
    return [status.st_mtime_ns, status.st_size, status.st_ino]
