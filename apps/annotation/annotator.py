"""The annotator: words for images, from the nearest training images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import (
    RandomState,
    brief,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_numbers,
    check_saved,
    check_seed,
    check_texts,
    check_type,
    shown,
)
from visionnmf._progress import Progress
from visionnmf.engine.blocks import blocks
from visionnmf.exceptions import ParameterError

from .image_codes import PLAIN, Block, Coding, check_coder, coded, fit_blocks
from .likeness import DIRECTIONS, LEAST_LEFT, Likeness, fit_likeness
from .neighbours import (
    METRICS,
    QUERIES,
    TRANSFERS,
    Distance,
    distances_of,
    joint_distance,
    manhattan,
    mutual_distances,
    nearest,
    nearest_and,
)
from .word_probabilities import (
    MIN_WIDTH,
    START,
    Regression,
    Sigmoids,
    fit_regression,
    fit_sigmoids,
    learn_weights,
    share_of_words,
)

Array = NDArray[Any]

MANHATTAN = "manhattan"
JEC_NEIGHBOURS = 5
WEIGHTED_NEIGHBOURS = 300
MIN_LEARNING, MAX_LEARNING = 500, 5000  # training images whose words the weights and sigmoids are learnt from
LANDMARKS = 5000  # training images that vote in the regression
MAX_WORK = 50_000_000_000  # differences of codes in one search for neighbours, some ten seconds
SCALING = 100  # training images whose distances to all others give the largest distance; with `metrics` all do
MAX_VOTE = 1e6  # of a file: ten times the root of the number of landmarks of any real file; means are shares
MAX_CODE = 1e30  # of a file, so that sums over columns are finite
ROUNDS = 2  # neighbours are found by equal weights, and then by the weights that were learnt


@dataclass(frozen=True)
class Neighbourhood:
    """The scores of words for some images, and the training images that they come from.

    `scores` (n_images, n_words) are probabilities for the method "weighted"; for the others only their order counts.
    `neighbours`, `distances` and `weights` (n_images, k) are the nearest training images and how much each counts. With
    an `unlikeness` (n_images,) above 1 scores mean little; it is NaN if too few training images can tell.
    """

    scores: Array
    neighbours: NDArray[np.intp]
    distances: Array
    weights: Array
    unlikeness: Array

    __repr__ = brief


@dataclass(eq=False, repr=False)
class ImageAnnotator(BaseEstimator):
    """Give words to images: those of the nearest training images.

    Each view (a group of features) is coded by its own NMF models, and the Manhattan distances of the scaled codes are
    added. "weighted" learns the weight of each distance and the probability of each word from the words of the
    neighbours (TagProp, Guillaumin et al. 2009) and from a kernel regression on the same distances. "jec" adds the
    distances with equal weights and transfers words greedily (Makadia et al. 2008), "jec-greedy" as Guan et al. (2012).

    Parameters
    ----------
    method : {"weighted", "jec", "jec-greedy"}, default="weighted"
        How words follow from neighbours.
    coder : {"frobenius", "kullback-leibler", "manhattan", "l21", "huber", "or-nmf", "none"} or estimator, \
            default="frobenius"
        What learns the codes of a view: an NMF with this loss, "or-nmf" (an :class:`visionnmf.OnlineNMF`), or an
        unfitted estimator with `n_components`. "none" stands for the features themselves.
    pseudo_inverse : bool, default=False
        Whether the codes are the features times the pseudo-inverse of the components (Guan et al. 2012), which may be
        negative, instead of what the coder's `transform` gives.
    metrics : str, mapping of str to str or None, default=None
        Only with "jec" and "jec-greedy": the distance of each view as the authors of JEC have it. One of "manhattan",
        "euclidean", "chi-squared" and "kullback-leibler", or a mapping from the names of views to these; views that it
        does not name have "manhattan". Distances are divided by the largest of all pairs of training images.
        Features and codes are then not divided by their standard deviations, and `hellinger` has no effect. With None
        they are divided, and compared by their Manhattan distances.
    n_components : int or sequence of int, default=(50, 100, 200)
        Components for each view. Each number gives a distance of its own. At most nine tenths of the view's features
        and a third of the number of images are used.
    hellinger : bool, default=True
        Whether the features of each view, and then their codes, are divided by their sum and replaced by their square
        roots, as in Hellinger distances. It has no effect with `metrics`.
    n_neighbors : int or None, default=None
        None stands for 300 with "weighted" and for 5 with the others.
    n_words : int, default=5
        Words for each image.
    balance : float, default=0.4
        How much rare words are preferred to frequent ones by "weighted", which chooses the words with the highest
        ``probability / frequency ** balance``. With 0 it chooses the most probable words, often the same few.
    random_state : int, RandomState instance or None, default=0
        Seed of the codes, and of the choice of training images for the weights where there are more than 5000.

    Attributes
    ----------
    words_ : ndarray of object [shape=(n_words,)]
        The vocabulary.
    Y_ : scipy.sparse.csr_array of float32 [shape=(n_images, n_words)]
        Words of the training images.
    index_ : ndarray of float32 [shape=(n_images, n_columns)]
        Their codes, scaled and weighted.
    columns_ : ndarray of float32 [shape=(n_columns,)]
        The factors by which the codes were multiplied.
    views_ : dict of str to slice
        The columns of `X` for each view.
    blocks_ : list of Block
        The columns of the codes for each distance that counts.
    weights_ : ndarray [shape=(n_blocks,)]
        The weight of each distance, after it was scaled to a maximum of 1.
    sigmoids_ : Sigmoids or None
        Only with "weighted".
    regression_ : Regression or None
        Only with "weighted".
    likeness_ : Likeness or None
        What tells how unlike the training images others are; None with fewer than 300 of them.
    left_out_recall_ : ndarray [shape=(n_some, 2)]
        Of some training images, at most 500: the shares of their words that are among as many which other images give
        them, and among as many of the most frequent words. A model that was read from a file has none.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.annotation import ImageAnnotator
    >>> rng = np.random.default_rng(0)
    >>> kind = np.arange(40) % 2
    >>> X = rng.gamma(1, size=(40, 6)) * np.where(kind[:, None] == np.arange(6) // 3, 1.0, 0.1)
    >>> Y = kind[:, None] == np.arange(2)
    >>> model = ImageAnnotator("jec", coder="none", n_neighbors=3, n_words=1).fit(X, Y, words=["sea", "sky"])
    >>> bool((model.predict(X) == Y).mean() > 0.9)
    True
    """

    saved_attributes = (
        *("words_", "Y_", "views_", "blocks_", "index_", "columns_", "weights_", "sigmoids_", "regression_"),
        *("likeness_", "n_features_in_"),
    )

    method: str = choices.ANNOTATION_METHOD
    _: KW_ONLY
    coder: Any = choices.ANNOTATION_CODER
    pseudo_inverse: bool = False
    metrics: Mapping[str, str] | str | None = None
    n_components: Any = choices.ANNOTATION_COMPONENTS
    hellinger: bool = True
    n_neighbors: int | None = None
    n_words: int = choices.ANNOTATION_WORDS
    balance: float = choices.ANNOTATION_BALANCE
    random_state: RandomState = choices.RANDOM_STATE

    def fit(
        self,
        X: ArrayLike,
        Y: Any,
        *,
        views: Mapping[str, slice] | None = None,
        words: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from images with words.

        Parameters
        ----------
        X : array-like [shape=(n_images, n_features), >= 0]
            Features of the images.
        Y : array-like or sparse matrix of bool [shape=(n_images, n_words)]
            Which words each image has.
        views : mapping of str to slice, optional
            The columns of each view: all columns, in their order. By default they are one view.
        words : sequence of str, optional
            The vocabulary; numbers by default.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` while the codes are learnt and, with "weighted", the weights.
        """
        ranks = self.check_parameters()  # the numbers of components, for each of which every view gets a model
        X = _features(X)
        self.n_features_in_ = X.shape[1]
        self.views_ = _checked_views(views, X.shape[1])
        self.Y_ = _labels(Y, len(X))
        self.words_ = _vocabulary(words, self.Y_.shape[1])
        unknown = sorted(set(self.metrics) - set(self.views_)) if isinstance(self.metrics, Mapping) else []
        if unknown:  # metrics of views that there are not
            raise ParameterError(f"metrics must name views, {', '.join(self.views_)}; got {shown(unknown)}")
        self.likeness_ = fit_likeness(X, self.views_)
        seed = check_seed(self.random_state)
        self.blocks_, codes = fit_blocks(X, self.views_, self._coding(ranks), seed, progress)
        self._learn(codes, np.random.default_rng(seed), progress or (lambda *_: None))
        return self

    def annotate(self, X: ArrayLike) -> Neighbourhood:
        """Find the scores of words for images with the features `X`, and the training images behind them.

        Returns
        -------
        Neighbourhood
        """
        check_is_fitted(self)
        codes, k, known = self._codes(X), self.n_neighbors_, self.likeness_
        unlikeness = np.full(len(codes), np.nan) if known is None else known.unlikeness(_features(X), self.views_)
        if self.sigmoids_ is None or self.regression_ is None:  # the methods "jec" and "jec-greedy"
            which, distance = nearest(self.index_, codes, k, self._distance_of)
            scores = TRANSFERS[self.method](which, self.Y_.toarray() > 0, self.n_words)
            equal = np.full(which.shape, 1 / which.shape[1], np.float32)  # all neighbours have the same weight
            return Neighbourhood(scores, which, distance, equal, unlikeness)
        # A word's probability has two terms (n_images, n_words): the root of its weighted share among the neighbours,
        # and votes, its score by the kernel regression on the distances to some training images.
        which, distance, votes = nearest_and(self.index_, codes, k, self.regression_.rows, self.regression_.predict)
        weights, shares = share_of_words(distance, which, self.Y_)
        probabilities = expit(self.sigmoids_.logits([np.sqrt(shares), votes]))
        return Neighbourhood(probabilities, which, distance, weights, unlikeness)

    def nearest(self, X: ArrayLike, k: int) -> tuple[NDArray[np.intp], Array]:
        """Find the `k` training images, or all if there are fewer, that are nearest to images with the features `X`.

        Returns
        -------
        which : ndarray of int [shape=(n_images, k)]
            Their indices, the nearest first.
        distance : ndarray of float32 [shape=(n_images, k)]
            Their distances.
        """
        check_is_fitted(self)
        return nearest(self.index_, self._codes(X), check_count(k, "k"), self._distance_of)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the scores of all words (n_images, n_words), which are probabilities for "weighted" only."""
        return self.annotate(X).scores

    def predict(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Return `n_words` words for each image as a boolean matrix (n_images, n_vocabulary); see :meth:`choose`."""
        scores = self.predict_proba(X)
        return as_marks(self.choose(scores, self.n_words), scores.shape)

    def choose(self, scores: Array, n_words: int) -> NDArray[np.intp]:
        """Choose `n_words` words for each image by the scores of :meth:`predict_proba`.

        Returns
        -------
        ndarray of int [shape=(n_images, at most n_words)]
            Columns, the highest score first. "weighted" chooses them with `balance`.
        """
        if self.method != "weighted":
            return best_words(scores, n_words)
        count = np.maximum(np.asarray(self.Y_.sum(axis=0)).ravel(), 1)  # training images with each word
        chosen = best_words(scores / (count / count.max()) ** self.balance, n_words)
        # Frequencies decide which words are chosen, probabilities alone in which order.
        order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
        return np.take_along_axis(chosen, order, axis=1)

    def _codes(self, X: ArrayLike) -> Array:
        """Return the scaled and weighted codes (n_images, n_columns) of features (n_images, n_features)."""
        X = _features(X)
        if X.shape[1] != self.n_features_in_:
            raise ParameterError(f"X must have {self.n_features_in_} features, as in training; got {X.shape[1]}")
        return coded(X, self.views_, self.blocks_, self._coding()) * self.columns_

    def _coding(self, ranks: tuple[int, ...] = ()) -> Coding:
        """Return how features become codes; `ranks`, the numbers of components, are for learning only."""
        return Coding(self.coder, ranks, self.hellinger and self.metrics is None, self.pseudo_inverse)

    def _learn(self, codes: Array, rng: np.random.Generator, step: Progress) -> None:
        """Scale the codes in place, and with "weighted" learn the weights of distances, regression and sigmoids."""
        weighted = self.method == "weighted"
        self.columns_: Array = self._scaling(codes, rng)
        codes *= self.columns_
        n_blocks = len(self.blocks_)
        # one weight a distance; they are learnt from equal ones with the sum START
        self.weights_ = np.full(n_blocks, START / n_blocks if weighted else 1.0)
        self.sigmoids_: Sigmoids | None = None
        self.regression_: Regression | None = None
        if weighted:
            rows, scores = self._learn_words(codes, rng, step)
        else:
            rows = rng.permutation(len(codes))[:MIN_LEARNING]
            others = self._other_neighbours(codes, rows, self._distance_of)
            scores = np.zeros((len(rows), self.Y_.shape[1]))  # of a single image
            if others.size:
                scores = TRANSFERS[self.method](others, self.Y_.toarray() > 0, self.n_words)
        self.left_out_recall_: Array = self._recall(rows[:MIN_LEARNING], scores[:MIN_LEARNING])
        # A weighted sum of Manhattan distances is one Manhattan distance of codes times the weights.
        factors = self._per_column(self.weights_)
        codes *= factors
        self.columns_ *= factors
        # Distances of weight 0 lose their columns, also in `columns_` and `blocks_`.
        self.index_ = self._without_zero_weights(codes)

    def _without_zero_weights(self, codes: Array) -> Array:
        """Remove the columns of `codes` (n_images, n_columns) that count nothing, and return the others."""
        has_weight = self.weights_ > 0
        if has_weight.all() or not has_weight.any():
            return codes
        columns = self._per_column(has_weight) > 0
        kept = [block for block, keep in zip(self.blocks_, has_weight, strict=True) if keep]
        ends = np.cumsum([0, *(block.columns.stop - block.columns.start for block in kept)]).tolist()
        self.blocks_ = [replace(block, columns=slice(*ends[i : i + 2])) for i, block in enumerate(kept)]
        self.weights_ = self.weights_[has_weight]
        self.columns_ = self.columns_[columns]
        return np.ascontiguousarray(codes[:, columns])

    @property
    def n_neighbors_(self) -> int:
        """The number of neighbours that are used: `n_neighbors`, or 300 for "weighted" and 5 for the others."""
        usual = WEIGHTED_NEIGHBOURS if self.method == "weighted" else JEC_NEIGHBOURS
        return self.n_neighbors or usual

    def _metric(self, block: Block) -> str:
        """Return the metric of a block, the codes of one view: that of all views, that of its view, or the default."""
        if isinstance(self.metrics, Mapping):
            return self.metrics.get(block.view, MANHATTAN)
        return self.metrics or MANHATTAN

    @property
    def _distance_of(self) -> Distance:
        """The function for distances of scaled codes: Manhattan, or with `metrics` a sum over the views' blocks."""
        if self.metrics is None:
            return manhattan
        return joint_distance([(block.columns, self._metric(block)) for block in self.blocks_])

    def _scaling(self, codes: Array, rng: np.random.Generator) -> Array:
        """Return factors of columns that give each distance a maximum of 1, and without `metrics` equal deviations."""
        # `metrics` are distances that the user chose for features as they are, so deviations are not made equal then
        deviation = codes.std(axis=0) if self.metrics is None else np.ones(codes.shape[1])
        found = np.where(deviation > 0, 1 / np.maximum(deviation, 1e-12), 1).astype(np.float32)
        some = rng.choice(len(codes), min(SCALING, len(codes)), replace=False)
        # The distances are those from SCALING images to all, because all pairs take quadratic time; JEC has all.
        rows = some if self.metrics is None else np.arange(len(codes))
        for block in self.blocks_:
            part = codes[:, block.columns] * found[block.columns]
            distance_of = METRICS[self._metric(block)]
            largest = max(float(distance_of(part, part[rows[slice(*few)]]).max()) for few in blocks(len(rows), QUERIES))
            found[block.columns] /= max(largest, 1e-9)
        return found

    def _per_column(self, of_blocks: Array) -> NDArray[np.float32]:
        """Repeat a value of each block (n_blocks,) for all of its columns, (n_columns,)."""
        sizes = [block.columns.stop - block.columns.start for block in self.blocks_]
        return np.repeat(of_blocks, sizes).astype(np.float32)

    def _recall(self, rows: Array, scores: Array) -> Array:
        """Return `left_out_recall_` of the training rows `rows` with the scores (n_rows, n_words) by other images."""
        truth, found = self.Y_[rows].toarray(), []
        often = np.tile(np.asarray(self.Y_.sum(axis=0)).ravel(), (len(rows), 1))
        own = truth.sum(axis=1, keepdims=True)
        for by in (scores, often):
            hits = np.take_along_axis(truth, best_words(by, truth.shape[1]), axis=1)
            found.append((hits * (np.arange(truth.shape[1]) < own)).sum(axis=1) / np.maximum(own.ravel(), 1))
        return np.stack(found, axis=1)

    def _other_neighbours(self, codes: Array, rows: Array, distance_of: Distance | None = None) -> NDArray[np.intp]:
        """Return the neighbours (n_rows, k) of the training rows `rows`, without the rows themselves."""
        # a row is its own nearest neighbour, so one more is sought
        index = codes * self._per_column(self.weights_)
        which, _ = nearest(index, index[rows], min(self.n_neighbors_ + 1, len(codes)), distance_of)
        others = which != rows[:, None]
        # Where copies of a row have taken its place, the last is dropped instead, so that all rows keep k neighbours.
        others[others.all(axis=1), -1] = False
        return which[others].reshape(len(rows), which.shape[1] - 1)

    def _learn_words(self, codes: Array, rng: np.random.Generator, step: Progress) -> tuple[Array, Array]:
        """Learn weights, regression and sigmoids from scores that rows get from others; return rows and scores."""
        n_images = len(codes)
        # Each row is compared with all training images, so that large data sets learn from fewer rows.
        count = min(MAX_LEARNING, max(MIN_LEARNING, MAX_WORK // codes.size), n_images)
        landmarks = rng.choice(n_images, min(LANDMARKS, n_images), replace=False)
        rows = landmarks[:count]
        shares = np.zeros((len(rows), self.Y_.shape[1]))
        parts = [np.ascontiguousarray(codes[:, block.columns]) for block in self.blocks_]
        # Neighbours depend on the weights, and these on the neighbours.
        for number in range(ROUNDS if n_images > 1 else 0):
            step("learning words", number, ROUNDS + 1)
            which = self._other_neighbours(codes, rows)  # (n_rows, k), none of them the row itself
            # D (n_rows, k, n_blocks): the distances to each neighbour, by each block
            D = np.stack([distances_of(part, part[rows], which) for part in parts], axis=2)
            self.weights_ = learn_weights(D, which, self.Y_, rows, self.weights_)
            _, shares = share_of_words(D @ self.weights_.astype(np.float32), which, self.Y_)
        step("learning words", ROUNDS, ROUNDS + 1)
        distances = mutual_distances(codes[landmarks] * self._per_column(self.weights_))
        self.regression_, left_out = fit_regression(distances, self.Y_[landmarks].toarray(), landmarks)
        # Smoothed, because the sigmoids need its logit, which is infinite at 0 and 1.
        frequency = (np.asarray(self.Y_.sum(axis=0)).ravel() + 0.5) / (n_images + 1)
        truth = self.Y_[rows].toarray() > 0
        # Roots of the shares spread the many small ones, between which the sigmoids have to tell.
        terms = [np.sqrt(shares), left_out[:count]]
        self.sigmoids_ = fit_sigmoids(terms, truth, frequency)
        step("learning words", ROUNDS + 1, ROUNDS + 1)
        return rows, self.sigmoids_.logits(terms)

    def _check_metrics(self) -> None:
        """Raise ParameterError for metrics that there are not, or that do not go with the other parameters."""
        metrics = self.metrics.values() if isinstance(self.metrics, Mapping) else [self.metrics]
        for metric in metrics if self.metrics is not None else []:
            check_choice(metric, "metrics", choices.ANNOTATION_METRICS)
        if self.metrics is not None and self.method == "weighted":
            raise ParameterError(f"metrics must be left out with the method 'weighted'; got {shown(self.metrics)}")
        if self.pseudo_inverse and isinstance(self.coder, str) and self.coder == PLAIN:
            raise ParameterError("pseudo_inverse must be left out with the coder 'none', which has no components")
        # these need codes >= 0, and those of pseudo-inverses may be negative
        if self.pseudo_inverse and set(metrics) & {"chi-squared", "kullback-leibler"}:
            raise ParameterError(
                f"metrics must be manhattan or euclidean with pseudo_inverse; got {shown(self.metrics)}"
            )

    def check_parameters(self) -> tuple[int, ...]:
        """Raise ParameterError for a parameter with a value that is not allowed.

        Returns
        -------
        tuple of int
            The numbers of components.
        """
        check_choice(self.method, "method", choices.ANNOTATION_METHODS)
        check_coder(self.coder)
        check_flag(self.pseudo_inverse, "pseudo_inverse")
        check_flag(self.hellinger, "hellinger")
        self._check_metrics()
        check_count(self.n_words, "n_words")
        check_number(self.balance, "balance", 0, 1)
        if self.n_neighbors is not None:
            check_count(self.n_neighbors, "n_neighbors")
        ranks = self.n_components if isinstance(self.n_components, list | tuple) else [self.n_components]
        if not ranks:
            raise ParameterError("n_components must be a whole number >= 1, or several; got none")
        return tuple(check_count(rank, "n_components") for rank in ranks)

    def _check_state(self) -> None:
        """Raise ValueError unless the fitted attributes, which a file gave, are possible and fit together."""
        self.check_parameters()
        n_images, n_columns = check_saved(self.index_, "index_", (None, None), "float32", low=-MAX_CODE, high=MAX_CODE)
        n_words = len(check_texts(self.words_.tolist(), "words_"))
        if not (sp.issparse(self.Y_) and self.Y_.shape == (n_images, n_words) and self.Y_.nnz <= n_images * n_words):
            raise ValueError("Y_ must be the words of the images")
        check_saved(self.Y_.data, "Y_", (None,), "float32", low=1, high=1, empty=True)
        check_saved(self.columns_, "columns_", (n_columns,), "float32", low=0, high=MAX_CODE)
        if _count_columns(self.views_.values()) != self.n_features_in_:
            raise ValueError("views_ must have the columns of the features")
        if _count_columns(check_type(block, "blocks_", Block).columns for block in self.blocks_) != n_columns:
            raise ValueError("blocks_ must have the columns of the index")
        for block in self.blocks_:
            if (self.coder == PLAIN) != (block.coder is None):
                raise ValueError("coder must be 'none' for features as they are, and for nothing else")
            block.check(self.views_[block.view])
        check_saved(self.weights_, "weights_", (len(self.blocks_),), "float64", low=0)
        if self.likeness_ is not None:
            directions, deviations, known, scales = check_type(self.likeness_, "likeness_", Likeness)
            check_saved(directions, "directions", (DIRECTIONS, self.n_features_in_), "float32", low=-2, high=2)
            check_saved(deviations, "deviations", (len(self.views_), DIRECTIONS), "float32", low=LEAST_LEFT, high=2)
            largest = 2 / LEAST_LEFT
            check_saved(known, "known", (len(self.views_), None, DIRECTIONS), "float32", low=-largest, high=largest)
            check_saved(scales, "scales", (len(self.views_), 2), "float32", low=LEAST_LEFT)
        if self.index_.min() < 0 and not self.pseudo_inverse:
            raise ValueError("index_ must not be negative")
        if self.method != "weighted":
            check_type(self.sigmoids_, "sigmoids_", type(None)), check_type(self.regression_, "regression_", type(None))
            return
        slope, offset = check_type(self.sigmoids_, "sigmoids_", Sigmoids)
        check_saved(slope, "slope", (2, n_words), "float32", low=0)
        check_saved(offset, "offset", (n_words,), "float32")
        votes = check_type(self.regression_, "regression_", Regression)
        (n_landmarks,) = check_saved(votes.rows, "rows", (None,), "int32", low=0, high=n_images - 1)
        check_saved(votes.votes, "votes", (n_landmarks, n_words), "float32", low=-MAX_VOTE, high=MAX_VOTE)
        check_saved(votes.mean, "mean", (n_words,), "float32", low=-MAX_VOTE, high=MAX_VOTE)
        check_saved(votes.width, "width", (1,), "float32", low=float(MIN_WIDTH))


def _count_columns(slices: Iterable[slice]) -> int:
    """Return the number of columns that slices cover one after the other; ValueError if they do not follow so."""
    end = 0
    for each in slices:
        if not isinstance(each, slice) or each.step is not None or each.start != end or not each.stop > end:
            raise ValueError("columns must follow one another")
        end = each.stop
    return end


def best_words(scores: Array, n_words: int) -> NDArray[np.intp]:
    """Return the columns with the highest scores, the highest first; among equal scores the first column wins."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :n_words]


def as_marks(chosen: NDArray[np.intp], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a boolean matrix (n_images, n_words) that is true at the columns `chosen` (n_images, k) of each row."""
    marks = np.zeros(shape, bool)
    np.put_along_axis(marks, chosen, True, axis=1)
    return marks


def _features(X: ArrayLike) -> Array:
    """Return `X` as a float32 matrix, or raise ParameterError if it is empty, not finite or negative."""
    array = check_numbers(X, "X", np.float32)
    if array.ndim != 2 or 0 in array.shape:
        cure = "; FeatureExtraction().fit_transform makes features of images" if array.ndim > 2 else ""
        raise ParameterError(f"X must have shape (n_images, n_features), and not be empty; got {array.shape}{cure}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ParameterError("X must hold finite numbers >= 0; got others")
    return array


def _checked_views(views: Mapping[str, slice] | None, n_features: int) -> dict[str, slice]:
    """Return the columns of each view, which must cover all features in order; None makes one view of all."""
    found = {"all": slice(0, n_features)} if views is None else dict(views)
    try:
        covered = _count_columns(found.values())
    except ValueError:
        covered = 0
    if covered != n_features:
        raise ParameterError(f"views must divide the {n_features} columns of X in their order; got {shown(views)}")
    return found


def _labels(Y: Any, n_images: int) -> Any:
    """Return `Y` (n_images, n_words) as a sparse float32 matrix of ones, or raise ParameterError."""
    given = Y
    if not sp.issparse(Y):
        try:
            Y = np.asarray(Y, np.float32)
        except (TypeError, ValueError):
            Y = None
        if Y is None or Y.ndim != 2:
            raise ParameterError(
                f"Y must be a matrix of 0 and 1, (n_images, n_words); got {shown(given)}; "
                "sklearn.preprocessing.MultiLabelBinarizer makes one of lists of words"
            )
    array = sp.csr_array(Y).astype(np.float32)
    if array.shape[0] != n_images or not array.shape[1]:
        raise ParameterError(f"Y must have a row for each image, {n_images}, and a column a word; got {array.shape}")
    array.eliminate_zeros()
    if (array.data != 1).any():
        raise ParameterError("Y must hold 0 and 1 alone; got other values")
    return array


def _vocabulary(words: Any, n_words: int) -> Array:
    """Return the names of the words (n_words,), numbers by default, or raise ParameterError if they do not fit."""
    names = [str(i) for i in range(n_words)] if words is None else list(words)
    if len(names) != n_words or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"words must be a name for each column of Y, {n_words}; got {len(names)}")
    return np.array(names, object)
