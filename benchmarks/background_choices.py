"""How the constants of the background's mask were chosen: each by the other clips.

    python benchmarks/background_choices.py            the table (about ten minutes)
    python benchmarks/background_choices.py live       the same of live masks, on clips of a second or more

Each constant takes some values, the others their defaults; F is measured on at most 12 masks of each clip. "held out"
is the mean over clips of F under the value that is best on average on the other clips, so that no clip takes part in
the choice of what it is judged by; "by source" leaves out all clips of the data set that a clip comes from. The last
row chooses among all rows at once. A part is left out by a constant that keeps it from firing: SMOOTHER, SURVIVES and
STRONGER of 0, 0 and infinity, EXPLAINED of 1, MOST_SHARE of 0. The clips are research data that the
project does not ship: see visionnmf.datasets.local.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _main import main
from background import EMPTY, LIVE, count, f_measure

from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel, modes, recurring, shake, sway
from visionnmf.apps.background import fit as _fit
from visionnmf.apps.background.online import model as _live
from visionnmf.datasets.local import MASKED_VIDEOS, load_video_with_masks

VIDEOS = tuple(name for name in MASKED_VIDEOS if name != EMPTY)
MASKS = 12
CONSTANTS: dict[tuple[object, str], tuple[float, ...]] = {
    (_fit, "NOISE_CEILING"): (9.0, 50 / 3),
    (modes, "SMOOTHER"): (0.0, 0.75),
    (modes, "STRONGER"): (1.1, np.inf),
    (sway, "SURVIVES"): (0.0, 0.38),
    (shake, "EXPLAINED"): (0.1, 1.0),
    (modes, "NEAR"): (7.0, 14.0),
    (modes, "CHANGES"): (2, 8),
    (sway, "RESTLESS"): (0.7, 1.4),
    (recurring, "MOST_SHARE"): (0.0, 1.0),
    (recurring, "PARTS"): (4, 6),
}


class LiveParameters:
    """Of OnlineBackgroundModel, its defaults; set anew like a module's constants."""

    forgetting, warm_up = 60.0, 2.0


LIVE_CONSTANTS: dict[tuple[object, str], tuple[float, ...]] = {
    (LiveParameters, "forgetting"): (20.0, 180.0),
    (LiveParameters, "warm_up"): (1.0, 4.0),
    (_live, "VALUE_SECONDS"): (2.0, 8.0),
    (_live, "START_WEIGHT"): (0.25, 1.0),
    (_live, "NEW_SHARE"): (0.35, 0.7),
}


def live_scores() -> dict[str, float]:
    """Return F of each clip, masked live."""
    result = {}
    for name in LIVE:
        video = load_video_with_masks(name)
        truth = {int(index): number for number, index in enumerate(video.gt_index)}
        model = OnlineBackgroundModel(forgetting=LiveParameters.forgetting, warm_up=LiveParameters.warm_up)
        parts = model.follow(video.frames)
        counts = [count(part.mask, video.gt_masks[truth[part.index]]) for part in parts if part.index in truth]
        result[name] = f_measure(np.sum(counts, axis=0))
    return result


def scores() -> dict[str, float]:
    """Return F of each clip."""
    result = {}
    for name in VIDEOS:
        video = load_video_with_masks(name)
        picks = np.unique(np.linspace(0, len(video.gt_index) - 1, MASKS).round().astype(int))
        model = BackgroundModel().fit(video.frames)
        masks = np.stack([part.mask for part in model.apply(video.frames[video.gt_index[picks]])])
        result[name] = f_measure(count(masks, video.gt_masks[picks]))
    return result


def held_out(rows: list[dict[str, float]], by_source: bool) -> float:
    """Return the mean F of clips under the row that is best on the others."""
    found = []
    clips = list(rows[0])
    for name in clips:
        others = [other for other in clips if other != name]
        if by_source:
            others = [other for other in clips if other.split("_")[0] != name.split("_")[0]] or others
        best = max(rows, key=lambda row: np.mean([row[other] for other in others]))
        found.append(best[name])
    return float(np.mean(found))


def table() -> None:
    """Print a row a constant."""
    _choose(CONSTANTS, scores)


def live() -> None:
    """Print a row a constant of live masks."""
    _choose(LIVE_CONSTANTS, live_scores)


def _choose(constants: dict[tuple[object, str], tuple[float, ...]], scores: Callable[[], dict[str, float]]) -> None:
    defaults = scores()
    every = [defaults]
    print(f"\ndefaults: mean F {np.mean([*defaults.values()]):.4f} of {len(defaults)} clips\n")
    print("| constant | default | others: mean F | held out | by source |\n| --- | --- | --- | --- | --- |")
    for (module, name), values in constants.items():
        before = getattr(module, name)
        rows = [defaults]
        for value in values:
            setattr(module, name, value)
            rows.append(scores())
            setattr(module, name, before)
        means = ", ".join(
            f"{value:.3g}: {np.mean([*row.values()]):.4f}" for value, row in zip(values, rows[1:], strict=True)
        )
        print(
            f"| {name} | {before:.3g} | {means} | {held_out(rows, False):.4f} | {held_out(rows, True):.4f} |",
            flush=True,
        )
        every += rows[1:]
    print(f"| all at once | | | {held_out(every, False):.4f} | {held_out(every, True):.4f} |")


PARTS = {"table": table, "live": live}
QUICK = {
    "VIDEOS": ("sbi_cavignal", "wallflower_camouflage"),
    "MASKS": 2,
    "CONSTANTS": {(_fit, "NOISE_CEILING"): (9.0,)},
    "LIVE": ["wallflower_camouflage", "sbi_cavignal"],
    "LIVE_CONSTANTS": {(_live, "VALUE_SECONDS"): (2.0,)},
}

if __name__ == "__main__":
    main(PARTS, globals(), QUICK, default=["table"])
