"""The verbs, the global options that stand before or after each of them, and the help texts.

Verbs are loaded when asked for, so that `trajpipe --help` stays quick.
What is not here: running the app and its exit codes (`trajpipe.cli.main`), what a verb does (`cli.verbs`).
"""

import copy
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from trajpipe.cli.terminal import Terminal
from trajpipe.core.errors import UsageError

_GLOBAL_PANEL: Final = "Options of every verb"


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the command line.

    Attributes:
        module: Module below `trajpipe.cli.verbs`.
        function: Function in it; returns the exit code.
        help: One line for the list of verbs.
        section: Heading in the list of verbs.
    """

    module: str
    function: str
    help: str
    section: str


VERBS: Final[dict[str, Verb]] = {
    "demo": Verb("demo_sample", "demo", "Build the bundled sample, all stages, in a minute.", "Make"),
    "run": Verb("run_stages", "run", "Bring the catalogue's datasets through their stages.", "Make"),
    "convert": Verb(
        "convert_files", "convert", "Recordings to L2, a store or LeRobot, without a catalogue.", "Make"
    ),
    "push": Verb("push", "push", "Publish a finished dataset on the Hub as one tagged version.", "Share"),
    "pull": Verb("pull", "pull", "Fetch a published version, every byte verified.", "Share"),
    "verify": Verb("verify", "verify", "Check a pulled folder against its manifest, offline.", "Share"),
    "rebuild": Verb("rebuild", "rebuild", "Make a published version again from raw recordings.", "Share"),
    "init": Verb("init", "init", "Start a project folder: catalogue, workspace, CI recipe.", "Make"),
    "dev": Verb("dev", "dev", "Start Dagster's UI and daemon over this project.", "Make"),
    "list": Verb("list_datasets", "list_datasets", "List datasets and the state of each stage.", "Look"),
    "inspect": Verb("inspect_path", "inspect", "Show what is in any file or folder of any stage.", "Look"),
    "check": Verb("check_path", "check", "Run every rule of its stage on a file or folder.", "Look"),
    "report": Verb("report", "report", "Write one HTML file to look at, which opens offline.", "Look"),
    "certify": Verb(
        "certify_chain", "certify", "Prove that recordings, L2, store and LeRobot folder are one.", "Look"
    ),
    "gate": Verb("gate", "gate", "Hold every planned check to account with one exit code, for CI.", "Look"),
    "doctor": Verb("doctor", "doctor", "Look for stale locks, dead runs, low space, wrong versions.", "Keep"),
    "gc": Verb("doctor", "gc", "Show or delete outputs that no recipe makes any more.", "Keep"),
    "sources": Verb("about", "sources", "List the kinds of raw recordings that can be read.", "About"),
    "checks": Verb("about", "checks", "List all rules with their codes.", "About"),
    "schema": Verb("about", "schema", "Print the catalogue's JSON Schema, for editors.", "About"),
    "version": Verb("about", "version", "Print the versions of trajpipe and of what it stands on.", "About"),
}
_WORDS_FOR: Final = {
    "ls": "list",
    "show": "inspect",
    "info": "inspect",
    "view": "inspect",
    "html": "report",
    "browse": "report",
    "validate": "check",
    "publish": "push",
    "upload": "push",
    "download": "pull",
    "fetch": "pull",
    "lint": "check",
    "prove": "certify",
    "certificate": "certify",
    "build": "run",
    "make": "run",
    "materialize": "run",
    "export": "convert",
    "import": "convert",
    "example": "demo",
    "tutorial": "demo",
    "kinds": "sources",
    "formats": "sources",
    "rules": "checks",
}
_EXAMPLES: Final = """
  trajpipe demo                              build the bundled sample, all stages, in a minute
  trajpipe inspect recording.hdf5            what is in this file?
  trajpipe convert recording.hdf5 out.h5 --to store
  trajpipe check out.h5                      is it whole and valid?
