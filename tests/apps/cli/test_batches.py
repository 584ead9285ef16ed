"""Batches: folders, names that clash, several processes, how much is said; and what is known before numerics load."""

import os
import re
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from helpers import json_lines, run_command as run
from PIL import Image

from visionnmf.apps.cli import console
from visionnmf.apps.cli.run import Input, attempt
from visionnmf.apps.report import Report
from visionnmf.datasets import load_faces, make_mosaic
from visionnmf.exceptions import UnreadableError
from visionnmf.io import write_image

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def paint(folder, *names, seed=0):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(make_mosaic(24, 32, random_state=seed).image).save(path)


def labels(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*_labels.png"))


def test_a_folder_is_mirrored_with_what_lies_beneath(tmp_path):
    paint(tmp_path / "in", "a.png", "deep/B.PNG", "deep/er/c.jpg", ".hidden/d.png")
    (tmp_path / "in" / "notes.txt").write_text("no picture")
    flat = run("segment", tmp_path / "in", "-o", tmp_path / "flat", "-q")
    assert flat.exit_code == 0 and labels(tmp_path / "flat") == ["a_labels.png"] and not flat.stdout
    deep = run("segment", tmp_path / "in", "-r", "-o", tmp_path / "out", "-v")
    assert deep.exit_code == 0
    assert labels(tmp_path / "out") == ["a_labels.png", "deep/B_labels.png", "deep/er/c_labels.png"]
    assert [line.rsplit(" ", 1)[-1] for line in deep.stderr.splitlines()[:3]] == ["(1/3)", "(2/3)", "(3/3)"]
    for options in (["-o", tmp_path / "in"], ["-r", "-o", tmp_path / "in" / "results"]):
        inside = run("segment", tmp_path / "in", *options)
        assert inside.exit_code == 2 and "would be taken for inputs" in inside.stderr


def test_results_beside_their_photographs_are_no_inputs(tmp_path):
    paint(tmp_path, "a.png", "a_b.png", "a_overlay_c.png", "x_scribbles.png")  # all are photographs
    for name in ("a.png", "a_b.png"):
        assert run("segment", tmp_path / name, "--formats", "svg", "-o", tmp_path).exit_code == 0
    (tmp_path / "a_scribbles.png").write_bytes((tmp_path / "a_labels.png").read_bytes())
    found = run("segment", tmp_path, "-o", tmp_path.with_name("out"))
    assert found.exit_code == 0 and "9 results beside the inputs left out" in found.stdout
    expected = {f"{each}_labels.png" for each in ("a", "a_b", "a_overlay_c", "x_scribbles")}
    assert {*labels(tmp_path.with_name("out"))} == expected
    apart = run("segment", tmp_path / "a_overlay.png", "-o", tmp_path.with_name("one"))  # named by the user
    assert apart.exit_code == 0 and "left out" not in apart.stdout


def test_a_warning_about_a_picture_names_its_file(tmp_path):
    for name in ("a.png", "b.png"):
        write_image(tmp_path / name, make_mosaic(24, 32, random_state=0).image.astype(np.uint16) * 16)
    found = run("segment", tmp_path / "a.png", tmp_path / "b.png", "-o", tmp_path / "out")
    for name in ("a.png", "b.png"):
        assert f"{tmp_path / name}: 16-bit values are taken as 12 bits" in found.stderr


def warned(source):
    for text in ("image: dark", "images: dark", "X: dark", "it did not converge", f"{source}: dark"):
        warnings.warn(text, UserWarning, stacklevel=1)
    return Report(inputs=[source], lines=["done"])


@pytest.mark.parametrize("source", ["b/a.png", "-", "rtsp://gate/1"])
def test_every_warning_in_the_work_on_an_input_names_it(source):
    found = attempt(warned, Input(source))
    assert found.warnings == [f"{source}: dark", f"{source}: it did not converge"]
    assert found.lines == ["done"]


def test_bits_of_pictures_that_have_eight_are_reported_once(tmp_path, monkeypatch):
    monkeypatch.setenv("VISIONNMF_BITS", "")  # so that it is as before afterwards
    paint(tmp_path, "a.jpg", "b.png")
    command = ("segment", tmp_path / "a.jpg", tmp_path / "b.png", "-o", tmp_path / "out", "--bits", 12)
    found = run(*command, "--report", tmp_path / "page.html")  # which reads the pictures, too
    said = [f"{tmp_path / name}: pixels that are not of 16 bits, on which --bits 12 has" for name in ("a.jpg", "b.png")]
    assert found.exit_code == 0 and found.stderr.count("has no effect") == 2
    assert all(found.stderr.count(each) == 1 for each in said)
    assert "has no effect" not in run(*command[:5], tmp_path / "two").stderr


def test_inputs_of_one_name_get_folders_of_their_own(tmp_path):
    paint(tmp_path, "a/photo.png", "b/photo.png", "b/other.png")
    found = run("segment", tmp_path / "a/photo.png", *sorted((tmp_path / "b").iterdir()), "-o", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert labels(tmp_path / "out") == ["a/photo_labels.png", "b/photo_labels.png", "other_labels.png"]
    lines = [line for line in found.stdout.splitlines() if " pixels, " in line]
    places = [tmp_path / "out" / "a", None, tmp_path / "out" / "b"]  # a/photo, b/other, b/photo
    for line, place in zip(lines, places, strict=True):
        assert line.endswith(f"s, results in {place}") if place else "results in" not in line
    paint(tmp_path, "c/photo.png", "c/photo.bmp")
    assert run("segment", tmp_path / "c", "-o", tmp_path / "two").exit_code == 0
    assert labels(tmp_path / "two") == ["photo.bmp/photo_labels.png", "photo.png/photo_labels.png"]


@pytest.mark.long
def test_several_processes_give_the_same_and_go_on_after_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "LINE_EVERY", 1e6)  # no lines about progress where the machine is slow
    paint(tmp_path / "in", "a.png", "b.png", seed=3)
    (tmp_path / "in" / "bad.png").write_bytes(b"no picture at all")
    one = run("segment", tmp_path / "in", "-o", tmp_path / "one", "--json")
    two = run("segment", tmp_path / "in", "-o", tmp_path / "two", "--json", "--jobs", 2)
    assert one.exit_code == two.exit_code == 1 and one.stderr == two.stderr
    first, second = (json_lines(found) for found in (one, two))
    assert [entry["inputs"][0] for entry in first] == [entry["inputs"][0] for entry in second]
    assert [entry.get("sizes") for entry in first] == [entry.get("sizes") for entry in second]
    for name in labels(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_quiet_says_what_failed_alone(tmp_path):
    paint(tmp_path, "a.png")
    found = run("segment", tmp_path / "a.png", tmp_path / "none.png", "-q", "-o", tmp_path / "out")
    assert found.exit_code == 1 and not found.stdout and found.stderr.count("none.png") == 1
    loud = run("segment", tmp_path / "a.png", "-q", "-v", "-o", tmp_path / "out")
    assert loud.exit_code == 2 and "exclude each other" in loud.stderr
    assert run("segment", tmp_path / "a.png", "-o", tmp_path / "out", "--force").stdout  # and the next run speaks again


def test_existing_results_are_skipped_and_not_failed(tmp_path):
    paint(tmp_path / "in", "a.png")
    run("segment", tmp_path / "in", "-o", tmp_path / "out")
    paint(tmp_path / "in", "b.png")
    again = run("segment", tmp_path / "in", "-o", tmp_path / "out")
    assert again.exit_code == 0 and "b.png" in again.stdout
    assert "1 of 2 images skipped" in again.stderr and "--force replaces these" in again.stderr
    none = run("segment", tmp_path / "in", "-o", tmp_path / "out", "--jobs", 2, "--json")
    assert none.exit_code == 0 and "--force replaces these" in none.stderr
    assert all(entry["state"] == "exists" and "exists already" in entry["notes"][0] for entry in json_lines(none))
    failed = run("segment", tmp_path / "in", tmp_path / "none.png", "-o", tmp_path / "out")
    assert failed.exit_code == 1 and "1 of 3 images failed" in failed.stderr
    wanted = run("segment", tmp_path / "in", "-o", tmp_path / "out", "--skip-existing")
    assert wanted.exit_code == 0 and wanted.stderr.count("\n") == 1 and "--force" not in wanted.stderr
    assert run("segment", tmp_path / "in", "-o", tmp_path / "out", "--skip-existing", "-q").stderr == ""


@pytest.mark.parametrize("options", [["--segments", 3], ["--formats", "csv"], ["--scale", 0.5], ["--cutouts"]])
def test_results_with_other_settings_are_out_of_date(options, tmp_path):
    paint(tmp_path, "a.png")
    command = ("segment", tmp_path / "a.png", "-o", tmp_path / "out")
    assert run(*command).exit_code == 0
    for more in ([], ["--skip-existing"], ["--json"]):
        other = run(*command, *options, *more)
        said = " ".join(map(str, options))
        assert other.exit_code == 2 and f"was made with the usual settings, and not with {said}; give" in other.stderr
    assert run(*command, *options, "--force").exit_code == 0
    assert run(*command, *options).exit_code == 0 and run(*command).exit_code == 2


def test_each_of_many_results_that_are_out_of_date_says_why(tmp_path):
    paint(tmp_path / "in", *(f"{letter}.png" for letter in "abcdef"))
    command = ("segment", tmp_path / "in", "-o", tmp_path / "out")
    assert run(*command).exit_code == 0
    paint(tmp_path / "in", "f.png", seed=1)
    for more in ([], ["--jobs", 2]):
        other = run(*command, "--segments", 3, "--json", *more)
        records, lines = json_lines(other), re.findall(".*(?:was made|failed).*", other.stderr)
        assert other.exit_code == 2 and len(records) == 6
        assert all("_labels.png: was made" in record["error"] for record in records)
        assert "a_labels.png: was made with the usual settings, and not with --segments 3; give --force" in lines[0]
        assert "f_labels.png: was made from an input with other content" in lines[-2]
        assert lines[-1].endswith("6 of 6 images failed") and len(lines) == 7


def test_inputs_of_one_stem_do_not_take_each_others_results(tmp_path):
    paint(tmp_path, "a.png", "a.bmp")
    assert run("segment", tmp_path / "a.png", "-o", tmp_path / "out").exit_code == 0
    other = run("segment", tmp_path / "a.bmp", "-o", tmp_path / "out")
    said = "a_labels.png: was made from an input with other content; give --force to replace it, or another --out"
    assert other.exit_code == 2 and said in other.stderr
    paint(tmp_path, "a.png", seed=1)  # another picture of the same name
    assert run("segment", tmp_path / "a.png", "-o", tmp_path / "out").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["segment", "a.png", "--memberships"], "--memberships needs --method nmf"),
        (["segment", "a.png", "--force", "--skip-existing"], "--skip-existing and --force exclude each other"),
        (["faces", "identify", "m.npz", "a.png", "--force"], "--force needs --pictures or --report"),
        (["masquerade", "train", "a.log", "--model", "m.npz", "--loss", "manhattan"], "--loss needs --method nmf"),
        (["masquerade", "score", "m.npz", "a.log", "--keep", "--no-update"], "--keep and --no-update exclude"),
        (["annotate", "train", "in", "--model", "m.npz", "--metric", "manhattan"], "--metric needs --method jec"),
        (["annotate", "train", "in", "--model", "m.npz", "--coder", "none", "--ranks", "9"], "--ranks and --coder"),
        (["annotate", "predict", "m.npz", "a.png", "--force"], "--force needs --csv, --sidecars or --report"),
        (["features", "in", "--out", "f.npz", "--use", "e.npz", "--kind", "lab"], "--kind and --use exclude"),
        (["evaluate", "masquerade", "a.log", "--force"], "--force needs --out or --report"),
        (["reproduce", "--list", "--quick"], "--quick and --list exclude each other"),
    ],
)
def test_an_option_without_effect_is_refused(arguments, message):
    found = run(*arguments)
    assert found.exit_code == 2 and message in " ".join(found.stderr.split())


