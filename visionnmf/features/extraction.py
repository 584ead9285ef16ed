"""Several extractors together: one matrix, and which of its columns belong to which extractor."""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import brief, check_count, shown
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf._typing import Array
from visionnmf.choices import FEATURE_KINDS
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import MediaError, ParameterError, VisionNMFError
from visionnmf.io import takes_files
from visionnmf.io.decoding import decode_apart, decodes_apart

from .extractor import MAX_PIXELS, Extractor, Images, PreparedImage, check_images, differing, warn_of
from .extractor_kinds import make_extractors


class Row(NamedTuple):
    """The features of an image, a note on the range of its pixels and those on its file, or why it cannot be read."""

    features: NDArray[np.float32]
    note: str = ""
    of_file: tuple[str, ...] = ()
    error: MediaError | None = None
    white: str = ""  # as of a `PreparedImage`


BATCH = 16  # images that another process gets at a time
AHEAD = 256  # batches that a pool has at a time


@dataclass(frozen=True)
class Extracted:
    """The features of the images that could be read, from :meth:`FeatureExtraction.extract`.

    Attributes
    ----------
    X : ndarray of float32 [shape=(n_readable, n_features), >= 0]
    readable : ndarray of int [shape=(n_readable,)]
        The images that the rows belong to.
    skipped : list of str
        A sentence for each image that could not be read.
    notes : list of str
        A sentence on each range of pixel values that was guessed, and on what was left out of files such as animations,
        and in how many images.
    """

    X: NDArray[np.float32]
    readable: NDArray[np.intp]
    skipped: list[str]
    notes: list[str]

    __repr__ = brief


@dataclass(eq=False, repr=False)
class FeatureExtraction(TransformerMixin, BaseEstimator):
    """Describes images by several kinds of features at once; each image is read once.

    Parameters
    ----------
    kinds : sequence of str or Extractor, default=("gist", "dense-hue", "dense-sift", "lab")
        Names of :data:`.KINDS`, with another layout if wanted (``"rgb-3x1"``), names of :data:`.PRESETS`, or
        extractors with other parameters.
    n_jobs : int or None, default=None
        The number of processes; -1 takes as many as there are processors. The result is the same.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels. This replaces the extractors' own parameter.

    Attributes
    ----------
    extractors_ : dict of str to Extractor
        The fitted extractors by name; the features of each are a view.
    views_ : dict of str to slice
        The columns of each view.
    groups_ : ndarray of int [shape=(n_features,)]
        The number of the view that each column belongs to.
    n_features_out_ : int

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction
    >>> images = [make_mosaic(64, 64, random_state=seed).image for seed in range(3)]
    >>> FeatureExtraction(["lab", "rgb"]).fit_transform(images).shape
    (3, 8192)
    """

    kinds: Sequence[str | Extractor] = FEATURE_KINDS
    _: KW_ONLY
    n_jobs: int | None = None
    max_pixels: int | None = MAX_PIXELS

    @classmethod
    def from_fitted(cls, extractors: Sequence[Extractor], *, max_pixels: int | None = MAX_PIXELS) -> Self:
        """Make a union of extractors that are fitted already, such as those of a file."""
        union = cls(extractors, max_pixels=max_pixels)
        union._begin()  # checks the parameters; its unfitted copies are replaced by the fitted extractors
        union.extractors_ = {extractor.view: extractor.set_params(max_pixels=max_pixels) for extractor in extractors}
        union._record()  # the columns of each view, which are known once the extractors are fitted
        return union

    def fit(self, images: Images, y: Any = None) -> Self:
        """Fit the extractors to `images`, as :meth:`transform` takes them."""
        return self._fit(check_images(images), progress=None)

    def _fit(self, images: Images, progress: Progress | None) -> Self:
        """Fit the extractors to images, and call ``progress("learning", done, total)`` before each of them."""
        self._begin()  # checks the parameters, and makes unfitted `extractors_`
        for done, extractor in enumerate(self.extractors_.values()):
            if progress is not None:
                progress("learning", done, len(self.extractors_))
            extractor.fit(images)
        self._record()  # the columns of each view, which are known once the extractors are fitted
        return self

    def transform(self, images: Images) -> NDArray[np.float32]:
        """Describe images.

        Parameters
        ----------
        images : sequence of array-like, str or Path

        Returns
        -------
        ndarray of float32 [shape=(n_images, n_features), >= 0]
            The views side by side; :attr:`views_` has their columns.

        Raises
        ------
        ParameterError, MediaError
            If one of `images` is not an image, or a file cannot be read.
        """
        rows = []
        for row in self._rows(images):
            if row.error is not None:
                raise row.error
            rows.append(row)
        warn_of([*(row.note for row in rows), *differing({row.white for row in rows})])
        for note in dict.fromkeys(note for row in rows for note in row.of_file):
            warnings.warn(f"images: {note}", UserWarning, stacklevel=3)
        return np.stack([row.features for row in rows])

    def extract(
        self, images: Images, *, fit: bool = False, progress: Progress | None = None, pool: Executor | None = None
    ) -> Extracted:
        """Describe the images that can be read.

        Parameters
        ----------
        images : sequence of array-like, str or Path
        fit : bool, default=False
            First fit to the images that can be read.
        progress : callable, optional
            Called as ``progress("extracting", done, total)`` after each image; with `fit`, before that also with the
            stages "checking", which counts images, and "learning", which counts extractors.
        pool : Executor, optional
            What describes the images in place of `n_jobs` processes. The extractors learn in this process.

        Returns
        -------
        Extracted

        Raises
        ------
        MediaError
            If none of the images can be read; it says what is wrong with the first.
        """
        images = check_images(images)
        if fit:
            good = []
            for i, image in enumerate(images):
                if _is_readable(image):
                    good.append(image)
                if progress is not None:
                    progress("checking", i + 1, len(images))
            self._fit(good or images, progress)
        rows, readable, skipped = [], [], []
        notes: Counter[str] = Counter()  # how many images have each
        whites = set[str]()
        for i, row in enumerate(self._rows(images, pool)):
            if row.error is not None:
                skipped.append(row.error)
            else:
                rows.append(row.features)
                readable.append(i)
                notes.update(filter(None, (row.note, *row.of_file)))
                whites.add(row.white)
            if progress is not None:
                progress("extracting", i + 1, len(images))
        if not rows:
            raise skipped[0]
        return Extracted(
            np.stack(rows),
            np.array(readable, np.intp),
            [str(error) for error in skipped],
            [f"{note}, in {count} of {counted(len(images), 'image')}" for note, count in notes.items()]
            + differing(whites),
        )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features: the view's name, what is measured, and in which cell."""
        check_is_fitted(self)
        return np.concatenate([extractor.get_feature_names_out() for extractor in self.extractors_.values()])

    def _begin(self) -> None:
        """Check the parameters, and make the extractors, not yet fitted: `extractors_`, by the names of their views."""
        listed = isinstance(self.kinds, list | tuple) and all(isinstance(kind, str | Extractor) for kind in self.kinds)
        if not listed or not self.kinds:
            raise ParameterError(f"kinds must be a list of at least one kind of features; got {shown(self.kinds)}")
        if self.n_jobs is not None and self.n_jobs != -1:
            check_count(self.n_jobs, "n_jobs")
        if self.max_pixels is not None:
            check_count(self.max_pixels, "max_pixels")
        self.extractors_: dict[str, Extractor] = {}
        for extractor in make_extractors(self.kinds):
            if extractor.view in self.extractors_:
                raise ParameterError(f"kinds must be different; got {extractor.view!r} twice")
            self.extractors_[extractor.view] = extractor.set_params(max_pixels=self.max_pixels)

    def _record(self) -> None:
        """Set `views_`, `groups_` and `n_features_out_`: the columns of each view, from the fitted extractors."""
        sizes = [extractor.n_features_out_ for extractor in self.extractors_.values()]
        ends = np.cumsum([0, *sizes]).tolist()
        self.views_ = {view: slice(*ends[i : i + 2]) for i, view in enumerate(self.extractors_)}
        self.groups_ = np.repeat(np.arange(len(sizes)), sizes)
        self.n_features_out_ = int(ends[-1])

    def _rows(self, images: Images, pool: Executor | None = None) -> Iterator[Row]:
        """Yield the features of each image, or the error, by batches in the `pool` or joblib."""
        check_is_fitted(self)
        images = check_images(images)
        batches = (images[start : start + BATCH] for start in range(0, len(images), BATCH))
        work = partial(_describe, list(self.extractors_.values()), self.max_pixels, decodes_apart())
        described = _in_order(pool, work, batches) if pool is not None else _by_joblib(work, batches, self.n_jobs)
        try:
            for rows in described:
                yield from rows
        except BrokenProcessPool as error:  # the base class of joblib's TerminatedWorkerError
            raise VisionNMFError(
                "a process was ended from outside, perhaps because memory ran out; fewer at a time (n_jobs) may fit"
            ) from error

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # lists of images
        tags.no_validation = True
        return tags