"""


class VerbCommand(TyperCommand):
    """A verb: its help shows its own options first, the global ones in a section below, then examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as their metavars have them: `SRC… DEST`, `[DATASET…]`."""
        arguments = (p for p in self.get_params(ctx) if p.param_type_name == "argument")
        return ["[OPTIONS]", *map(_argument_name, arguments)]

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; all global options are known by now."""
        ctx.obj.set_up_logging()
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of arguments and options."""
        _write_sections(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  (Typer calls it so)
        """Write the epilog with its line ends kept."""
        _write_verbatim(self.epilog, formatter)


class LazyGroup(TyperGroup):
    """The group of all verbs; a verb's module is imported when it runs or its help is shown."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  (Typer calls it so)
        """Names of the verbs in order of sections."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  (Typer calls it so)
        """The verb of a name with the global options added, or None."""
        if cmd_name not in VERBS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = self._load(cmd_name, VERBS[cmd_name])
        return self.commands[cmd_name]

    def _load(self, name: str, verb: Verb) -> Any:
        module = importlib.import_module(f"trajpipe.cli.verbs.{verb.module}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        function: Callable[..., int] = getattr(module, verb.function)
        epilog = getattr(module, "EXAMPLES", {}).get(verb.function)
        app.command(name, cls=VerbCommand, epilog=epilog)(function)
        command = get_command(app)
        command.params.extend(_as_verb_option(p) for p in self.params if p.name in _GLOBAL_NAMES)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb asked for; a near miss is named in the error."""
        name = args[0]
        if name not in VERBS and not name.startswith("-"):
            near = [v for v in (_WORDS_FOR.get(name),) if v in VERBS] or get_close_matches(name, VERBS, n=1)
            raise UsageError(
                "no such verb",
                got=name,
                expected=None if near else f"one of {', '.join(VERBS)}",
                hint=f"{f'Did you mean {near[0]}? ' if near else ''}See `trajpipe --help`.",
            )
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs by section, then the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, verb in VERBS.items():
            sections.setdefault(verb.section, []).append((name, verb.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_spacing=4)
        _write_sections(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  (Typer calls it so)
        """Write the examples with their line ends kept."""
        _write_verbatim(self.epilog, formatter)


def _write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], _GLOBAL_PANEL: []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and param.param_type_name == "argument":
            sections["Arguments"].append((_argument_name(param), record[1].removesuffix("  [required]")))
        elif record is not None:
            everywhere = param.name in (*_GLOBAL_NAMES, "help", "version")
            kind = _GLOBAL_PANEL if everywhere else "Options"
            sections[kind].append(record)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _argument_name(param: Any) -> str:
    return str(getattr(param, "metavar", None) or param.name).upper()


def _write_verbatim(text: str | None, formatter: Any) -> None:
    if text:
        formatter.write_paragraph()
        formatter.write(f"Examples:\n{text.strip(chr(10))}\n")


def _as_verb_option(option: Any) -> Any:
    """A copy of a global option for use after the verb: it adds to the group's `Terminal`."""
    own = copy.copy(option)
    own.expose_value = False
    own.callback = _merge
    return own


def _merge(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    terminal = ctx.obj
    if isinstance(terminal, Terminal) and value and param.name:
        _apply(terminal, param.name, value)
    return value


def _apply(terminal: Terminal, name: str, value: Any) -> None:
    if name == "show_version":
        _print_version(terminal)
    elif name == "verbose":
        terminal.verbose += int(value)
    else:
        setattr(terminal, name, bool(value))


def _print_version(terminal: Terminal) -> None:
    from trajpipe import __version__

    if terminal.json:
        terminal.document({"trajpipe": __version__})
    else:
        typer.echo(f"trajpipe {__version__}")
    raise typer.Exit


def _on_version(ctx: typer.Context, value: bool) -> bool:
    if value:
        _print_version(ctx.obj)
    return value


def _globals(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Rebuild or replace what exists.")] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, show_default=False, help="Show log lines; twice: tracebacks too."
        ),
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, hints or log lines.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text, no escape sequences.")] = False,
    *,
    show_version: Annotated[  # noqa: ARG001  (its callback prints and exits)
        bool,
        typer.Option("--version", is_eager=True, callback=_on_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Raw robot demonstrations into training-ready datasets that one can trust.

    Each dataset goes through four stages, every one a file that other people's tools open:
    raw recordings → demos (L2, one HDF5 per recording) → store (one .h5) → lerobot (a LeRobot folder).
    """
    terminal: Terminal = ctx.obj
    given = {"json": json, "force": force, "quiet": quiet, "no_color": no_color, "verbose": verbose}
    for name, value in given.items():
        if value:
            _apply(terminal, name, value)


_GLOBAL_NAMES: Final = ("json", "force", "verbose", "quiet", "no_color", "show_version")


def build() -> Any:
    """The whole command, ready for `make_context`."""
    app = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,
        no_args_is_help=True,
        epilog=_EXAMPLES,
        subcommand_metavar="VERB …",
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_globals)
    return get_command(app)
