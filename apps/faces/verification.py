"""Whether two images show one person, whom the model need not know."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from visionnmf._checks import check_number, shown
from visionnmf._progress import Progress
from visionnmf.apps.report import Report
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError

from .choosing import some_people
from .classifiers import Labels
from .identification import doubtful
from .identities import Identity
from .likeness import UNLIKE_IN_WORDS
from .reading import Source, name_of
from .recognizer import FaceRecognizer
from .store import FaceModel, loaded

Array = NDArray[Any]

# Chosen on ORL and Extended Yale B, half of whose people trained the model; docs/decisions/faces.md has the table.
COMPONENTS = 100  # principal components of the images
SHRINKAGE = 0.1  # share of the mean variance that is added to each direction of the within-class covariance
PEOPLE_FOLDS = 5  # at most, and at least two people in each; with more, the threshold varies more
ENOUGH_PEOPLE = 4  # with fewer, no two can be left out
PEOPLE_LEAST = 15  # with fewer, a sentence says that pairs of them show little
MOST_IMAGES = 2000  # of the gallery that set the threshold


class PairSpace:
    """Compares images by the cosine after within-class covariance normalisation (Hatch, Kajarekar, Stolcke 2006).

    Images of unit norm are projected on principal components. Directions in which images of one person vary, such as
    those of illumination, are then divided by their standard deviation. Without `people`, or with one image of each,
    the covariance of all images takes the place of that within people.
    """

    def __init__(self, images: Array, people: Labels | None) -> None:
        """Learn the projection and the whitening from `images` (n_images, n_pixels).

        `people` (n_images,) says who is on them; None if that is not to be used.
        """
        rows = normalize(images)
        with np.errstate(invalid="ignore"):  # images that are all equal have no variance to divide by
            self._projection = PCA(min(COMPONENTS, len(rows), rows.shape[1]), random_state=0).fit(rows)
        deviations = self._projection.transform(rows)  # from the mean of all images, which PCA subtracts
        freedom = len(rows) - 1  # degrees of freedom: one less for each mean that is subtracted
        if people is not None:
            present, numbers, counts = np.unique(people, return_inverse=True, return_counts=True)
            if len(present) < len(rows):  # somebody has two images: deviations from the mean of each person
                means = np.zeros((len(present), deviations.shape[1]))
                np.add.at(means, numbers, deviations)
                deviations = deviations - (means / counts[:, None])[numbers]
                freedom = len(rows) - len(present)
        covariance = deviations.T.astype(np.float64) @ deviations / max(freedom, 1)
        variances, directions = np.linalg.eigh(covariance)
        variances = np.maximum(variances, 0) + max(SHRINKAGE * variances.mean(), np.finfo(np.float32).tiny)
        self._whitening = directions / np.sqrt(variances)

    def rows(self, images: Array) -> Array:
        """Return a row of unit norm for each image, whose inner products are the cosines.

        `_projection` is the fitted PCA, and `_whitening` divides directions in which images of one person vary.
        """
        return normalize(self._projection.transform(normalize(images)) @ self._whitening)

    def distances(self, images: Array) -> Array:
        """Return one minus the cosine for all pairs of images, (n_images, n_images)."""
        rows = self.rows(images)
        return np.asarray(np.maximum(1 - rows @ rows.T, 0))


def distances_of_strangers(images: Array, people: Labels) -> Array:
    """Return the sorted distances (n_pairs,) of pairs of different people, compared without the images of either.

    `images` (n_images, n_pixels) are cleaned, and `people` (n_images,) says who is on them. A :class:`PairSpace` learns
    in which directions images of one person vary, which then count less. With fewer than four people nobody is left
    out, and the comparison does not use who they are.
    """
    some = some_people(people, MOST_IMAGES) if len(people) > MOST_IMAGES else np.arange(len(people))
    images, people = _coordinates(images[some]), np.unique(people[some], return_inverse=True)[1]  # fewer columns
    n_people = int(people.max()) + 1
    if n_people < ENOUGH_PEOPLE:
        return np.sort(_of_strangers(PairSpace(images, None), images, people))
    # The fold in which each person is left out; two people or more in each, so that there are pairs.
    fold_of = np.random.default_rng(0).permutation(n_people) % min(PEOPLE_FOLDS, n_people // 2)
    found = []
    for fold in range(fold_of.max() + 1):
        new = fold_of[people] == fold
        found.append(_of_strangers(PairSpace(images[~new], people[~new]), images[new], people[new]))
    return np.sort(np.concatenate(found))


def _coordinates(images: Array) -> Array:
    """Return images (n_images, n_pixels), with more pixels than images as coordinates (n_images, n_images).

    The coordinates have the inner products of the images, on which all comparisons depend, and take less time.
    """
    if images.shape[1] <= len(images):
        return images
    powers, directions = np.linalg.eigh((images @ images.T).astype(np.float64))
    return np.asarray(directions * np.sqrt(np.maximum(powers, 0)), images.dtype)


def _of_strangers(space: PairSpace, images: Array, people: Labels) -> Array:
    """Return the distances (n_pairs,) of all pairs of images (n_images, n_pixels) of different people."""
    one, other = np.triu_indices(len(people), 1)
    different = people[one] != people[other]
    return np.asarray(space.distances(images)[one[different], other[different]])


@dataclass(frozen=True)
class VerificationReport(Report):
    """Whether two images show one person; with the attributes of :class:`~visionnmf.apps.report.Report`.

    `rule` is what decided: "people" if the model knows the person on each image, and "images" otherwise. `people` says
    who is on each image, or None, and `nearest` who is nearest, known or not. With "people", `distance` is the larger
    of the distances of the images from the people on them. With "images" it is the distance of the images from each
    other (see :func:`verify`), and it is larger than `threshold` if the people are different; `alike` is then the share
    of pairs of different people of the model that are at least as near to each other. It is None with "people".
    `same` is None if an image is probably not a face, because nothing can then be said about people. `reasons` says why
    an image has no name, and `calibrated` whether it is as noisy as the training images; see :class:`.Identity`.
    """

    same: bool | None
    rule: str
    people: list[Any]
    distance: float
    threshold: float
    alike: float | None = None
    nearest: list[Any] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    calibrated: list[bool | None] = field(default_factory=list)

    def summary(self) -> str:
        """Return whether it is one person, and why."""
        who = [
            f"{source} ({f'nobody known; nearest: {nearest}' if person is None else person})"
            for source, person, nearest in zip(self.inputs, self.people, self.nearest, strict=True)
        ]
        verdict = {True: "one person", False: "different people", None: f"cannot tell: {self._not_faces()}"}[self.same]
        limit = f"{self.distance:.3f} (threshold {self.threshold:.3f})"
        if self.rule == "people":
            named = self.people[0] if self.same else " and ".join(map(str, self.people))
            reason = f"identified as {named} at distances up to {limit}"
        else:
            reason = f"the images' distance from each other is {limit}"
            if self.alike is not None:
                reason += f"; {self.alike:.1%} of pairs of different people are as near"
        return "\n".join([f"{' and '.join(who)}: {verdict}; {reason}", *self._notes_and_outputs()])

    def _not_faces(self) -> str:
        """Return which images are probably not faces: those that are unlike the training images."""
        images = [source for source, reason in zip(self.inputs, self.reasons, strict=True) if reason == "unlike"]
        return f"{' and '.join(images)} {'is' if len(images) == 1 else 'are'} {UNLIKE_IN_WORDS}"


class Verifier:
    """Decides whether two images show one person; see :func:`verify`.

    It sets the threshold once, so that many pairs take little longer than one; :meth:`verify_pairs` takes them
    together.

    Parameters
    ----------
    model : FaceModel, FaceRecognizer, str or Path
        A model, a recogniser of whole images, or the file of either.

    Attributes
    ----------
    threshold : float
        Distance beyond which images of people whom the model does not know show different people.

    Examples
    --------
    >>> from visionnmf.apps.faces import Verifier
    >>> verifier = Verifier("people.npz")
    >>> [verifier.verify("people/ada/0.png", f"people/{name}/1.png").same for name in ("ada", "ben")]
    [True, False]
    >>> pairs = [("people/ada/0.png", f"people/{name}/1.png") for name in ("ada", "ben")]
    >>> [report.same for report in verifier.verify_pairs(pairs)]
    [True, False]
    """

    @one_blas_thread()
    def __init__(self, model: FaceModel | FaceRecognizer | str | Path) -> None:
        """Load the model if it is a file, and set the threshold of the distance of two images from each other."""
        self.model = loaded(model)
        recognizer = self.model.recognizer
        if math.isnan(recognizer.threshold_):
            raise ParameterError("model must have a threshold; got one that was fitted with calibrate=False")
        # `_space` compares images: directions in which images of one person vary count less, if there are enough people
        # to learn them from. `_strangers` are the sorted distances of pairs of gallery images of different people, each
        # compared in a space that was learnt without the images of these two (by cross-validation over people).
        self._n_people = len(recognizer.classes_)
        self._space = PairSpace(recognizer.cleaned_, recognizer.labels_ if self._n_people >= ENOUGH_PEOPLE else None)
        self._strangers = distances_of_strangers(recognizer.cleaned_, recognizer.labels_)
        # A pair passes below the threshold: `unknown_rate` is the share of pairs of different people that may do so.
        # With one person there are no pairs of different people, and nothing passes.
        self.threshold = float(np.quantile(self._strangers, recognizer.unknown_rate)) if len(self._strangers) else 0.0

    def __repr__(self) -> str:
        return f"Verifier({self._n_people} people, threshold {self.threshold:.3f})"

    def verify(
        self,
        first: Source,
        second: Source,
        *,
        threshold: float | None = None,
        progress: Progress | None = None,
    ) -> VerificationReport:
        """Decide whether two images show one person; the parameters are those of :func:`verify`.

        Returns
        -------
        VerificationReport
        """
        return self.verify_pairs([(first, second)], threshold=threshold, progress=progress)[0]

    @one_blas_thread()
    def verify_pairs(
        self,
        pairs: Iterable[tuple[Source, Source]],
        *,
        threshold: float | None = None,
        progress: Progress | None = None,
    ) -> list[VerificationReport]:
        """Decide for many pairs of images whether they show one person; images are judged together, and once each.

        Parameters
        ----------
        pairs : iterable of pairs of str, Path or ndarray
            An image may be in any number of pairs.
        threshold : float or None, default=None
            Replaces the threshold of the distance of the images of a pair from each other.
        progress : callable, optional
            Called as ``progress("comparing", done, total)`` after each of up to two steps.

        Returns
        -------
        list of VerificationReport
            One for each pair, in their order.

        Raises
        ------
        ParameterError
            If an item of `pairs` is not two images.
        MediaError
            If an image cannot be read, or has no face.
        """
        step = progress or (lambda *_: None)
        pairs = checked_pairs(pairs)
        limit = self.threshold if threshold is None else check_number(threshold, "threshold", 0)
        if not pairs:
            return []
        model, recognizer = self.model, self.model.recognizer
        # The number of each image among those that differ; arrays are the same only if they are one object.
        numbers: dict[Any, int] = {}
        sources: list[Source] = []
        for source in chain.from_iterable(pairs):
            if numbers.setdefault(_key(source), len(sources)) == len(sources):
                sources.append(source)
        rows = np.concatenate([model.read(source).rows for source in sources])
        step("comparing", 0, 2)
        found = recognizer.identify(rows)
        step("comparing", 1, 2)
        # Only if the model does not know somebody are images compared with each other, as rows of unit norm.
        compared = None
        if any(identity.person is None for identity in found):
            compared = self._space.rows(recognizer.explain(rows).cleaned)
            step("comparing", 2, 2)
        reports = []
        for pair in pairs:
            one, other = (numbers[_key(source)] for source in pair)
            distance = math.nan if compared is None else float(np.maximum(1 - compared[one] @ compared[other], 0))
            reports.append(self._report(pair, [found[one], found[other]], distance, limit, threshold is None))
        return reports

    def _report(
        self, pair: tuple[Source, Source], found: list[Identity], distance: float, limit: float, own_limit: bool
    ) -> VerificationReport:
        """Return the verdict on a pair of images, who is on them, with their `distance` from each other.

        The `limit` of this distance is the verifier's, for which error rates are known, if `own_limit` is true, and
        else the caller's. If both people have a name, the names decide, and neither `distance` nor `limit` counts.
        """
        inputs = [name_of(source, name) for source, name in zip(pair, ("first array", "second array"), strict=True)]
        people = [identity.person for identity in found]
        # Fields of the report that have an item for each of the two images: who is nearest, why an image has no name,
        # and whether it is as noisy as the training images, for which error rates hold.
        each: dict[str, Any] = {
            name: [getattr(identity, attribute) for identity in found]
            for name, attribute in (("nearest", "nearest"), ("reasons", "reason"), ("calibrated", "calibrated"))
        }
        # The noise of images matters where error rates do: for names, and for a threshold that the caller did not give.
        notes = self._doubts(inputs, found) if None not in people or own_limit else []
        if None not in people:
            furthest = max(identity.distance for identity in found)
            limit = self.model.recognizer.threshold_
            same = people[0] == people[1]
            return VerificationReport(same, "people", people, furthest, limit, inputs=inputs, notes=notes, **each)
        alike = None
        if len(self._strangers):
            # the share of pairs of different people of the model, `_strangers`, that are at least as near
            alike = float(np.searchsorted(self._strangers, distance, side="right") / len(self._strangers))
        if own_limit and self._n_people < PEOPLE_LEAST:
            few = f"{self._n_people} people show" if self._n_people > 1 else "one person shows"
            notes.append(
                f"{few} little of how alike different people are; train {PEOPLE_LEAST} or more, or give a threshold"
            )
        # An image that is unlike the training images is probably not a face, about which nothing can be said.
        verdict = None if "unlike" in each["reasons"] else distance <= limit
        return VerificationReport(verdict, "images", people, distance, limit, alike, inputs=inputs, notes=notes, **each)

    def _doubts(self, inputs: list[str], found: list[Identity]) -> list[str]:
        """Return a sentence for each image that is not as noisy as the training images, for which rates may not hold.

        `inputs` are the names of the two images, and `found` says who is on them.
        """
        doubted, doubt = doubtful(self.model.recognizer, found)
        return [f"{source}: {doubt}" for source, one in zip(inputs, found, strict=True) if one in doubted]


def checked_pairs(pairs: Any) -> list[tuple[Source, Source]]:
    """Return pairs of images, files or arrays, as a list of tuples, or raise ParameterError for anything else."""
    if isinstance(pairs, str | Path | np.ndarray) or not isinstance(pairs, Iterable):
        raise ParameterError(f"pairs must be a list of pairs of images; got {shown(pairs)}; verify takes two images")
    found = [tuple(pair) if isinstance(pair, list | tuple) else (pair,) for pair in pairs]
    for number, pair in enumerate(found):
        if len(pair) != 2:
            raise ParameterError(f"pairs must be a list of pairs of images; got {shown(pair)} for pair {number}")
    return found


def _key(source: Source) -> Any:
    """Return what tells an image from others: its path, or the identity of an array."""
    return id(source) if isinstance(source, np.ndarray) else str(source)


def verify(
    model: FaceModel | FaceRecognizer | str | Path,
    first: str | Path | NDArray[Any],
    second: str | Path | NDArray[Any],
    *,
    threshold: float | None = None,
    progress: Progress | None = None,
) -> VerificationReport:
    """Decide whether two images show one person, known to the model or not.

    If the model knows the person on each image, these people decide. Otherwise the cleaned images are compared with
    each other: by one minus the cosine, 0 to 2, after within-class covariance normalisation [1]_, which plays down what
    changes between images of one person. A share ``unknown_rate`` of the pairs of different people of the model is
    nearer than the threshold, by cross-validation over people.

    Parameters
    ----------
    model : FaceModel, FaceRecognizer, str or Path
        A model, a recogniser of whole images, or the file of either.
    first, second : str, Path or ndarray [shape=(height, width) or (n_pixels,), >= 0]
        Images; see :func:`identify`.
    threshold : float or None, default=None
        Replaces the threshold of the distance of the images from each other.
    progress : callable, optional
        Called as ``progress("comparing", done, total)`` after each of up to two steps.

    Returns
    -------
    VerificationReport
        Its `same` is None if an image is probably not a face.

    Raises
    ------
    ParameterError
        If an array is not an image like the training images; see :func:`identify`.
    MediaError
        If an image cannot be read, or has no face.

    References
    ----------
    .. [1] A. O. Hatch, S. Kajarekar, A. Stolcke, "Within-class covariance normalization for SVM-based speaker
       recognition", Interspeech 2006.

    Examples
    --------
    >>> from visionnmf.apps.faces import verify
    >>> verify("people.npz", "people/ada/0.png", "people/ben/0.png").same
    False
    """
    return Verifier(model).verify(first, second, threshold=threshold, progress=progress)
