"""A file that is followed while it grows, is rotated and shrinks."""

import os

import pytest

from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import text_lines
from visionnmf.io.text_lines import follow


def until_silence(lines):
    """Everything up to the next look that finds nothing."""
    return list(iter(lambda: next(lines), None))


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_text("old\n")
    return path


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def test_follow_begins_at_the_end(log):
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    lines.close()


def test_follow_waits_for_the_end_of_a_line(log):
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    append(log, "one\ntw")
    assert until_silence(lines) == ["one"]
    append(log, "o\n")
    assert until_silence(lines) == ["two"]
    lines.close()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_follow_skips_the_rest_of_a_line_that_is_being_written(log, encoding):
    log.write_bytes("old\nsudo su".encode(encoding))
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    with log.open("ab", 0) as file:
        file.write("do rm".encode(encoding))
        assert until_silence(lines) == []
        file.write("\nls\n".encode(encoding))
        assert until_silence(lines) == ["ls"]
    lines.close()
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    with log.open("ab", 0) as file:
        file.write("whole\n".encode(encoding))
    assert until_silence(lines) == ["whole"]
    lines.close()


def test_nothing_of_a_new_log_is_skipped(log):
    log.write_text("half a line")
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    os.rename(log, log.with_suffix(".1"))
    log.write_text("new\n")
    assert until_silence(lines) == ["new"]
    lines.close()
    log.write_text("")
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    append(log, "first\n")
    assert until_silence(lines) == ["first"]
    lines.close()


def test_follow_waits_for_a_new_log_that_may_not_be_read_yet(log, monkeypatch):
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    os.rename(log, log.with_suffix(".1"))
    log.write_text("new\n")
    really = type(log).open

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(log), "open", refuse)
    assert until_silence(lines) == []
    with pytest.raises(UnreadableError, match=r"cannot be read \(Permission denied\)"):
        next(follow(log))
    monkeypatch.setattr(type(log), "open", really)
    assert until_silence(lines) == ["new"]
    lines.close()


def test_follow_survives_rotation_by_renaming(log):
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    append(log, "one\n")
    os.rename(log, log.with_suffix(".1"))
    assert until_silence(lines) == ["one"]  # and while there is no file
    append(log.with_suffix(".1"), "late\n")
    log.write_text("new and longer than the old file has ever been\n")
    assert until_silence(lines) == ["late", "new and longer than the old file has ever been"]
    append(log, "newer\n")
    assert until_silence(lines) == ["newer"]
    lines.close()


def test_what_is_written_just_before_a_rotation_is_not_lost(log, monkeypatch):
    rotation = text_lines._rotation

    def late(path, file):
        if path.exists() and not path.with_suffix(".1").exists():
            append(path, "late")
            os.rename(path, path.with_suffix(".1"))
            path.write_text("new and longer than the old file has ever been\n")
        return rotation(path, file)

    monkeypatch.setattr(text_lines, "_rotation", late)
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == ["late", "new and longer than the old file has ever been"]
    lines.close()


def test_follow_survives_rotation_by_truncation(log):
    append(log, "a long line that will be gone\n")
    lines = follow(log, poll=1e-4)
    assert until_silence(lines) == []
    log.write_text("new\n")
    assert until_silence(lines) == ["new"]
    lines.close()


def test_follow_waits_for_a_file_and_stops_when_told(tmp_path):
    path = tmp_path / "later"
    stop = [False]
    lines = follow(path, poll=1e-4, stop=lambda: stop[0])
    assert until_silence(lines) == []
    path.write_text("here\n")
    assert until_silence(lines) == ["here"]
    stop[0] = True
    assert list(lines) == []


def test_follow_refuses_a_folder_and_a_bad_poll(tmp_path):
    with pytest.raises(UnreadableError, match="cannot be read"):
        next(follow(tmp_path))
    with pytest.raises(ParameterError, match="poll must be a finite number > 0; got 0"):
        next(follow(tmp_path, poll=0))
