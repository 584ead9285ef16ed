"""What is known already of images and extractors, from a file that keeps it."""

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

from .base import Extractor

__all__ = ["Known", "Parts", "Task"]

Task = tuple[Any, list[int]]
"""An image, and the numbers of the extractors that it waits for."""
Parts = dict[int, NDArray[np.float32]]
"""Features of an image by the numbers of the extractors."""


class Known:
    """Says which extractors an image waits for, and puts what they find beside what is known.

    Parameters
    ----------
    path : str, Path or None
        The file; None knows nothing and keeps nothing.
    extractors : list of Extractor
        Fitted.
    """

    def __init__(self, path: str | Path | None, extractors: list[Extractor]) -> None:
        self.extractors = extractors
        self._cache = None if path is None else ArrayCache(path)
        self._marks = [] if path is None else [_mark(extractor) for extractor in extractors]
        self._waiting: deque[tuple[list[str], Parts]] = deque()  # of each image that is worked on: keys, what is known

    def tasks(self, images: Sequence[ArrayLike | str | Path]) -> list[Task]:
        """Return what is to be done for images.

        Parameters
        ----------
        images : sequence of array-like, str or Path

        Returns
        -------
        list of (image, list of int)
        """
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
        """Yield the whole rows of images, in the order of the tasks, and keep what is new.

        Parameters
        ----------
        described : list of dict or MediaError

        Yields
        ------
        ndarray of float32 or MediaError
        """
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
        if self._cache is None:
            return []
        try:
            digest = image_digest(image) if isinstance(image, str | Path) else _array_digest(np.asarray(image))
        except MediaError:  # whoever reads it says so
            return []
        return [f"{digest}{mark}" for mark in self._marks]

    def _fits(self, i: int, part: NDArray[np.float32] | None) -> bool:
        right = part is not None and part.size == self.extractors[i].n_features_out_
        return right and part is not None and bool(np.isfinite(part).all() and (part >= 0).all())


def _array_digest(array: NDArray[Any]) -> str:
    digest = hashlib.blake2b(f"{array.shape} {array.dtype.str}".encode(), digest_size=20)
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _mark(extractor: Extractor) -> str:
    """Return a digest of all that an extractor's result depends on, the image excepted."""
    parameters = {key: value for key, value in extractor.get_params().items() if key != "random_state"}
    told = [__version__, type(extractor).__name__, sorted(parameters.items())]
    digest = hashlib.blake2b(json.dumps(told, default=repr).encode(), digest_size=12)
    for name in extractor.LEARNT:
        digest.update(np.ascontiguousarray(getattr(extractor, name)).data)
    return digest.hexdigest()