MISSING = [
    *("background nothere.mp4", "segment rtsp://camera/1 -", "segment nothere.jpg *.nothing"),
    *("segment nowhere/ --recursive", "evaluate segment --images none --truth none", "evaluate faces none"),
    *("faces train none --model m.npz", "faces identify none.npz a.jpg", "faces cluster none"),
    *("faces shadows none", "features none --out f.npz", "masquerade train none --model m.npz"),
    *("masquerade score none.npz none", "evaluate masquerade none", "annotate predict none.npz a.jpg"),
]
NUMERICS = {"numpy", "scipy", "sklearn", "skimage", "cv2", "numba", "av", "PIL"}


def test_paths_are_checked_before_numerics_load(tmp_path):
    code = (
        "import shlex, sys, visionnmf.apps.cli as cli\n"
        f"for line in {MISSING!r}:\n    sys.argv = ['visionnmf', *shlex.split(line)]\n"
        "    try:\n        cli.main()\n    except SystemExit as stop:\n        assert stop.code == 2, line\n"
        f"    assert not {NUMERICS!r} & {{*sys.modules}}, line"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_segments_need_no_estimator(tmp_path):
    """A whole run of one photograph stays within 1.3 times SLIC and normalised cuts."""
    paint(tmp_path, "a.png")
    code = "import sys, visionnmf.apps.segmentation as s\ns.process_image('a.png', out='out')\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not {"sklearn", "matplotlib", "av", "scipy.optimize", "scipy.stats"} & set(done.stdout.split())


def test_addresses_and_standard_input_are_named_as_they_were_given(tmp_path):
    found = run("segment", "rtsp://camera/1", "https://a.b/c.mp4", "-", "-o", tmp_path)
    first, second, third, _ = found.stderr.splitlines()
    assert found.exit_code == 2
    assert first.startswith("visionnmf: rtsp://camera/1: an address") and "ffmpeg -i rtsp://camera/1" in first
    assert "https://a.b/c.mp4" in second and "download it first" in second
    assert third.startswith("visionnmf: -: standard input")


@pytest.mark.parametrize(
    "arguments",
    [
        *("segment x://y", "faces train x://y --model m.npz", "faces cluster x://y", "features x://y --out f.npz"),
        *("masquerade train x://y --model m.npz", "annotate train x://y --model m.npz"),
    ],
)
def test_no_command_takes_an_address_for_a_path(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(*arguments.split())
    assert found.exit_code == 2
    assert found.stderr == "visionnmf: x://y: an address, and only files are read; download it first\n"
    with pytest.raises(UnreadableError, match="x://y: an address"):
        load_faces("x://y")


@pytest.mark.parametrize(("typed", "completed"), [("seg", "segment"), ("faces train --miss", "--missing")])
def test_shells_complete_commands_and_options(typed, completed):
    words = {"COMP_WORDS": f"visionnmf {typed}", "COMP_CWORD": str(len(typed.split()))}
    environment = dict(os.environ, _VISIONNMF_COMPLETE="complete_bash", **words)
    code = "import sys; sys.argv[0] = 'visionnmf'\nfrom visionnmf.apps.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == [completed]


@pytest.mark.parametrize("suffix", ["avif", "heic"])
def test_pictures_of_telephones(suffix, tmp_path):
    from visionnmf.io import read_image

    image = make_mosaic(32, 48, random_state=0).image
    path = tmp_path / f"photo.{suffix}"
    if suffix == "heic":
        heif = pytest.importorskip("pillow_heif")
        heif.from_pillow(Image.fromarray(image)).save(path, quality=95)
    else:
        Image.fromarray(image).save(path, quality=95)
    found = read_image(path)
    assert found.shape == image.shape and np.abs(found.astype(int) - image).mean() < 6


def test_what_is_missing_for_pictures_of_telephones_is_named(tmp_path, monkeypatch):
    path = tmp_path / "photo.heic"
    path.write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 80)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    found = run("segment", path, "-o", tmp_path / "out")
    assert found.exit_code == 2 and "HEIC, which needs pillow-heif; `sh setup.sh heif` installs it" in found.stderr


@pytest.mark.parametrize("command", [("segment",), ("background",), ("faces", "cluster"), ("faces", "shadows")])
def test_an_archive_is_named_and_leaves_no_folder(command, tmp_path):
    with zipfile.ZipFile(tmp_path / "frames.zip", "w") as archive:
        archive.writestr("0.png", b"any")
    found = run(*command, tmp_path / "frames.zip", "--out", tmp_path / "out" / "new")
    assert found.exit_code == 2 and found.stderr.count("\n") == 1
    assert ("unpack it first" in found.stderr) == (command[0] != "faces") and not (tmp_path / "out").exists()
