"""`write_recording`: one seeded raw recording of any kind, as a file.

What is not here: the formats themselves, one module each, and defects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from trajpipe.core.errors import MissingNameError
from trajpipe.testing import isaaclab, libero, robomimic, robosuite
from trajpipe.testing.defects import inject
from trajpipe.testing.request import Request, options_from

_Writer = tuple[type[Any], Callable[[Path, Request, Any], Path]]

_KINDS: Final[dict[str, _Writer]] = {
    "isaaclab": (isaaclab.IsaacLabOptions, isaaclab.write),
    "robomimic": (robomimic.RobomimicOptions, robomimic.write),
    "robosuite": (robosuite.RobosuiteOptions, robosuite.write),
    "libero": (libero.LiberoOptions, libero.write),
}
KINDS: Final = tuple(_KINDS)
_COMMON: Final = frozenset(f.name for f in fields(Request))


def write_recording(
    kind: str,
    path: Path,
    *,
    episodes: int = 3,
    rows: tuple[int, int] = (40, 60),
    seed: int = 0,
    cameras: Sequence[str] | None = None,
    defects: Sequence[str] = (),
    **options: Any,
) -> Path:
    """Write a raw recording; the same arguments give the same bytes.

    Args:
        kind: `isaaclab`, `robomimic`, `robosuite` or `libero`.
        path: File to write; its folder is made, an older file is replaced.
        episodes: Number of demos.
        rows: Shortest and longest episode, in actions.
        seed: Of everything random.
        cameras: Names of the cameras; None = the kind's usual ones, `()` = none.
        defects: Names of `trajpipe.testing.DEFECTS` to inject, in order.
        **options: Further fields of `trajpipe.testing.request.Request` (`lengths`, `failures`, `style`,
            `task`, `numbers`, `fps`, `noise`, `image_size`: 84, and 128 for `libero`) and of the kind's own
            options (`IsaacLabOptions`, `RobomimicOptions`, `RobosuiteOptions`, `LiberoOptions`).

    Returns:
        Path of the file written.

    Raises:
        MissingNameError: no such kind.
        UsageError: no such option, or values that do not fit.
    """
    if kind not in _KINDS:
        raise MissingNameError("no generator of this kind", got=kind, expected=f"one of {', '.join(KINDS)}")
    form, write = _KINDS[kind]
    common = {name: value for name, value in options.items() if name in _COMMON}
    if kind == "libero":
        common.setdefault("image_size", libero.IMAGE_SIZE)
    own = {name: value for name, value in options.items() if name not in _COMMON}
    request = Request(
        episodes=episodes,
        rows=rows,
        seed=seed,
        cameras=None if cameras is None else tuple(cameras),
        **common,
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path = write(path, request, options_from(kind, form, own))
    for name in defects:
        inject(path, name, seed)
    return path
