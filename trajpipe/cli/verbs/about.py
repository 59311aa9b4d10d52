"""`version`, `sources`, `checks`, `schema`: what this trajpipe is and knows.

What is not here: the datasets of a catalogue, see `cli.verbs.list_datasets`.
"""

import importlib.metadata
import platform
from typing import Annotated, Any, Final

import typer

from trajpipe.cli.terminal import EXIT_COULD_NOT, EXIT_FINE, Terminal, cell, table
from trajpipe.core import names
from trajpipe.core.errors import UsageError

EXAMPLES: Final = {
    "checks": "  trajpipe checks                    all rules of all stages\n"
    "  trajpipe checks --stage demos      those of L2 files\n"
    "  trajpipe checks --json | jq -r '.checks[].code'",
    "schema": "  trajpipe schema > data/datasets.schema.json\n"
    "  # then, as the first line of data/datasets.yaml:\n"
    "  # yaml-language-server: $schema=datasets.schema.json",
}
_PACKAGES: Final = (
    *("numpy", "h5py", "hdf5plugin", "pyarrow", "pandas", "av", "pillow", "isal", "pydantic"),
    *("dagster", "huggingface_hub", "typer", "rich", "mujoco", "torch"),
)


def version(ctx: typer.Context) -> int:
    """Print the versions of trajpipe, Python, the formats it writes and the packages it stands on."""
    from trajpipe import __version__

    terminal: Terminal = ctx.obj
    formats = {
        "L2 format_version": names.L2_FORMAT_VERSION,
        "store schema_version": names.STORE_SCHEMA_VERSION,
        "LeRobot codebase_version": "v2.1",
    }
    packages = {name: _version_of(name) for name in _PACKAGES}
    document: dict[str, Any] = {
        "trajpipe": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "formats": formats,
        "packages": packages,
    }
    terminal.document(document)
    rows = table("what", "version")
    rows.add_row("trajpipe", __version__)
    rows.add_row("Python", platform.python_version())
    for name, value in formats.items():
        rows.add_row(name, str(value))
    for name, found in packages.items():
        rows.add_row(name, found or cell("not installed", "dim"))
    terminal.print(rows)
    return EXIT_FINE


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def sources(ctx: typer.Context) -> int:
    """List the kinds of raw recordings that can be read: built-in ones and those of installed packages."""
    from trajpipe.sources import base

    terminal: Terminal = ctx.obj
    known = base.sources()
    terminal.document(
        {"sources": [{"kind": s.kind, "title": s.title, "globs": list(s.globs)} for s in known.values()]}
    )
    rows = table("kind", "what it reads", "files")
    for source in known.values():
        rows.add_row(cell(source.kind, "cyan"), cell(source.title), cell(" ".join(source.globs)))
    terminal.print(rows)
    terminal.note("The kind is found by content; name it with --kind where a file could be of two.")
    return EXIT_FINE


def checks(
    ctx: typer.Context,
    stage: Annotated[str | None, typer.Option(help="Only this stage: raw, demos, store or lerobot.")] = None,
) -> int:
    """List all rules with their codes, by stage; `blocking` rules stop what is downstream."""
    from trajpipe.checks.registry import checks_of

    terminal: Terminal = ctx.obj
    stages = [s.value for s in names.Stage]
    if stage is not None and stage not in stages:
        raise UsageError("no such stage", got=stage, expected=f"one of {', '.join(stages)}")
    known = [c for s in stages if stage in (None, s) for c in checks_of(s)]
    terminal.document(
        {
            "checks": [
                {
                    "stage": c.stage,
                    "code": c.code,
                    "title": c.title,
                    "blocking": c.blocking,
                    "needs": list(c.needs),
                }
                for c in known
            ]
        }
    )
    rows = table("stage", "code", "rule", "blocking")
    for rule in known:
        rows.add_row(rule.stage, cell(rule.code, "cyan"), cell(rule.title), "yes" if rule.blocking else "no")
    terminal.print(rows, f"{len(known)} rules")
    return EXIT_FINE if known else EXIT_COULD_NOT


def schema(ctx: typer.Context) -> int:
    """Print the JSON Schema of the catalogue `datasets.yaml`, for editors that complete and check it."""
    from trajpipe.cli.terminal import write_text
    from trajpipe.core import jsontext
    from trajpipe.pipeline.catalogue import catalogue_schema

    del ctx  # the schema is JSON with and without --json
    write_text(jsontext.dumps(catalogue_schema(), indent=2, sort_keys=False) + "\n")
    return EXIT_FINE
