"""Pictures of an output in an asset's metadata, drawn once for each content.

The UI shows a Markdown entry after a click, so that all pictures are one entry. A run that finds its output
unchanged shows the pictures of the materialization that made it.
What is not here: what is drawn, see `trajpipe.pipeline.pictures`.
"""

from collections.abc import Mapping
from typing import Any, Final

import dagster as dg

from trajpipe.core.conventions import ActionConvention
from trajpipe.core.errors import TrajpipeError
from trajpipe.pipeline.pictures import pictures_of
from trajpipe.pipeline.results import StageResult, Status

PICTURES: Final = "pictures"
_VERSION: Final = "dagster/data_version"


def picture_metadata(result: StageResult, action: ActionConvention | None = None) -> dict[str, Any]:
    """All pictures as one Markdown entry with the images inside; a text that says why when there is none.

    Args:
        result: Of a stage whose output is there.
        action: What the dataset declares of its actions; None = what an L2 file itself says.
    """
    try:
        pictures = pictures_of(result.stage, result.path, ledger=result.ledger, action=action)
    except (TrajpipeError, OSError, KeyError, ValueError) as error:
        return {PICTURES: dg.MetadataValue.text(f"not drawn: {error}")}
    parts = [f"## {picture.name[0].upper()}{picture.name[1:]}\n\n{picture.markdown}" for picture in pictures]
    return {PICTURES: dg.MetadataValue.md("\n\n".join(parts))}


def earlier_pictures(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, result: StageResult
) -> Mapping[str, Any]:
    """The pictures of the last materialization; empty unless the output is unchanged since.

    Args:
        instance: Where the events are.
        key: The asset.
        partition: Its partition; "" without.
        result: Of this run.
    """
    if result.status is not Status.UNCHANGED:
        return {}
    records = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    for record in instance.fetch_materializations(records, limit=1).records:
        made = record.asset_materialization
        shown = None if made is None else made.metadata.get(PICTURES)
        same = made is not None and (made.tags or {}).get(_VERSION) == result.data_version
        if same and isinstance(shown, dg.MarkdownMetadataValue):
            return {PICTURES: shown}
    return {}
