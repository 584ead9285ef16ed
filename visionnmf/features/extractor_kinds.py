"""The table of the kinds of features, and the function that makes an extractor of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple

from visionnmf._checks import check_choice
from visionnmf.exceptions import ParameterError

from .extractor import Extractor

__all__ = ["KINDS", "Kind", "make_extractor"]


class Kind(NamedTuple):
    """A kind of features.

    Attributes
    ----------
    module, name : str
        The module and the name of its class.
    parameters : dict
        The parameters of the class that make this kind.
    n_features : int
        The number of features with the default parameters.
    unit : str
        What a feature is.
    source : str
        Where it was proposed.
    milliseconds : float
        Processor time for an image of 192 x 128 pixels; see `docs/features.md`.
    """

    module: str
    name: str
    parameters: Mapping[str, Any]
    n_features: int
    unit: str
    source: str
    milliseconds: float


LEAR = "Guillaumin et al. 2009"

KINDS: dict[str, Kind] = {
    "rgb": Kind("pixels", "ColorHistogram", {"space": "rgb"}, 4096, "share of pixels", LEAR, 0.1),
    "lab": Kind("pixels", "ColorHistogram", {"space": "lab"}, 4096, "share of pixels", LEAR, 0.4),
    "hsv": Kind("pixels", "ColorHistogram", {"space": "hsv"}, 4096, "share of pixels", LEAR, 0.3),
    "dense-hue": Kind("hue", "DenseHue", {}, 100, "share of patches", "van de Weijer & Schmid 2006", 4.9),
    "dense-sift": Kind("sift", "DenseSift", {}, 1000, "share of patches", "Lowe 2004", 48.6),
    "harris-hue": Kind("hue", "HarrisHue", {}, 100, "share of patches", "van de Weijer & Schmid 2006", 5.6),
    "harris-sift": Kind("sift", "HarrisSift", {}, 1000, "share of patches", "Lowe 2004", 6.5),
    "gist": Kind("gist", "Gist", {}, 512, "magnitude of a filter's response", "Oliva & Torralba 2001", 4.9),
    "hog": Kind("texture", "HOG", {}, 1764, "share of a block's gradients", "Dalal & Triggs 2005", 1.9),
    "lbp": Kind("texture", "LBP", {}, 944, "share of pixels", "Ojala et al. 2002", 3.4),
    "centrist": Kind("texture", "CENTRIST", {}, 254, "share of pixels", "Wu & Rehg 2011", 0.3),
    "patch-nmf": Kind("patches", "PatchNMF", {}, 256, "mean code of a part", "Hoyer 2002", 4.3),
    "raw-pixels": Kind("pixels", "RawPixels", {}, 1024, "brightness", "", 0.0),
}


def make_extractor(kind: str, **params: Any) -> Extractor:
    """Make the extractor of a kind of features.

    Parameters
    ----------
    kind : str
        A key of :data:`KINDS`.
    **params
        Parameters of its class, in place of the defaults.

    Returns
    -------
    Extractor
        Not fitted.

    Raises
    ------
    ParameterError
        If there is no such kind, or its class has no such parameter.

    Examples
    --------
    >>> from visionnmf.features import make_extractor
    >>> make_extractor("gist")
    Gist()
    """
    entry = KINDS[check_choice(kind, "kind", KINDS)]
    cls = getattr(import_module(f".{entry.module}", __package__), entry.name)
    for name in params:
        if name in entry.parameters or name not in signature(cls).parameters:
            raise ParameterError(f"params must be parameters of {entry.name} that {kind!r} leaves open; got {name!r}")
    made: Extractor = cls(**entry.parameters, **params)
    return made
