"""``visionnmf faces``: train, identify, verify, add, cluster, shadows, evaluate."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from visionnmf import choices

from .common import make_folder, running, say
from .options import Debug, Force, Json, Out, Processes, Recursive, Seed, one_of
from .paths import check_there

__all__ = ["command"]

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@command.callback()
def _faces() -> None:
    """Name the people on images, also where the training images are corrupted; group faces; compare methods.

    \b
    Examples:
      visionnmf faces train people/ --model people.npz
      visionnmf faces identify people.npz visitor.jpg
      visionnmf faces verify people.npz passport.jpg visitor.jpg
      visionnmf faces add people.npz ada/*.jpg --name Ada --model people2.npz
      visionnmf faces cluster photographs/ --clusters 12
      visionnmf faces shadows ada/ --out results
      visionnmf faces evaluate people/ --corruption salt_and_pepper:0.3
    """


Faces = Annotated[
    str, typer.Argument(metavar="DIR", help="Folder with a sub-folder a person, .npz, .mat, or orl, yale, yaleb.")
]
Detect = Annotated[bool, typer.Option("--detect", help="Find the face on each photograph and cut it out.")]
FaceSize = Annotated[
    int | None, typer.Option("--size", metavar="N", min=8, max=512, help="Scale images to N x N pixels.")
]
Missing = Annotated[
    str, typer.Option("--missing", help="Pixels that do not count: blocks (opaque ones), saturated or none.")
]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", metavar="D", min=0, max=10, help="Distance beyond which nobody is named."),
]
TrainMissing = Annotated[
    str, typer.Option("--missing", help="Pixels that do not count: blocks, saturated, none, or auto: what names most.")
]
Pictures = Annotated[
    Path | None, typer.Option("--pictures", metavar="DIR", help="Folder for pictures of what was judged corrupted.")
]


@command.command("train")
def train(
    source: Faces,
    model: Annotated[Path, typer.Option("--model", metavar="M.npz", help="The model file to write.")],
    rank: Annotated[int, typer.Option("--rank", min=1, max=1000, help="Components; may be generous.")] = (
        choices.FACE_COMPONENTS
    ),
    rule: Annotated[str, typer.Option("--rule", help=one_of(choices.FACE_RULES))] = (choices.FACE_RULE_DEFAULT),
    missing: TrainMissing = choices.FACE_MISSING_AUTO,
    size: FaceSize = None,
    detect: Detect = False,
    strangers: Annotated[
        float, typer.Option("--strangers", metavar="RATE", min=0.001, max=0.5, help="Share of strangers that may pass.")
    ] = choices.FACE_UNKNOWN_RATE,
    pictures: Pictures = None,
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Learn people from a folder of images; the images may be corrupted.

    \b
    Examples:
      visionnmf faces train people/ --model people.npz
      visionnmf faces train photographs/ --model people.npz --detect --pictures out
    """
    with running(json_, debug) as run:
        check_there(source, known=choices.FACE_SETS)
        from visionnmf.apps import faces

        if pictures is not None:
            _make_folder_outside(pictures, source, "--pictures")
        with run.status(f"learning the people of {source}"):
            report = faces.train(
                source,
                model,
                n_components=rank,
                rule=rule,
                missing=missing,
                size=size,
                detect=detect,
                unknown_rate=strangers,
                pictures=pictures,
                random_state=seed,
                force=force,
            )
        run.report(report)


@command.command("identify")
def identify(
    model: Annotated[Path, typer.Argument(metavar="M.npz", help="A model that train has written.")],
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files, folders, patterns or sample:NAME.")],
    recursive: Recursive = False,
    top: Annotated[int, typer.Option("--top", metavar="K", min=1, max=1000, help="Nearest people to tell.")] = 1,
    threshold: Threshold = None,
    all_faces: Annotated[bool, typer.Option("--all-faces", help="Every face of a photograph, with its box.")] = False,
    pictures: Pictures = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="Processes that read images, find faces.")
    ] = 1,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Name the person on each image, or nobody, with the distance.

    \b
    Examples:
      visionnmf faces identify people.npz visitor.jpg
      visionnmf faces identify people.npz visitors/ --recursive
      visionnmf faces identify people.npz *.jpg --json --pictures out
      visionnmf faces identify people.npz party.jpg --all-faces --top 3
    """
    with running(json_, debug) as run:
        check_there(model)
        if pictures is not None:
            make_folder(pictures, "--pictures")
        inputs = run.inputs("images", images, choices.IMAGE_SUFFIXES, recursive=recursive, out=pictures)
        from visionnmf.apps import faces
        from visionnmf.apps.pool import open_pool

        known = faces.load(model)
        with open_pool(jobs) if jobs > 1 and len(inputs) > 1 else nullcontext() as pool:
            identifier = faces.Identifier(
                known, threshold=threshold, top=top, all_faces=all_faces, pictures=pictures, force=force, pool=pool
            )
            wanted = pictures is not None
            run.batch("images", inputs, identifier.identify, writes=wanted, out=pictures, prepare=identifier.prepare)


@command.command("verify")
def verify(
    model: Annotated[Path, typer.Argument(metavar="M.npz", help="A model that train has written.")],
    first: Annotated[str, typer.Argument(metavar="A", help="An image.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    threshold: Threshold = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Say whether two images show one person, known to the model or not.

    \b
    Example:
      visionnmf faces verify people.npz passport.jpg visitor.jpg
    """
    with running(json_, debug) as run:
        check_there(model)
        from visionnmf.apps import faces

        run.report(faces.verify(faces.load(model), first, second, threshold=threshold))


@command.command("add")
def add(
    model: Annotated[Path, typer.Argument(metavar="M.npz", help="A model that train has written.")],
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Files or patterns.")],
    name: Annotated[str, typer.Option("--name", help="Whom they show.")],
    out: Annotated[Path, typer.Option("--model", metavar="NEW.npz", help="The model file to write.")],
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Add a person to a model, or images of a known one, without training anew.

    \b
    Example:
      visionnmf faces add people.npz ada/*.jpg --name Ada --model people2.npz
    """
    with running(json_, debug) as run:
        check_there(model)
        from visionnmf.apps import faces
        from visionnmf.io import expand_inputs

        known = faces.load(model)
        run.report(faces.add_person(known, name, expand_inputs(images), out, force=force))


@command.command("cluster")
def cluster(
    source: Faces,
    clusters: Annotated[int | None, typer.Option("--clusters", metavar="K", min=1, help="Groups to find.")] = None,
    by: Annotated[str, typer.Option("--by", help="k-means on the codes, or the largest code.")] = (
        choices.FACE_CLUSTERING_DEFAULT
    ),
    missing: Missing = choices.FACE_MISSING_DEFAULT,
    size: FaceSize = None,
    detect: Detect = False,
    out: Out = Path("."),
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Group images by person, without names; writes clusters.csv.

    \b
    Example:
      visionnmf faces cluster photographs/ --clusters 12 --out results
    """
    with running(json_, debug) as run:
        check_there(source, known=choices.FACE_SETS)
        make_folder(out)
        from visionnmf.apps import faces

        with run.status(f"grouping the faces of {source}"):
            report = faces.cluster(
                source,
                n_clusters=clusters,
                by=by,
                missing=missing,
                size=size,
                detect=detect,
                out=out,
                random_state=seed,
                force=force,
            )
        run.report(report)


@command.command("shadows")
def shadows(
    source: Faces,
    rank: Annotated[
        int, typer.Option("--rank", min=1, max=100, help="Dimensions; more keep more of the shadows.")
    ] = choices.FACE_SHADOW_COMPONENTS,
    size: FaceSize = None,
    detect: Detect = False,
    out: Out = Path("."),
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Remove shadows and highlights from images of one person, or each of several, under changing light.

    Writes the images, and shadows.png: before, after, and what was removed. Images that lie mostly in shadow come out
    dark.

    \b
    Example:
      visionnmf faces shadows ada/ --out results
    """
    with running(json_, debug) as run:
        check_there(source, known=choices.FACE_SETS)
        from visionnmf.apps import faces

        _make_folder_outside(out, source, "--out")
        with run.status(f"removing the shadows of {source}"):
            report = faces.unshadow(
                source, out, n_components=rank, size=size, detect=detect, random_state=seed, force=force
            )
        run.report(report)


@command.command("evaluate")
def evaluate(
    source: Faces,
    corruption: Annotated[
        list[str], typer.Option("--corruption", metavar="KIND[:SEVERITY]", help="Of the training images; repeatable.")
    ] = ["none"],  # noqa: B006  # typer copies it
    ranks: Annotated[str, typer.Option("--ranks", help="Ranks of the models: 100 or 10,50,100 or 10-150/10.")] = str(
        choices.FACE_COMPONENTS
    ),
    methods: Annotated[
        str | None, typer.Option("--methods", help="Comma-separated; all the usual ones if left out.")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option("--rules", help="Comma-separated: pseudo-inverse, mixed, codes, whitened; all if left out."),
    ] = None,
    splits: Annotated[int, typer.Option("--splits", min=1, max=1000, help="Random splits.")] = choices.FACE_SPLITS,
    per_person: Annotated[int, typer.Option("--train", metavar="N", min=1, help="Training images a person.")] = (
        choices.FACE_TRAINING_IMAGES
    ),
    both: Annotated[bool, typer.Option("--both", help="Corrupt test images too, beside the clean test.")] = False,
    plots: Annotated[
        bool,
        typer.Option("--plots", help="Draw accuracy against rank, components, reconstructions (needs matplotlib)."),
    ] = False,
    jobs: Processes = 1,
    size: FaceSize = None,
    detect: Detect = False,
    out: Out = Path("."),
    seed: Seed = choices.RANDOM_STATE,
    json_: Json = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Compare methods on random splits of a data set; an interrupted run goes on where it was.

    Kinds: occlusion (side of the block in pixels), salt_and_pepper and dead_lines (share), laplace and gaussian (grey
    levels), poisson (photons a grey level). Methods: manhattan, manhattan-light, manhattan-plain, manhattan-blocks,
    manhattan-cv, frobenius, kullback-leibler, sklearn-frobenius, sklearn-kullback-leibler, pca, recognizer,
    recognizer-seeing-all, recognizer-nearest, raw, lda, crc. Writes results.csv.

    \b
    Example:
      visionnmf faces evaluate people/ --corruption occlusion:12 --ranks 10-150/10 --plots --out results
    """
    with running(json_, debug) as run:
        check_there(source, known=choices.FACE_SETS)
        from visionnmf.apps.faces import Plan, parse_corruption, parse_ranks
        from visionnmf.apps.faces import evaluate as compare

        if plots:
            _make_folder_outside(out, source, "--out")
        else:
            make_folder(out)
        plan = Plan(
            methods=Plan.methods if methods is None else _listed(methods),
            corruptions=tuple(parse_corruption(text) for text in corruption),
            ranks=parse_ranks(ranks),
            rules=Plan.rules if rules is None else _listed(rules),
            tests=("clean", "corrupted") if both else ("clean",),
            splits=splits,
            per_person=per_person,
            random_state=seed,
        )
        with run.progress(source, rate_of="") as bar:

            def progress(done: int, total: int) -> None:
                if bar is not None:
                    bar("splits", done, total)

            try:
                report = compare(
                    source, plan, size=size, detect=detect, out=out, jobs=jobs, plots=plots, force=force,
                    progress=progress,
                )  # fmt: skip
            except KeyboardInterrupt:
                say("interrupted; finished splits are kept, and the same command goes on with the others")
                raise
        run.report(report)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _make_folder_outside(out: Path, source: str, option: str) -> None:
    """Make a folder for pictures, unless it would lie among the faces."""
    from visionnmf.io import check_outside

    check_outside(out, source)
    make_folder(out, option)
