"""What the widgets share: controls made from settings, work in a thread, results as layers, and how to repeat them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from magicgui.widgets import ComboBox, Container, PushButton, TextEdit, create_widget
from napari.layers import Image
from napari.qt.threading import create_worker
from napari.utils.notifications import show_error
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QSize, Qt, QTimer
from qtpy.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QScrollArea, QSlider, QVBoxLayout, QWidget

from visionnmf.apps.settings import options_of
from visionnmf.exceptions import VisionNMFError

from .layers import source_of

FIRST = "(longer the first time, when machine code is compiled or loaded)"


def control(record: type, name: str, value: Any = None, **options: Any) -> Any:
    """Return the control of a field of a record; `value` is the first one where the default is None."""
    field = next(field for field in options_of(record) if field.name == name)
    option, kind = field.option, options.pop("annotation", field.type)
    given: dict[str, Any] = {"tooltip": option.help}
    if option.choices:
        given["choices"] = list(option.choices)
    elif kind in (int, float):
        low, high = option.low or 0, 1_000_000 if option.high is None else option.high
        given |= {"min": kind(low + options["step"] if option.above else low), "max": kind(high)}
    label = field.flag.removeprefix("--").replace("-", " ")
    first = field.default if value is None else value
    return create_widget(first, annotation=kind, name=name, label=label, options=given | options)


def exchange(layer: Any, data: Any) -> None:
    """Give a layer other data, their own contrast, and nothing to undo, which would bring back pieces of the old."""
    layer.data = data
    if isinstance(layer, Image):
        layer.reset_contrast_limits_range()
        layer.reset_contrast_limits("data")
    else:
        mode, layer.editable = layer.mode, False  # this ends what can be undone, and takes the tool away
        layer.editable, layer.mode = True, mode


class Column(QScrollArea):
    """Controls that scroll, as wide as they need. The wheel changes no value of what is under the mouse."""

    def __init__(self, parent: QWidget) -> None:
        """Take the place of the controls of `parent`."""
        super().__init__()
        inner, self.controls = QWidget(), parent.layout()
        inner.setLayout(self.controls)
        self.setWidget(inner)
        self.setWidgetResizable(True)
        self.setFrameStyle(0)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        whole = QVBoxLayout(parent)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self)
        for kind in (QAbstractSpinBox, QComboBox, QSlider):
            for each in inner.findChildren(kind):
                each.installEventFilter(self)

    def minimumSizeHint(self) -> QSize:
        """Return the width of the controls with the scroll bar, and a little height."""
        return QSize(self.widget().minimumSizeHint().width() + self.verticalScrollBar().sizeHint().width(), 100)

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Leave the wheel to the column."""
        if event.type() == QEvent.Type.Wheel:
            event.ignore()
            return True
        return bool(super().eventFilter(watched, event))


