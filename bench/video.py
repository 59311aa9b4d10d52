"""Encoding and decoding against the fastest plain PyAV designs on the same frames, in one run.

    python bench/video.py [--quick] [--rounds 7] [--limits video_limits.py]

The limits: an encoder per episode on two threads (h264), one SVT-AV1 encoder after another (AV1), as they
stand in most scripts; decoding without turning frames into RGB. `--limits` names a script with `encode` and
`decode_shared` of its own, whose best designs are timed beside ours. "And statistics" adds what an export
needs besides: exact histograms of sampled frames. What is not here: whole exports, see `export.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import av
import numpy as np
from numpy.typing import NDArray
from rounds import Row, Stopwatch, Timed, measure, report

from trajpipe.export.options import DEFAULT_CRF, DEFAULT_PRESET
from trajpipe.export.statistics import sampled_rows
from trajpipe.export.video import ENCODERS, VideoPool, VideoSettings, segment_frames
from trajpipe.sources.lerobot_video import VideoFile

EPISODES: Final = 6
FRAMES: Final = 200
FPS: Final = Fraction(20)
# Ours may take this many times the limit's time: 0.9 of its frames per second.
TARGET: Final = 1.11
BLOCK: Final = 64
Case = Callable[[Stopwatch], None]


def scene(size: int) -> NDArray[np.uint8]:
    """A textured ground, a block that moves, noise: (FRAMES, size, size, 3)."""
    rng = np.random.default_rng(3)
    vertical, horizontal = np.mgrid[0:size, 0:size] * (128 / size)
    ground = np.stack([70 + horizontal, 90 + vertical / 2, 140 - horizontal / 2], axis=-1)
    ground = ground + 12 * np.sin(vertical / 3)[..., None]
    frames = np.repeat(ground[None], FRAMES, axis=0) + rng.integers(-2, 3, (FRAMES, size, size, 1))
    edge = size // 6
    for i in range(FRAMES):
        y, x = (int((size - edge) * (0.5 + 0.45 * f(0.05 * i))) for f in (np.sin, np.cos))
        frames[i, y : y + edge, x : x + edge] = (200, 60, 40)
    return frames.clip(0, 255).astype(np.uint8)


def plainly(frames: NDArray[np.uint8], path: Path, codec: str, options: dict[str, str], threads: int) -> None:
    """An episode through PyAV in the fewest lines."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(ENCODERS[codec], rate=FPS, options=options)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "yuv420p"
        if threads:
            stream.codec_context.thread_count = threads
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        container.mux(stream.encode(None))


def limit(frames: NDArray[np.uint8], folder: Path, codec: str, options: dict[str, str]) -> Case:
    """The plain design of a codec."""

    def run(_: Stopwatch) -> None:
        paths = [folder / f"limit-{i}.mp4" for i in range(EPISODES)]
        if codec == "av1":
            for path in paths:
                plainly(frames, path, codec, options, 0)
            return
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda path: plainly(frames, path, codec, options, 1), paths))

    return run


def ours(frames: NDArray[np.uint8], folder: Path, codec: str, *, statistics: bool) -> Case:
    """The exporter's encoder at its defaults."""
    settings = VideoSettings(codec, FPS, DEFAULT_CRF[codec], DEFAULT_PRESET[codec])
    sampled = sampled_rows(FRAMES) if statistics else np.zeros(0, np.int64)
    step = segment_frames(*frames.shape[1:3])

    def run(_: Stopwatch) -> None:
        with VideoPool(settings, 2) as pool:
            for i in range(EPISODES):
                video = pool.begin(folder / f"ours-{i}.mp4", frames.shape[1:3], lambda _: None)
                for start in range(0, FRAMES, step):
                    stop = min(start + step, FRAMES)
                    inside = sampled[(sampled >= start) & (sampled < stop)] - start
                    pool.add(video, frames[start:stop], inside, last=stop == FRAMES)

    return run


def cases(frames: NDArray[np.uint8], folder: Path) -> dict[str, Case]:
    """Limits and ours by name."""
    preset = {"preset": DEFAULT_PRESET["h264"]}
    svt = {"preset": DEFAULT_PRESET["av1"], "crf": "30", "g": "2"}
    return {
        "h264, any group": limit(frames, folder, "h264", preset),
        "h264, groups of 2": limit(frames, folder, "h264", {**preset, "g": "2"}),
        "av1": limit(frames, folder, "av1", svt),
        **{f"ours {c}": ours(frames, folder, c, statistics=False) for c in ENCODERS},
        **{f"ours {c} and statistics": ours(frames, folder, c, statistics=True) for c in ENCODERS},
    }


