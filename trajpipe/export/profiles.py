"""Export profiles registered by name: a version and flavour of LeRobot that somebody's loader wants.

A profile sets options only; what a catalogue says goes over it. What is not here: writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Final

from trajpipe.core.errors import MissingNameError
from trajpipe.core.plugins import entry_points
from trajpipe.export.options import ExportOptions

ENTRY_POINTS: Final = "trajpipe.exports"
DEFAULT: Final = "lerobot-v2.1"
_REGISTRY: dict[str, ExportProfile] = {}


@dataclass(frozen=True, slots=True)
class ExportProfile:
    """A named set of options.

    Attributes:
        name: Registered name, the catalogue's `profile:` and the command line's `--to`.
        title: One line for people.
        settings: Fields of `ExportOptions` that it fixes.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def options(self, *, fps: Fraction, **chosen: Any) -> ExportOptions:
        """The options of this profile with the caller's own on top.

        Args:
            fps: Frames per second.
            chosen: Any field of `ExportOptions`; it wins over the profile's.

        Raises:
            UsageError: the combination is not possible.
        """
        return ExportOptions(fps=fps, **{**self.settings, **chosen})


def register(profile: ExportProfile) -> ExportProfile:
    """Register a profile by its name; a second of one name replaces the first."""
    _REGISTRY[profile.name] = profile
    return profile


def profiles() -> dict[str, ExportProfile]:
    """All profiles by name: built-in ones, then those of installed packages (entry points)."""
    _load_installed()
    return dict(sorted(_REGISTRY.items()))


@cache
def _load_installed() -> None:
    """Import the installed packages' profiles, once per process."""
    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in _REGISTRY:
            register(point.load())


def profile(name: str = DEFAULT) -> ExportProfile:
    """The profile of a name.

    Raises:
        MissingNameError: no such profile; the message lists them.
    """
    known = profiles()
    if name not in known:
        raise MissingNameError(
            "no export profile of this name", got=name, expected=f"one of {', '.join(known)}"
        )
    return known[name]


register(ExportProfile(DEFAULT, "LeRobot v2.1, h264; also read by GR00T N1.5 to N1.7", {"version": "v2.1"}))
register(ExportProfile("lerobot-v2.0", "LeRobot v2.0, h264", {"version": "v2.0"}))
register(
    ExportProfile("lerobot-v3.0", "LeRobot v3.0, h264; what LeRobot 0.4 and later read", {"version": "v3.0"})
)
register(
    ExportProfile("gr00t-v2.1", "LeRobot v2.1 held to GR00T's rules", {"version": "v2.1", "gr00t": True})
)
register(
    ExportProfile("gr00t-v2.0", "LeRobot v2.0 held to GR00T's rules", {"version": "v2.0", "gr00t": True})
)
