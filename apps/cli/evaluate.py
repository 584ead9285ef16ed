"""``visionnmf evaluate``: a command for each application, which share all that is not of their data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visionnmf import choices
from visionnmf._text import counted
from visionnmf.apps.evaluate.settings import (
    Comparison,
    DetectorConditions,
    FaceConditions,
    Labels,
    RandomSplits,
    ViewConditions,
)
from visionnmf.apps.faces.settings import FaceReading
from visionnmf.apps.masquerade.settings import SessionCutting
from visionnmf.apps.settings import Option
from visionnmf.io.inputs import expand_inputs

from .annotation import Labels as Words, Model
from .console import say, verbosity
from .multiview import Key, Sources
from .options import given, needs, one_of, with_records
from .run import Run, check_exists, running

if TYPE_CHECKING:
    from visionnmf.apps.evaluate import Study

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@contextmanager
def _comparing(comparison: Comparison, *paths: str | Path, known: Sequence[str] = ()) -> Iterator[Run]:
    """Run a command on existing `paths`; --force is refused where there is nothing to replace."""
    needs("force", "--out or --report", comparison.out or "report" in given)
    with running() as run:
        if paths:
            check_exists(*paths, known=known)
        yield run


def _compare(run: Run, source: str, comparison: Comparison, study: Study) -> None:
    """Run the jobs of a study, and print the table."""
    from visionnmf.apps.evaluate import evaluate

    if len(study.jobs) > 2 and not verbosity().quiet:
        say(f"{counted(len(study.jobs), 'job')}; --methods takes fewer methods, and --jobs runs several jobs at a time")
    with run.steps(source, "jobs") as progress:
        report = evaluate(study, comparison, progress=progress)
    run.show(report)


@command.command("segment")
@with_records
def segment(
    images: Annotated[Path, Option("Folder of images.", metavar="DIR")],
    truth: Annotated[
        Path, Option("Folder of NAME.npz, BSDS500's NAME.mat, or NAME.png, NAME_1.png, ...", metavar="DIR")
    ],
    comparison: Comparison,
) -> None:
    """Compare methods of segmentation on images that people segmented.

    The table has covering, probabilistic Rand index and variation of information at the best scale for all images and
    at the best scale of each (ois).

    \b
    Methods (default: all; visionnmf is our tree of regions, cut at each scale):
      nmf           visionnmf segment --method nmf
      felzenszwalb  Felzenszwalb and Huttenlocher 2004
      slic+ncut     normalised cuts of SLIC superpixels
      k-means       k-means of colour and place
      spectral      spectral clustering of superpixels
      quickshift    Vedaldi and Soatto 2008
      whole         the whole picture as one segment

    \b
    Example:
      visionnmf evaluate segment --images photographs --truth segmentations --methods visionnmf,nmf --out out
    """
    with _comparing(comparison, images) as run:
        check_exists(truth)
        from visionnmf.apps.evaluate import segment as application

        _compare(run, str(images), comparison, application.study(images, truth, comparison))


@command.command("background")
@with_records
def background(
    clips: Annotated[
        list[str], typer.Argument(metavar="CLIP...", help="Folders with input and groundtruth, or folders of such.")
    ],
    comparison: Comparison,
) -> None:
    """Compare methods of background and foreground on clips with true masks.

    The table has CDnet's seven metrics, errors of the background where the true one is known, processor time, frames
    per second and memory, for each method and for the temporal median, MOG2 and KNN.

    \b
    Methods (default: ours):
      ours, mahnmf, rpca, godec; median, mog2 and knn are always compared

    \b
    Example:
      visionnmf evaluate background clip/ --methods ours,rpca --out scores
    """
    with _comparing(comparison) as run:
        from visionnmf.apps.evaluate import background as application

        _compare(run, "clips", comparison, application.study(clips, comparison))


@command.command("faces")
@with_records
def faces(
    source: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder with a sub-folder per person, .npz, .mat, or orl, yale, yaleb.")
    ],
    comparison: Comparison,
    splits: RandomSplits,
    conditions: FaceConditions,
    reading: FaceReading,
) -> None:
    """Compare methods of face recognition on random splits of a data set, by default ten.

    Kinds of corruption: occlusion (side of the block in pixels), salt_and_pepper and dead_lines (share), laplace and
    gaussian (grey levels), poisson (photons per grey level).

    \b
    Methods (default: all but whitened and pseudo-inverse):
      recognizer        FaceRecognizer, as faces train has it
      whitened          its cleaned images, projected on its components and whitened
      manhattan         NMF with the Manhattan loss and a nuclear penalty
      pseudo-inverse    the same, images projected on its components
      frobenius         least-squares NMF
      kullback-leibler  NMF with the Kullback-Leibler divergence
      pca               eigenfaces
      raw               the nearest training image
      lda               linear discriminants after PCA
      crc               collaborative representation

    \b
    Example:
      visionnmf evaluate faces people/ --corruption occlusion:12 --ranks 10-150/10 --plots --out results
    """
    with _comparing(comparison, source, known=choices.FACE_SETS) as run:
        from visionnmf.apps.evaluate import faces as application

        study = application.study(source, comparison, splits=splits, conditions=conditions, reading=reading)
        _compare(run, source, comparison, study)


@command.command("annotate")
@with_records
def annotate(
    model: Model,
    source: Annotated[str, typer.Argument(metavar="DIR", help="Images that were not used for training, or a table.")],
    comparison: Comparison,
    labels: Words = None,
    top: Annotated[int, Option("Words that each image gets.", metavar="K", low=1)] = choices.ANNOTATION_WORDS,
) -> None:
    """Compare the words of a model, and the most frequent words, with those that images have.

    AC, RC and NS are accuracy, recall and normalised score of images; precision, recall, F1, N+ and mAP are means over
    words. N+ is the number of words that were given rightly at least once.

    \b
    Example:
      visionnmf evaluate annotate words.npz others/ --labels words.csv
    """
    with _comparing(comparison) as run:
        from visionnmf.apps import annotation
        from visionnmf.apps.evaluate import annotate as application

        known = annotation.load(model)
        with run.progress(source, rate_of="images") as progress:
            study = application.study(known, source, comparison, labels=labels, top=top, progress=progress)
        _compare(run, source, comparison, study)


@command.command("masquerade")
@with_records
def masquerade(
    histories: Annotated[list[str], typer.Argument(metavar="HISTORY...", help="Logs of two users or more.")],
    comparison: Comparison,
    splits: RandomSplits,
    conditions: DetectorConditions,
    cutting: SessionCutting,
    format_: Annotated[str, Option(one_of(("auto", *choices.LOG_FORMATS)))] = "auto",
) -> None:
    """Compare detectors of masqueraders by the later sessions of each user against those of the others.

    A split is a random draw of the others' sessions; there is one by default.

    \b
    Methods (default: scorer):
      scorer              the default of masquerade train
      nmf                 masquerade train --method nmf
      mex-perera          the paper's NMF of weighted counts, with distance 1 for a session of unseen commands
      mex-perera-literal  the same with distance 0, as its formula has it
      wang                NMF of frequencies
      ecm                 eigen co-occurrence matrices
      naive-bayes         multinomial naive Bayes of one class

    \b
    Examples:
      visionnmf evaluate masquerade histories/*
      visionnmf evaluate masquerade histories/* --methods all --plots --out results --jobs 4
    """
    with _comparing(comparison, *histories) as run:
        from visionnmf.apps.evaluate import masquerade as application

        options: dict[str, Any] = {"splits": splits, "conditions": conditions, "cutting": cutting, "format": format_}
        _compare(run, "histories", comparison, application.study(expand_inputs(histories), comparison, **options))


@command.command("multiview")
@with_records
def multiview(
    views: Sources,
    labels: Labels,
    comparison: Comparison,
    splits: RandomSplits,
    conditions: ViewConditions,
    key: Key = None,
) -> None:
    """Compare methods for several views on random splits of labelled samples, by default three.

    The scores are the accuracy of a linear support vector machine on new samples (average precision for words), and the
    accuracy and normalised mutual information of clusters of codes. The machine gets the codes, and for MultiviewNMF
    the views as well. Of several ranks, each split takes the one with the best accuracy in cross-validation.

    The default takes two to three minutes of one processor for 400 samples of two views with 300 features together.

    \b
    Methods (default: multiview, joint, pca, concatenation):
      multiview             MultiviewNMF
      multiview-constraint  its constraint form (equation 40 of Guan et al. 2012)
      multiview-frobenius   MultiviewNMF by least squares
      eucnmf-gs             NMF with group sparsity (Kim et al. 2012, equation 64 of Guan et al. 2012)
      flss                  factorised latent spaces with structured sparsity (Jia et al. 2010)
      manhattan             Manhattan NMF of the views side by side
      frobenius             least-squares NMF of the views side by side
      joint                 scikit-learn's NMF of the views side by side
      pca                   PCA of the views side by side
      concatenation         the views themselves

    \b
    Conditions:
      clean, salt-and-pepper, view-corrupted (one view of a third of the samples is noise),
      view-missing (each view in turn, at test), train-missing (30 % of the views)

    \b
    Example:
      visionnmf evaluate multiview mv.npz --conditions clean,view-missing --out results
    """
    with _comparing(comparison) as run:
        from visionnmf.apps.evaluate import multiview as application

        options: dict[str, Any] = {"splits": splits, "conditions": conditions, "labels": labels, "key": key}
        _compare(run, views[0], comparison, application.study(views, comparison, **options))
