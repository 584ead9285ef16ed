"""Sound files of every kind, made small, from which mutations start."""

import io
import json
from pathlib import Path

import cv2
import numpy as np
import pandas
import scipy.io
from PIL import Image

import visionnmf
from visionnmf.apps import annotation, faces, masquerade, multiview
from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.features import DenseHue, FeatureExtraction, PatchNMF, save_extraction
from visionnmf.io import VideoWriter, write_sidecar

RNG = np.random.default_rng(0)
X = RNG.gamma(1, size=(40, 3)) @ RNG.gamma(1, size=(3, 16))

Files = dict[str, dict[str, bytes]]


def originals(folder: Path) -> Files:
    """Return by kind the bytes of files by name."""
    found = {}
    for make in (pictures, videos, models, matrices, logs, keywords):
        place = folder / make.__name__
        place.mkdir()
        make(place)
        found[make.__name__] = {path.name: path.read_bytes() for path in place.iterdir()}
    return found


def pictures(folder: Path) -> None:
    rgb = cv2.resize(RNG.integers(0, 255, (6, 8, 3), dtype=np.uint8), (40, 30), interpolation=cv2.INTER_CUBIC)
    for name in ("a.png", "a.jpg", "a.webp", "a.bmp", "a.ppm", "a.tiff", "a.gif"):
        Image.fromarray(rgb).save(folder / name)
    for name in ("deep.png", "deep.tiff"):
        cv2.imwrite(str(folder / name), rgb.astype(np.uint16) * 257)


def videos(folder: Path) -> None:
    frames = RNG.integers(0, 255, (8, 32, 48, 3), dtype=np.uint8)
    motion = cv2.VideoWriter(str(folder / "a.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 25, (48, 32))
    for frame in frames:
        motion.write(frame)
    motion.release()
    for name, codec in (("a.mp4", "h264"), ("a.mkv", "ffv1")):
        with VideoWriter(folder / name, width=48, height=32, frame_rate=25, codec=codec) as writer:
            for frame in frames:
                writer.write(frame)


def models(folder: Path) -> None:
    few = {"max_iter": 10, "tol": 0, "random_state": 0}
    frames = RNG.integers(90, 110, (12, 12, 16, 3)).astype(np.uint8)
    fitted = {
        "nmf": visionnmf.NMF(2, loss="frobenius", penalty_H=visionnmf.Penalty(l1=0.1), **few).fit(X),
        "manhattan": visionnmf.NMF(2, **few).fit(X),
        "projective": visionnmf.ProjectiveNMF(2, **few).fit(X),
        "symmetric": visionnmf.SymmetricNMF(2, n_init=1, **few).fit(X @ X.T),
        "online": visionnmf.OnlineNMF(2, random_state=0).fit(X),
        "conservative": visionnmf.ConservativeNMF(2, max_iter=1, random_state=0).fit(X),
        "multiview": visionnmf.MultiviewNMF(2, **few).fit([X[:, :10], X[:, 10:]]),
        "godec": visionnmf.GoDec(2, max_iter=3, tol=0, random_state=0).fit(X),
        "background": BackgroundModel(n_components=2, random_state=0).fit(frames),
        "live": OnlineBackgroundModel(frame_rate=10, warm_up=1).fit(frames),
    }
    for name, model in fitted.items():
        model.save(folder / f"{name}.npz")
    views = [folder.parent / "seen.npy", folder.parent / "heard.npy"]
    for view, part in zip(views, (X[:, :10], X[:, 10:]), strict=True):
        np.save(view, part)
    multiview.fit_views(views, folder / "views.npz", settings=multiview.ViewFit(n_components=2))
    people = np.repeat(np.arange(4), 5)
    images = np.clip(RNG.random((4, 64))[people] * 200 + RNG.normal(0, 5, (20, 64)), 0, 255)
    recognizer = faces.FaceRecognizer(image_shape=(8, 8)).fit(images, np.array([f"p{k}" for k in people]))
    faces.save(faces.FaceModel(recognizer), folder / "faces.npz")
    scorer = masquerade.SessionScorer().fit([RNG.choice(["ls", "cd", "vi"], 20).tolist() for _ in range(12)])
    masquerade.save(masquerade.MasqueradeModel({"ann": scorer}), folder / "users.npz")
    photographs = [RNG.integers(0, 256, (16, 24, 3), np.uint8) for _ in range(12)]
    extraction = FeatureExtraction([DenseHue(4), PatchNMF(3), "lbp"], max_pixels=400).fit(photographs)
    save_extraction(extraction, folder / "extraction.npz")
    for name, method in (("words", "weighted"), ("jec", "jec")):
        annotator = annotation.ImageAnnotator(method, n_components=2, n_neighbors=3)
        annotator.fit(extraction.transform(photographs), RNG.random((12, 3)) < 0.5, views=extraction.views_)
        model = annotation.AnnotationModel(annotator, [f"{i}.jpg" for i in range(12)], extraction)
        annotation.save(model, folder / f"{name}.npz")


def matrices(folder: Path) -> None:
    """Write rows and tables; those named table have a column of keys."""
    scipy.io.savemat(folder / "plain.mat", {"fea": X * 10, "gnd": np.arange(40.0)[:, None]})
    scipy.io.savemat(folder / "compressed.mat", {"fea": X * 10}, do_compression=True)
    np.save(folder / "rows.npy", X)
    np.savetxt(folder / "rows.csv", X, delimiter=",")
    table = pandas.DataFrame(X).add_prefix("f")
    table.insert(0, "key", [f"photograph {k}" for k in range(len(X))])
    table.to_csv(folder / "table.csv", index=False)
    table.to_parquet(folder / "table.parquet")
    np.savez_compressed(folder / "table.npz", key=table["key"].to_numpy(str), view_seen=X, view_heard=X[:, :4])


def logs(folder: Path) -> None:
    commands = RNG.choice(["ls -l", "cd /tmp", "vi a | grep b", "sudo make install", "cat <<EOF"], 60).tolist()
    for name, line in (
        ("plain", lambda k, c: c),
        ("bash", lambda k, c: f"#{1700000000 + 9 * k}\n{c}"),
        ("zsh", lambda k, c: f": {1700000000 + 9 * k}:0;{c}"),
        ("csv", lambda k, c: f"ann,{k},{c}" if k else "user,time,command"),
        ("jsonl", lambda k, c: json.dumps({"user": "ann", "time": k, "command": c})),
    ):
        (folder / f"{name}.log").write_text("\n".join(line(k, c) for k, c in enumerate(commands)))


def keywords(folder: Path) -> None:
    write_sidecar(folder.parent / "own.xmp", ["Meer", "łąka", "a & b"])
    buffer = io.BytesIO()
    Image.new("RGB", (4, 3)).save(buffer, "JPEG", xmp=(folder.parent / "own.xmp").read_bytes())
    photograph, iptc = buffer.getvalue(), b"\x1c\x01\x5a\0\3\x1b%G\x1c\x02\x19\0\5Nacht"
    content = b"Photoshop 3.0\0" + b"8BIM\x04\x04\0\0" + len(iptc).to_bytes(4, "big") + iptc
    segment = b"\xff\xed" + (len(content) + 2).to_bytes(2, "big") + content
    (folder / "photograph.jpg").write_bytes(photograph[:2] + segment + photograph[2:])
