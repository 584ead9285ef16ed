"""Configuration files: what is written is read again, the command line has priority, and faults are one line each."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from clips import encode, make_clip
from helpers import run_command as run

from visionnmf.apps.background.settings import (
    EventSettings,
    FrameSize,
    LiveSettings,
    ModelSettings,
    OutputSettings,
    RegionSettings,
    VideoSettings,
)
from visionnmf.apps.cli.configuration import read_configuration, save_configuration
from visionnmf.exceptions import MediaError, OutputExistsError

DEFAULTS = [
    record() for record in (VideoSettings, RegionSettings, OutputSettings, EventSettings, LiveSettings, ModelSettings)
]
RECORDS = [type(record) for record in DEFAULTS]


def read(path, text):
    path.write_text(text)
    return read_configuration(path, RECORDS)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "yard.toml"
    save_configuration(path, DEFAULTS, force=False)
    assert read_configuration(path, RECORDS) == {}
    changed = [
        replace(DEFAULTS[0], scale=0.1, every=3, start=5425.123456, end=1e5, size=FrameSize(640, 480)),
        replace(DEFAULTS[1], roi=("0,0,9,9", '1,1 2,2 "3,4\\\n'), ignore=("ünter\x7f.png",)),
        replace(DEFAULTS[2], masks="png", coco=True, alpha=1.0, events="objects"),
        replace(DEFAULTS[3], min_area=1e-05),
        replace(DEFAULTS[4], state=Path("a b/yard's.npz"), background_every=2.5),
        replace(DEFAULTS[5], n_components=1, threshold=1.5, keep_model=True),
    ]
    with pytest.raises(OutputExistsError):
        save_configuration(path, changed, force=False)
    save_configuration(path, changed, force=True)
    found = read_configuration(path, RECORDS)
    for default, record in zip(DEFAULTS, changed, strict=True):
        values = {name: found[name] for name in default.__dataclass_fields__ if name in found}
        assert replace(default, **values) == record


def test_a_person_can_edit_it(tmp_path):
    path = tmp_path / "yard.toml"
    save_configuration(path, [replace(DEFAULTS[0], every=2), *DEFAULTS[1:]], force=False)
    text = path.read_text()
    assert set(tomllib.loads(text)) == {"input", "region", "output", "events", "live", "advanced"}
    assert "# Work at this share of the width and height.\n# scale = 1.0\n" in text and "\nevery = 2\n" in text
    assert "with thumbnails: scene or objects." in text.replace("\n# ", " ")
    edited = text.replace("# scale = 1.0", "scale = 0.5").replace("# start = 0.0", 'start = "1:30"')
    edited = edited.replace("# roi = []", 'roi = "0,0,9,9"')
    assert read(path, edited) == {"scale": 0.5, "every": 2, "start": 90.0, "roi": ("0,0,9,9",)}
    assert read(path, "[input]\nstart = 90\nend = 95.5") == {"start": 90.0, "end": 95.5}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[input]\nscal = 1", r"input\.scal is no option of this command; scale stands under \[input\]"),
        ("[input]\nrank = 1", r"input\.rank is no option of this command; rank stands under \[advanced\]"),
        ("rank = 1", r"rank is no option of this command; rank stands under \[advanced\]"),
        ("[zzz]\nqqq = 1", r"zzz\.qqq is no option of this command; --save-config writes a file with all names"),
        ("[input]\nscale = 2", r"input\.scale must be a number > 0 and <= 1; got 2"),
        ("[input]\nscale = nan", r"input\.scale must be a number > 0 and <= 1; got nan"),
        ('[input]\nscale = "half"', r"input\.scale must be a number; got 'half'"),
        ("[input]\nevery = 1.5", r"input\.every must be a whole number; got 1\.5"),
        ("[input]\nevery = true", r"input\.every must be a whole number; got True"),
        ("[input]\nevery = 0", r"input\.every must be a whole number >= 1; got 0"),
        ('[input]\nsize = "big"', r"input\.size is wrong: big is not a size; give width and height, as in 640x480"),
        ("[input]\nsize = [1, 2]", r"input\.size must be a text in quotes; got a list"),
        ("[input.scale]\na = 1", r"input\.scale must be a number; got a table"),
        ("[region]\nroi = [1]", r"region\.roi must be a list of texts in quotes; got a list"),
        ("[output]\ncoco = 1", r"output\.coco must be true or false; got 1"),
        ('[output]\nmasks = "gif"', r"output\.masks must be one of ffv1, h264, png; got 'gif'"),
        ("[live]\nstate = 1979-05-27", r"live\.state must be a text in quotes; got datetime"),
        ("[input\nscale = 1", r"not TOML \(.*line 1.*\); --save-config writes an example"),
        ("x = " + "[" * 1900, "not TOML"),
        ("x = " + "9" * 1900 + "\ny = " + "{a=" * 600, "not TOML"),
        ("a" + ".a" * 1500 + " = 1", "has a line of more than 2000 characters"),
        ("# a\n" * 10_000, "more than 32 KiB"),
        ("[input]\n" + "a." * 900 + "a = 1", r"input\.a is no option"),
    ],
)
def test_faults_name_the_file_the_key_and_the_cure(text, sentence, tmp_path):
    with pytest.raises(MediaError, match=r"yard\.toml: (.* )?" + sentence) as error:
        read(tmp_path / "yard.toml", text)
    assert len(str(error.value)) < 400


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "yard.toml"
    path.write_bytes(b"[input]\nscale = \xff\xfe")
    for wrong in (path, tmp_path, tmp_path / "none.toml", Path("/dev/zero")):
        with pytest.raises(MediaError, match=str(wrong)):
            read_configuration(wrong, RECORDS)


@pytest.mark.slow
def test_the_command_reads_and_writes_it(tmp_path):
    path, out = tmp_path / "yard.toml", tmp_path / "out"
    clip = encode(tmp_path / "yard.mkv", "ffv1", "bgr0", frames=make_clip(8, 48, 64))
    words = ("background", clip, "--out", out)
    first = run(*words, "--max-frames", 4, "--scale", 0.5, "--masks", "png", "--save-config", path)
    assert first.exit_code == 0, first.output
    assert tomllib.loads(path.read_text())["input"] == {"scale": 0.5, "max-frames": 4}
    again = run(*words, "--config", path, "--max-frames", 3, "--force", "--save-config", tmp_path / "second.toml")
    assert again.exit_code == 0 and "3 frames of 32x24" in again.stdout, again.output  # the command line has priority
    assert tomllib.loads((tmp_path / "second.toml").read_text())["input"] == {"scale": 0.5, "max-frames": 3}
    kept = run(*words, "--config", path, "--save-config", path)
    assert kept.exit_code == 2 and f"{path}: exists already" in kept.stderr
    live = run(*words, "--live", "--config", path, "--out", tmp_path / "live", "--rank", 1)
    assert live.exit_code == 2 and "--live and --rank exclude each other" in live.stderr
    path.write_text(
        "[input]\nscale = 0.5\nmax-frames = 4\n[events]\npadding = 2.0\n[live]\nlive = true\nwarm-up = 0.1\n"
    )
    live = run(*words, "--config", path, "--out", tmp_path / "live")  # padding and rank have no effect here
    assert live.exit_code == 0 and "4 frames of 32x24" in live.stdout, live.output
    path.write_text("[input]\nscales = 0.25\n")
    wrong = run(*words, "--config", path)
    assert wrong.exit_code == 2
    last = wrong.stderr.splitlines()[-1]
    assert last.endswith(f"{path}: input.scales is no option of this command; scale stands under [input]")
