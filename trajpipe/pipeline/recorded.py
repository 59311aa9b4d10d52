"""How a recording was brought into L2, read back from the L2 file's recipe, and reading it that way again.

What is not here: making L2 (`ingest.py`); filters, whose refusals are in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.conventions import ActionConvention, Conventions, QuaternionSite, TermConvention
from trajpipe.core.episode import Episode
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.core.findings import Place
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Reason
from trajpipe.pipeline import stale_rows, transform
from trajpipe.sources.base import ReadOptions, source

# Ingest looks at these no further, so that they are no "previous episode" of a stale first row.
_PASSED_OVER: Final = (Reason.EXCLUDED.value, Reason.UNREADABLE.value)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a recording is read.

    Attributes:
        path: The recording.
        kind: Source kind.
        conventions: As declared.
        options: Source options.
        name: The recording's name when it was read.
        sha256: Its hash then; "" when the recipe does not say.
        causal: Shifted by one row.
        drop_stale_first_row: A first row that is the previous episode's last is dropped.
    """

    path: Path
    kind: str
    conventions: Conventions
    options: Mapping[str, Any]
    name: str
    sha256: str
    causal: bool
    drop_stale_first_row: bool

    @property
    def transforms(self) -> tuple[str, ...]:
        """The declared transforms, for people."""
        out = [f"rename {a} to {b}" for a, b in sorted(self.conventions.terms.items())]
        out += [f"quaternions at {s.path} to xyzw" for s in self.conventions.quaternions if s.starts]
        out += ["causal shift"] if self.causal else []
        out += ["stale first rows dropped"] if self.drop_stale_first_row else []
        return (*out, "actions to float32")


def reading_of(recipe: Mapping[str, Any], recording: Path) -> Reading:
    """How an L2 file's recipe says that its recording was read.

    Raises:
        InputError: the recipe does not say (a merged file, another tool's file), or is damaged.
    """
    options, inputs = recipe.get("options"), recipe.get("inputs")
    if not isinstance(options, Mapping) or not isinstance(options.get("kind"), str):
        raise InputError(
            "the L2 file does not say how its recording was read",
            place=recording.name,
            got="a merged file, or one of another tool",
            hint="Certify the L2 file that trajpipe made of this one recording.",
            code="recipe-missing",
        )
    try:
        conventions = conventions_of(options["conventions"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            "the recipe's conventions are damaged", place=recording.name, got=repr(error)
        ) from error
    name, sha256 = recording.name, ""
    if isinstance(inputs, Mapping) and len(inputs) == 1:
        (name, sha256), *_ = inputs.items()
    return Reading(
        path=recording,
        kind=options["kind"],
        conventions=conventions,
        options=dict(options.get("options") or {}),
        name=str(name),
        sha256=str(sha256),
        causal=options.get("align") == "causal",
        drop_stale_first_row=bool(options.get("drop_stale_first_row")),
    )


def conventions_of(value: Mapping[str, Any]) -> Conventions:
    """The conventions that `Conventions.to_json` wrote."""
    action: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value["action"].items()}
    alignment, fps = value.get("alignment"), value.get("fps")
    return Conventions(
        quaternion_order=value.get("quaternion_order"),
        quaternions=tuple(
            QuaternionSite(s["path"], tuple(s["starts"]), s["order"]) for s in value["quaternions"]
        ),
        images=value.get("images"),
        channel_order=value["channel_order"],
        alignment=None if alignment is None else names.Alignment(alignment),
        fps=None if fps is None else Fraction(fps),
        unknown_success=value["unknown_success"],
        action=ActionConvention(**action),
        terms=dict(value["terms"]),
        term_meanings={k: TermConvention(**v) for k, v in value["term_meanings"].items()},
        term_widths=dict(value["term_widths"]),
        env_name=value.get("env_name"),
        env_args=value.get("env_args"),
    )


def read_again(reading: Reading, rejected: Mapping[str, str]) -> Iterator[Episode | Rejection]:
    """The recording's episodes under its transforms; columns are valid until the next one.

    Args:
        reading: How.
        rejected: Episode name → reason, from the ledger: what ingest passed over leaves no last row behind.
    """
    options = ReadOptions(reading.conventions, reading.sha256, options=dict(reading.options))
    last: dict[str, NDArray[Any]] = {}
    for item in source(reading.kind).episodes(reading.path, options):
        if isinstance(item, Rejection) or rejected.get(item.name) in _PASSED_OVER:
            yield item
            continue
        try:
            episode = transform.rename_terms(item, reading.conventions.terms)
            if reading.drop_stale_first_row:
                stale, last = stale_rows.stale_first(episode, last), stale_rows.last_rows(episode)
                episode = stale_rows.without_first_row(episode) if stale else episode
            yield transform.causal(episode) if reading.causal else episode
        except SchemaError as error:
            place = Place(reading.path.name, item.name)
            yield Rejection(reading.path.name, item.name, error.code, f"{place}: {error}")
