"""The page of each kind of run, made by its command from small data whose names and texts are markup."""

import itertools
import warnings

import cv2
import numpy as np
import pytest
from helpers import made_faces, make_chain, run_command, walk

from visionnmf.apps.drawing import new_figure
from visionnmf.apps.reproduce import Experiment, Result, Row, registry
from visionnmf.io import VideoWriter

NAME = "<img src=x onerror=window.hit=1>'\"{{7*7}}"  # may be the name of a file
TEXT = NAME + "</script><script>window.hit=2</script></td><a href=javascript:window.hit=3>"


def picture(file, pixels):
    """Write a picture under any name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(cv2.imencode(file.suffix, pixels[..., ::-1] if pixels.ndim == 3 else pixels)[1].tobytes())
    return file


def segment(folder, rng):
    """A photograph of two halves, and a file that is none."""
    pixels = np.full((60, 90, 3), 40, np.uint8)
    pixels[:, 45:] = (200, 160, 20)
    (folder / f"{NAME}.jpg").write_text("no image")
    return "segment", picture(folder / f"{NAME}.png", pixels), folder / f"{NAME}.jpg", "--out", folder / "out"


def background(folder, rng):
    """A clip in which a square crosses twice."""
    file = folder / f"{NAME}.mp4"
    scene = rng.integers(60, 120, (48, 64, 3)).astype(np.uint8)
    with VideoWriter(file, width=64, height=48, frame_rate=10, codec="h264") as writer:
        for i in range(60):
            frame = scene.copy()
            if 10 <= i < 22 or 40 <= i < 52:
                frame[18:30, 5 * (i % 10) : 5 * (i % 10) + 12] = 250
            writer.write(frame)
    return "background", file, "--events", "scene", "--clips", "--out", folder / "out"


def people(folder, rng):
    """A folder with a sub-folder of images for each person."""
    images, labels = made_faces(rng)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        picture(folder / f"people{NAME}" / f"{label}{NAME}" / f"{number}{NAME}.png", image)
    return folder / f"people{NAME}", images


def identify(folder, rng):
    """A face and noise, with a model of made people."""
    source, images = people(folder, rng)
    assert run_command("faces", "train", source, "--model", folder / "m.npz").exit_code == 0
    face = picture(folder / f"face{NAME}.png", images[3])
    noise = picture(folder / f"noise{NAME}.png", rng.integers(0, 256, images[0].shape).astype(np.uint8))
    return "faces", "identify", folder / "m.npz", face, noise, "--top", "2"


def cluster(folder, rng):
    """Made people."""
    return "faces", "cluster", people(folder, rng)[0], "--clusters", "6", "--out", folder / "out"


def annotate(folder, rng):
    """Photographs of two colours, whose words are markup."""
    lines = []
    for number, colour in enumerate(((200, 40, 40), (40, 40, 200)) * 6):
        pixels = np.clip(np.array(colour) + rng.normal(0, 20, (24, 32, 3)), 0, 255).astype(np.uint8)
        file = picture(folder / "photos" / f"{number}{NAME}.png", pixels)
        lines.append(f'"{file.name.replace(chr(34), 2 * chr(34))}",{number % 2}<img src=x onerror=window.hit=4>')
    (folder / "words.csv").write_text("\n".join(lines), "utf-8")
    words = ("--labels", folder / "words.csv", "--model", folder / "m.npz", "--kind", "rgb", "--coder", "none")
    result = run_command("annotate", "train", folder / "photos", *words)
    assert result.exit_code == 0, result.stderr
    return "annotate", "predict", folder / "m.npz", folder / "photos" / f"0{NAME}.png", "--top", "2"


def views(folder, rng):
    """Two views of the same samples."""
    np.save(folder / "a.npy", rng.random((30, 6)))
    np.save(folder / "b.npy", rng.random((30, 4)))
    named = f"{NAME.replace('=', '')}={folder / 'a.npy'}"
    return "multiview", "fit", named, folder / "b.npy", "--model", folder / "m.npz", "--rank", "3"


def impute(folder, rng):
    """A view that is missing in new samples, and gaps in the other one."""
    words = [*views(folder, rng)]
    assert run_command(*words).exit_code == 0
    some = rng.random((9, 6))
    some[2, 3] = np.nan
    np.save(folder / "a.npy", some)
    return "multiview", "impute", folder / "m.npz", words[2], "--out", folder / "out"


def users(folder, rng):
    """The history of a user, of whom too little is known."""
    log = folder / f"user{NAME}"
    log.write_text("\n".join(itertools.chain(*walk(make_chain(rng), rng, 4))) + "\n")
    return "masquerade", "train", log, "--model", folder / "m.npz"


def masquerade(folder, rng):
    """The log of a user, who types something else at the end."""
    habits, others = make_chain(rng), make_chain(rng)
    sessions = walk(habits, rng, 40)
    log = folder / f"user{NAME}"
    log.write_text("\n".join(itertools.chain(*sessions)) + "\n")
    result = run_command("masquerade", "train", log, "--model", folder / "m.npz")
    assert result.exit_code == 0, result.stderr
    strange = [
        f"strange{NAME} {TEXT}" if i % 3 == 0 else each for i, each in enumerate(itertools.chain(*walk(others, rng, 2)))
    ]
    log.write_text("\n".join([*itertools.chain(*walk(habits, rng, 8)), *strange]) + "\n")
    return "masquerade", "score", folder / "m.npz", log


def evaluate(folder, rng):
    """Two methods on made people."""
    return "evaluate", "faces", people(folder, rng)[0], "--methods", "raw,pca", "--ranks", "2,4", "--splits", "2"


def reproduce(folder, rng):
    """A made item of a made paper."""

    def run(sizes):
        figure = new_figure(2, 2)
        figure.subplots().plot([0, 1], label=TEXT)
        rows = [Row(TEXT, 12.5, paper=10.0), Row("b", 1.0, paper=2.0, verdict="confirmed")]
        pictures = {TEXT: figure, f"b {TEXT}": np.zeros((8, 8, 3), np.uint8)}
        return Result(rows, pictures, {TEXT: [["x", TEXT], ["1", TEXT], ["0", "2"]]}, [TEXT])

    made = (Experiment("made/fig-1", TEXT, TEXT, run, TEXT, replaced=TEXT, protocol=(TEXT,)),)
    registry.PAPERS = {"made": registry.Paper("Made", made)}
    registry.EXPERIMENTS = {one.name: one for one in made}
    return "reproduce", "made", "--out", folder / "out"


@pytest.fixture(scope="session")
def made_page(tmp_path_factory):
    """Make the page of a kind of run once; returns its file."""
    made = {}

    def make(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind) / NAME
            folder.mkdir()
            kept = registry.PAPERS, registry.EXPERIMENTS
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                words = globals()[kind](folder, np.random.default_rng(3))
                result = run_command(*words, "--report", folder / "page.html")
            registry.PAPERS, registry.EXPERIMENTS = kept
            assert result.exit_code in (0, 1), result.stderr
            made[kind] = folder / "page.html"
        return made[kind]

    return make
