"""A made clip and files of it, which the tests of video share; written without the code under test."""

from fractions import Fraction

import av
import numpy as np

N, HEIGHT, WIDTH = 30, 48, 64
RATE = Fraction(25)
ONE = 1 << 16


def make_clip(n=N, height=HEIGHT, width=WIDTH):
    """Smooth colours that move; smooth, because 4:2:0 halves the resolution of colour."""
    y, x = np.mgrid[:height, :width] / 12
    frames = []
    for i in range(n):
        waves = (np.sin(x + i / 5), np.cos(y - i / 7), np.sin((x + y) / 2 + i / 3))
        frames.append(np.stack([127 + 100 * wave for wave in waves], axis=2).astype(np.uint8))
    return frames


CLIP = make_clip()


def encode(
    path, codec, pixel_format, *, frames=None, pts=None, rate=RATE, sound=0, container=None, options=None, title=None
):
    """Write a video without the code under test; `sound` is a number of frames' time of silence."""
    frames = CLIP if frames is None else frames
    with av.open(str(path), "w", options=container or {}) as output:
        video = output.add_stream(codec, rate=rate, options=options or {})
        if title is not None:
            output.metadata.update(title=title, service_name=title, service_provider=title)
            video.metadata["title"] = title
        video.height, video.width = frames[0].shape[:2]
        video.pix_fmt = pixel_format
        audio = output.add_stream("aac", rate=48000) if sound else None
        for i, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format=pixel_format)
            picture.pts, picture.time_base = i if pts is None else pts[i], 1 / Fraction(rate)
            output.mux(video.encode(picture))
        for i in range(sound):
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 2 * 1920), np.int16), format="s16", layout="stereo")
            silence.sample_rate, silence.pts = 48000, i * 1920
            output.mux(audio.encode(silence))
        output.mux(video.encode(None))
        if audio is not None:
            output.mux(audio.encode(None))
    return path


FILES = {
    "x264.mp4": ("libx264", "yuv420p", {"container": {"movflags": "+faststart"}}),
    "end.mp4": ("libx264", "yuv420p", {}),
    "ten bits.mp4": ("libx264", "yuv420p10le", {}),
    "x264.mkv": ("libx264", "yuv420p", {}),
    "ffv1.mkv": ("ffv1", "bgr0", {"options": {"level": "3"}}),
    "vp9.webm": ("libvpx-vp9", "yuv420p", {"options": {"deadline": "realtime", "cpu-used": "8"}}),
    "motion.avi": ("mjpeg", "yuvj420p", {}),
    "raw.avi": ("rawvideo", "bgr24", {}),
    "mpeg4.avi": ("mpeg4", "yuv420p", {"options": {"b": "2M"}}),
    "stream.ts": ("libx264", "yuv420p", {}),
    "anim.gif": ("gif", "rgb8", {}),
}


def difference(frames, expected):
    frames, expected = np.stack(frames).astype(int), np.stack(expected).astype(int)
    assert frames.shape == expected.shape
    return np.abs(frames - expected).mean()


def cut(source, part, folder):
    path = folder / f"cut{source.suffix}"
    path.write_bytes(source.read_bytes()[: int(source.stat().st_size * part)])
    return path
