"""What all reports have in common."""

import dataclasses
import json

import pytest

from visionnmf.apps import annotation, background, evaluate, faces, features, masquerade, multiview, segmentation
from visionnmf.apps.report import Report

COMMON = ("inputs", "outputs", "skipped", "notes")


@dataclasses.dataclass(frozen=True)
class Counted(Report):
    """A report with one figure."""

    count: int

    def summary(self):
        return "\n".join([f"{self.count} things", *self._notes_and_outputs()])


def test_a_report_says_the_same_to_programs_and_to_people():
    report = Counted(3, inputs=["a"], outputs=["b", "c"], skipped=["d: empty"], notes=["few"])
    expected = {"count": 3, "inputs": ["a"], "outputs": ["b", "c"], "skipped": ["d: empty"], "notes": ["few"]}
    assert json.loads(json.dumps(report.as_dict())) == expected
    assert report.summary().splitlines() == ["3 things", "few", "wrote b", "wrote c", "left out: d: empty"]
    assert str(report) == report.summary()  # what print shows
    assert Counted(1).as_dict() == {"count": 1} | {name: [] for name in COMMON}


def test_every_report_of_an_application_is_one():
    """What JSON documents hold is tested with each command."""
    found = set()
    for module in (annotation, background, evaluate, faces, features, masquerade, multiview, segmentation):
        public = (getattr(module, name) for name in module.__all__)
        found |= {value for value in public if isinstance(value, type) and issubclass(value, Report)}
    assert {each.__name__ for each in found} == {
        "Annotations", "AnnotatorTrained", "BackgroundReport", "LiveReport",
        "AddedPersonReport", "FaceClustersReport", "FaceTrainingReport", "IdentificationReport", "ShadowRemovalReport",
        "Evaluation", "FitReport", "TransformReport", "FeaturesReport", "SegmentationReport", "MasqueradeTrained",
    }  # fmt: skip
    for each in found:
        assert set(COMMON) <= {field.name for field in dataclasses.fields(each)}


def test_a_report_needs_a_summary():
    with pytest.raises(TypeError, match="summary"):
        Report(inputs=["a"])


def test_many_numbered_files_become_one_line():
    """Fourteen pictures of events would bury what was found; other files are listed one by one."""
    pictures = [f"out/yard 2_event_{number:03d}.png" for number in range(1, 15)]
    report = Counted(1, outputs=["out/yard 2_events.csv", *pictures, "out/a1.png", "out/a2.png"])
    assert report.summary().splitlines()[1:] == [
        "wrote out/yard 2_events.csv",
        "wrote out/yard 2_event_001.png to out/yard 2_event_014.png (14 files)",
        "wrote out/a1.png",
        "wrote out/a2.png",
    ]
    assert report.as_dict()["outputs"][1:15] == pictures
