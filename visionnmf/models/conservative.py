"""Conservative learning of a non-negative autoencoder, sample by sample."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_count, check_flag, check_number, check_random_state, check_rank, check_saved
from visionnmf._typing import Array
from visionnmf.engine.online import conservative

from .data_checks import check_data
from .linear_model import LinearModel

# Relative error up to which a model may still be learning from chunks. It is 1 for a model of zeros.
LEARNING = 10


@dataclass(eq=False, repr=False)
class ConservativeNMF(LinearModel):
    r"""Non-negative autoencoder that learns each sample by the least change.

    Keeps an encoder ``E`` and components ``H >= 0``, whose transpose is the decoder ``D``. For each sample ``x``,
    scaled to unit norm, both are changed by as little as reproduces it with non-negative codes:

    .. math:: \min_{dE, dD}\; \tfrac12 \|dE\|_F^2 + \tfrac1{2w} \|dD\|_F^2
              \quad \text{with} \quad y = (E + dE) x \ge 0, \quad (D + dD)\, y = x, \quad D + dD \ge 0

    to first order, by a single iteration of conjugate gradients (Elser, steps 1 to 11). So learning a sample disturbs
    what was learnt before as little as possible. There is no step length, memory is constant, and the codes of new
    samples are one matrix product. The fit is not as close as that of :class:`NMF`, whose codes are optimal. Penalties,
    weights and missing entries are not possible, because the encoder needs the whole sample.

    Rows of `X` are samples.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the number of features.
    w : float, default=1e-5
        How much the decoder may change compared with the encoder. Take a small value for natural data, which the
        components can only approximate, and about 1 for data that are exact mixtures.
    batch_size : int, default=1024
        Number of samples for each entry of `errors_`; `fit` lowers it to the number of samples if there are fewer.
        Learning depends neither on it nor on the sizes of the chunks.
    max_iter : int, default=10
        Passes of `fit` over the data.
    shuffle : bool, default=False
        Whether `fit` takes the samples in a new order in each pass, which data sorted by kind need.
    random_state : int, RandomState instance or None, default=None
        Seed of the start, an encoder of uniform numbers from -1 to 1, and of `shuffle`.

    Attributes
    ----------
    components_, encoder_ : ndarray [shape=(n_components, n_features)]
        ``H`` (>= 0, without a common norm) and ``E`` at the end of the best batch so far, or the current ones before
        the first batch is full; in the dtype of the training data (float32 or float64).
    last_components_, last_encoder_ : ndarray [shape=(n_components, n_features)]
        The current state of learning.
    errors_ : ndarray [shape=(n_batches,), >= 0]
        For each batch the mean of ``|x - D y|`` over its samples with ``|x| = 1``, each before it was learnt.
    best_error_ : float
        The smallest of them; infinite before the first batch is full.
    n_components_, n_samples_seen_ : int
        Number of components, and of samples learnt in all passes.
    n_iter_ : int
        Passes of `fit`, or calls of `partial_fit`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    ProjectiveNMF : Also has codes that are a linear map, by the transposed components.

    References
    ----------
    V. Elser, "Online Non-negative Matrix Factorization", notes on conservative learning.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import ConservativeNMF
    >>> rng = np.random.default_rng(0)
    >>> parts = np.kron(np.eye(3), np.ones(4))  # three parts of four pixels
    >>> model = ConservativeNMF(3, w=1, batch_size=100, random_state=0)
    >>> for _ in range(40):
    ...     model = model.partial_fit(rng.random((100, 3)) @ parts)
    >>> bool(model.best_error_ < 1e-3 < 0.1 < model.errors_[0])
    True
    """

    saved_attributes = (*LinearModel.saved_attributes, *("encoder_", "last_components_", "last_encoder_"))
    saved_attributes = (*saved_attributes, "errors_", "best_error_", "n_samples_seen_", "_open_batch")

    n_components: int | None = None
    _: KW_ONLY
    w: float = 1e-5
    batch_size: int = 1024
    max_iter: int = 10
    shuffle: bool = False
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: Any = None) -> ConservativeNMF:
        """Learn the samples of `X` (dense or sparse, >= 0), `max_iter` times, and forget what was learnt before.

        float32 stays float32; everything else is converted to float64. Raises ValueError if `X` holds NaN, infinity or
        negative numbers, its mean is beyond 1e12 (float32) or 1e70, or a parameter is not allowed.
        """
        self._check_parameters()
        data: Any = check_data(self, X, reset=True, sparse=True)[0]  # no entry can be missing
        rng = check_random_state(self.random_state)
        self._start(data, rng)
        n_samples = data.shape[0]
        for _ in range(self.max_iter):
            self._learn(data[rng.permutation(n_samples)] if self.shuffle else data, min(self.batch_size, n_samples))
        self.n_iter_ = int(self.max_iter)
        self._warn_if_useless(self._relative_error(data), 1)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None) -> ConservativeNMF:
        """Learn the samples of a chunk, once and in their order; the dtype of the first chunk is kept.

        Raises ValueError as :meth:`fit`, and for another number of features than before. The model is then as it was.
        """
        self._check_parameters()
        first = not hasattr(self, "last_encoder_")
        data: Any = check_data(self, X, reset=first, sparse=True)[0]  # no entry can be missing
        if first:
            self._start(data, check_random_state(self.random_state))
        self._learn(data, self.batch_size)
        self.n_iter_ += 1
        count, error = self._open_batch
        latest = error / count if count else self.errors_[-1]  # of the factors that learn, which may diverge
        self._warn_if_useless(max(latest, self._relative_error(data)), LEARNING)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return the codes (n_samples, n_components) that the encoder gives, ``max(0, X E^T)``."""
        check_is_fitted(self)
        data: Any = check_data(self, X, reset=False, sparse=True)[0]  # no entry can be missing
        return conservative.encode(data, self.encoder_.astype(data.dtype, copy=False))

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed, whatever the data are."""
        check_rank(self.n_components)
        check_number(self.w, "w", without_low=True)  # > 0: the lowest number, 0, is not allowed
        check_count(self.batch_size, "batch_size")
        check_count(self.max_iter, "max_iter")
        check_flag(self.shuffle, "shuffle")
        check_random_state(self.random_state)

    def _check_state(self, low: float = 0.0) -> None:
        """Raise ValueError if a model that was read from a file cannot continue to learn."""
        super()._check_state(low)
        check_saved(self.last_components_, "last_components_", self.components_.shape, low=0)
        for name in ("encoder_", "last_encoder_"):
            check_saved(getattr(self, name), name, self.components_.shape)
        check_saved(self.errors_, "errors_", (None,), "float64", finite=False, empty=True)
        if (
            len({array.dtype for array in (self.components_, self.encoder_, self.last_components_, self.last_encoder_)})
            > 1
        ):
            raise ValueError("components and encoders must be of one dtype")
        count, error = self._open_batch  # samples in the unfinished batch, and the sum of their errors
        check_count(count, "count", 0), check_number(error, "error")
        if self.best_error_ != (self.errors_.min() if len(self.errors_) else np.inf):
            raise ValueError("best_error_ must be the least of errors_")

    def _start(self, X: Any, rng: np.random.RandomState) -> None:
        """Set the state of a model that has seen no samples; `X` gives the number of features."""
        self.n_components_ = X.shape[1] if self.n_components is None else int(self.n_components)
        found = conservative.start(self.n_components_, X.shape[1], rng, X.dtype)
        self.last_encoder_, self.last_components_ = found
        self.errors_, self.best_error_ = np.empty(0), float("inf")  # mean error of each full batch, and the least one
        self.n_samples_seen_ = self.n_iter_ = 0
        # samples in the unfinished batch, and the sum of their errors
        self._open_batch = (0, 0.0)

    def _learn(self, X: Any, batch_size: int) -> None:
        """Learn samples in their order, and record the error of each batch that they complete."""
        done = 0
        while done < X.shape[0]:
            count, error = self._open_batch  # samples of the unfinished batch, and the sum of their errors
            # at least 1, because a `batch_size` that was lowered may leave an open batch that is full already
            samples = X[done : done + max(1, batch_size - count)]
            found = conservative.learn(samples, self.last_encoder_, self.last_components_, float(self.w))
            done += len(found)
            self.n_samples_seen_ += len(found)
            total = np.cumsum(np.append(error, found))[-1]  # summed in order, so that the sizes of chunks do not matter
            count, error = count + len(found), float(total)
            self._open_batch = (count, error)
            if count >= batch_size:  # keep the current factors if the mean error of the batch is the least so far
                self._open_batch = (0, 0.0)
                self.errors_ = np.append(self.errors_, error / count)
                if self.errors_[-1] < self.best_error_:
                    self.best_error_ = float(self.errors_[-1])
                    self.encoder_, self.components_ = self.last_encoder_.copy(), self.last_components_.copy()
        if not len(self.errors_):  # until a batch is full, the last factors are also the best ones
            self.encoder_, self.components_ = self.last_encoder_, self.last_components_

    def _relative_error(self, X: Any) -> float:
        """Return ``|X - codes H| / |X|`` of the best factors, or that of samples of unit norm if it is larger."""
        H = self.components_.astype(np.float64)
        own = np.asarray((X.multiply(X) if sp.issparse(X) else X.astype(np.float64) ** 2).sum(axis=1)).ravel()
        with np.errstate(over="ignore", invalid="ignore"):  # of a model that has diverged
            codes = conservative.encode(X, self.encoder_).astype(np.float64)
            # of each sample, |x - codes H|^2 - |x|^2, without a dense residual
            change = np.einsum("nr,nr->n", codes, codes @ (H @ H.T) - 2 * (X @ H.T))
            kept = own > 0
            of_all, of_one = change.sum() / max(own.sum(), np.finfo(float).tiny), (change[kept] / own[kept]).sum()
            return float(np.sqrt(np.maximum(1 + np.maximum(of_all, of_one / max(kept.sum(), 1)), 0)))

    def _warn_if_useless(self, error: float, most: float) -> None:
        """Warn if the error of samples, relative to their norm, is above `most`."""
        if not error <= most:
            warnings.warn(
                f"ConservativeNMF explains samples worse than zeros do: their error is {error:.3g} times their norm, "
                "as with samples that share few features or a large w; take OnlineNMF, more components or passes "
                "(max_iter), or a smaller w.",
                ConvergenceWarning,
                stacklevel=3,
            )