def rows(size: int, found: dict[str, Timed]) -> list[Row]:
    """The report's rows of one frame size."""
    out = []
    for codec, bound in (("h264", "h264, any group"), ("h264", "h264, groups of 2"), ("av1", "av1")):
        for more in ("", " and statistics"):
            case, plain = found[f"ours {codec}{more}"], found[bound]
            rates = [EPISODES * FRAMES / t.median for t in (case, plain)]
            note = f"{rates[0]:,.0f} against {rates[1]:,.0f} frames/s"
            target = TARGET if not more and (size == 128 or bound != "h264, any group") else None
            stage = f"encode {codec} {size} px{more}"
            out.append(Row(stage, bound, case.ratio(plain), target, note, case.cpu_ratio(plain)))
    return out


def foreign_limits(script: Path) -> ModuleType:
    """A script of limits as a module; what it imports may lie beside it."""
    sys.path.insert(0, str(script.resolve().parent))
    spec = importlib.util.spec_from_file_location("foreign_limits", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def foreign_cases(limits: ModuleType, frames: NDArray[np.uint8], folder: Path) -> dict[str, Case]:
    """The best designs of a script of limits: two episodes at a time (h264), one after another (AV1)."""
    paths = [str(folder / f"foreign-{i}.mp4") for i in range(EPISODES)]
    svt = {"preset": 12, "crf": 30, "g": 2}

    def h264(_: Stopwatch) -> None:
        with ThreadPoolExecutor(2) as threads:
            list(
                threads.map(lambda p: limits.encode(frames, p, "libx264", {"preset": "ultrafast"}, 1), paths)
            )

    def av1(_: Stopwatch) -> None:
        for path in paths:
            limits.encode(frames, path, "libsvtav1", svt, 0, gop=2)

    return {"foreign h264": h264, "foreign av1": av1}


def decoding(frames: NDArray[np.uint8], folder: Path, limits: ModuleType | None) -> dict[str, Case]:
    """An episode's video to RGB in blocks, and without RGB."""
    path, many = folder / "decode.mp4", np.concatenate([frames] * EPISODES)
    plainly(many, path, "h264", {"preset": "veryfast"}, 1)

    def no_rgb(_: Stopwatch) -> None:
        with av.open(str(path)) as container:
            container.streams.video[0].codec_context.thread_count = 1
            for _frame in container.decode(video=0):
                pass

    def read(_: Stopwatch) -> None:
        video = VideoFile(path, path.name)
        for start in range(0, len(many), BLOCK):
            video.read(start, min(start + BLOCK, len(many)))
        video.close()

    out = np.zeros_like(many)
    foreign: dict[str, Case] = {}
    if limits is not None:
        foreign = {
            f"foreign decode {n}": lambda _, n=n: limits.decode_shared(str(path), n, out)  # type: ignore[misc]  # a default binds it
            for n in (1, 2)
        }
    return {"decode, no rgb": no_rgb, "ours decode": read, **foreign}


def decoded_rows(size: int, found: dict[str, Timed]) -> list[Row]:
    """The report's rows of decoding one frame size."""
    case, out = found["ours decode"], []
    bounds: dict[str, float | None] = {"decode, no rgb": None}
    better = min(
        (n for n in found if n.startswith("foreign decode")), key=lambda n: found[n].median, default=""
    )
    bounds |= {better: TARGET} if better else {}
    for bound, target in bounds.items():
        rates = [EPISODES * FRAMES / t.median for t in (case, found[bound])]
        note = f"{rates[0]:,.0f} against {rates[1]:,.0f} frames/s"
        name = "script's best design" if bound == better else bound
        out.append(Row(f"decode h264 {size} px to RGB", name, case.ratio(found[bound]), target, note))
    return out


def foreign_rows(size: int, found: dict[str, Timed]) -> list[Row]:
    """Ours in times of the script's best designs."""
    out = []
    for codec in ENCODERS:
        case, bound = found[f"ours {codec}"], found[f"foreign {codec}"]
        rates = [EPISODES * FRAMES / t.median for t in (case, bound)]
        note = f"{rates[0]:,.0f} against {rates[1]:,.0f} frames/s"
        stage = f"encode {codec} {size} px"
        ratio, cpu = case.ratio(bound), case.cpu_ratio(bound)
        out.append(Row(stage, "script's best design", ratio, TARGET, note, cpu))
    return out


def main() -> int:
    """Run the benchmark; 1 when a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limits", type=Path, help="a script whose designs are timed beside ours")
    parser.add_argument("--quick", action="store_true", help="128 px, one round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("SVT_LOG", "1")
    av.logging.set_level(av.logging.ERROR)
    limits = None if given.limits is None else foreign_limits(given.limits)
    lines: list[Row] = []
    for size in (128,) if given.quick else (128, 256):
        with tempfile.TemporaryDirectory() as name:
            folder, frames = Path(name), scene(size)
            timed = {**cases(frames, folder), **decoding(frames, folder, limits)}
            if limits is not None:
                timed |= foreign_cases(limits, frames, folder)
            found = measure(timed, 1 if given.quick else given.rounds)
        lines += rows(size, found) + decoded_rows(size, found)
        lines += foreign_rows(size, found) if limits is not None else []
    print(json.dumps([asdict(r) for r in lines]) if given.json else report(lines))
    return 0 if all(r.reached for r in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
