"""Libraries that do not load here: packages with native code, and modules that a Python may be built without.

Each is imported in another process: a broken library can end the process that loads it. The wheels of what
trajpipe needs bring their libraries along but for libc, libstdc++, libgcc and zlib; no display, no GL.
What is not here: packages whose versions do not fit together, see `trajpipe.pipeline.doctor`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trajpipe.core import jsontext
from trajpipe.core.errors import TrajpipeError
from trajpipe.pipeline.diagnosis import Diagnosis, Grade

WHAT: Final = "libraries"
TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Library:
    """A module with native code.

    Attributes:
        module: What is imported.
        use: What trajpipe does with it.
        install: What pip installs; "" for a module of Python itself.
        debian: For a module of Python itself: the Debian package that Python is built with.
        needed: Whether anything fails without it.
        load: Whether it is imported; what takes seconds and is not ours is only looked for.
    """

    module: str
    use: str
    install: str = ""
    debian: str = ""
    needed: bool = True
    load: bool = True


LIBRARIES: Final = (
    Library("h5py", "reads and writes HDF5", "h5py"),
    Library("hdf5plugin", "reads zstd stores", "hdf5plugin"),
    Library("zstandard", "compresses stores", "zstandard"),
    Library("isal", "inflates gzip recordings", "isal"),
    Library("pyarrow", "writes parquet", "pyarrow"),
    Library("av", "writes videos", "av"),
    Library("PIL.Image", "reads and writes pictures", "pillow"),
    Library("matplotlib.backends.backend_agg", "draws reports", "matplotlib"),
    Library("mujoco", "checks MJCF scenes", "mujoco"),
    Library("torch", "loads stores in training", "torch", needed=False, load=False),
    Library("sqlite3", "keeps Dagster's events", debian="libsqlite3-dev"),
    Library("ssl", "talks to the Hub", debian="libssl-dev"),
    Library("zlib", "compresses", debian="zlib1g-dev"),
    Library("bz2", "is loaded by pandas", debian="libbz2-dev"),
    Library("lzma", "is loaded by pandas", debian="liblzma-dev"),
    Library("ctypes", "is loaded by numpy", debian="libffi-dev"),
)
# Shared library → Debian package, for what wheels of this field link to; GL and X11 for other builds of them.
DEBIAN: Final[Mapping[str, str]] = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libOSMesa.so.8": "libosmesa6",
    "libX11.so.6": "libx11-6",
    "libatomic.so.1": "libatomic1",
    "libbz2.so.1.0": "libbz2-1.0",
    "libexpat.so.1": "libexpat1",
    "libffi.so.8": "libffi8",
    "libgcc_s.so.1": "libgcc-s1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgomp.so.1": "libgomp1",
    "liblzma.so.5": "liblzma5",
    "libnuma.so.1": "libnuma1",
    "libsqlite3.so.0": "libsqlite3-0",
    "libssl.so.3": "libssl3",
    "libstdc++.so.6": "libstdc++6",
    "libxcb.so.1": "libxcb1",
    "libz.so.1": "zlib1g",
}
_MISSING: Final = re.compile(r"(lib[\w.+-]+\.so(?:\.\d+)*): cannot open shared object file")
_TOO_OLD: Final = re.compile(r"version [`'](GLIBC(?:XX)?_[\d.]+)' not found")
# One line of JSON for each module, flushed: what the last line lacks is what ended the process.
_LOAD: Final = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
        error = ""
    except BaseException as caught:
        error = f"{type(caught).__name__}: {caught}"
    print(json.dumps([name, error]), file=sys.__stdout__, flush=True)
"""


def look_at_libraries(libraries: Sequence[Library] = LIBRARIES) -> Iterator[Diagnosis]:
    """One diagnosis for each library that should be told of: all packages, and what is wrong of Python's own.

    Args:
        libraries: What is looked at.
    """
    installed = {one.module for one in libraries if _is_there(one.module)}
    errors = _load_once(tuple(one.module for one in libraries if one.module in installed and one.load))
    for one in libraries:
        if one.module not in installed:
            yield _absent(one)
        elif errors.get(one.module):
            text = f"{one.module} does not load ({one.use}): {errors[one.module]}"
            yield Diagnosis(
                WHAT, Grade.WRONG if one.needed else Grade.NOTE, text, _advice(one, errors[one.module])
            )
        elif one.install:
            yield Diagnosis(WHAT, Grade.FINE, f"{one.install} {_version(one.install)}")


@functools.cache
def _load_once(modules: tuple[str, ...]) -> dict[str, str]:
    """As `load_apart`, which takes seconds: what loaded once still does when it is asked again."""
    return load_apart(modules)


def load_apart(modules: Sequence[str]) -> dict[str, str]:
    """Module → why it does not load in a process of its own; "" when it does.

    Args:
        modules: Names of modules; several share a process until one of them ends it.
    """
    found: dict[str, str] = {}
    left = list(modules)
    while left:
        code, told = _load(left)
        found |= told
        left = [name for name in left if name not in told]
        if left:
            found[left.pop(0)] = _end(code)
    return found


def _load(modules: Sequence[str]) -> tuple[int | None, dict[str, str]]:
    """Exit code (None: it took too long) and what was told until then."""
    command = [sys.executable, "-c", _LOAD, jsontext.dumps(sys.path), *modules]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, text = None, (late.stdout or b"").decode(errors="replace")
    told = {}
    for line in text.splitlines():
        try:
            name, error = jsontext.loads(line)
        except (TrajpipeError, ValueError, TypeError):
            continue  # a library that prints while it loads
        told[str(name)] = str(error)
    return code, told


def _end(code: int | None) -> str:
    if code is None:
        return f"it was not loaded after {TIMEOUT_S:.0f} s"
    if code >= 0:
        return f"it ended the process with code {code}"
    name = signal.Signals(-code).name
    illegal = ": this processor lacks an instruction that it was built with" if name == "SIGILL" else ""
    return f"it ended the process by {name}{illegal}"


def _advice(library: Library, error: str) -> str:
    """What helps against an error of loading."""
    missing = _MISSING.search(error)
    if missing is not None:
        package = DEBIAN.get(missing[1])
        how = f"apt-get install {package}" if package else f"apt-file search {missing[1]} names its package"
        return f"{missing[1]} is a library of the system. Debian, Ubuntu: {how}"
    old = _TOO_OLD.search(error)
    if old is not None:
        return f"This system's C or C++ library is older than {old[1]}: use a newer release of it."
    if library.debian:
        return _rebuild(library)
    return f"pip install --force-reinstall {library.install}"


def _absent(library: Library) -> Diagnosis:
    text = f"{library.module} is not installed ({library.use})"
    advice = f"pip install {library.install}" if library.install else _rebuild(library)
    return Diagnosis(WHAT, Grade.WRONG if library.needed else Grade.NOTE, text, advice)


def _rebuild(library: Library) -> str:
    return (
        f"This Python was built without it. Use the system's Python, or install {library.debian} "
        "and build Python anew."
    )


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"
