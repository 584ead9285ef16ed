"""The background application called with the fields of its records, so that a test names only what it is about."""

from dataclasses import fields, replace

import numpy as np

from visionnmf.apps import background
from visionnmf.apps.background import tuning
from visionnmf.apps.background.settings import (
    EventSettings,
    LiveSettings,
    ModelSettings,
    OutputSettings,
    RegionSettings,
    VideoSettings,
)

RECORDS = {
    "video": VideoSettings,
    "region": RegionSettings,
    "model": ModelSettings,
    "outputs": OutputSettings,
    "events": EventSettings,
    "live": LiveSettings,
}


def _called(function, source, kinds, options):
    records = {}
    for name in kinds:
        record = RECORDS[name]
        given = {field.name: options.pop(field.name) for field in fields(record) if field.name in options}
        records[name] = record(**given)
    return function(source, **records, **options)


def separate(source, **options):
    """Call process_video with the fields of its records."""
    return _called(background.process_video, source, list(RECORDS)[:-1], options)


def follow(source, on_frame=None, on_event=None, until=None, **options):
    """Call follow_source with the fields of its records and callbacks."""
    options["callbacks"] = background.LiveCallbacks(on_frame=on_frame, on_event=on_event, until=until)
    return _called(background.follow_source, source, RECORDS, options)


def tuned(monkeypatch, part, **constants):
    """Change tuning constants of a part for a test."""
    changed = replace(getattr(tuning.TUNING, part), **constants)
    monkeypatch.setattr(tuning, "TUNING", replace(tuning.TUNING, **{part: changed}))


def f_measure(masks, truth):
    found = np.asarray(masks) > 0
    return 2 * (found & truth).sum() / (found.sum() + truth.sum())


def masks_of(model, frames):
    return np.stack([part.mask for part in model.apply(frames)])
