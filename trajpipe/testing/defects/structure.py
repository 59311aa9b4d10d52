"""Faults of layout: demos, groups, shapes, dtypes and links.

What is not here: values, attributes and images.
"""

from __future__ import annotations

import h5py
import numpy as np

from trajpipe.core import names
from trajpipe.core.errors import InputError
from trajpipe.testing.defects.registry import Injection, Opened, defect, replace


@defect("no-demos", "the file has no demo: recording ended without a success")
def no_demos(opened: Opened) -> Injection:
    """`data` stays, empty."""
    for name in list(opened.data):
        del opened.data[name]
    if names.ATTR_TOTAL in opened.data.attrs:
        opened.data.attrs[names.ATTR_TOTAL] = 0
    return opened.hit(path=names.GROUP_DATA)


@defect("no-data-group", "the file has no group `data`")
def no_data_group(opened: Opened) -> Injection:
    """HDF5, but of nobody's layout."""
    del opened.handle[names.GROUP_DATA]
    return opened.hit(path=names.GROUP_DATA)


@defect("episodes-layout", "the old layout `episodes/episode_<i>` instead of `data/demo_<i>`")
def episodes_layout(opened: Opened) -> Injection:
    """Refused by name."""
    for index, demo in enumerate(opened.demos()):
        opened.handle.move(str(demo.name), f"episodes/episode_{index:06d}")
    del opened.handle[names.GROUP_DATA]
    return opened.hit(path="episodes")


@defect("numbering", "demos are numbered 0, 1, 10, 100, 2, … in the order that HDF5 lists them")
def numbering(opened: Opened) -> Injection:
    """Numbers with gaps whose text order is not their natural order; time order stays the natural one."""
    demos = [str(demo.name) for demo in opened.demos()]
    numbers = [2, *(10**power for power in range(1, 7)), *range(2_000_000, 2_000_000 + len(demos))][
        : len(demos)
    ]
    _rename(opened, demos, [f"demo_{number}" for number in numbers])
    return opened.hit(path=names.GROUP_DATA, detail=", ".join(f"demo_{n}" for n in numbers))


