"""From files of views to a model file, and from a model file to codes and filled-in views."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from visionnmf import MultiviewNMF
from visionnmf._checks import check_matplotlib
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.drawing import new_figure, save_figure
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import UnreadableError, UnsupportedError
from visionnmf.io import check_outputs, check_parents, output_file, output_folder, together, write_csv
from visionnmf.models.data_checks import other_names

from .inputs import ViewSet, named, read_files, read_views
from .settings import ViewFit
from .view_model import Preparation, ViewModel, default_loss, load, save

Array = NDArray[Any]

CODES_SUFFIXES = (".csv", ".npy")
GUESSED = "to see how good the filled-in views are, leave a view out for samples that have it, and compare"
NOTHING_SHARED = (
    "  no component serves two views, so a missing view gets the same values for every sample; do rows belong together?"
)
NOTHING_PRIVATE = "  what a single view has is not among these components; a higher rank may find it"
MOSTLY = 0.9  # share of a component's energy in one view from which the summary counts it as hardly shared
MOST_LETTERS = 60  # of a view's name that go into the name of its file


def _view_line(view: dict[str, Any]) -> str:
    """Return the line of a view in the summary of a fit; `view` is an item of the figure ``views``."""
    parts = [counted(view["features"], "feature"), counted(view["used"], "component")]
    if not view["used"]:
        parts[1] += " (all are too weak here to count; more components or a weaker penalty may change that)"
    error = 100 * view["error"]  # in %; from 99.5 on it would be printed as 100 or more
    parts.append(f"{error:.0f} % not explained" if error < 99.5 else "nothing explained")
    # a list times a condition that is false is empty
    parts += ["left out because it looks like noise"] * (view["weight"] == 0)
    parts += [f"missing for {counted(view['missing'], 'sample')}"] * (view["missing"] > 0)
    parts += [f"{counted(view['gaps'], 'single entry', 'single entries')} missing"] * (view["gaps"] > 0)
    return f"  {view['name']}: {', '.join(parts)}"


def fit_lines(figures: dict[str, Any]) -> list[str]:
    """Return the figures of :func:`fit_views` in words."""
    several = len(figures["views"]) > 1  # below, a list times a condition that is false is empty
    kinds = [counted(figures["n_components"], "component")]
    if several:
        some = figures["n_components"] - figures["shared"] - figures["private"] - figures["unused"]
        kinds += [f"{figures['shared'] or 'none'} shared by all views", *[f"{some} shared by some"] * (some > 0)]
        kinds += [f"{figures['private'] or 'none'} private to one"]
        hardly = figures["hardly_shared"]
        kinds += [f"{hardly} of the shared with more than {100 * MOSTLY:.0f} % in one view"] * (hardly > 0)
    kinds += [f"{figures['unused']} unused"] * (figures["unused"] > 0)
    views = counted(len(figures["views"]), "view")
    return [
        f"{counted(figures['samples'], 'sample')}, {views}: {', '.join(kinds)} ({figures['seconds']:.1f} s)",
        f"  loss: {figures['loss']}",
        *map(_view_line, figures["views"]),
        *[NOTHING_SHARED] * (several and 0 < figures["private"] == figures["n_components"] - figures["unused"]),
        *[NOTHING_PRIVATE] * (several and figures["private"] == figures["unused"] == 0),
    ]


@takes_records
def fit_views(
    sources: Sequence[str | Path],
    model: str | Path,
    *,
    settings: ViewFit = ViewFit(),
    key: str | None = None,
    picture: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Fit a model to views in files, and write it.

    Parameters
    ----------
    sources : sequence of str or path
        Files of arrays or tables, or one folder of images, each ``PATH`` or ``NAME=PATH``.
    model : str or Path
        The file to write.
    settings : ViewFit
    key : str or None, default=None
        The column by which rows are matched; None matches them by position.
    picture : str or Path or None, default=None
        A PNG file that shows which view uses which component.
    force : bool, default=False
        Whether existing files may be replaced.
    progress : callable, optional
        Called as ``progress(stage, done, total)``; see :meth:`.MultiviewNMF.fit`.

    Returns
    -------
    Report
        Its figures are ``samples``, ``n_components``, ``loss``, ``shared``, ``hardly_shared``, ``private``, ``unused``
        (numbers of components that all of several views use, that several use but one has more than 90 % of, that one
        view uses, and that none uses), ``iterations``, ``usage`` (share of each component's energy in each view),
        ``seconds``, ``random_state``, and ``views``, for each a dict
        with ``name``, ``features``, ``missing`` (number of samples), ``gaps`` (number of entries that are missing
        besides), ``prepared`` (how), ``used`` (number of components), ``error`` (loss of the model as a share of that
        of the best constants, one for each feature; 1 or more if the model says no more than these) and ``weight``.

    Raises
    ------
    MediaError
        If views cannot be read or matched, or an output exists.
    ParameterError
        If the loss is unknown or does not suit the data, or matplotlib is missing for a picture.

    Examples
    --------
    >>> from visionnmf.apps.multiview import ViewFit, fit_views
    >>> settings = ViewFit(n_components=3)
    >>> fit_views(["shape.npy", "colour.npy"], "views.npz", settings=settings, force=True).outputs
    ['views.npz']
    """
    if picture is not None:
        check_matplotlib()
    outputs = [Path(path) for path in (model, picture) if path is not None]
    check_outputs(outputs, force, inputs=read_files(sources))
    check_parents(outputs)
    start = time.perf_counter()
    found = read_views(sources, key=key, kinds=settings.kinds)
    preparation = Preparation(settings.prepare).fit(found.views)
    ready = preparation.transform(found.views)
    nmf, notes = _fit(ready, settings, progress)
    with together():
        # `extraction` has described the images of views that are folders of images, and is None if there are none
        save(ViewModel(nmf, preparation, found.extraction, found.columns, key), model, force=force)
        if picture is not None:
            _draw_usage(nmf, picture, force=force)
    used = nmf.view_usage_ > 0  # (n_components, n_views): which view uses which component
    figures = {
        "samples": len(found.keys),
        "n_components": settings.n_components,
        "views": _describe_views(nmf, preparation, found.views),
        "loss": str(nmf.loss),
        "shared": int(used.all(axis=1).sum()) if used.shape[1] > 1 else 0,
        "hardly_shared": int(((nmf.view_usage_.max(axis=1) > MOSTLY) & (used.sum(axis=1) > 1)).sum()),
        "private": int((used.sum(axis=1) == 1).sum()),
        "unused": int((~used.any(axis=1)).sum()),
        "iterations": nmf.n_iter_,
        "usage": nmf.view_usage_.tolist(),
        "seconds": time.perf_counter() - start,
        "random_state": settings.random_state,
    }
    return Report(
        figures=figures,
        lines=fit_lines(figures),
        inputs=[str(source) for source in sources],
        outputs=[str(path) for path in outputs],
        skipped=found.skipped,
        notes=found.notes + notes,
    )


