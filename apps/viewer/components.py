"""The widget Components: the pixels of an image stack or a spectral cube, factorised."""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from magicgui.widgets import PushButton
from napari.layers import Image
from numpy.typing import NDArray

from visionnmf import NMF, choices
from visionnmf.apps.settings import Option, Seed, options_of, settings
from visionnmf.io import stem_of

from .layers import SOURCE, holds, samples_of, source_of
from .panel import Panel, control

READERS = {".npy": ("numpy", "load"), ".tif": ("tifffile", "imread"), ".tiff": ("tifffile", "imread")}


@settings
class FactorSettings:
    """How an image stack is factorised."""

    samples: Annotated[
        str, Option("The rows of X; the components of pixels are spectra.", choices=("pixels", "pictures"))
    ] = "pixels"
    n_components: Annotated[int, Option("The number of components.", low=1, high=100)] = 4
    loss: Annotated[str, Option("What is minimised.", choices=choices.AUTO_LOSSES)] = choices.AUTO_LOSSES[0]
    random_state: Seed = choices.RANDOM_STATE


class Components(Panel):
    """Components and codes of an image stack (n, height, width), or of the colours of a picture."""

    def __init__(self, napari_viewer: Any) -> None:
        """Show the controls in napari's window."""
        self.stack = self.choice(napari_viewer, Image, "image stack")
        self.controls = [control(FactorSettings, field.name) for field in options_of(FactorSettings)]
        self.start = PushButton(text="Factorise")
        super().__init__(napari_viewer, [self.stack, *self.controls, self.start])
        self.start.changed.connect(self.factorise)

    def factorise(self) -> None:
        """Factorise the chosen layer."""
        layer = self.stack.value
        if layer is None:
            return self.say("Open an image stack first.")
        data, rgb, wanted = layer.data, layer.rgb, FactorSettings(**{each.name: each.value for each in self.controls})

        def work() -> tuple[Any, dict[str, NDArray[Any]], tuple[str, str]]:
            """Return the layer, components and codes, those that are pictures as such, and how to repeat them."""
            X, shape = samples_of(data, wanted.samples, rgb=rgb)
            model = NMF(wanted.n_components, loss=wanted.loss, random_state=wanted.random_state)
            codes = model.fit_transform(X)
            factors = {"components": model.components_, "codes": codes}
            shown = "codes" if wanted.samples == "pixels" else "components"
            factors[shown] = (codes.T if shown == "codes" else model.components_).reshape(-1, *shape)
            return layer, factors, _repeated(layer, data, wanted)

        return self.work("Factorising ...", work, self._show)

    def _show(self, found: tuple[Any, dict[str, NDArray[Any]], tuple[str, str]]) -> None:
        """Show the first picture of codes or components in place of the stack, and how to repeat them."""
        layer, factors, (self.command.value, self.python.value) = found
        made = [self.put(Image, name, data, visible=data.ndim == 3) for name, data in factors.items()]
        layer.visible = False
        self.viewer.dims.set_point(-3, 0)
        for each in made:  # behind that, because contrast is of the picture that is looked at
            each.reset_contrast_limits()


def _repeated(layer: Any, data: Any, wanted: FactorSettings) -> tuple[str, str]:
    """Return the command, empty where no file holds the layer, and the Python lines that repeat a factorisation."""
    source = source_of(layer) or ""
    reader = ("visionnmf.io", "read_image") if layer.metadata.get(SOURCE) else READERS.get(Path(source).suffix.lower())
    if reader and not holds(source, data, getattr(import_module(reader[0]), reader[1])):
        reader = None
    stack = f"viewer.layers[{layer.name!r}].data" if reader is None else f"{reader[1]}({source!r})"
    lines = [
        "from visionnmf import NMF",
        "from visionnmf.apps.viewer.layers import samples_of",
        "# in napari's console" if reader is None else f"from {reader[0]} import {reader[1]}",
        "",
        f"X, shape = samples_of({stack}, {wanted.samples!r}, rgb={layer.rgb})",
        f"model = NMF({wanted.n_components}, loss={wanted.loss!r}, random_state={wanted.random_state})",
        "codes = model.fit_transform(X)",
        "components = model.components_",
    ]
    saving = f"model.save({f'{stem_of(source)}_components.npz'!r})"
    return "" if reader is None else shlex.join(["python", "-c", "\n".join([*lines, saving])]), "\n".join(lines)
