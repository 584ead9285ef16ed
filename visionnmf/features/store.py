"""Files of fitted extractors; :data:`EXTRACTION` is the part of a state for other files that hold extractors."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import Array, Estimator, Field, List, Maybe, Place, Record, Whole

from .extraction import FeatureExtraction
from .extractor import Extractor
from .extractor_kinds import KINDS

__all__ = ["EXTRACTION", "load_extraction", "save_extraction"]

MODULES = {entry.name: entry.module for entry in KINDS.values()}
WORDS = {"dictionary_": Array("float32", "words descriptor")}
PATCHES = {"components_": Array("float32", "parts patch", low=0), "encoder_": Array("float32", "patch parts")}
LEARNT: Mapping[str, Mapping[str, Field]] = {"PatchNMF": PATCHES} | {
    name: WORDS for name in ("DenseHue", "DenseSift", "HarrisHue", "HarrisSift")
}


def _find_class(name: str) -> type[Extractor]:
    """Return the class of an extractor by its name; its module is imported only now."""
    cls: type[Extractor] = getattr(import_module(f".{MODULES[name]}", __package__), name)
    return cls


class _Extraction(Record):
    """A fitted `FeatureExtraction`."""

    def pack(self, value: Any, place: Place) -> dict[str, Any]:
        """Return a fitted union of extractors as plain values: its `max_pixels` and its packed extractors.

        Arrays go into those of the file, which `place` holds, under the name of the place where they are in the model.
        """
        check_is_fitted(value)
        extractors = list(value.extractors_.values())
        return super().pack({"max_pixels": value.max_pixels, "extractors": extractors}, place)

    def unpack(self, item: Any, place: Place) -> FeatureExtraction:
        """Make the fitted union of extractors again from what :meth:`pack` returned for the `place` in the file."""
        return FeatureExtraction.from_fitted(**super().unpack(item, place))


EXTRACTOR = Estimator({name: LEARNT.get(name, {}) for name in MODULES}, _find_class)
EXTRACTION = _Extraction({"max_pixels": Maybe(Whole(low=1)), "extractors": List(EXTRACTOR)})

FILE = ModelFile(
    "visionnmf-features",
    version=2,
    title="feature extractors of visionnmf",
    origin="write them with save_extraction",
    smaller="take fewer kinds",
    state=EXTRACTION,
)


def save_extraction(extraction: FeatureExtraction, path: str | Path, *, force: bool = False) -> None:
    """Write fitted extractors to a file that :func:`load_extraction` reads.

    Parameters
    ----------
    extraction : FeatureExtraction
        Fitted.
    path : str or Path
        Usually ``*.npz``. The file is written completely or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    MediaError
        If `path` exists and `force` is false, or it cannot be written.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction, load_extraction, save_extraction
    >>> save_extraction(FeatureExtraction(["lab"]).fit([make_mosaic(32, 32).image]), "extraction.npz", force=True)
    >>> load_extraction("extraction.npz").n_features_out_
    4096
    """
    FILE.save(extraction, path, force=force)


def load_extraction(path: str | Path) -> FeatureExtraction:
    """Read extractors that :func:`save_extraction` has written. Untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FeatureExtraction
        Fitted; it returns exactly what the saved one did.

    Raises
    ------
    UnreadableError, UnsupportedError
        If the file is missing, damaged, or holds no extractors, or another version of visionnmf wrote it.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction, load_extraction, save_extraction
    >>> save_extraction(FeatureExtraction(["lab"]).fit([make_mosaic(32, 32).image]), "extraction.npz", force=True)
    >>> load_extraction("extraction.npz").n_features_out_
    4096
    """
    extraction: FeatureExtraction = FILE.load(path)
    return extraction
