"""Libraries that do not load: what is missing is named with its Debian package, and none ends the doctor.

The broken ones are real: modules that link to nothing, crash, exit or print.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from trajpipe.pipeline.diagnosis import Grade
from trajpipe.pipeline.doctor_libraries import DEBIAN, LIBRARIES, Library, load_apart, look_at_libraries


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on `sys.path`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_here_every_library_loads() -> None:
    found = list(look_at_libraries())
    assert [d for d in found if d.grade is Grade.WRONG] == []
    told = {d.text.split()[0] for d in found if d.grade is Grade.FINE}
    assert told == {one.install for one in LIBRARIES if one.install} - {
        d.text.split()[0] for d in found if d.grade is Grade.NOTE
    }
    assert {"h5py", "hdf5plugin", "av", "mujoco", "pyarrow"} <= told


def test_a_missing_shared_object_is_named_with_its_debian_package(modules: Path) -> None:
    for name, so in (("wants_gl", "libGL.so.1"), ("wants_rare", "librare.so.7")):
        text = f"{so}: cannot open shared object file: No such file or directory"
        (modules / f"{name}.py").write_text(f"raise ImportError({text!r})")
    seen = list(look_at_libraries([Library(n, "x", n) for n in ("wants_gl", "wants_rare")]))
    assert [(d.grade, d.advice) for d in seen] == [
        (Grade.WRONG, "libGL.so.1 is a library of the system. Debian, Ubuntu: apt-get install libgl1"),
        (
            Grade.WRONG,
            (
                "librare.so.7 is a library of the system. "
                "Debian, Ubuntu: apt-file search librare.so.7 names its package"
            ),
        ),
    ]
    assert "wants_gl does not load (x): ImportError: libGL.so.1" in seen[0].text


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_loaders_own_words_are_understood(modules: Path) -> None:
    """An extension module that really links to a library which is not there."""
    library = modules / "libabsent-here.so.1"
    module = modules / f"linked{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = ["cc", "-shared", "-fPIC", "-x", "c"]
    named = [*compiler, "-", "-Wl,-soname,libabsent-here.so.1", "-o", str(library)]
    subprocess.run(named, input=b"int f(void) { return 0; }", check=True)
    source = b"int f(void); void *PyInit_linked(void) { f(); return 0; }"
    subprocess.run([*compiler, "-", "-x", "none", str(library), "-o", str(module)], input=source, check=True)
    library.unlink()
    (seen,) = look_at_libraries([Library("linked", "x", "linked")])
    assert seen.advice.startswith("libabsent-here.so.1 is a library of the system.")


def test_a_library_of_a_newer_system_says_so(modules: Path) -> None:
    text = "/lib/libm.so.6: version `GLIBC_2.99' not found (required by new.so)"
    (modules / "too_new.py").write_text(f"raise ImportError({text!r})")
    (seen,) = look_at_libraries([Library("too_new", "x", "too_new")])
    assert (
        seen.advice == "This system's C or C++ library is older than GLIBC_2.99: use a newer release of it."
    )


def test_one_that_crashes_hides_no_other(modules: Path) -> None:
    (modules / "crashes.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    (modules / "illegal.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)")
    (modules / "exits.py").write_text("import os\nos._exit(3)")
    (modules / "prints.py").write_text("print('[1, 2, 3]'); print('hello')")
    (modules / "breaks.py").write_text("1 / 0")
    found = load_apart(["crashes", "prints", "illegal", "exits", "breaks", "h5py"])
    assert found == {
        "crashes": "it ended the process by SIGSEGV",
        "prints": "",
        "illegal": "it ended the process by SIGILL: "
        "this processor lacks an instruction that it was built with",
        "exits": "it ended the process with code 3",
        "breaks": "ZeroDivisionError: division by zero",
        "h5py": "",
    }


def test_broken_and_missing_packages_are_told_apart(modules: Path) -> None:
    (modules / "broken.py").write_text("raise OSError('damaged')")
    wanted = [
        Library("broken", "x", "broken"),
        Library("absent_altogether", "y", "absent"),
        Library("absent.part", "y", "absent", needed=False),
        Library("h5py", "z", "h5py"),
    ]
    seen = list(look_at_libraries(wanted))
    assert [(d.grade, d.advice) for d in seen] == [
        (Grade.WRONG, "pip install --force-reinstall broken"),
        (Grade.WRONG, "pip install absent"),
        (Grade.NOTE, "pip install absent"),
        (Grade.FINE, ""),
    ]
    assert seen[1].text == "absent_altogether is not installed (y)"


def test_a_module_that_python_was_built_without_is_named(modules: Path) -> None:
    (modules / "own.py").write_text("import _own_that_is_not_there")
    seen = list(
        look_at_libraries([Library("own", "x", debian="libown-dev"), Library("zlib", "y", debian="z")])
    )
    assert [d.grade for d in seen] == [Grade.WRONG]
    assert "No module named '_own_that_is_not_there'" in seen[0].text
    assert seen[0].advice.startswith(
        "This Python was built without it. Use the system's Python, or install libown-dev"
    )


def test_debian_packages_are_named_for_what_wheels_link_to() -> None:
    assert {"libGL.so.1", "libEGL.so.1", "libgomp.so.1", "libstdc++.so.6", "libz.so.1"} <= set(DEBIAN)
    assert all(package == package.lower() and " " not in package for package in DEBIAN.values())
