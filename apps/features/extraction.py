"""From images to a table of their features."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from visionnmf import choices
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.cluster import open_workers
from visionnmf.apps.feature_tables import FeatureTable, check_format, check_table_size, write_table
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.features import Extractor, FeatureExtraction, load_extraction, save_extraction
from visionnmf.io import check_outputs, check_parents, expand_images, together
from visionnmf.io.inputs import names_of, table_names

from .settings import ExtractorFiles


@takes_records
def extract_features(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    kinds: Sequence[str | Extractor] = choices.FEATURE_KINDS,
    files: ExtractorFiles = ExtractorFiles(),
    n_jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Extract features from images, and write them as a table.

    Parameters
    ----------
    sources : sequence of str or Path
        Images, patterns, and folders. Of a folder all images are taken, also those of the folders below.
    out : str or Path
        The table: ``.npz``, ``.csv`` or ``.parquet``; see :func:`~visionnmf.apps.feature_tables.read_table`.
    kinds : sequence of str or Extractor, default=("gist", "dense-hue", "dense-sift", "lab")
        See :data:`visionnmf.features.KINDS`. Dictionaries are learnt from the images.
    files : ExtractorFiles, optional
        Fitted extractors to use in place of `kinds`, and a file for the fitted extractors.
    n_jobs : int or None, default=None
        Number of processes; -1 uses all processors.
    force : bool, default=False
        Whether existing outputs may be replaced.
    progress : callable, optional
        Called with a stage, how much of it is done, and how much there is to do; see
        :meth:`.FeatureExtraction.extract`.

    Returns
    -------
    Report
        Its figures are ``images`` (number of images in the table), ``features`` (their number for each view),
        ``seconds`` and ``images_per_second``, including the learning of dictionaries. Images that cannot be read are in
        `skipped`.

    Raises
    ------
    MediaError
        If no image can be read, an output exists or cannot be written, or the table would be too large to be read.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> from visionnmf.apps.features import extract_features
    >>> extract_features(["photo.png"], "features.npz", kinds=["lab"], force=True).outputs
    ['features.npz']
    """
    check_format(out)
    outputs = [Path(path) for path in (out, files.save) if path is not None]
    names = names_of(sources)
    images = expand_images(names)
    inputs: list[str | Path] = [*images, *([files.use] if files.use is not None else [])]
    check_outputs(outputs, force, inputs=inputs)
    check_parents(outputs)
    extraction = FeatureExtraction(kinds) if files.use is None else load_extraction(files.use)
    extraction.set_params(n_jobs=n_jobs)
    start = time.perf_counter()

    def extracted(stage: str, done: int, total: int | None) -> None:
        """Refuse a table that would be too large as soon as its size is known, then report progress."""
        if stage == "extracting" and done == 1:  # after learning, the number of features is known
            check_table_size(Path(out), 4 * extraction.n_features_out_ * len(images))
        if progress is not None:
            progress(stage, done, total)

    with warnings.catch_warnings(), open_workers() as pool:
        warnings.simplefilter("ignore", UserWarning)  # about transparency, for each image
        found = extraction.extract(images, fit=files.use is None, progress=extracted, pool=pool)
    table = FeatureTable(
        found.X,
        table_names([images[i] for i in found.readable], names),
        extraction.get_feature_names_out().tolist(),
        extraction.groups_,
        list(extraction.views_),
    )
    with together():
        write_table(table, out, force=force)
        if files.save is not None:
            save_extraction(extraction, files.save, force=force)
    seconds = time.perf_counter() - start
    n, features = len(found.X), {view: columns.stop - columns.start for view, columns in extraction.views_.items()}
    views = ", ".join(f"{view} {count}" for view, count in features.items())
    speed = f"{seconds:.1f} s ({n / seconds:.1f} images/s)"
    return Report(
        figures={"images": n, "features": features, "seconds": seconds, "images_per_second": n / seconds},
        lines=[f"{counted(n, 'image')}, {counted(sum(features.values()), 'feature')} ({views}), {speed}"],
        inputs=names,
        outputs=[str(path) for path in outputs],
        skipped=found.skipped,
        notes=found.notes,
    )
