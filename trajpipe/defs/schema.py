"""Column schemas of outputs for the UI: name, element type and shape of each column.

What is not here: the formats; the readers of each stage say what is in a file.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import dagster as dg

from trajpipe.core import jsontext, names
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.lineage import Lineage
from trajpipe.store import TrajectoryStore

Column = tuple[str, str, tuple[int, ...]]


def column_schema(stage: Stage, path: Path, lineage: Lineage | None = None) -> dg.TableSchema | None:
    """The schema of an output; None when it cannot be read (the checks say why).

    Args:
        stage: `demos`, `store` or `lerobot`.
        path: The output.
        lineage: Column → columns of L2, told in the columns' descriptions.
    """
    try:
        columns = list(_READERS[stage](path))
    except (TrajpipeError, OSError, KeyError, ValueError, StopIteration):
        return None
    return dg.TableSchema([_column(*column, (lineage or {}).get(column[0], ())) for column in columns])


def _column(name: str, dtype: str, trailing: tuple[int, ...], paths: Sequence[str]) -> dg.TableColumn:
    shape = ", ".join(["T", *map(str, trailing)]) + ("" if trailing else ",")
    return dg.TableColumn(name, f"{dtype} ({shape})", f"from {', '.join(paths)}" if paths else None)


def _demos(path: Path) -> Iterator[Column]:
    with DemosFile(path) as demos:
        episode = next(iter(demos.episodes()))
        for name, column in sorted(episode.columns.items()):
            yield name, str(column.dtype), column.shape[1:]


def _store(path: Path) -> Iterator[Column]:
    """Columns of a store; of the first one when a dataset has a folder of stores, one per scene family."""
    first = min(path.glob("*" + names.SUFFIX_STORE)) if path.is_dir() else path
    with TrajectoryStore(first) as store:
        for name, column in store.columns.items():
            yield name, str(column.dtype), tuple(column.shape)


def _lerobot(path: Path) -> Iterator[Column]:
    info = path / "meta" / "info.json"
    for name, feature in jsontext.loads(info.read_bytes(), place=info)["features"].items():
        yield name, str(feature["dtype"]), tuple(feature["shape"])


_READERS: Final[dict[Stage, Callable[[Path], Iterator[Column]]]] = {
    Stage.DEMOS: _demos,
    Stage.STORE: _store,
    Stage.LEROBOT: _lerobot,
}
