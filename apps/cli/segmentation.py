"""``visionnmf segment``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices
from visionnmf.apps.segmentation.settings import FORMATS, Outputs, WantedSegments
from visionnmf.exceptions import ParameterError

from .options import ExistingResults, Jobs, Out, Recursive, excludes, needs, with_records
from .run import placed, results_folder, running


@with_records
def command(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, folders, patterns or sample:NAME.")],
    wanted: WantedSegments,
    outputs: Outputs,
    existing: ExistingResults,
    recursive: Recursive = False,
    jobs: Jobs = 1,
    out: Out = Path("."),
) -> None:
    """Divide images into segments.

    The command reads JPEG, PNG, TIFF and more. It writes NAME_labels.png (the label of each pixel, 0 to K-1, in 16
    bits), NAME_segments.png (each segment in a different colour), NAME_overlay.png (the segments drawn over the image)
    and NAME_boundaries.png (how strong the border at each pixel is).

    In the picture of --markers the most frequent colour is the background; the pixels of each other colour become one
    segment. Alone, the markers divide the whole image. With --scale or --segments, auto included, they correct the
    segments found there, and segments without a marker stay.

    --method nmf groups the regions of the tree by symmetric NMF, which also says how far each pixel belongs to each
    segment. --method paper writes NAME_paper.png, three methods on a thumbnail side by side, and the labels of each.

    How strong a border is was learnt beforehand, from 300 photographs of BSDS500, which is for non-commercial research
    and education. --method paper uses nothing that was learnt.

    \b
    Examples:
      visionnmf segment photo.jpg
      visionnmf segment *.jpg --segments 8 --out results
      visionnmf segment photographs --out results --report results/report.html
      visionnmf segment photo.jpg --scale 0.2
      visionnmf segment photo.jpg --formats coco,svg --cutouts
      visionnmf segment photo.jpg --markers scribbles.png --segments auto
      visionnmf segment photo.jpg --method nmf --segments 5 --memberships
      visionnmf segment sample:coffee --json
    """
    paper = wanted.method == "paper"
    if paper and outputs != Outputs():
        raise typer.BadParameter("--method paper writes labels only; leave out --formats, --cutouts and --memberships")
    needs("memberships", "--method nmf", wanted.method == "nmf")
    excludes("skip_existing", "--force", existing.force)
    with running() as run, results_folder(out):
        inputs = placed(run.inputs("images", images, choices.IMAGE_SUFFIXES, recursive=recursive, out=out), out)
        if wanted.markers is not None and len(inputs) > 1:
            raise ParameterError(f"markers must be given with one image; got {len(inputs)} images")
        if not inputs:
            return
        from visionnmf import io
        from visionnmf.apps.segmentation.process import (
            holds_only,
            join_coco,
            joined_files,
            process_image,
            process_paper,
        )

        if paper:
            process = partial(process_paper, n_segments=wanted.n_segments, force=existing.force)
        else:
            process = partial(process_image, wanted=wanted, outputs=outputs, force=existing.force)
        # Several images with outputs that join them, such as one COCO file for all, are written in a second step.
        files = joined_files(outputs.names, out) if len(inputs) > 1 else []
        all_placed = [(given.source, given.place) for given in inputs]
        # A joined file of an earlier run of these images is written again, because images may have been added.
        again = existing.force or existing.skip_existing or all(holds_only(file, all_placed) for file in files)
        io.check_outputs(files, again, inputs=[given.source for given in inputs])
        run.skip_existing = existing.skip_existing
        reports = run.show_all(run.each(inputs, process, jobs=jobs))
        usable = [place for place, report in zip(all_placed, reports, strict=True) if report.state != "failed"]
        for file in joined_files(tuple(FORMATS), out) if run.done else []:
            with run.attempt():
                if file in files and join_coco(usable, file, force=again):
                    run.remark(f"wrote {file}")
                elif file not in files and file.exists() and holds_only(file, all_placed):
                    run.remark(f"{file}: of an earlier run")
