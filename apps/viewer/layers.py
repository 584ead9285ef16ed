"""Files as layers of napari, labels as files, and how to repeat what a widget did; napari itself is not imported."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf.apps.made import LABELS, SCRIBBLES, changed, without_results
from visionnmf.apps.settings import options_of
from visionnmf.exceptions import ParameterError, TooLargeError, UnsupportedError
from visionnmf.io import read_image, stem_of, write_image
from visionnmf.io.model_file import kind_of

MOST = 1 << 28  # values of a stack that is factorised
SOURCE = "visionnmf"  # where the metadata of a layer say from which file it is
OF = "scribbles of"  # where they say of which image they are: its stem, or the id of its layer
BY_HAND = "segments (by hand)"  # the layer of what was drawn on segments before they were cut again, and its mark

Layer = tuple[Any, dict[str, Any], str]  # data, attributes and type, as napari's readers return them


def reader(path: str | list[str]) -> Callable[[str], list[Layer]] | None:
    """Return :func:`read` for a file that is ours; None for any other, which napari gives to another reader."""
    if not isinstance(path, str) or (path.lower().endswith(".npz") and not kind_of(path)):
        return None
    return read


def read(source: str | Path) -> list[Layer]:
    """Return the layers of a file: labels, a model, a video, or else a photograph; raise MediaError if it is none."""
    name, lower = stem_of(source), str(source).lower()
    attributes: dict[str, Any] = {"name": name, "metadata": {SOURCE: str(source)}}
    if lower.endswith((LABELS, SCRIBBLES)):
        if lower.endswith(SCRIBBLES):
            attributes["metadata"][OF] = stem_of(str(source)[: -len(SCRIBBLES)] + ".png")
        grey = read_image(source)
        if (grey != grey[..., :1]).any():
            raise UnsupportedError(f"{source}: a picture in colours, not labels; rename it to see it as a photograph")
        # napari's 0 is no segment; 65535, outside a mask, becomes 0
        return [(grey[..., 0].astype(np.uint16) + np.uint16(1), attributes, "labels")]
    if lower.endswith(".npz"):
        return [(data, {"name": f"{name} {part}"}, "image") for part, data in _parts(Path(source)).items()]
    if lower.endswith(choices.VIDEO_SUFFIXES) or lower == "sample:surveillance":
        from visionnmf.apps.background.sources import file_of
        from visionnmf.io.video.frames import VideoFrames

        return [(VideoFrames(file_of(source)), {**attributes, "rgb": True}, "image")]
    return [(read_image(source), {**attributes, "rgb": True}, "image")]


def _parts(path: Path) -> dict[str, NDArray[Any]]:
    """Return what there is to see of a model by name: pictures, or the components as rows of a matrix."""
    kind = kind_of(path)
    if kind in ("background", "online-background"):
        from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel

        model: Any = BackgroundModel if kind == "background" else OnlineBackgroundModel
        return {"background": model.load(path).background_}
    if kind == "faces":
        from visionnmf.apps.faces import load

        faces = load(path)
        return {"components": faces.recognizer.components_.reshape(-1, *faces.image_shape)}
    if kind == "model":
        from visionnmf import load_model

        components = getattr(load_model(path), "components_", None)
        if isinstance(components, np.ndarray):
            return {"components": components}
    what = f"a model of the kind {kind!r} has no pictures to show" if kind else "not a model of visionnmf"
    raise UnsupportedError(f"{path}: {what}; give one of background, faces, NMF or its relatives")


def photographs(folder: str | Path) -> list[str]:
    """Return the photographs in a folder, sorted, without results of ours among them."""
    names = [name for name in sorted(os.listdir(folder)) if name.lower().endswith(choices.IMAGE_SUFFIXES)]
    return without_results([os.path.join(folder, name) for name in names if not name.startswith(".")])


def place_of(photograph: str) -> str:
    """Return which photograph of its folder one is, to be said after something; nothing of the only one."""
    files = photographs(Path(photograph).parent) if os.path.exists(photograph) else []
    at = files.index(photograph) + 1 if len(files) > 1 and photograph in files else 0
    return f" (photograph {at} of {len(files)})" if at else ""


def has_labels(photograph: str) -> bool:
    """Return whether labels of a photograph were saved beside it."""
    return Path(photograph).with_name(f"{stem_of(photograph)}{LABELS}").exists()


def write_labels(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:
    """Write labels, or scribbles for `markers`, as ``segment`` does, from 0 on in 16 bits; return the file."""
    labels = np.asarray(data)
    if labels.ndim != 2 or labels.min() < 0 or labels.max() > 65535:
        got = f"shape {labels.shape}, from {labels.min()} to {labels.max()}"
        raise ParameterError(f"labels must be a picture of whole numbers from 0 to 65535; got {got}")
    write_image(path, (labels.astype(np.int64) - 1).astype(np.uint16), force=True)  # 0 becomes 65535
    attributes.get("metadata", {}).pop(BY_HAND, None)  # the layer's own, which is saved now
    return [path]


def source_of(layer: Any) -> str | None:
    """Return the file from which a layer of napari is, by its whole path, or None."""
    source = layer.metadata.get(SOURCE) or layer.source.path
    return os.path.abspath(source) if source and os.path.exists(source) else source


def holds(source: str, data: Any, load: Callable[[str], Any] = read_image) -> bool:
    """Return whether a file has the values of a layer, which may have been changed or read in another way."""
    try:
        return np.array_equal(load(source), data)
    except Exception:  # of whichever library reads it
        return False


def samples_of(stack: Any, samples: str, *, rgb: bool = False) -> tuple[NDArray[np.float32], tuple[int, ...]]:
    """Return pixels or pictures of a stack (n, height, width), or pixels of an RGB picture, as rows; and a shape."""
    shape = tuple(stack.shape)
    if len(shape) != 3 or (rgb and samples != "pixels"):
        got = "one in colours; choose pixels as samples" if rgb else f"{len(shape)} axes instead of 3"
        raise ParameterError(f"image stack must be pictures behind each other; got {got}, or choose another layer")
    if math.prod(shape) > MOST:
        what = f"image stack has {math.prod(shape):,} values; at most {MOST:,} values are factorised"
        raise TooLargeError(f"{what}; crop it, or choose another layer")
    with np.errstate(over="ignore"):  # then it has infinite values
        X = np.asarray(stack, np.float32)
    if rgb:
        return X[..., :3].reshape(-1, 3), shape[:2]
    return (X.reshape(len(X), -1).T if samples == "pixels" else X.reshape(len(X), -1)), shape[1:]


def command(name: str, source: str, **records: Any) -> str:
    """Return the command line of an application on a source; `records` may also have `out` and `force`."""
    words = ["visionnmf", name, source]
    for argument, record in records.items():
        if not options_of(type(record)) and record:
            words += [f"--{argument}"] if record is True else [f"--{argument}", str(record)]
        for field in options_of(type(record)):
            value = changed(record).get(field.name)
            if value is True:
                words.append(field.flag)
            elif value is not None and value is not False:
                if isinstance(value, tuple) and field.option.parse:  # of one text with commas
                    value = ",".join(value)
                for each in value if isinstance(value, tuple) else (value,):
                    words += [field.flag, str(each)]
    return shlex.join(words)


def call(module: str, function: str, source: str, **records: Any) -> str:
    """Return the Python call of an application on a source, with its imports."""
    kinds = sorted({type(record).__name__ for record in records.values() if changed(record)})
    arguments = [repr(source)]
    for name, record in records.items():
        values = ((field, str(value) if isinstance(value, Path) else value) for field, value in changed(record).items())
        given = ", ".join(f"{field}={value!r}" for field, value in values)
        if given:
            arguments.append(f"{name}={type(record).__name__}({given})")
        elif record and not options_of(type(record)):
            arguments.append(f"{name}={record!r}")
    return f"from {module} import {', '.join([*kinds, function])}\n\n{function}({', '.join(arguments)})"