def _fit(views: dict[str, Array], settings: ViewFit, progress: Progress | None) -> tuple[MultiviewNMF, list[str]]:
    """Return the model of prepared views, and reasons, as sentences, to doubt it."""
    model = MultiviewNMF(
        settings.n_components,
        loss=settings.loss or default_loss(views),
        missing_values=np.nan,
        random_state=settings.random_state,
        group_l1=settings.group_l1,
        group_bound=settings.group_bound,
        scale=settings.scale,
        nuclear=settings.nuclear,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.filterwarnings("ignore", "MultiviewNMF leaves out views that look like noise")  # the lines say it
        model.fit(views, progress=progress)
    notes, gain = [], ""  # `gain`: how far the fit is from convergence, in words; "" if it converged
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):  # of one of the two steps of a fit
            gain = getattr(warning.message, "gain", str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if gain:
        notes.append(f"the fit stopped after {model.n_iter_} iterations before it had converged: {gain}")
    shape = len(next(iter(views.values()))), model.n_features_in_
    if settings.n_components > min(shape):
        notes.append(
            f"{settings.n_components} components are more than {shape[0]} samples of {shape[1]} features can tell "
            f"apart; a rank of {min(shape)} is enough"
        )
    return model, notes


def _describe_views(model: MultiviewNMF, preparation: Preparation, views: dict[str, Array]) -> list[dict[str, Any]]:
    """Return for each view its size, missing samples, preparation, used components, error and weight."""
    return [
        {
            "name": name,
            "features": int(view.shape[1]),
            "missing": int(missing.sum()),
            "gaps": int(np.isnan(view[~missing]).sum()),
            "prepared": preparation.kinds_[name],
            "used": int((model.view_usage_[:, v] > 0).sum()),
            "error": float(model.view_errors_[v]),
            "weight": float(model.view_weights_[v]),
        }
        for v, (name, view) in enumerate(views.items())
        for missing in [np.isnan(view).all(axis=1)]
    ]


def transform_views(
    model: str | Path, sources: Sequence[str | Path], codes: str | Path, *, key: str | None = None, force: bool = False
) -> Report:
    """Find the codes of samples from the views that they have, and write them.

    Parameters
    ----------
    model : str or Path
        A file that :func:`fit_views` has written.
    sources : sequence of str or path
        All or some of the views that the model was fitted to.
    codes : str or Path
        The file to write: ``.csv``, with the samples' keys, or ``.npy``.
    key : str or None, default=None
        The column by which rows are matched; None takes that of training if all files have keys, and else the position.
    force : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Report
        Its figures are ``samples`` and ``n_components``.

    Raises
    ------
    MediaError
        If a file cannot be read or written, `codes` has another suffix, or the model was not fitted to a view.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.multiview import transform_views
    >>> report = transform_views("views.npz", ["shape.npy"], "codes.npy", force=True)
    >>> np.load("codes.npy").shape
    (30, 3)
    """
    if Path(codes).suffix.lower() not in CODES_SUFFIXES:
        raise UnsupportedError(f"{codes}: codes must be written to a file that ends in {' or '.join(CODES_SUFFIXES)}")
    check_outputs([codes], force, inputs=[model, *read_files(sources)])
    found, known = _new_samples(model, sources, key)
    W = known.model.transform(known.preparation.transform(found.views))
    _write(codes, W, found.keys, [found.key or "key", *(f"component{k}" for k in range(W.shape[1]))], force)
    return Report(
        figures={"samples": len(W), "n_components": W.shape[1]},
        lines=[f"{counted(len(W), 'sample')}, {counted(W.shape[1], 'code')} each"],
        inputs=[str(model), *map(str, sources)],
        outputs=[str(codes)],
        skipped=found.skipped,
        notes=found.notes,
    )


def impute_views(
    model: str | Path, sources: Sequence[str | Path], out: str | Path, *, key: str | None = None, force: bool = False
) -> Report:
    """Fill in missing views and entries, and write one ``.csv`` file for each view.

    Parameters
    ----------
    model : str or Path
        A file that :func:`fit_views` has written.
    sources : sequence of str or path
        All or some of the views that the model was fitted to.
    out : str or Path
        Folder for the files, which is created if it is missing.
    key : str or None, default=None
        The column by which rows are matched; None takes that of training if all files have keys, and else the position.
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Report
        Its figures are ``samples``, ``n_components``, ``filled``, the number of missing views that were filled in, and
        ``views``: of each its ``name``, ``features``, missing samples and ``gaps``, and its ``error`` in training.

    Raises
    ------
    MediaError
        As :func:`transform_views`, and if the preparation of a view cannot be undone.

    Examples
    --------
    >>> from visionnmf.apps.multiview import impute_views
    >>> len(impute_views("views.npz", ["shape.npy"], "all", force=True).outputs)
    2
    """
    found, known = _new_samples(model, sources, key)
    names = known.model.views_.tolist()
    paths = [Path(out) / f"{stem}.csv" for stem in _stems(names)]
    check_outputs(paths, force, inputs=[model, *read_files(sources)])
    whole = known.preparation.inverse_transform(known.model.impute(known.preparation.transform(found.views)))
    views = []
    for name, error in zip(names, known.model.view_errors_.tolist(), strict=True):
        empty = np.isnan(found.views.get(name, np.full(whole[name].shape, np.nan)))  # all of a view that is absent
        lost = empty.all(axis=1)
        views.append({"name": name, "features": empty.shape[1], "missing": int(lost.sum())})
        views[-1] |= {"gaps": int(empty[~lost].sum()), "error": error}
    missing = sum(view["missing"] for view in views)
    output_folder(out)
    with together():
        for path, name in zip(paths, names, strict=True):
            own = found.views.get(name)
            values = whole[name] if own is None else np.where(np.isnan(own), whole[name], own)
            # the names of training, or those of the given file, or numbers
            columns = known.columns.get(name) or found.columns.get(name)
            columns = columns or [f"{name}_{i}" for i in range(values.shape[1])]
            _write(path, values, found.keys, [found.key or "key", *columns], force, given=own)
    filled = f"{counted(missing, 'missing view')} filled in" if missing else "no view is missing"
    return Report(
        figures={
            "samples": len(found.keys),
            "n_components": len(known.model.components_),
            "filled": missing,
            "views": views,
        },
        lines=[f"{counted(len(found.keys), 'sample')}, {filled}"],
        inputs=[str(model), *map(str, sources)],
        outputs=[str(path) for path in paths],
        skipped=found.skipped,
        notes=found.notes + [GUESSED] * (missing > 0),  # how a user can judge the views that were filled in
    )


def _new_samples(model: str | Path, sources: Sequence[str | Path], key: str | None) -> tuple[ViewSet, ViewModel]:
    """Return the new samples in the files `sources`, and the model for them, which was saved to the file `model`."""
    known = load(model)
    folder = next((path for _, path in map(named, sources) if Path(path).is_dir()), None)
    if folder is not None and known.extraction is None:
        raise UnreadableError(f"{folder}: a folder, but the model was not fitted to images; give files of its views")
    found = read_views(sources, key=key, extraction=known.extraction, usual_key=known.key)
    sizes = dict(zip(known.model.views_.tolist(), np.bincount(known.model.view_groups_).tolist(), strict=True))
    for name, view in found.views.items():
        if name not in sizes:
            raise UnreadableError(
                f"{name}: not a view of the model, which has {', '.join(sizes)}; name it as in NAME=PATH"
            )
        if view.shape[1] != sizes[name]:
            raise UnreadableError(f"{name}: must have {sizes[name]} features as in training; got {view.shape[1]}")
        new, old = found.columns.get(name), known.columns.get(name)
        if new and old and new != old:
            first = next(i for i, (a, b) in enumerate(zip(new, old, strict=True)) if a != b)
            raise UnreadableError(
                f"{name}: must have the columns of training in their order; got {other_names(new, old)}; column "
                f"{first + 1} of the features must be {old[first]!r:.60}"
            )
        if bool(new) != bool(old):
            which = "this file has" if old else "that of training had"
            found.notes.append(f"{name}: columns are taken to be in the order of training, because {which} no names")
    return found, known


def _stems(names: Sequence[str]) -> list[str]:
    """Return distinct names for files, of letters, digits and ``_.-``, in the order of the views."""
    stems: dict[str, str] = {}  # keyed in lower case, because some file systems ignore case
    for v, name in enumerate(names):
        stem = re.sub(r"[^\w.-]", "_", name)[:MOST_LETTERS] or "view"
        while stem.lower() in stems:
            stem += f"-{v}"
        stems[stem.lower()] = stem
    return list(stems.values())


def _write(path: Any, values: Array, keys: Sequence[str], names: Sequence[str], force: bool, given: Any = None) -> None:
    """Write a matrix as ``.npy``, or as a table with `keys` first and headings; what was `given` has all its digits."""
    if Path(path).suffix.lower() == ".npy":
        with output_file(path, force=force) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)
    else:
        cells = np.char.mod("%.7g", values)
        if given is not None:
            exact = cells.astype(given.dtype) == given  # not of NaN
            cells = np.where(exact | np.isnan(given), cells, given.astype(str))
        write_csv(path, [names, *([key, *row] for key, row in zip(keys, cells.tolist(), strict=True))], force=force)


def _draw_usage(model: Any, path: str | Path, *, force: bool) -> None:
    """Draw which view uses which component to a PNG file."""
    from visionnmf.plotting import ViewUsageDisplay

    figure = new_figure(8, max(2.4, 1 + 0.4 * len(model.views_)))
    ViewUsageDisplay.from_estimator(model, figure.subplots())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter that the font lacks is drawn as a box
        save_figure(figure, path, force=force)
