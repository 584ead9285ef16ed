"""``visionnmf faces``: train, identify, add, cluster, shadows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices
from visionnmf._text import counted
from visionnmf.apps.faces.settings import FaceClustering, FaceIdentification, FaceReading, FaceTraining, ShadowRemoval
from visionnmf.apps.settings import Option
from visionnmf.exceptions import ParameterError

from .console import progress_bar, say, spinner, verbosity
from .options import Force, Out, Recursive, SkipExisting, excludes, given, needs, with_records
from .run import Input, check_exists, placed, results_folder, running

TOGETHER = 100  # images that are looked at together

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


Faces = Annotated[
    str, typer.Argument(metavar="DIR", help="Folder with a sub-folder per person, .npz, .mat, or orl, yale, yaleb.")
]
Model = Annotated[Path, typer.Argument(metavar="M.npz", help="A model that train has written.")]
Pictures = Annotated[Path | None, Option("Folder for pictures of what was judged corrupted.", metavar="DIR")]


@command.command("train")
@with_records
def train(
    source: Faces,
    model: Annotated[Path, Option("The model file to write.", metavar="M.npz")],
    training: FaceTraining,
    reading: FaceReading,
    pictures: Pictures = None,
    force: Force = False,
) -> None:
    """Learn people from a folder of images; the images may be corrupted.

    \b
    Examples:
      visionnmf faces train people/ --model people.npz
      visionnmf faces train photographs/ --model people.npz --detect --pictures out
    """
    with running() as run:
        check_exists(source, known=choices.FACE_SETS)
        from visionnmf.apps import faces

        with results_folder(pictures, "--pictures"), run.progress(source, rate_of="") as bar:
            report = faces.train(
                source, model, training=training, reading=reading, pictures=pictures, force=force, progress=bar
            )
        run.show(report)


@command.command("identify")
@with_records
def identify(
    model: Model,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, folders, patterns or sample:NAME.")],
    identification: FaceIdentification,
    recursive: Recursive = False,
    pictures: Pictures = None,
    jobs: Annotated[
        int, Option("Processes that read images and find faces.", short="-j", metavar="N", low=1, high=256)
    ] = 1,
    force: Force = False,
    skip_existing: SkipExisting = False,
) -> None:
    """Identify the person on each image, or report that it is nobody known or no face, with the distance.

    \b
    Examples:
      visionnmf faces identify people.npz visitor.jpg
      visionnmf faces identify people.npz visitors/ --recursive
      visionnmf faces identify people.npz *.jpg --json --pictures out
      visionnmf faces identify people.npz party.jpg --all-faces --top 3
    """
    needs("skip_existing", "--pictures", pictures)
    needs("force", "--pictures or --report", pictures or "report" in given)
    excludes("skip_existing", "--force", force)
    with running() as run, results_folder(pictures, "--pictures"):
        check_exists(model)
        inputs = run.inputs("images", images, choices.IMAGE_SUFFIXES, recursive=recursive, out=pictures)
        inputs = placed(inputs, pictures)
        run.skip_existing = skip_existing
        from visionnmf.apps import faces, is_shared
        from visionnmf.apps.faces.identification import Identifier
        from visionnmf.apps.pool import open_pool

        known = faces.load(model)
        if identification.all_faces and not known.detect:
            raise ParameterError("all_faces must be left out for a model of whole images; train with --detect")
        with open_pool(jobs) if is_shared(jobs, len(inputs)) else nullcontext() as pool:
            identifier = Identifier(known, identification=identification, pictures=pictures, force=force, pool=pool)

            def looked_at() -> Iterator[Input]:
                """Yield the inputs; `identifier` keeps what it finds on a hundred of them that it looks at together."""
                for start in range(0, len(inputs), TOGETHER):
                    some = inputs[start : start + TOGETHER]
                    with progress_bar("images", rate_of="images") as bar:
                        folders = [Path(given.place) if given.place else None for given in some]
                        identifier.prepare([given.source for given in some], folders, bar)
                    yield from some

            reports = run.show_all(run.each(looked_at(), identifier.identify, progress=None))
        if len(inputs) > 1 and not run.as_json and not verbosity().quiet:
            # the reason why a face has no name is None if it has one
            done = [report for report in reports if report.state == "done"]
            found = [identity for report in done for identity in (report.identity, *report.others)]
            named, unknown, unlike = (
                sum(one.reason == reason for one in found) for reason in (None, "unknown", "unlike")
            )
            ending = f", {unlike} unlike the training images" if unlike else ""
            looked, known_faces = counted(len(done), "image"), counted(named, "face")
            say(f"{looked}: {known_faces} of known people, {unknown} of nobody known{ending}")


@command.command("add")
def add(
    model: Model,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, folders or patterns.")],
    name: Annotated[str, Option("Name of the person on them.")],
    out: Annotated[Path, Option("The model file to write.", flag="--model", metavar="NEW.npz")],
    recursive: Recursive = False,
    force: Force = False,
) -> None:
    """Add a person to a model, or images of a known person, without training again.

    \b
    Example:
      visionnmf faces add people.npz ada/*.jpg --name Ada --model people2.npz
    """
    with running() as run:
        check_exists(model)
        files = [found.source for found in run.inputs("images", images, choices.IMAGE_SUFFIXES, recursive=recursive)]
        if not files:
            return
        from visionnmf.apps import faces

        with spinner(f"adding {name} to {model}"):
            report = faces.add_person(faces.load(model), name, files, out, force=force)
        run.total = 1  # one model, of all these files
        run.show(report)


@command.command("cluster")
@with_records
def cluster(
    source: Faces, clustering: FaceClustering, reading: FaceReading, out: Out = Path("."), force: Force = False
) -> None:
    """Group images by person, without names; writes clusters.csv.

    \b
    Example:
      visionnmf faces cluster photographs/ --clusters 12 --out results
    """
    with running() as run, results_folder(out):
        check_exists(source, known=choices.FACE_SETS)
        from visionnmf.apps import faces

        with run.progress(source, rate_of="") as bar:  # steps without a rate a second
            report = faces.cluster(source, clustering=clustering, reading=reading, out=out, force=force, progress=bar)
        run.show(report)


@command.command("shadows")
@with_records
def shadows(
    source: Faces, removal: ShadowRemoval, reading: FaceReading, out: Out = Path("."), force: Force = False
) -> None:
    """Remove shadows and highlights from images of one person, or of each of several, under changing light.

    Writes the images and shadows.png, which shows images before and after, and what was removed. Images that lie mostly
    in shadow come out dark.

    \b
    Example:
      visionnmf faces shadows ada/ --out results
    """
    with running() as run:
        check_exists(source, known=choices.FACE_SETS)
        from visionnmf.apps import faces

        with results_folder(out), run.steps(source, "people") as progress:
            report = faces.unshadow(source, out, removal=removal, reading=reading, force=force, progress=progress)
        run.show(report)
