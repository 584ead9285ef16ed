"""The widget Components: the pixels of an image stack or a spectral cube, factorised."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from magicgui.widgets import PushButton
from matplotlib.backends.backend_qtagg import FigureCanvasQTAgg
from matplotlib.figure import Figure
from napari.layers import Image

from visionnmf import NMF, choices
from visionnmf._text import counted
from visionnmf.apps.settings import Option, Seed, options_of, settings
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import SIZES

from .layers import SOURCE, holds, samples_of, source_of
from .panel import FIRST, Panel, control

PICTURES, CURVES = "pictures", "curves"  # results, of which either may be the codes; a layer keeps its number of axes
SMALL = {"fontsize": "small", "labelspacing": 0.1, "handlelength": 1}
OLDER = ". The layers show the run before."
READERS = {".npy": ("numpy", "load"), ".tif": ("tifffile", "imread"), ".tiff": ("tifffile", "imread")}


@settings
class FactorSettings:
    """How an image stack is factorised."""

    samples: Annotated[
        str, Option("The rows of X; the components of pixels are spectra.", choices=("pixels", "pictures"))
    ] = "pixels"
    n_components: Annotated[int, Option("The number of components.", low=1, high=100)] = 4
    loss: Annotated[str, Option("What is minimised.", choices=choices.COMPARED_LOSSES)] = choices.COMPARED_LOSSES[0]
    random_state: Seed = choices.RANDOM_STATE


class Components(Panel):
    """Components and codes of an image stack (n, height, width), or of the colours of a picture."""

    def __init__(self, napari_viewer: Any) -> None:
        """Show the controls in napari's window."""
        self.stack = self.choice(napari_viewer, Image, "image stack", axes=3)
        self.controls = [control(FactorSettings, field.name) for field in options_of(FactorSettings)]
        self.start = PushButton(text="Factorise")
        super().__init__(napari_viewer, [self.stack, *self.controls, self.start], has_command=False)
        self.curves = FigureCanvasQTAgg(Figure(figsize=(4, 2.5), layout="constrained"))
        self.curves.setFixedHeight(240)
        self.curves.installEventFilter(self.column)
        self.column.controls.insertWidget(len(self.controls) + 2, self.curves)  # below the button
        self.curves.hide()
        self.start.changed.connect(self.factorise)
        napari_viewer.layers.events.removed.connect(self.later(self._forget))
        napari_viewer.dims.events.range.connect(self._fit)
        napari_viewer.dims.events.current_step.connect(self._fit, position="last")  # when the picture is there

    def factorise(self) -> None:
        """Factorise the chosen layer."""
        layer = self.stack.value
        if layer is None:
            return self.say("Open an image stack first.")
        data, rgb, wanted = layer.data, layer.rgb, FactorSettings(**{each.name: each.value for each in self.controls})
        self.python.value = ""  # of the run before, which stays in the layers until this one succeeds
        self.curves.hide()

        def work() -> tuple[Any, ...]:
            """Return the layer, the factor that is pictures and the other one, their names, and how to repeat them."""
            X, shape = samples_of(data, wanted.samples, rgb=rgb)
            check_values(X, layer.name, wanted)
            model = NMF(wanted.n_components, loss=wanted.loss, random_state=wanted.random_state)
            factors = [model.fit_transform(X), model.components_]
            names = ("codes", "components")[:: 1 if wanted.samples == "pixels" else -1]
            pictures, curves = (factors[0].T, factors[1]) if names[0] == "codes" else factors[::-1]
            left = np.abs(X - factors[0] @ factors[1]).sum(dtype=float) / X.sum(dtype=float)
            return layer, pictures.reshape(-1, *shape), curves, names, left, _repeated(layer, data, wanted)

        return self.work(f"Factorising ... {FIRST}", work, self._show)

    def _show(self, found: tuple[Any, ...]) -> None:
        """Show the pictures in place of the stack, the other factor as a curve of each component, and how to repeat."""
        layer, pictures, curves, names, left, self.python.value = found
        self._stack = layer
        shown, other = self.put(Image, PICTURES, pictures), self.put(Image, CURVES, curves, visible=False)
        other.name = CURVES  # because names are unique, and may be exchanged
        shown.name, other.name = names
        self.curves.figure.clear()
        axes = self.curves.figure.subplots()
        axes.plot(curves.T if names[1] == "components" else curves, marker=".")
        axes.set(title=names[1], xlabel="number in the stack")
        axes.locator_params("x", integer=True)
        axes.legend([*map(str, range(min(len(axes.lines), 10)))], loc="upper left", bbox_to_anchor=(1, 1), **SMALL)
        self.curves.draw_idle()
        for each in (layer, shown, other):
            each.events.visible.connect(self._fit)
        layer.visible = False
        self.curves.show()
        self.viewer.dims.set_point(-3, 0)
        self._fit()
        self.done(f"{counted(len(pictures), 'component')}: the model is off by {left:.2%} of the sum of all values.")
        self._forget()  # if the stack was removed meanwhile

    def say(self, problem: str | Exception) -> None:
        """Say what is wrong, and that the results that are seen are older."""
        super().say(problem)
        if self.made(PICTURES) is not None and isinstance(problem, Exception):
            self.done(self.state.value + OLDER)

    def _forget(self) -> None:
        """Show nothing of results that were removed, and no call with a layer that was."""
        if None in (self.made(PICTURES), self.made(CURVES)):
            self.curves.hide()
            self.python.value = ""
            if self._said.endswith(OLDER):
                self.done(self._said.removesuffix(OLDER))
        elif self._stack not in self.viewer.layers and "viewer.layers" in self.python.value:
            self.python.value = "# No call: the image stack was removed, and is not what a file holds."

    def _fit(self, *_: Any) -> None:
        """End the slider with what is seen, not with the hidden stack, and give each picture its own contrast."""
        pictures, shown = self.made(PICTURES), [each for each in self.viewer.layers if each.visible and each.ndim == 3]
        if pictures is not None and shown:
            self.viewer.dims.set_range(-3, (0, max(layer.extent.world[1][0] for layer in shown), 1))
            pictures.reset_contrast_limits()


