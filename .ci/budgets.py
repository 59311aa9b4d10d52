"""Measures the source against the project's budgets; prints the figures, exits 1 when a hard one is passed.

Hard: file over 500 lines, function over 60, more than 7 positional parameters, a module or public name
without a docstring, a bare except, a `type: ignore` without code and reason. Told: tests against source.
What is not here: style rules that ruff and mypy check.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE, TESTS, OTHERS = "trajpipe", "trajpipe_tests", ("bench", ".ci")
MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS = 500, 60, 7
TYPICAL_FILE, TYPICAL_FUNCTION, TYPICAL_PARAMETERS = 200, 12, 5
IGNORE = re.compile(r"#\s*type:\s*ignore(?P<code>\[[a-z0-9, -]+\])?(?P<reason>.*)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Figures:
    """What was measured over some folders.

    Attributes:
        files: Lines of each file.
        functions: Lines of each function, its docstring included.
        parameters: Positional parameters of each function, self and cls not counted.
        broken: One line per broken hard budget.
    """

    files: list[int] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def measure(path: Path, figures: Figures, *, public: bool) -> None:
    """Add one file to the figures.

    Args:
        path: A Python file.
        figures: Added to.
        public: Its public names need docstrings.
    """
    text = path.read_text(encoding="utf-8")
    tree, name = ast.parse(text), path.relative_to(REPOSITORY).as_posix()
    lines = text.count("\n")
    figures.files.append(lines)
    if lines > MAX_FILE:
        figures.broken.append(f"{name}: {lines} lines, at most {MAX_FILE}")
    if not ast.get_docstring(tree):
        figures.broken.append(f"{name}: the module has no docstring")
    for node in ast.walk(tree):
        if isinstance(node, Function):
            _measure_function(node, name, figures)
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            figures.broken.append(f"{name}:{node.lineno}: a bare except")
    if public:
        figures.broken += [f"{name}:{n.lineno}: {n.name} has no docstring" for n in undocumented(tree)]
    figures.broken += [f"{name}:{row}: {what}" for row, what in bad_ignores(path)]


def _measure_function(node: Function, name: str, figures: Figures) -> None:
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
    figures.functions.append(length)
    figures.parameters.append(len(positional))
    if length > MAX_FUNCTION:
        figures.broken.append(f"{name}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION}")
    if len(positional) > MAX_PARAMETERS:
        figures.broken.append(
            f"{name}:{node.lineno}: {node.name} has {len(positional)} positional parameters, "
            f"at most {MAX_PARAMETERS}"
        )


def undocumented(tree: ast.Module | ast.ClassDef) -> Iterator[Function | ast.ClassDef]:
    """Public classes, functions and methods without a docstring; overloads and inner ones not counted."""
    for node in tree.body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
        if not ast.get_docstring(node) and not overload:
            yield node
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node)


def bad_ignores(path: Path) -> Iterator[tuple[int, str]]:
    """`type: ignore` comments that lack a code or a reason after it, with their rows."""
    with path.open("rb") as handle:
        for token in tokenize.tokenize(handle.readline):
            found = IGNORE.match(token.string) if token.type == tokenize.COMMENT else None
            if found and not found["code"]:
                yield token.start[0], "a `type: ignore` without a code"
            elif found and not re.search(r"[A-Za-z]{3}", found["reason"]):
                yield token.start[0], "a `type: ignore` without a reason"


def figures_of(folder: str, *, public: bool) -> Figures:
    """The figures of all Python files below a folder of the repository."""
    figures = Figures()
    for path in sorted((REPOSITORY / folder).rglob("*.py")):
        measure(path, figures, public=public)
    return figures


def describe(folder: str, figures: Figures) -> str:
    """One line: median and worst of each figure beside its budgets."""
    if not figures.functions:
        return f"{folder}: {len(figures.files)} files, {sum(figures.files)} lines"
    return (
        f"{folder}: {len(figures.files)} files, {sum(figures.files)} lines · "
        f"file median {statistics.median(figures.files):g} (≤ {TYPICAL_FILE}) worst {max(figures.files)} "
        f"(≤ {MAX_FILE}) · function median {statistics.median(figures.functions):g} (≤ {TYPICAL_FUNCTION}) "
        f"worst {max(figures.functions)} (≤ {MAX_FUNCTION}) · parameters median "
        f"{statistics.median(figures.parameters):g} (≤ {TYPICAL_PARAMETERS}) "
        f"worst {max(figures.parameters)} (≤ {MAX_PARAMETERS})"
    )


def main() -> int:
    """Print the figures; 1 when a hard budget is broken."""
    source, tests = figures_of(SOURCE, public=True), figures_of(TESTS, public=False)
    broken = source.broken + tests.broken
    print(describe(SOURCE, source))
    print(describe(TESTS, tests))
    for folder in OTHERS:
        others = figures_of(folder, public=False)
        print(describe(folder, others))
        broken += others.broken
    ratio = sum(tests.files) / sum(source.files)
    print(f"tests are {ratio:.2f} times as long as the source (1 is wanted; told, not enforced)")
    for line in broken:
        print(f"  over budget: {line}")
    print(f"budgets: {len(broken)} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
