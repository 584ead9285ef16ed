"""Files of a made clip."""

import pytest
from clips import FILES, encode


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The clip in each kind of file."""
    folder = tmp_path_factory.mktemp("videos")
    return {name: encode(folder / name, codec, form, **extra) for name, (codec, form, extra) in FILES.items()}
