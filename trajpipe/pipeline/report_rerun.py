"""`write_rerun`: episodes of a dataset or output as a recording for Rerun's viewer.

What is not here: the form of it, see `trajpipe.report.rerun_recording`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trajpipe.core.episode import Episode
from trajpipe.core.progress import Progress, silent
from trajpipe.pipeline.report_episodes import opened
from trajpipe.pipeline.report_gathering import is_asked_for, none_asked_for
from trajpipe.pipeline.report_subject import Subject
from trajpipe.report.rerun_recording import rerun_recording

FIRST: Final = ("0:20",)


def write_rerun(
    subject: Subject, target: Path, episodes: Sequence[str] = FIRST, *, progress: Progress = silent
) -> tuple[int, int]:
    """Write every row of some episodes of each output; memory is bounded by blocks.

    Args:
        subject: What it is about.
        target: The `.rrd` file; an older one is replaced in one step.
        episodes: Names, patterns, or ranges of positions in each output.
        progress: Called with episodes done.

    Returns:
        Episodes written and episodes there are, those of each output counted.

    Raises:
        MissingExtraError: Rerun is not installed.
        UsageError: no episode is of the names asked for.
        TrajpipeError: an output cannot be read.
    """
    written, known = 0, 0
    with rerun_recording(target, subject.title) as recording:
        for one in subject.outputs:
            if not one.path.exists():
                continue
            with opened(subject, one) as found:
                known += found.count
                taken = (e for e in found.episodes() if isinstance(e, Episode))
                for position, episode in enumerate(taken):
                    if is_asked_for(episode, position, episodes):
                        name = f"{episode.source_file} {episode.source_demo}"
                        recording.add(one.stage.value, episode, name)
                        written += 1
                        progress("episodes for Rerun", written, None)
        if not written:
            raise none_asked_for(episodes, known)
    return written, known