class Panel(Container):
    """A widget of napari. It works on one thing at a time; of what is asked meanwhile the last is done."""

    _parent = Path()  # the folder that is chosen until the user chooses another

    def __init__(self, viewer: Any, controls: Sequence[Any], *, has_command: bool = True) -> None:
        """Show `controls`, then what is going on, then how to repeat it."""
        self.viewer = viewer
        self.state = TextEdit()
        self.command = TextEdit(label="command", tooltip="The command line that repeats this.")
        self.python = TextEdit(label="Python", tooltip="The Python call that repeats this.")
        shown: list[Any] = []
        for text in (self.command, self.python)[not has_command :]:
            text.read_only = True
            text.min_height, text.max_height = 60, 160 if has_command else 240
            button = PushButton(text=f"Copy {text.label}")
            button.changed.connect(lambda *_, text=text: QApplication.clipboard().setText(text.value))
            shown += [text, button]
        self._made: dict[str, Any] = {}  # layers of results by the names that they were made with
        self._worker: Any = None
        self._waiting: tuple[Any, ...] = ()
        self._said = ""  # what stays in sight after the work
        super().__init__(widgets=[*controls, *shown])
        self.column = Column(self.native)
        state, self.state.read_only = self.state.native, True  # a label would not break the long names of files
        state.setStyleSheet("background: transparent; border: 0; padding: 0")
        state.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        size = state.document().documentLayout().documentSizeChanged
        size.connect(lambda size: state.setFixedHeight(round(size.height()) + 2))
        self.column.controls.insertWidget(len(controls), state)
        self.column.controls.addStretch()

    def made(self, name: str) -> Any:
        """Return the layer of a result, or None if there is none or it was removed."""
        found = self._made.get(name)
        return next((layer for layer in self.viewer.layers if layer is found), None)

    def choice(
        self, viewer: Any, kind: type[Any], label: str, *, optional: bool = False, axes: int = 0, has: str = "shape"
    ) -> ComboBox:
        """Return a control of layers of a kind, but no own results; files of `axes` whose data have `has` at once."""

        def there(box: Any) -> list[Any]:
            """Return the layers that there are at present."""
            for number in range(bool(optional), box.native.count()):  # a layer that was renamed stays chosen
                box.native.setItemText(number, box.native.itemData(number).name)
            own = [*map(id, getattr(self, "_made", {}).values())]  # none before `__init__`, which is given controls
            found = [layer for layer in viewer.layers if isinstance(layer, kind) and id(layer) not in own]
            return found[::-1] if kind is Image else found  # the picture on top, which is seen, comes first

        def opened(event: Any) -> None:
            """Choose the layer of a file, because it covers the others."""
            layer = event.value
            is_meant = isinstance(layer, kind) and layer.ndim == axes and hasattr(layer.data, has)
            if is_meant and source_of(layer) and self._is_open():
                box.reset_choices()
                box.value = layer

        box = ComboBox(label=label, choices=there, nullable=optional)
        viewer.layers.events.inserted.connect(opened)
        return box

    def later(self, action: Callable[..., Any]) -> Callable[..., None]:
        """Return what calls `action` after an event, because napari's polygon and bucket draw after `paint`."""
        return lambda *_: QTimer.singleShot(0, lambda: action() if self._is_open() else None)

    def follow(self, choice: ComboBox, events: Sequence[str], action: Callable[..., None]) -> None:
        """Call `action` when another layer is chosen, and after events of the chosen one."""
        after = self.later(action)

        def listen(layer: Any) -> None:
            """Listen to a layer also after another one is chosen, when its events change nothing."""
            for event in () if layer is None else events:
                getattr(layer.events, event).connect(after)  # once, however often
            action()

        choice.changed.connect(listen)

    def uncover(self, *chosen: ComboBox) -> None:
        """Hide what else could be chosen, which may lie above."""
        for each in filter(None, (layer for choice in chosen for layer in choice.choices)):
            if each.visible != (each in [choice.value for choice in chosen]):  # else napari would take the brush away
                each.visible = not each.visible

    def beside(self, source: str | None) -> None:
        """Choose the folder of a file for the results, until the user chooses another."""
        if source is not None and os.path.exists(source) and self.folder.value == self._parent:
            self.folder.value = self._parent = Path(source).parent

    def work(self, doing: str, function: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Call a function in a thread, and `done` with what it returns, or with each thing that a generator yields."""
        self._waiting = doing, function, done
        if self._worker is None:
            QTimer.singleShot(0, self._go_on)  # not now, because napari may be closing, which takes away the layers
        elif hasattr(self._worker, "yielded"):  # a generator ends at its next step
            self._worker.quit()

    def _go_on(self) -> None:
        """Begin what waits."""
        if self._worker is not None or not self._waiting or not self._is_open():
            return
        (doing, function, done), self._waiting = self._waiting, ()
        self.state.value, self._said = doing, ""
        self._worker = worker = create_worker(function, _start_thread=False, _ignore_errors=True)
        result = worker.yielded if inspect.isgeneratorfunction(function) else worker.returned
        result.connect(lambda value: done(value) if self._is_open() else None)
        worker.errored.connect(self.say)
        worker.finished.connect(self._end)
        worker.start()

    def _end(self) -> None:
        """Go on after a work has ended."""
        self._worker = None
        if self._is_open():
            self.state.value = self._said
            self._go_on()

    def done(self, what: str) -> None:
        """Show what came out, also after the work has ended."""
        self.state.value = self._said = what

    def _is_open(self) -> bool:
        """Return whether napari's window is there, also behind a dock that floats, or is hidden."""
        return isalive(self.native) and bool(dock := self.native.parent()) and dock.parent().isVisible()

    def say(self, problem: str | Exception) -> None:
        """Show what is missing or wrong, and keep it in sight when napari's notification goes away."""
        ours = isinstance(problem, str | VisionNMFError)
        self.state.value = self._said = str(problem) if ours else f"{type(problem).__name__}: {problem}"
        show_error(self._said)

    def put(self, kind: type[Any], name: str, data: Any, *, above: Any = None, **attributes: Any) -> Any:
        """Show data in the layer of this result, made where there is none, `above` its picture; return the layer."""
        layers, layer = self.viewer.layers, self.made(name)
        if layer is not None:
            exchange(layer, data)
            for attribute in attributes.keys() & {"scale", "translate"}:
                setattr(layer, attribute, attributes[attribute])
        else:
            chosen = list(layers.selection)
            self._made[name] = layer = kind(data, name=name, **attributes)  # known before the choices are updated
            self.viewer.add_layer(layer)
            if chosen:  # a new layer would take the brush away from that which is drawn on
                layers.selection = chosen
        if above is not None and layers.index(layer) < layers.index(above):
            layers.move(layers.index(layer), layers.index(above) + 1)
        return layer
