"""Sound files of every kind, made small, from which mutations start."""

import io
import json
import struct
from pathlib import Path

import cv2
import numpy as np
import pyarrow
import scipy.io
import tifffile
from PIL import Image
from pyarrow import parquet

import visionnmf
from visionnmf.apps import annotation, faces, masquerade, multiview
from visionnmf.apps.background import BackgroundModel, OnlineBackgroundModel
from visionnmf.features import DenseHue, FeatureExtraction, save_extraction
from visionnmf.io import VideoWriter, write_sidecar

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(90, 110, (12, 12, 16, 3)).astype(np.uint8)
X = RNG.gamma(1, size=(40, 3)) @ RNG.gamma(1, size=(3, 16))


def pictures() -> dict[str, bytes]:
    """Return a picture of each format, and deep ones."""
    rgb = cv2.resize(RNG.integers(0, 255, (6, 8, 3), dtype=np.uint8), (40, 30), interpolation=cv2.INTER_CUBIC)
    deep = rgb.astype(np.uint16) * 257
    shallow = {f"a.{suffix}": rgb for suffix in ("png", "jpg", "webp", "bmp", "ppm", "tiff")}
    found = {}
    for name, array in {**shallow, "deep.png": deep, "deep.tiff": deep}.items():
        found[name] = cv2.imencode(f".{name.rsplit('.')[-1]}", array)[1].tobytes()
    for name, form, options in (
        ("alpha.png", "PNG", {}),
        ("progressive.jpg", "JPEG", {"progressive": True}),
        ("lzw.tiff", "TIFF", {"compression": "tiff_lzw"}),
        ("animation.gif", "GIF", {"save_all": True, "append_images": [Image.new("P", (40, 30))]}),
    ):
        buffer = io.BytesIO()
        Image.fromarray(np.dstack([rgb, rgb[..., 0]]) if name == "alpha.png" else rgb).save(buffer, form, **options)
        found[name] = buffer.getvalue()
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, deep, photometric="rgb", compression="zlib", tile=(16, 16))
    return found | {"tiles.tiff": buffer.getvalue()}


def videos(folder: Path) -> dict[str, bytes]:
    """Return short clips: H.264 in MP4, lossless in MKV, motion JPEG in AVI."""
    frames = RNG.integers(0, 255, (8, 32, 48, 3), dtype=np.uint8)
    found = {}
    for suffix, codec in (("mp4", "h264"), ("mkv", "ffv1")):
        path = folder / f"clip.{suffix}"
        with VideoWriter(path, width=48, height=32, frame_rate=25, codec=codec) as writer:
            for frame in frames:
                writer.write(frame)
        found[path.name] = path.read_bytes()
    path = folder / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.CAP_OPENCV_MJPEG, cv2.VideoWriter_fourcc(*"MJPG"), 25, (48, 32))
    for frame in frames:
        writer.write(frame)
    writer.release()
    found[path.name] = path.read_bytes()
    return found


def models(folder: Path) -> dict[str, bytes]:
    """Return model files of estimators, faces, masquerade, features and annotation."""
    few = {"max_iter": 10, "tol": 0, "random_state": 0}
    fitted = {
        "nmf": visionnmf.NMF(2, loss="frobenius", penalty_H=visionnmf.Penalty(l1=0.1), **few).fit(X),
        "manhattan": visionnmf.NMF(2, **few).fit(X),
        "projective": visionnmf.ProjectiveNMF(2, **few).fit(X),
        "symmetric": visionnmf.SymmetricNMF(2, n_init=1, **few).fit(X @ X.T),
        "online": visionnmf.OnlineNMF(2, random_state=0).fit(X),
        "conservative": visionnmf.ConservativeNMF(2, max_iter=1, random_state=0).fit(X),
        "multiview": visionnmf.MultiviewNMF(2, **few).fit([X[:, :10], X[:, 10:]]),
        "background": BackgroundModel(n_components=2, random_state=0).fit(FRAMES),
        "live": OnlineBackgroundModel(frame_rate=10, warm_up=1).fit(FRAMES),
    }
    found = {}
    for name, model in fitted.items():
        model.save(folder / f"{name}.npz")
        found[f"{name}.npz"] = (folder / f"{name}.npz").read_bytes()
    np.save(folder / "seen.npy", X[:, :10])
    np.save(folder / "heard.npy", X[:, 10:])
    settings = multiview.ViewFit(n_components=2)
    multiview.fit_views([folder / "seen.npy", folder / "heard.npy"], folder / "views.npz", settings=settings)
    found["views.npz"] = (folder / "views.npz").read_bytes()
    people = np.repeat(np.arange(4), 5)
    images = np.clip(RNG.random((4, 64))[people] * 200 + RNG.normal(0, 5, (20, 64)), 0, 255)
    recognizer = faces.FaceRecognizer(image_shape=(8, 8)).fit(images, np.array([f"p{k}" for k in people]))
    faces.save(faces.FaceModel(recognizer), folder / "faces.npz")
    found["faces.npz"] = (folder / "faces.npz").read_bytes()
    scorer = masquerade.SessionScorer().fit([RNG.choice(["ls", "cd", "vi"], 20).tolist() for _ in range(12)])
    masquerade.save(masquerade.MasqueradeModel({"ann": scorer}), folder / "users.npz")
    found["users.npz"] = (folder / "users.npz").read_bytes()
    photographs = [RNG.integers(0, 256, (16, 24, 3), np.uint8) for _ in range(12)]
    extraction = FeatureExtraction([DenseHue(4), "lbp"], max_pixels=400).fit(photographs)
    save_extraction(extraction, folder / "extraction.npz")
    found["extraction.npz"] = (folder / "extraction.npz").read_bytes()
    extraction = FeatureExtraction([DenseHue(4), "rgb"], max_pixels=400).fit(photographs)
    for method in ("weighted", "jec"):
        annotator = annotation.ImageAnnotator(method, n_components=2, n_neighbors=3)
        annotator.fit(extraction.transform(photographs), RNG.random((12, 3)) < 0.5, views=extraction.views_)
        path = folder / f"{method}.npz"
        annotation.save(annotation.AnnotationModel(annotator, [f"{i}.jpg" for i in range(12)], extraction), path)
        found[path.name] = path.read_bytes()
    return found


