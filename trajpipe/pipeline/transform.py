"""Transforms of episodes on the way into L2: term renames and the causal shift.

Lazy: columns are wrapped, nothing is read. What is not here: filters, see `trajpipe.demos.select`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, sliced
from trajpipe.core.errors import SchemaError
from trajpipe.core.findings import Place
from trajpipe.core.names import Alignment

_OBS = names.GROUP_OBS + "/"


def rename_terms(episode: Episode, terms: Mapping[str, str]) -> Episode:
    """Rename obs terms (`{obs key: term}`); keys that the episode lacks are left alone.

    Raises:
        SchemaError: two terms would get one name.
    """
    if not terms:
        return episode
    columns: dict[str, Column] = {}
    for path, column in episode.columns.items():
        key = path.removeprefix(_OBS)
        new = _OBS + terms[key] if path.startswith(_OBS) and key in terms else path
        if new in columns:
            raise SchemaError(
                "two obs terms would get one name",
                place=Place(file=episode.source_file, demo=episode.name, column=new),
                hint="Change the rename map `terms:` of this raw entry (--rename).",
            )
        columns[new] = column
    return episode.with_columns(columns)


def causal(episode: Episode) -> Episode:
    """Shift an `after_action` episode so that obs[t] precedes actions[t]; the first action row is dropped.

    obs rows [0, T-1) meet rows [1, T) of everything else. An episode of another alignment is returned as is.

    Raises:
        SchemaError: fewer than two rows.
    """
    if episode.alignment != Alignment.AFTER_ACTION:
        return episode
    if episode.length < 2:
        raise SchemaError(
            "a causal shift needs two rows at least",
            place=Place(file=episode.source_file, demo=episode.name),
            got=episode.length,
            code="too-short",
        )
    last = episode.length
    columns = {
        path: sliced(column, 0, last - 1) if path.startswith(_OBS) else sliced(column, 1, last)
        for path, column in episode.columns.items()
    }
    return replace(episode, columns=columns, length=last - 1, alignment=Alignment.BEFORE_ACTION.value)
