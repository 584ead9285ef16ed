"""Features that are known already, from a file that keeps them between runs."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._version import __version__
from visionnmf.exceptions import MediaError
from visionnmf.io import ArrayCache, image_digest

from .extractor import Extractor

__all__ = ["FeatureCache", "Parts", "Task"]

Task = tuple[Any, list[int]]
"""An image, and the numbers of the extractors that must still describe it."""
Parts = dict[int, NDArray[np.float32]]
"""Features of an image by the numbers of the extractors."""


class FeatureCache:
    """Finds out which extractors must still describe an image, and joins what they find with what the file holds.

    `path` is the file; None knows nothing and keeps nothing. `extractors` are fitted. Batches of images go through
    :meth:`tasks`, are described elsewhere, and come back to :meth:`rows` in the same order.
    """

    def __init__(self, path: str | Path | None, extractors: list[Extractor]) -> None:
        self.extractors = extractors
        self._cache = None if path is None else ArrayCache(path)
        self._extractor_digests = [] if path is None else [_extractor_digest(extractor) for extractor in extractors]
        self._waiting: deque[tuple[list[str], Parts]] = deque()  # keys and known parts of each image in work

    def tasks(self, images: Sequence[ArrayLike | str | Path]) -> list[Task]:
        """Return what is to be done for images."""
        keys = [self._keys(image) for image in images]
        kept = {}
        if self._cache is not None:
            most = max(extractor.n_features_out_ for extractor in self.extractors)
            kept = self._cache.get([key for each in keys for key in each], most)
        tasks: list[Task] = []
        for image, each in zip(images, keys, strict=True):
            found = {i: kept[key] for i, key in enumerate(each) if self._fits(i, kept.get(key))}
            self._waiting.append((each, found))
            tasks.append((image, [i for i in range(len(self.extractors)) if i not in found]))
        return tasks

    def rows(self, described: list[Parts | MediaError]) -> Iterator[NDArray[np.float32] | MediaError]:
        """Yield the complete rows of images in the order of their tasks, and keep what is new."""
        new: dict[str, NDArray[np.float32]] = {}
        rows: list[NDArray[np.float32] | MediaError] = []
        for parts in described:
            keys, found = self._waiting.popleft()
            if isinstance(parts, MediaError):
                rows.append(parts)
                continue
            new |= {keys[i]: part for i, part in parts.items() if keys}
            both = found | parts
            rows.append(np.concatenate([both[i] for i in range(len(self.extractors))]))
        if self._cache is not None:
            self._cache.put(new)
        yield from rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._cache is not None:
            self._cache.__exit__(*exception)

    def _keys(self, image: ArrayLike | str | Path) -> list[str]:
        """Return the key of an image for each extractor; none for a file that cannot be read."""
        if self._cache is None:
            return []
        try:
            digest = image_digest(image) if isinstance(image, str | Path) else _array_digest(np.asarray(image))
        except MediaError:
            return []
        return [f"{digest}{each}" for each in self._extractor_digests]

    def _fits(self, i: int, part: NDArray[np.float32] | None) -> bool:
        """Return whether a kept part can be what extractor i finds; the file is not trusted."""
        right = part is not None and part.size == self.extractors[i].n_features_out_
        return right and part is not None and bool(np.isfinite(part).all() and (part >= 0).all())


def _array_digest(array: NDArray[Any]) -> str:
    digest = hashlib.blake2b(f"{array.shape} {array.dtype.str}".encode(), digest_size=20)
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _extractor_digest(extractor: Extractor) -> str:
    """Return a digest of everything that an extractor's result depends on, except the image."""
    parameters = {key: value for key, value in extractor.get_params().items() if key != "random_state"}
    identity = [__version__, type(extractor).__name__, sorted(parameters.items())]
    digest = hashlib.blake2b(json.dumps(identity, default=repr).encode(), digest_size=12)
    for name, value in sorted(vars(extractor).items()):
        if name.endswith("_") and isinstance(value, np.ndarray):  # what it has learnt
            digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()