def check_values(X: Any, name: str, wanted: FactorSettings) -> None:
    """Raise ParameterError, with what to change in napari, for values of a layer that cannot be factorised."""
    low, high, limit = float(X.min(initial=0)), float(X.max(initial=0)), SIZES["float32"]
    mean, must, most = float(X.mean(dtype=float)) if X.size else 0.0, "", min(X.shape)
    if low == high == 0:
        must, got = "hold something", "nothing but 0" if X.size else "nothing"
    elif not np.isfinite(low + high):
        must, got = "be finite", "NaN or infinite values"
    elif low < 0:
        must, got = "hold no values below 0", f"{low:.3g}"
    elif not 1 / limit <= mean <= limit:
        must, got = f"have a mean from {1 / limit:g} to {limit:g}", f"{mean:.3g}"
    if must:
        cure = f"choose another layer, or set viewer.layers[{name!r}].data in the console"
        raise ParameterError(f"image stack must {must}; got {got} in {name}; {cure}")
    if wanted.n_components > most:
        what = f"{name} has {counted(len(X), wanted.samples[:-1])} of {counted(X.shape[1], 'value')}"
        raise ParameterError(f"n components must be at most {most}, because {what}; got {wanted.n_components}")


def _repeated(layer: Any, data: Any, wanted: FactorSettings) -> str:
    """Return the Python lines that repeat a factorisation."""
    source = source_of(layer) or ""
    reader = ("visionnmf.io", "read_image") if layer.metadata.get(SOURCE) else READERS.get(Path(source).suffix.lower())
    if reader and not holds(source, data, getattr(import_module(reader[0]), reader[1])):
        reader = None
    stack = f"viewer.layers[{layer.name!r}].data" if reader is None else f"{reader[1]}({source!r})"
    return f"""from visionnmf import NMF
from visionnmf.apps.viewer.layers import samples_of
{"# in napari's console" if reader is None else f"from {reader[0]} import {reader[1]}"}

X, shape = samples_of({stack}, {wanted.samples!r}, rgb={layer.rgb})
model = NMF({wanted.n_components}, loss={wanted.loss!r}, random_state={wanted.random_state})
codes = model.fit_transform(X)
components = model.components_"""