@takes_files
@one_blas_thread()
def _describe(extractors: list[Extractor], max_pixels: int | None, apart: bool, images: Images) -> list[Row]:
    """Return the features of each image, or the error; `apart` as in the process that asks for them."""
    if apart:
        decode_apart()
    rows: list[Row] = []
    for image in images:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                prepared = PreparedImage(image, max_pixels)
        except MediaError as error:
            rows.append(Row(np.empty(0, np.float32), error=error))
        else:
            features = np.concatenate([extractor.describe(prepared) for extractor in extractors])
            name = str(image) if isinstance(image, str | Path) else ""
            of_file = (str(warning.message).removeprefix(f"{name}: ") for warning in caught)
            rows.append(Row(features, prepared.note, tuple(of_file), white=prepared.white))
    return rows


def _in_order(pool: Executor, work: Callable[[Images], list[Row]], batches: Iterator[Images]) -> Iterator[list[Row]]:
    """Yield ``work(batch)`` of each batch in order; a pool does the work on the next `AHEAD` batches."""
    waiting: deque[Future[list[Row]]] = deque()
    for batch in batches:
        waiting.append(pool.submit(work, batch))
        if len(waiting) == AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _by_joblib(
    work: Callable[[Images], list[Row]], batches: Iterator[Images], n_jobs: int | None
) -> Iterator[list[Row]]:
    """Yield ``work(batch)`` of each batch in order, from joblib's processes."""
    workers = Parallel(n_jobs=n_jobs, return_as="generator")
    # When a job comes, joblib replaces processes that have ended after 300 s without work, but it watches the new ones
    # only from the next job on. Without this first job, the death of one with the only batch is noticed after 300 s.
    list(workers([delayed(bool)()]))
    yield from workers(delayed(work)(batch) for batch in batches)


def _is_readable(image: ArrayLike | str | Path) -> bool:
    """Return whether an image can be read, by reading it."""
    try:
        PreparedImage(image, 1)  # reduced to one pixel, because only errors count
    except MediaError:
        return False
    return True
