"""Column schemas of outputs as they lie on disk.

What is not here: how the UI shows them.
"""

import shutil
from pathlib import Path

from trajpipe.core.names import Stage
from trajpipe.defs.schema import column_schema
from trajpipe_tests.defs.conftest import Built


def _columns(stage: Stage, path: Path) -> dict[str, str]:
    schema = column_schema(stage, path)
    assert schema is not None
    return {column.name: column.type for column in schema.columns}


def test_an_l2_file_shows_every_column_of_its_demos(built: Built) -> None:
    columns = _columns(Stage.DEMOS, built.runner.root / "demos/scripted_lift__scripted_0.hdf5")
    assert columns["obs/table_cam"] == "uint8 (T, 64, 64, 3)"
    assert {name.split("/")[0] for name in columns} >= {"actions", "obs", "states"}


def test_a_store_shows_rows_without_width_as_such(built: Built) -> None:
    columns = _columns(Stage.STORE, built.runner.root / "stores/lift.h5")
    assert columns["success"] == "uint8 (T,)"
    assert columns["images"] == "uint8 (T, 1, 3, 64, 64)"


def test_a_folder_of_stores_shows_the_first(built: Built, tmp_path: Path) -> None:
    store = built.runner.root / "stores/lift.h5"
    for family in ("b", "a"):
        shutil.copy(store, tmp_path / f"{family}.h5")
    assert _columns(Stage.STORE, tmp_path) == _columns(Stage.STORE, store)


def test_an_export_shows_its_features(built: Built) -> None:
    columns = _columns(Stage.LEROBOT, built.runner.root / "lerobot/lift")
    assert columns["observation.images.table_cam"].startswith("video (T, 64, 64, 3")
    assert columns["index"] == "int64 (T, 1)"


def test_what_cannot_be_read_has_no_schema(tmp_path: Path) -> None:
    (tmp_path / "broken.h5").write_bytes(b"not HDF5")
    assert column_schema(Stage.STORE, tmp_path / "broken.h5") is None
    assert column_schema(Stage.DEMOS, tmp_path / "broken.h5") is None
    assert column_schema(Stage.STORE, tmp_path / "absent.h5") is None
    (tmp_path / "empty").mkdir()
    assert column_schema(Stage.STORE, tmp_path / "empty") is None
    assert column_schema(Stage.LEROBOT, tmp_path / "empty") is None