def keywords(folder: Path) -> dict[str, bytes]:
    """Return sidecars, and a photograph with keywords in XMP and in IPTC."""
    write_sidecar(folder / "own.xmp", ["Meer", "łąka", "a & b"])
    own = (folder / "own.xmp").read_bytes()
    items = b"\x1c\x01\x5a\0\3\x1b%G"
    for word in ("Nacht", "日本"):
        items += b"\x1c\x02\x19" + struct.pack(">H", len(word.encode())) + word.encode()
    items += b"\0" * (len(items) % 2)
    content = b"Photoshop 3.0\0" + b"8BIM\x04\x04\0\0" + struct.pack(">I", len(items)) + items
    buffer = io.BytesIO()
    Image.new("RGB", (4, 3)).save(buffer, "JPEG", xmp=own)
    photograph = buffer.getvalue()
    segment = b"\xff\xed" + struct.pack(">H", len(content) + 2) + content
    bag = "<rdf:Bag>" + "".join(f"<rdf:li>{i}</rdf:li>" for i in range(30)) + "</rdf:Bag>"
    names = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    subject = f"<rdf:Description><dc:subject>{bag}</dc:subject></rdf:Description>"
    other = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF {names}>{subject}</rdf:RDF></x:xmpmeta>'
    return {
        "own.xmp": own,
        "other.xmp": other.encode(),
        "utf16.xmp": f'<?xml version="1.0" encoding="utf-16"?>{other}'.encode("utf-16"),
        "photograph.jpg": photograph[:2] + segment + photograph[2:],
    }


def matrices() -> dict[str, bytes]:
    """Return matrices in MATLAB files, tables of all kinds, and an .npz file of faces."""
    found = {}
    for name, compressed in (("plain", False), ("compressed", True)):
        buffer = io.BytesIO()
        scipy.io.savemat(buffer, {"fea": X * 10, "gnd": np.arange(40.0)[:, None]}, do_compression=compressed)
        found[f"{name}.mat"] = buffer.getvalue()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=(X.reshape(40, 4, 4) * 9).astype(np.uint8), labels=np.repeat(np.arange(8), 5))
    found["faces.npz"] = buffer.getvalue()
    return found | _tables()


def _tables() -> dict[str, bytes]:
    """Return tables with a column of keys."""
    keys = [f"photograph {k}" for k in range(len(X))]
    lines = ["key," + ",".join(f"f{k}" for k in range(X.shape[1]))]
    lines += [f'"{key}",' + ",".join(f"{value:.4f}" for value in row) for key, row in zip(keys, X, strict=True)]
    found = {"table.csv": "\n".join(lines).encode()}
    for name, save in (("table.npz", np.savez), ("table_compressed.npz", np.savez_compressed)):
        buffer = io.BytesIO()
        save(buffer, key=np.array(keys), view_seen=X, view_heard=X[:, :4])
        found[name] = buffer.getvalue()
    buffer = io.BytesIO()
    np.save(buffer, X)
    found["table.npy"] = buffer.getvalue()
    columns = {"key": keys} | {f"f{k}": column for k, column in enumerate(X.T)}
    for name, options in (
        ("table.parquet", {"compression": "none", "use_dictionary": False}),
        ("table_packed.parquet", {"compression": "snappy", "row_group_size": 16}),
    ):
        buffer = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), buffer, **options)
        found[name] = buffer.getvalue()
    return found


def logs() -> dict[str, bytes]:
    """Return logs of every format."""
    commands = RNG.choice(["ls -l", "cd /tmp", "vi a | grep b", "sudo make install", "cat <<EOF"], 60).tolist()
    return {
        "plain.log": "\n".join(commands).encode(),
        "bash.log": "\n".join(f"#{1700000000 + 9 * k}\n{c}" for k, c in enumerate(commands)).encode(),
        "zsh.log": "\n".join(f": {1700000000 + 9 * k}:0;{c}" for k, c in enumerate(commands)).encode(),
        "csv.log": ("user,time,command\n" + "\n".join(f"ann,{k},{c}" for k, c in enumerate(commands))).encode(),
        "jsonl.log": "\n".join(
            json.dumps({"user": "ann", "time": k, "command": c}) for k, c in enumerate(commands)
        ).encode(),
    }
