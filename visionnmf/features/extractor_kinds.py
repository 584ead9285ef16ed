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
    """A kind of features: the module and the name of its class, and the parameters that make this kind."""

    module: str
    name: str
    parameters: Mapping[str, Any] = {}


KINDS: dict[str, Kind] = {
    "rgb": Kind("pixels", "ColorHistogram", {"space": "rgb"}),
    "lab": Kind("pixels", "ColorHistogram", {"space": "lab"}),
    "hsv": Kind("pixels", "ColorHistogram", {"space": "hsv"}),
    "dense-hue": Kind("hue", "DenseHue"),
    "dense-sift": Kind("sift", "DenseSift"),
    "harris-hue": Kind("hue", "HarrisHue"),
    "harris-sift": Kind("sift", "HarrisSift"),
    "gist": Kind("gist", "GIST"),
    "hog": Kind("texture", "HOG"),
    "lbp": Kind("texture", "LBP"),
    "centrist": Kind("texture", "CENTRIST"),
    "patch-nmf": Kind("patches", "PatchNMF"),
    "raw-pixels": Kind("pixels", "RawPixels"),
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
    GIST()
    """
    entry = KINDS[check_choice(kind, "kind", KINDS)]
    cls = getattr(import_module(f".{entry.module}", __package__), entry.name)
    for name in params:
        if name in entry.parameters or name not in signature(cls).parameters:
            raise ParameterError(f"params must be parameters of {entry.name} that {kind!r} leaves open; got {name!r}")
    made: Extractor = cls(**entry.parameters, **params)
    return made
