"""Every name, version and status word that reaches disk, in one place.

What is not here: names that a user declares (columns, terms, cameras), and how the files are laid out.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# --- L2, spec: IsaacLab's HDF5DatasetFileHandler and robomimic ---
L2_FORMAT_VERSION: Final = 1
ATTR_FORMAT_VERSION: Final = "format_version"
GROUP_DATA: Final = "data"
GROUP_MASK: Final = "mask"
GROUP_OBS: Final = "obs"
DATASET_ACTIONS: Final = "actions"
DEMO_PREFIX: Final = "demo_"
ATTR_TOTAL: Final = "total"
ATTR_ENV_ARGS: Final = "env_args"
ATTR_NUM_SAMPLES: Final = "num_samples"
ATTR_SUCCESS: Final = "success"
ATTR_SEED: Final = "seed"
ATTR_MODEL_FILE: Final = "model_file"
ENV_TYPE_GYM: Final = 2
MASK_TRAIN: Final = "train"
MASK_VALID: Final = "valid"
# ours, on /data
ATTR_TRAJPIPE: Final = "trajpipe"
ATTR_IMAGE_CONVENTION: Final = "macros_image_convention"
# ours, on every demo
ATTR_SOURCE: Final = "source"
ATTR_SOURCE_FILE: Final = "source_file"
ATTR_SOURCE_DEMO: Final = "source_demo"
ATTR_SOURCE_SHA256: Final = "source_sha256"
ATTR_CONTENT_SHA256: Final = "content_sha256"
ATTR_TASK: Final = "task"
ATTR_OBS_ALIGNMENT: Final = "obs_alignment"
ATTR_SUCCESS_KNOWN: Final = "success_known"
DEMO_ATTRS_OURS: Final = (
    ATTR_SOURCE,
    ATTR_SOURCE_FILE,
    ATTR_SOURCE_DEMO,
    ATTR_SOURCE_SHA256,
    ATTR_CONTENT_SHA256,
    ATTR_TASK,
    ATTR_OBS_ALIGNMENT,
    ATTR_SUCCESS_KNOWN,
)

# --- trajectory store ---
STORE_SCHEMA_VERSION: Final = 1
STORE_MANIFEST: Final = "__manifest__"
STORE_EP_LEN: Final = "ep_len"
STORE_EP_OFFSET: Final = "ep_offset"
STORE_RESERVED: Final = (STORE_MANIFEST, STORE_EP_LEN, STORE_EP_OFFSET)
COLUMN_ACTION: Final = "action"
COLUMN_REWARD: Final = "reward"
COLUMN_DONE: Final = "done"
COLUMN_TRUNCATED: Final = "truncated"
COLUMN_TASK_INDEX: Final = "task_index"
COLUMN_SUCCESS: Final = "success"
COLUMN_IMAGES: Final = "images"
SIDE_EP_SOURCE: Final = "ep_source"
SIDE_SOURCE_TAGS: Final = "source_tags"
SIDE_EP_SUCCESS: Final = "ep_success"
SIDE_EP_SPLIT: Final = "ep_split"
SIDE_SPLIT_NAMES: Final = "split_names"
SIDE_EP_FILE: Final = "ep_file"
SIDE_EP_DEMO: Final = "ep_demo"
SIDE_EP_CONTENT: Final = "ep_content"
SUCCESS_UNKNOWN: Final = 2
# a LIBERO suite's store
COLUMN_STATE: Final = "state"
COLUMN_JOINT_STATES: Final = "joint_states"
COLUMN_GRIPPER_STATES: Final = "gripper_states"
COLUMN_QPOS: Final = "qpos"
SIDE_FIXTURE_NAMES: Final = "fixture_names"
SIDE_FIXTURE_POS: Final = "fixture_pos"
SIDE_FIXTURE_QUAT: Final = "fixture_quat"
MANIFEST_FPS: Final = "fps"
MANIFEST_CAMERAS: Final = "cameras"
LIBERO_ENV_ID: Final = "libero_demos:"
# a motion store (LAFAN1 on the G1)
COLUMN_QVEL: Final = "qvel"
COLUMN_PRIVILEGED: Final = "privileged"
COLUMN_BODY_POS: Final = "body_pos"
COLUMN_BODY_VEL: Final = "body_vel"
COLUMN_BODY_ANG_VEL: Final = "body_ang_vel"
COLUMN_BODY_QUAT: Final = "body_quat"
COLUMN_MOTION_ID: Final = "motion_id"
TASK_NUMBERS: Final = (COLUMN_TASK_INDEX, COLUMN_MOTION_ID)
SIDE_DEFAULT_DOF_POS: Final = "default_dof_pos"
SIDE_ENV_DT: Final = "env_dt"
SIDE_MOTION_KEY: Final = "motion_key"
LAFAN_ENV_ID: Final = "unitree_g1_lafan1_50hz"
ATTR_FPS: Final = "fps"
ACTIONS_ARE_NEXT_JOINT_POS: Final = "next_joint_pos"
LIBERO_INIT_ENV_ID: Final = "libero_init:"
COLUMN_INIT_STATE: Final = "init_state"
SUFFIX_STORE: Final = ".h5"
SUFFIX_LOWDIM: Final = ".lowdim"
REMAP_TABLE: Final = "state_remap_"
SUFFIX_REMAP: Final = ".kv"

# --- LeRobot, keys that we add on every episode of episodes.jsonl ---
EPISODE_SOURCE: Final = "source"
EPISODE_SUCCESS: Final = "success"
EPISODE_SUCCESS_KNOWN: Final = "success_known"
EPISODE_SOURCE_FILE: Final = "source_file"
EPISODE_SOURCE_DEMO: Final = "source_demo"
EPISODE_CONTENT: Final = "content_sha256"
EPISODE_SPLIT: Final = "split"

# --- beside an output ---
SUFFIX_RECIPE: Final = ".recipe.json"
SUFFIX_LEDGER: Final = ".ledger.json"
SUFFIX_CHECKS: Final = ".checks.json"
SUFFIX_FAILURE: Final = ".failure.json"
CERTIFICATE: Final = "certificate.json"
SUFFIX_LOCK: Final = ".lock"
TEMPORARY_MARK: Final = ".trajpipe-tmp-"
RECIPE_VERSION: Final = 1
LEDGER_VERSION: Final = 1
CHECKS_VERSION: Final = 1

# --- Hub repositories, and what a pull leaves beside their files ---
HUB_MANIFEST: Final = "trajpipe.json"
HUB_MANIFEST_FORMAT: Final = "trajpipe-hub"
HUB_MANIFEST_VERSION: Final = 1
HUB_RECEIPT: Final = "trajpipe.pull.json"
HUB_RECEIPT_VERSION: Final = 1
HUB_CARD: Final = "README.md"
HUB_CONTACT_SHEET: Final = "assets/contact_sheet.png"
HUB_CARD_BEGIN: Final = "<!-- trajpipe:begin -->"
HUB_CARD_END: Final = "<!-- trajpipe:end -->"
HUB_CARD_YAML_BEGIN: Final = "# trajpipe:begin"
HUB_CARD_YAML_END: Final = "# trajpipe:end"
HUB_TAG_PREFIX: Final = "v"
HUB_LEROBOT_TAGS: Final = ("v2.0", "v2.1", "v3.0")
SUFFIX_PART: Final = ".part"

# --- folders under the data root ---
FOLDER_RAW: Final = "raw"
FOLDER_DEMOS: Final = "demos"
FOLDER_STORES: Final = "stores"
FOLDER_LEROBOT: Final = "lerobot"
CATALOGUE: Final = "datasets.yaml"


class Stage(StrEnum):
    """The four stages of a dataset, in order."""

    RAW = "raw"
    DEMOS = "demos"
    STORE = "store"
    LEROBOT = "lerobot"


class Tag(StrEnum):
    """Where an episode came from (`source` tag)."""

    SCRIPTED = "scripted"
    RL = "rl"
    TELEOP = "teleop"
    MOCAP = "mocap"
    UNKNOWN = "unknown"


class Alignment(StrEnum):
    """Whether obs[t] was recorded before or after actions[t] was applied."""

    BEFORE_ACTION = "before_action"
    AFTER_ACTION = "after_action"


class Split(StrEnum):
    """Split of an episode; `valid` is written as LeRobot's `val`."""

    TRAIN = "train"
    VALID = "valid"


class Reason(StrEnum):
    """Why an episode was rejected; the ledger's and the closing line's words."""

    NAN_ACTION = "nan-action"
    NAN_OBS = "nan-obs"
    TOO_SHORT = "too-short"
    NOT_SUCCESSFUL = "not-successful"
    UNKNOWN_SUCCESS = "unknown-success"
    EXCLUDED = "excluded"
    UNREADABLE = "unreadable"
    NO_ACTIONS = "no-actions"
    RAGGED = "ragged"
    BAD_EPISODE = "bad-episode"
    DECLARED_REJECTED = "declared-rejected"
    REMOVED = "removed"
    OVER_CAP = "over-cap"
    NOT_PUBLISHED = "not-published"
    TOO_LONG = "too-long"
    NO_OPS = "no-ops"
    SATURATED = "saturated"


def tag_of_file_name(stem: str) -> Tag:
    """Tag by file-name prefix (`scripted_…`, `rl_…`, `teleop_…`), `unknown` without one.

    Args:
        stem: File name without its suffix.
    """
    prefix = stem.split("_", 1)[0]
    known = (Tag.SCRIPTED, Tag.RL, Tag.TELEOP)
    return Tag(prefix) if prefix in known else Tag.UNKNOWN
