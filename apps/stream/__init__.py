"""Learn features from a stream: a folder of images, a video, a file of rows larger than memory, or standard input."""

from .run import StreamReport, learn_stream

__all__ = ["StreamReport", "learn_stream"]
