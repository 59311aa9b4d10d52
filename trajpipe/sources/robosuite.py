"""Raw robosuite collections: demos from 1, states and actions, `env_info`, no observations, no counts.

Layout: robosuite's `collect_human_demonstrations`; old files name a model file that lies beside them.
What is not here: robosuite files that robomimic has converted, see `trajpipe.sources.robomimic`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from trajpipe.core import names
from trajpipe.core.findings import Severity
from trajpipe.core.paths import base_name
from trajpipe.core.provenance import sha256_file
from trajpipe.hdf5 import attributes
from trajpipe.sources.base import ReadOptions, register
from trajpipe.sources.demo_source import DemoSource
from trajpipe.sources.detection import ROBOSUITE
from trajpipe.sources.reading import Defaults, Reading
from trajpipe.sources.recorded_attributes import KeptAttributes
from trajpipe.sources.recorded_text import without_paths
from trajpipe.sources.recording import Recording, open_recording

_MODELS_FOLDER: Final = "models"
_MAX_MODEL_BYTES: Final = 16 << 20


class RobosuiteSource(DemoSource):
    """robosuite: states[t] precedes actions[t]; its WXYZ free joints stay as recorded."""

    kind = ROBOSUITE
    title = "raw robosuite collections (states and actions)"
    first_numbers: ClassVar[tuple[int, ...]] = (1, 0)
    counted: ClassVar[bool] = False

    def defaults(self, recording: Recording, _options: ReadOptions, /) -> Defaults:
        """Without observations there is no alignment to tell."""
        has_obs = any(names.GROUP_OBS in recording.demo(n) for n in recording.demos)
        return Defaults(alignment=names.Alignment.BEFORE_ACTION if has_obs else None)

    def adjust_attributes(self, reading: Reading, name: str, /, kept: KeptAttributes) -> None:
        """A file name in `model_file` is replaced by that file's text, when it lies beside the recording."""
        named = kept.values.get(names.ATTR_MODEL_FILE)
        if not isinstance(named, str) or not _is_file_name(named):
            return
        recording = reading.recording
        place = recording.place(name, f"@{names.ATTR_MODEL_FILE}")
        path = model_beside(recording.path, _recorded_name(recording, name))
        text = None if path is None else _text_of(path)
        if text is None:
            message = "model_file names a file that does not lie beside the recording; the name is kept"
            finding = recording.finding(
                "model-file-missing", message, severity=Severity.WARN, place=place, got=named
            )
        else:
            kept.values[names.ATTR_MODEL_FILE] = without_paths(text)
            message = "model_file was a file name; the model was read from beside the recording"
            finding = recording.finding("model-file-read", message, place=place, got=named)
        reading.options.report(finding)

    def companions(self, path: Path) -> Sequence[Path]:
        """The model files beside the recording that it names: editing one changes what is read.

        Raises:
            UnreadableError: the recording cannot be opened.
        """
        folders = (path.parent, path.parent / _MODELS_FOLDER)
        if not any(p for folder in folders for p in folder.glob("*.xml")):
            return ()
        with open_recording(path) as recording:
            named = {_recorded_name(recording, demo) for demo in recording.demos}
        found = {model_beside(path, name) for name in named if _is_file_name(name)}
        return sorted(p for p in found if p is not None)

    def recipe_facts(self, recording: Recording, /) -> Mapping[str, Any]:
        """SHA-256 of the model files beside the recording: they are inputs too."""
        found = dict[str, str]()
        for name in recording.demos:
            named = _recorded_name(recording, name)
            path = model_beside(recording.path, named) if _is_file_name(named) else None
            if path is not None and named not in found:
                found[named] = sha256_file(path)
        return {"model_files": dict(sorted(found.items()))} if found else {}


def _recorded_name(recording: Recording, name: str) -> str:
    return attributes.text(recording.demo(name), names.ATTR_MODEL_FILE) or ""


def _is_file_name(text: str) -> bool:
    return bool(text) and "<" not in text and "\n" not in text


def model_beside(recording: Path, named: str) -> Path | None:
    """The model file that a recording names, in its folder or `models/` below it; None anywhere else.

    Args:
        recording: The recording's path.
        named: The recorded text: only a bare file name is looked for.
    """
    if named != base_name(named) or named in ("", ".", "..") or "\0" in named:
        return None
    for folder in (recording.parent, recording.parent / _MODELS_FOLDER):
        path = folder / named
        # A link would lead out of the folder that the recording came in.
        if path.is_file() and not path.is_symlink() and not folder.is_symlink():
            return path if path.stat().st_size <= _MAX_MODEL_BYTES else None
    return None


def _text_of(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if text.lstrip().startswith("<") else None


register(RobosuiteSource())
