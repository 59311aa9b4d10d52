"""`inspect_path`: tells what a path is and has the fitting reader fill in the inspection.

What is not here: the readers, see the modules beside this one.
"""

from pathlib import Path

from trajpipe.cli.formatting import count
from trajpipe.cli.inspection.model import Inspection, Layout
from trajpipe.cli.kinds import Recognised, classify_hdf5, raw_kind, recognise
from trajpipe.core import names
from trajpipe.core.errors import InputError
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import size_of

_TITLES = {
    "l2": "L2 demos",
    "store": "trajectory store",
    "lerobot": "LeRobot dataset",
    "recording": "recording of an unknown kind",
    "hdf5": "HDF5 file",
    "parquet": "parquet file",
    "video": "video",
    "npz": "numpy archive",
    "npy": "numpy array",
    "csv": "CSV table",
    "pickle": "pickle",
    "transitions": "flat transitions (.demo)",
    "json": "JSON file",
    "text": "text file",
    "folder": "folder",
}


def inspect_path(path: Path, progress: Progress = silent) -> Inspection:
    """Everything that can be said of a file or folder without judging it.

    Args:
        path: A file or folder of any stage.
        progress: Called while reading.

    Raises:
        UnreadableError: it is not there or cannot be opened.
        InputError: it is of a kind that breaks its own rules as a whole, or of none that is known.
        UntrustedError: an HDF5 file that reads other files.
    """
    recognised = recognise(path)
    stage = recognised.stage.value if recognised.stage else ""
    found = Inspection(path, recognised.kind, _TITLES.get(recognised.kind, ""), stage, size_of(path))
    if recognised.kind in ("l2", "store", "recording", "hdf5"):
        _inspect_hdf5(path, found, progress)
    else:
        _inspect_other(path, recognised, found, progress)
    return found


def _inspect_hdf5(path: Path, found: Inspection, progress: Progress) -> None:
    from trajpipe.cli.inspection.hdf5_tree import attributes_of, node_of
    from trajpipe.cli.inspection.recordings import inspect_episodes
    from trajpipe.cli.inspection.stores import inspect_store
    from trajpipe.hdf5.files import datasets_below, open_hdf5, subgroups

    if found.kind == "recording" and (kind := raw_kind(path)) is not None:
        found.kind, found.title = kind
    with open_hdf5(path) as handle:
        if classify_hdf5(handle).kind == "store":
            inspect_store(handle, found, progress)
            return
        data = handle.get(names.GROUP_DATA)
        if data is not None and hasattr(data, "keys") and (subgroups(data) or names.ATTR_TOTAL in data.attrs):
            inspect_episodes(handle, found, progress)
            return
        nodes = [node_of(name, dataset) for name, dataset in datasets_below(handle).items()]
        found.layouts = [Layout(count(len(nodes), "dataset"), nodes)]
        found.attributes = attributes_of(handle, "/")
        if "episodes" in handle:
            found.notes.append("the old `episodes/` layout: trajpipe refuses it")


def _inspect_other(path: Path, recognised: Recognised, found: Inspection, progress: Progress) -> None:
    from trajpipe.cli.inspection import folders, lerobot, motions, tables, transitions, video

    if recognised.stage is names.Stage.RAW and motions.inspect_motions(path, found):
        return
    match recognised.kind:
        case "lerobot":
            lerobot.inspect_lerobot(path, found, progress)
        case "folder":
            folders.inspect_folder(path, found, progress)
        case "parquet":
            tables.inspect_parquet(path, found)
        case "npz":
            tables.inspect_npz(path, found)
        case "npy":
            tables.inspect_npy(path, found)
        case "csv":
            tables.inspect_csv(path, found)
        case "pickle":
            tables.inspect_pickle(path, found)
        case "transitions":
            transitions.inspect_transitions(path, found)
        case "video":
            video.inspect_video(path, found)
        case "json":
            found.facts = {"keys": ", ".join(lerobot.read_json(path))}
        case "text":
            with path.open("rb") as handle:
                found.facts = {"lines": sum(1 for _ in handle)}
        case _:
            raise InputError(
                "the file is of no kind that inspect knows",
                place=path,
                expected="HDF5, a LeRobot folder, parquet, mp4, npz, npy, csv, pkl or .demo",
                code="unknown-kind",
            )
