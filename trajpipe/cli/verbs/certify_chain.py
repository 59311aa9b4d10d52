"""`trajpipe certify RAW L2 STORE L3`: the certificate of four stages, for files that lie anywhere.

What is not here: the rules, see `trajpipe.checks.certificate`.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal
from trajpipe.core.errors import UsageError

EXAMPLES: Final = {
    "certify": "  trajpipe certify data/raw/lift data/demos data/stores/lift.h5 data/lerobot/lift\n"
    "  trajpipe certify take.hdf5 take_l2.hdf5 take.h5 take_lerobot --psnr 35"
}


def certify(
    ctx: typer.Context,
    raw: Annotated[Path, typer.Argument(metavar="RAW", help="A recording, or a folder of recordings.")],
    l2: Annotated[Path, typer.Argument(metavar="L2", help="An L2 file, or a folder of them.")],
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store, or a folder of stores.")],
    lerobot: Annotated[Path, typer.Argument(metavar="L3", help="The LeRobot folder.")],
    *,
    psnr: Annotated[float | None, typer.Option(help="Least PSNR of a sampled frame, dB; 30.")] = None,
    target_model: Annotated[
        Path | None, typer.Option(help="MJCF of a motion store's robot; found by its hash beside the files.")
    ] = None,
) -> int:
    """Prove that four stages hold the same data, row for row, and write the certificate beside L3.

    Each edge is compared under the transform that its recipe declares, minus the ledger's rejections:
    low-dimensional columns bit for bit, frames sampled. Exit code 0: proven; 1: something differs.
    """
    from trajpipe.pipeline.certify_paths import certify_paths

    terminal: Terminal = ctx.obj
    if psnr is not None and not psnr > 0:
        raise UsageError("--psnr is a number of dB above 0", got=psnr)
    report, path = certify_paths(raw, l2, store, lerobot, bound_db=psnr, model=target_model)
    terminal.document({"passed": report.passed, "certificate": str(path), "report": report.to_json()})
    if not terminal.json:
        from trajpipe.cli.reports import render_report

        terminal.print(*render_report(report), str(path))
    return EXIT_FINE if report.passed else EXIT_FINDINGS
