"""The background of a stream, frame by frame."""