@defect("numbering-gap", "a demo in the middle was deleted; `total` still counts it")
def numbering_gap(opened: Opened) -> Injection:
    """As NVIDIA's own recording has it. LIBERO's check refuses gaps."""
    demos = opened.demos()
    if len(demos) < 3:
        raise InputError("the defect needs three demos", got=opened.name)
    demo = demos[len(demos) // 2]
    injection = opened.hit(demo)
    del opened.handle[str(demo.name)]
    return injection


@defect("odd-demo-name", "one demo is called `take_final`")
def odd_demo_name(opened: Opened) -> Injection:
    """A name that holds no number."""
    _rename(opened, [str(opened.demos()[-1].name)], ["take_final"])
    return opened.hit(path="data/take_final")


@defect("no-obs", "no demo has observations", kinds=("isaaclab", "robomimic", "libero"))
def no_obs(opened: Opened) -> Injection:
    """States and actions only; stated, not invented."""
    for demo in opened.demos():
        for name in (names.GROUP_OBS, "next_obs"):
            if name in demo:
                del demo[name]
    return opened.hit(path=names.GROUP_OBS)


@defect("no-actions", "one demo has no `actions`")
def no_actions(opened: Opened) -> Injection:
    """A demo that teaches nothing."""
    demo = opened.a_demo()
    del demo[names.DATASET_ACTIONS]
    return opened.hit(demo, names.DATASET_ACTIONS)


@defect("zero-length-demo", "one demo has no rows")
def zero_length_demo(opened: Opened) -> Injection:
    """Every per-row dataset of the demo is empty."""
    demo = opened.a_demo()
    _cut(demo, 0)
    return opened.hit(demo, names.DATASET_ACTIONS)


@defect("short-demo", "one demo has a single row")
def short_demo(opened: Opened) -> Injection:
    """Too short for any history."""
    demo = opened.a_demo()
    _cut(demo, 1)
    return opened.hit(demo, names.DATASET_ACTIONS)


@defect("ragged-lengths", "one term of one demo is a row shorter than the actions")
def ragged_lengths(opened: Opened) -> Injection:
    """The recorder dropped its last observation."""
    demo = opened.a_demo()
    path = opened.float_terms(demo)[0]
    replace(demo, path, demo[path][:-1])
    return opened.hit(demo, path)


@defect("action-width", "the actions of one demo are one wider than the others'")
def action_width(opened: Opened) -> Injection:
    """Two robots in one file."""
    demo = opened.demos()[-1]
    actions = demo[names.DATASET_ACTIONS][...]
    replace(demo, names.DATASET_ACTIONS, np.concatenate((actions, actions[:, -1:]), axis=1))
    return opened.hit(demo, names.DATASET_ACTIONS)


@defect("missing-term", "one demo lacks an obs term that the others have", needs=("obs",))
def missing_term(opened: Opened) -> Injection:
    """A sensor that was off; in a collection without obs, the states go."""
    demo = opened.demos()[-1]
    path = opened.float_terms(demo)[0]
    del demo[path]
    return opened.hit(demo, path)


@defect("string-dataset", "one demo holds a dataset of text")
def string_dataset(opened: Opened) -> Injection:
    """IsaacLab's `load_episode` makes a tensor of every dataset and dies."""
    demo = opened.a_demo()
    demo.create_dataset("task_description", data="lift the cube", dtype=h5py.string_dtype())
    return opened.hit(demo, "task_description")


@defect("wrong-dtype", "one term of one demo is stored as text")
def wrong_dtype(opened: Opened) -> Injection:
    """Numbers that went through a CSV file."""
    demo = opened.a_demo()
    path = opened.float_terms(demo)[0]
    replace(demo, path, demo[path][...].astype("S32"))
    return opened.hit(demo, path, detail="S32")


@defect("integer-actions", "the actions of every demo are integers: their fractions are gone")
def integer_actions(opened: Opened) -> Injection:
    """An array that was made from a list of zeros."""
    for demo in opened.demos():
        replace(demo, names.DATASET_ACTIONS, demo[names.DATASET_ACTIONS][...].astype(np.int64))
    return opened.hit(path=names.DATASET_ACTIONS, detail="int64")


@defect("big-endian", "the actions of every demo are stored big-endian")
def big_endian(opened: Opened) -> Injection:
    """Legal HDF5; equal values."""
    for demo in opened.demos():
        values = demo[names.DATASET_ACTIONS][...]
        replace(demo, names.DATASET_ACTIONS, values.astype(values.dtype.newbyteorder(">")))
    return opened.hit(path=names.DATASET_ACTIONS, detail=">f")


@defect("actions-is-a-group", "`actions` of one demo is a group")
def actions_is_a_group(opened: Opened) -> Injection:
    """Dictionary actions, one dataset per part."""
    demo = opened.a_demo()
    actions = demo[names.DATASET_ACTIONS][...]
    del demo[names.DATASET_ACTIONS]
    group = demo.create_group(names.DATASET_ACTIONS)
    group.create_dataset("arm", data=actions[:, :-1])
    group.create_dataset("gripper", data=actions[:, -1:])
    return opened.hit(demo, names.DATASET_ACTIONS)


@defect("killed-writer", "the last demo lacks what the killed recorder had not written yet")
def killed_writer(opened: Opened) -> Injection:
    """The group is there, with its first dataset and no attribute."""
    demo = opened.demos()[-1]
    for name in list(demo.attrs):
        del demo.attrs[name]
    for name in list(demo):
        if name != names.DATASET_ACTIONS:
            del demo[name]
    replace(demo, names.DATASET_ACTIONS, demo[names.DATASET_ACTIONS][:0])
    return opened.hit(demo)


@defect("external-link", "the actions of one demo are a link into another file")
def external_link(opened: Opened) -> Injection:
    """A recording may not read other files."""
    demo = opened.a_demo()
    del demo[names.DATASET_ACTIONS]
    demo[names.DATASET_ACTIONS] = h5py.ExternalLink("elsewhere.hdf5", "/data/demo_0/actions")
    return opened.hit(demo, names.DATASET_ACTIONS)


@defect("external-storage", "one dataset keeps its bytes in another file")
def external_storage(opened: Opened) -> Injection:
    """Any file of the machine could be read as numbers."""
    demo = opened.a_demo()
    rows = demo[names.DATASET_ACTIONS].shape[0]
    outside = [("outside.bin", 0, h5py.h5f.UNLIMITED)]
    demo.create_dataset("extra", shape=(rows,), dtype=np.uint8, external=outside)
    return opened.hit(demo, "extra")


@defect("virtual-dataset", "one dataset is a view of another file")
def virtual_dataset(opened: Opened) -> Injection:
    """The third way out of a file."""
    demo = opened.a_demo()
    rows = demo[names.DATASET_ACTIONS].shape[0]
    layout = h5py.VirtualLayout(shape=(rows,), dtype=np.float32)
    layout[:] = h5py.VirtualSource("elsewhere.hdf5", "values", shape=(rows,))
    demo.create_virtual_dataset("extra", layout)
    return opened.hit(demo, "extra")


@defect("link-cycle", "a group links to its own parent")
def link_cycle(opened: Opened) -> Injection:
    """A walk that does not remember where it was never ends."""
    demo = opened.a_demo()
    demo["again"] = opened.data
    return opened.hit(demo, "again")


def _rename(opened: Opened, old: list[str], new: list[str]) -> None:
    """In two steps, since a new name may be another's old one."""
    for index, name in enumerate(old):
        opened.handle.move(name, f"{names.GROUP_DATA}/moving_{index}")
    for index, name in enumerate(new):
        opened.handle.move(f"{names.GROUP_DATA}/moving_{index}", f"{names.GROUP_DATA}/{name}")


def _cut(demo: h5py.Group, rows: int) -> None:
    length = int(demo[names.DATASET_ACTIONS].shape[0])
    paths: list[str] = []
    demo.visititems(lambda name, item: paths.append(name) if isinstance(item, h5py.Dataset) else None)
    for path in paths:
        if demo[path].shape[:1] == (length,):
            replace(demo, path, demo[path][:rows])
    if names.ATTR_NUM_SAMPLES in demo.attrs:
        demo.attrs[names.ATTR_NUM_SAMPLES] = rows
