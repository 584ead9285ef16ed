"""The table of the kinds of features, and the function that makes an extractor of a kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple

from sklearn.base import clone

from visionnmf._checks import check_choice
from visionnmf.exceptions import ParameterError

from .extractor import Extractor


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
    "raw-pixels": Kind("pixels", "RawPixels"),
}


# Several kinds under one name. TagProp's fifteen are GIST, and seven others each in the whole image and in three
# horizontal bands, where colour histograms have twelve bins a channel (Guillaumin et al. 2009, section 3.1).
_WHOLE = ("rgb", "lab", "hsv", "dense-sift", "harris-sift", "dense-hue", "harris-hue")
PRESETS: dict[str, tuple[str, ...]] = {
    "all": tuple(KINDS),
    "tagprop": ("gist", *_WHOLE, *(f"{kind}-3x1" for kind in _WHOLE)),
}
PRESET_PARAMETERS: dict[str, dict[str, dict[str, Any]]] = {
    "tagprop": {f"{space}-3x1": {"n_bins": 12} for space in ("rgb", "lab", "hsv")}
}


def make_extractors(kinds: Sequence[str | Extractor]) -> list[Extractor]:
    """Return extractors that are not fitted: copies of those given, and those that kinds or presets name."""
    made: list[Extractor] = []
    for kind in kinds:
        if isinstance(kind, Extractor):
            made.append(clone(kind))
        else:
            parameters = PRESET_PARAMETERS.get(kind, {})
            made += [make_extractor(name, **parameters.get(name, {})) for name in PRESETS.get(kind, (kind,))]
    return made


def make_extractor(kind: str, **params: Any) -> Extractor:
    """Make the extractor of a kind of features.

    Parameters
    ----------
    kind : str
        A key of :data:`KINDS`, or one with a layout, such as ``"rgb-3x1"`` for three horizontal bands.
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
    found = re.fullmatch(r"(.+)-([0-9]{1,2})x([0-9]{1,2})", kind) if isinstance(kind, str) else None
    if found:
        kind, params = found[1], {"layout": (int(found[2]), int(found[3])), **params}
    entry = KINDS[check_choice(kind, "kind", KINDS)]
    cls = getattr(import_module(f".{entry.module}", __package__), entry.name)
    for name in params:
        if name in entry.parameters or name not in signature(cls).parameters:
            raise ParameterError(f"params must be parameters of {entry.name} that {kind!r} leaves open; got {name!r}")
    made: Extractor = cls(**entry.parameters, **params)
    return made
