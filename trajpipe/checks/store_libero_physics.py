"""The `state` column of a LIBERO store, proven with MuJoCo: every value by name, and body poses.

What is not here: how the store's own remap works (`trajpipe.mjcf.remap`): no index array is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_libero import NEEDS, EpisodeOfStore, episodes_of, error
from trajpipe.checks.store_reading import opened
from trajpipe.core.errors import InputError, MissingExtraError
from trajpipe.core.findings import Finding
from trajpipe.core.ulp import ulp_distance
from trajpipe.hdf5.attributes import plain
from trajpipe.mjcf.document import parse, top_level
from trajpipe.mjcf.kinematic import kinematic_model

POSE_TOLERANCE_M: Final = 1e-6
MOVED_M: Final = 1e-3
ROWS_DRIVEN: Final = 200
_FREE: Final = 0


def _mujoco() -> Any:
    try:
        import mujoco
    except ImportError as missing:
        raise MissingExtraError("proving a LIBERO state needs MuJoCo", hint="pip install mujoco") from missing
    return mujoco


@dataclass(slots=True)
class Scene:
    """A compiled kinematic model.

    Attributes:
        model: `mujoco.MjModel`.
        data: `mujoco.MjData`.
    """

    model: Any
    data: Any

    def joints(self) -> list[str]:
        """Joint names in MuJoCo's order."""
        return [self.model.joint(i).name for i in range(self.model.njnt)]

    def poses(self, qpos: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """World positions (B, 3) and rotation matrices (B, 3, 3) of all bodies for one row."""
        self.data.qpos[:] = qpos
        _mujoco().mj_kinematics(self.model, self.data)
        return self.data.xpos.copy(), self.data.xmat.reshape(-1, 3, 3).copy()

    def place_fixtures(self, poses: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
        """Put the episode's fixtures where they stood."""
        for name, (position, quaternion) in poses.items():
            if not np.isnan(position).any():
                body = self.model.body(name)
                body.pos[:], body.quat[:] = position, quaternion


def compiled(text: str, order: Sequence[str] | None = None) -> Scene:
    """The kinematic scene of MJCF text, its top-level bodies in another order on request."""
    mujoco = _mujoco()
    model = mujoco.MjModel.from_xml_string(kinematic_model(parse(text), order))
    return Scene(model, mujoco.MjData(model))


def _robot_fixtures_objects(text: str) -> list[str]:
    """Top-level bodies in the order robot, fixtures, objects, told from their own joints."""
    ranks: list[tuple[int, int, str]] = []
    for body in top_level(parse(text)):
        joints = [e for e in body.element.iter() if e.tag in ("joint", "freejoint")]
        names = [e.get("name", "") for e in joints]
        free = any(e.tag == "freejoint" or e.get("type") == "free" for e in joints)
        robot = any(n.startswith(("robot", "gripper")) for n in names)
        ranks.append((0 if robot else 2 if free else 1, len(ranks), body.name))
    return [name for _, _, name in sorted(ranks)]


@dataclass(slots=True)
class Target:
    """Where the rows should lie: a compiled scene, or only the order of its joints.

    Attributes:
        scene: The target scene; None when only an order was declared.
        order: Joint names in address order.
        names: Recorded joint name → target name.
    """

    scene: Scene | None
    order: list[str]
    names: Mapping[str, str]


def target_of(libero: Mapping[str, Any], first_model: str) -> Target:
    """The target of a store: the declared model or joint order, else robot, fixtures, objects.

    Args:
        libero: Context with `model` (MJCF text), `joints` and `names`.
        first_model: A recorded model, reordered when nothing is declared.
    """
    names = dict(libero["names"])
    if libero["model"] is not None:
        scene = compiled(libero["model"])
        return Target(scene, scene.joints(), names)
    if libero["joints"] is not None:
        return Target(None, list(libero["joints"]), names)
    scene = compiled(first_model, _robot_fixtures_objects(first_model))
    return Target(scene, [names.get(n, n) for n in scene.joints()], names)


def expected_state(source: Scene, target: Target, states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Recorded (time, qpos, qvel) rows put joint by joint, by name, at the target's addresses."""
    model = source.model
    inverse = {target.names.get(n, n): n for n in source.joints()}
    qpos, qvel = [], []
    for name in target.order:
        joint = model.joint(inverse[name])
        free_or_ball = {0: (7, 6), 1: (4, 3)}.get(int(joint.type[0]), (1, 1))
        q, v = int(joint.qposadr[0]), int(joint.dofadr[0])
        qpos.append(states[:, 1 + q : 1 + q + free_or_ball[0]])
        start = 1 + model.nq + v
        qvel.append(states[:, start : start + free_or_ball[1]])
    return np.hstack([*qpos, *qvel])


def _each(
    subject: Subject, store: h5py.File
) -> Iterator[tuple[EpisodeOfStore, str, NDArray[Any], NDArray[Any]]]:
    """(episode, recorded model, recorded states, stored states) one after another."""
    current: tuple[Path, h5py.File] | None = None
    try:
        for one in episodes_of(subject):
            if current is None or current[0] != one.l2:
                if current is not None:
                    current[1].close()
                current = (one.l2, h5py.File(one.l2, "r"))
            demo = current[1]["data"][one.l2_demo]
            yield (
                one,
                str(plain(demo.attrs["model_file"])),
                demo["states"][()],
                store["state"][one.start : one.stop],
            )
    finally:
        if current is not None:
            current[1].close()


@check(
    "libero-state-ulp",
    stage="store",
    title="The state is the recorded one, by joint name, within 2 ULP",
    needs=NEEDS,
)
def libero_state_ulp(subject: Subject) -> Iterator[Finding]:
    """|a - b| <= 2 · 2^-52 · max(|a|, |b|), and an exact zero meets an exact zero; counts and the worst."""
    libero = subject.context["libero"]
    if not libero["state"]:
        return
    tally = Tally(subject.path)
    target: Target | None = None
    with opened(subject.path) as store:
        for one, text, states, stored in _each(subject, store):
            source = compiled(text)
            target = target or target_of(libero, text)
            width = 1 + source.model.nq + source.model.nv
            if states.shape[1] != width or stored.shape[1] != width - 1:
                place = one.place(subject.path, "state")
                got = f"{states.shape[1]} recorded, {stored.shape[1]} stored"
                message = "a row is 1 + nq + nv words, nq + nv in the store"
                yield error("libero-state-ulp", message, place, got, width)
                continue
            yield from tally.compare(one, source, target, stored, expected_state(source, target, states))
    subject.count(tally.compared, tally.compared, "values")
    subject.measures |= {
        "values_compared": tally.compared,
        "values_differing": tally.differing,
        "worst_ulp": tally.worst,
    }


@dataclass(slots=True)
class Tally:
    """Counts of the 2-ULP check.

    Attributes:
        path: The store.
        compared: Values compared.
        differing: Values that differ at all.
        worst: Worst distance in ULPs.
    """

    path: Path
    compared: int = 0
    differing: int = 0
    worst: int = 0

    def compare(
        self,
        one: EpisodeOfStore,
        source: Scene,
        target: Target,
        stored: NDArray[np.float64],
        expected: NDArray[np.float64],
    ) -> Iterator[Finding]:
        """Compare an episode's rows; the first value beyond the bound is a finding."""
        bound = 2 * 2.0**-52 * np.maximum(np.abs(stored), np.abs(expected))
        bad = (np.abs(stored - expected) > bound) | ((stored == 0) != (expected == 0)) | np.isnan(stored)
        self.compared += stored.size
        self.differing += int((stored != expected).sum())
        self.worst = max(self.worst, int(ulp_distance(stored, expected).max()))
        if bad.any():
            row, word = (int(i) for i in np.argwhere(bad)[0])
            place = one.place(self.path, "state", one.start + row)
            joint = _joint_of_word(target, source, word)
            got, want = repr(float(stored[row, word])), repr(float(expected[row, word]))
            yield error("libero-state-ulp", f"word {word} ({joint}) is another joint's", place, got, want)


def _joint_of_word(target: Target, source: Scene, word: int) -> str:
    inverse = {target.names.get(n, n): n for n in source.joints()}
    for column in (0, 1):
        for name in target.order:
            kind = int(source.model.joint(inverse[name]).type[0])
            width = {0: (7, 6), 1: (4, 3)}.get(kind, (1, 1))[column]
            if word < width:
                return f"{name} {'qpos' if column == 0 else 'qvel'}"
            word -= width
    return "beyond the joints"


@check(
    "libero-fk",
    stage="store",
    title="Bodies stand where the recording had them, in MuJoCo",
    needs=NEEDS,
)
def libero_fk(subject: Subject) -> Iterator[Finding]:
    """Drive source and target from the same rows and compare body poses; then swap joints and see it.

    Relative to the top-level ancestor for all but free bodies, and in the world with the episode's fixture
    poses set in the target; at most 200 rows of an episode, evenly spaced.
    """
    libero = subject.context["libero"]
    if not libero["state"] or libero["joints"] is not None:
        return
    drive = _Drive(subject, libero)
    with opened(subject.path) as store:
        drive.read_fixtures(store)
        for one, text, states, stored in _each(subject, store):
            yield from drive.episode(one, text, states, stored)
    subject.count(drive.rows, drive.rows, "rows")
    subject.measures |= drive.worst
    if drive.rows and drive.worst["swapped_joints_moved_m"] <= MOVED_M:
        place = episodes_of(subject)[0].place(subject.path, "state")
        message = "swapping two joints moves no body: the comparison has no teeth"
        yield error("libero-fk", message, place, drive.worst["swapped_joints_moved_m"], f"> {MOVED_M} m")


class _Drive:
    """State of one FK comparison over all episodes."""

    def __init__(self, subject: Subject, libero: Mapping[str, Any]) -> None:
        self.subject, self.libero = subject, libero
        self.target: Target | None = None
        self.rows = 0
        self.fixtures: list[dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]] = []
        self.worst = {
            "worst_relative_m": 0.0,
            "worst_world_m": 0.0,
            "worst_rotation": 0.0,
            "world_with_another_demos_fixtures_m": 0.0,
            "swapped_joints_moved_m": 0.0,
        }

    def read_fixtures(self, store: h5py.File) -> None:
        """Fixture poses of every episode by body name."""
        names = [str(plain(n)) for n in store["fixture_names"][()].tolist()]
        positions, quaternions = store["fixture_pos"][()], store["fixture_quat"][()]
        self.fixtures = [
            {n: (p[i], q[i]) for i, n in enumerate(names)}
            for p, q in zip(positions, quaternions, strict=True)
        ]

    def episode(
        self, one: EpisodeOfStore, text: str, states: NDArray[Any], stored: NDArray[Any]
    ) -> Iterator[Finding]:
        """Compare the rows of one episode."""
        source = compiled(text)
        self.target = self.target or target_of(self.libero, text)
        scene = self.target.scene
        if scene is None:
            raise InputError("the target has no scene", place=self.subject.path.name)
        bodies = common_bodies(source, scene)
        picked = np.unique(np.linspace(0, len(stored) - 1, min(ROWS_DRIVEN, len(stored))).astype(int))
        for row in picked:
            scene.place_fixtures(self.fixtures[one.number])
            qpos = states[row, 1 : 1 + source.model.nq]
            reference = source.poses(qpos)
            got = scene.poses(stored[row, : scene.model.nq])
            relative, world, rotation = differences(source, scene, bodies, reference, got)
            self._note("worst_relative_m", relative)
            self._note("worst_world_m", world)
            self._note("worst_rotation", rotation)
            self.rows += 1
            if max(relative, world, rotation) > POSE_TOLERANCE_M:
                place = one.place(self.subject.path, "state", one.start + int(row))
                got_text = f"relative {relative:.3g} m, world {world:.3g} m, rotation {rotation:.3g}"
                message = "a body stands elsewhere than in the recording"
                yield error("libero-fk", message, place, got_text, f"≤ {POSE_TOLERANCE_M}")
                break
        self._teeth(one, source, scene, bodies, states, stored)

    def _note(self, name: str, value: float) -> None:
        self.worst[name] = max(self.worst[name], value)

    def _teeth(
        self,
        one: EpisodeOfStore,
        source: Scene,
        scene: Scene,
        bodies: list[tuple[int, int]],
        states: NDArray[Any],
        stored: NDArray[Any],
    ) -> None:
        """What the comparison would see with two joints swapped, and with another demo's fixtures."""
        last = len(stored) - 1
        reference = source.poses(states[last, 1 : 1 + source.model.nq])
        qpos = stored[last, : scene.model.nq].copy()
        pair = _most_different(scene, qpos)
        if pair is not None:
            qpos[list(pair)] = qpos[list(reversed(pair))]
            scene.place_fixtures(self.fixtures[one.number])
            _, moved, _ = differences(source, scene, bodies, reference, scene.poses(qpos))
            self._note("swapped_joints_moved_m", moved)
        if len(self.fixtures) > 1:
            scene.place_fixtures(self.fixtures[(one.number + 1) % len(self.fixtures)])
            poses = scene.poses(stored[last, : scene.model.nq])
            _, world, _ = differences(source, scene, bodies, reference, poses)
            self._note("world_with_another_demos_fixtures_m", world)


def common_bodies(source: Scene, target: Scene) -> list[tuple[int, int]]:
    """(source id, target id) of every named body of both scenes but the world."""
    ours = {target.model.body(i).name: i for i in range(1, target.model.nbody)}
    theirs = {source.model.body(i).name: i for i in range(1, source.model.nbody)}
    common = [(i, ours[n]) for n, i in theirs.items() if n and n in ours]
    moving = {source.model.jnt_bodyid[j] for j in range(source.model.njnt)}
    missing = [n for n, i in theirs.items() if i in moving and n not in ours]
    if missing or not common:
        raise InputError(
            "the target scene has every moving body of the recording", got=f"missing {missing[:5]}"
        )
    return common


def differences(
    source: Scene,
    target: Scene,
    bodies: list[tuple[int, int]],
    a: tuple[NDArray[np.float64], NDArray[np.float64]],
    b: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> tuple[float, float, float]:
    """Worst distance relative to the top-level ancestor, in the world, and of rotation matrices."""
    i, j = np.array([p[0] for p in bodies]), np.array([p[1] for p in bodies])
    world = float(np.abs(a[0][i] - b[0][j]).max())
    rotation = float(np.abs(a[1][i] - b[1][j]).max())
    fixed = np.array([not _is_free(source, k) for k in i])
    ra, rb = source.model.body_rootid[i[fixed]], target.model.body_rootid[j[fixed]]
    local_a = np.einsum("nji,nj->ni", a[1][ra], a[0][i[fixed]] - a[0][ra])
    local_b = np.einsum("nji,nj->ni", b[1][rb], b[0][j[fixed]] - b[0][rb])
    relative = float(np.abs(local_a - local_b).max()) if fixed.any() else 0.0
    return relative, world, rotation


def _is_free(scene: Scene, body: int) -> bool:
    first = scene.model.body_jntadr[body]
    return bool(first >= 0 and scene.model.jnt_type[first] == _FREE)


def _most_different(scene: Scene, qpos: NDArray[np.float64]) -> tuple[int, int] | None:
    """Addresses of the two joints of one single-word type whose values differ most in this row."""
    best: tuple[float, tuple[int, int]] | None = None
    model = scene.model
    for kind in (2, 3):
        addresses = [int(model.jnt_qposadr[k]) for k in range(model.njnt) if model.jnt_type[k] == kind]
        if len(addresses) < 2:
            continue
        low, high = min(addresses, key=lambda k: qpos[k]), max(addresses, key=lambda k: qpos[k])
        gap = float(qpos[high] - qpos[low])
        if gap > 0 and (best is None or gap > best[0]):
            best = (gap, (low, high))
    return None if best is None else best[1]
