"""Files of face recognisers: the people, their cleaned images, the components, and the thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import check_flag, shown
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io.model_file import ModelFile, check_model, class_finder
from visionnmf.models.model_files import find_class

from .distances import Weights
from .reading import ProbeFaces, Source, read_probe
from .recognizer import FaceRecognizer


@dataclass(frozen=True)
class FaceModel:
    """A recogniser that was fitted with names as labels and an image shape.

    `detect` says whether the faces were cut out of photographs.
    """

    recognizer: FaceRecognizer
    detect: bool = False

    @property
    def image_shape(self) -> tuple[int, int]:
        """Height and width of the images."""
        shape = self.recognizer.image_shape
        assert shape is not None
        return shape

    def read(self, source: Source, most: int | None = 1) -> ProbeFaces:
        """Read an image, or faces on it, in the size and the units of the training images.

        Parameters
        ----------
        source : str, Path or ndarray
            The file of an image, or the pixels of one of the size of the training images.
        most : int or None, default=1
            Number of faces at most, the largest first; None reads all. A model of whole images takes the image as one.

        Returns
        -------
        ProbeFaces
            Faces as rows, and where they are on the image.

        Raises
        ------
        ParameterError
            If `source` is none of these.
        MediaError
            If the image cannot be read or has no face.
        """
        return read_probe(self.image_shape, self.detect, most, self.recognizer.white_, source)


def _check(state: Any) -> FaceModel:
    """Return the model of a file; raise an error if it is not possible."""
    return FaceModel(check_model(FaceRecognizer)(state["recognizer"]), check_flag(state["detect"], "detect"))


def _state(model: FaceModel | FaceRecognizer) -> dict[str, Any]:
    """Return what a file holds of a model, or of a recogniser: what new images need."""
    if isinstance(model, FaceRecognizer):
        check_is_fitted(model)
        model = FaceModel(model)
    if not isinstance(model, FaceModel):
        raise ParameterError(f"model must be a FaceModel or a FaceRecognizer, and comes first; got {shown(model)}")
    names = model.recognizer.classes_.tolist()
    if not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"recognizer must have texts as labels to be saved; got {names[0]!r:.40}; fit it with "
            "numpy.asarray(y).astype(str)"
        )
    if model.recognizer.image_shape is None:
        raise ParameterError("recognizer must have an image_shape to be saved; got None; give the height and width")
    return {"recognizer": model.recognizer, "detect": model.detect}


FILE = ModelFile(
    "faces",
    version=17,
    title="a model of faces",
    origin="make one with 'visionnmf faces train'",
    smaller="train fewer people a model",
    find_class=class_finder(FaceRecognizer, Weights, others=(find_class,)),
    check=_check,
    taken_apart=_state,
)
save = FILE.save


def load(path: str | Path) -> FaceModel:
    """Read a recogniser that `save` wrote. Untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FaceModel
        Its recogniser judges images as before. It has no ``reconstructions_``, ``corrupted_``, ``copies_``,
        ``threshold_pixels_`` and ``feature_names_in_``, and the scores of what was chosen are empty.

    Raises
    ------
    MediaError
        If the file is missing, damaged, of another kind or another version, or its header is too large.

    Examples
    --------
    >>> from visionnmf.apps.faces import load, save
    >>> save(load("people.npz"), "copy.npz", force=True)
    >>> load("copy.npz").recognizer.classes_.tolist()
    ['ada', 'ben', 'cy']
    """
    if isinstance(path, str | Path) and Path(path).suffix.lower() in choices.IMAGE_SUFFIXES:
        raise UnreadableError(f"{path}: an image, and a model of faces is needed, which comes before the images")
    return FILE.load(path)


def load_estimator(path: str | Path) -> FaceRecognizer:
    """Read a recogniser alone; see :func:`load`."""
    return load(path).recognizer


def loaded(model: FaceModel | FaceRecognizer | str | Path) -> FaceModel:
    """Return a model, which is read if its path is given; a fitted recogniser becomes a model of whole images."""
    if isinstance(model, FaceRecognizer):
        check_is_fitted(model)
        if model.image_shape is None:
            raise ParameterError("model must have an image_shape, to which images are scaled; got None")
        return FaceModel(model)
    if not isinstance(model, FaceModel | str | Path):
        raise ParameterError(
            f"model must be a FaceModel, a FaceRecognizer or the path of a model, and comes first; got {shown(model)}"
        )
    return model if isinstance(model, FaceModel) else load(model)
