"""One run of a command: what fails, what is said, and the one place that decides the exit code."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import typer
from helpers import all_commands

from visionnmf.apps import cli
from visionnmf.apps.cli import console, options, signals
from visionnmf.apps.cli.console import progress_bar, spinner
from visionnmf.apps.cli.run import Input, error_line, running
from visionnmf.apps.report import Report
from visionnmf.exceptions import PASS_FORCE, OutputExistsError, ParameterError, UnreadableError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def usual_verbosity(monkeypatch):
    monkeypatch.setattr(console, "_verbosity", console.Verbosity())  # another test may have left --verbose


def code(work, **options):
    console.set_verbosity(console.Verbosity(json_=options.get("as_json", False)))
    with pytest.raises(typer.Exit) as stop, running() as run:
        work(run)
    return stop.value.exit_code


def raising(error):
    def work(_):
        raise error

    return work


def test_the_exit_code_of_one_report_and_of_a_stream():
    assert code(lambda run: run.show(Report())) == 0
    assert code(lambda run: run.show(Report(skipped=["a: empty"]))) == 1
    assert code(raising(UnreadableError("a: empty"))) == 2
    assert code(raising(ParameterError("n_components must be 1; got 2"))) == 2
    assert code(raising(OSError("disk full"))) == code(raising(MemoryError())) == 2
    assert code(raising(ZeroDivisionError())) == 1
    assert code(raising(KeyboardInterrupt())) == 130
    assert code(lambda run: [run.show(Report()), run.fail("a: empty")]) == 1
    assert code(lambda run: run.fail("a: empty")) == 2
    assert code(lambda run: None) == 0  # a log that is followed, and nothing came


def test_the_exit_code_of_several_inputs(capsys):
    def process(name):
        if name == "ours":
            raise ZeroDivisionError
        if name == "stop":
            raise KeyboardInterrupt
        if name != "good":
            raise UnreadableError(f"{name}: empty")
        return Report(inputs=[name])

    def each(*names):
        return code(lambda run: run.show_all(run.each(list(map(Input, names)), process)), as_json=True)

    assert each("good") == 0
    assert each("good", "bad") == each("bad", "good") == 1
    assert each("bad", "worse") == 2
    assert each("bad", "ours") == each("ours") == 1
    capsys.readouterr()
    assert each("good", "stop", "bad") == 130
    printed = capsys.readouterr()
    assert printed.err == "visionnmf: interrupted during stop; nothing was written for it\n"
    assert json.loads(printed.out) == Report(inputs=["good"]).as_dict()


def test_a_signal_is_the_reason_whatever_comes_out_of_it(monkeypatch):
    """Within a compiler's callback an interrupt becomes some other error."""
    monkeypatch.setattr(signals, "_come", int(signal.SIGTERM))
    assert code(raising(ZeroDivisionError())) == code(raising(KeyboardInterrupt())) == 143


def test_nothing_else_in_the_command_line_ends_a_run():
    """The rule stands once: only `running` exits with a code; `--version` and the entry point have none to choose."""
    for path in (ROOT / "apps" / "cli").glob("*.py"):
        text = path.read_text()
        allowed = {"run.py": ["raise typer.Exit(code)"], "__init__.py": ["raise typer.Exit"]}
        found = re.findall(r"raise typer\.Exit.*|sys\.exit.*", text)
        assert found == allowed.get(path.name, []), path


def test_an_error_is_one_line_with_the_cure_on_the_command_line():
    exists = OutputExistsError(f"a.png: exists already; {PASS_FORCE}")
    assert error_line(exists) == "a.png: exists already; give --force to replace it"
    assert error_line(UnreadableError("two\nlines")) == "two lines"
    assert error_line(MemoryError(), "a.png") == "a.png: not enough memory; try a smaller input"
    of_opencv = RuntimeError("OpenCV(5.0.0) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate 9 bytes")
    assert error_line(of_opencv, "a.png") == "a.png: not enough memory; try a smaller input"
    assert "a.png: a fault of visionnmf (ZeroDivisionError" in error_line(ZeroDivisionError(), "a.png")


def test_messages_speak_of_options_and_not_of_arguments(monkeypatch):
    monkeypatch.setattr(options, "_flags", {"n_segments": "--segments", "source": "IMAGE"})
    monkeypatch.setattr(options, "_related", {"prepare": "--prepare", "detect": "--detect", "n_segments": "--other"})
    for said, shown in (
        ("with n_segments=8, not with n_segments=5", "with --segments 8, not with --segments 5"),
        ("fit with prepare='range'", "fit with --prepare range"),
        ('fit with prepare="range"; or not', "fit with --prepare range; or not"),
        ("train with detect=True, which looks for faces", "train with --detect, which looks for faces"),
        ("give n_segments=1,2; or not", "give --segments 1,2; or not"),
        ("scale by MinMaxScaler(detect=True)", "scale by MinMaxScaler(detect=True)"),  # code
        ("missing_values=numpy.nan", "missing_values=numpy.nan"),  # of Python only
        ("detect=True/photo.png: empty", "detect=True/photo.png: empty"),  # names of files
        ("my detect=a/b.png", "my detect=a/b.png"),
        ("source=3", "source=3"),
        ("n_segments=2.png: no image", "n_segments=2.png: no image"),
        ("n_segments=2_labels.png: exists", "n_segments=2_labels.png: exists"),
    ):
        assert error_line(UnreadableError(said)) == shown
    error = ParameterError("n_segments must be 1; got 2 with detect=True")
    assert error_line(error) == "--segments must be 1; got 2 with --detect"


def test_all_sentences_of_a_report_speak_of_options(monkeypatch, capsys):
    monkeypatch.setattr(options, "_flags", {"size": "--size"})
    said = {name: [f"{name} give size=32"] for name in ("notes", "skipped", "warnings")}
    for as_json in (False, True):
        code(lambda run: run.show(Report(**said, figures={"text": "size=32"}, outputs=["size=9"])), as_json=as_json)
        printed = capsys.readouterr()
        assert "give size=32" not in printed.out + printed.err and printed.out.count("give --size 32") == 2 + as_json
        assert "warnings give --size 32" in printed.err


def test_texts_of_others_cannot_forge_lines_or_steer_the_terminal(capsys, monkeypatch):
    code(lambda run: run.fail("q[\x1b]0;title\x07: empty\nforged"))
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and "\x1b" not in printed.err and "\x07" not in printed.err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_bar("q[/]x.png") as update:
        update("q[/red]", 1, 2)
    with spinner("q[/]x\x1b[2J.png"):
        pass


def test_progress_without_a_terminal_is_a_line_every_ten_seconds_without_an_estimate_at_first(monkeypatch, capsys):
    clock = iter([0.0, 0.0, 4.0, 14.0, 15.0, 29.0, 334.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with progress_bar("photos", rate_of="images") as update:
        for done in (0, 10, 40, 43, 85, 1000):
            update("reading", done, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "visionnmf: photos: reading 40 of 1000, 3 images/s, 5 min left",
        "visionnmf: photos: reading 85 of 1000, 3 images/s, 5 min left",
        "visionnmf: photos: reading 1000 of 1000, 3 images/s",
    ]
    clock = iter([0.0, 0.0, 30.0, 40.0])
    with progress_bar("yard.mp4") as update:
        for done in (1, 3, 21):
            update("learning", done, 1001)
    assert capsys.readouterr().err.splitlines() == [
        "visionnmf: yard.mp4: learning 3 of 1001",
        "visionnmf: yard.mp4: learning 21 of 1001, 0.5 frames/s, 33 min left",
    ]


@pytest.mark.parametrize("compiling", [1, 2])
def test_steps_that_compile_kernels_have_no_share_in_the_estimate(compiling, monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    with progress_bar("people", rate_of="") as update:
        for done in range(401):
            now += 60.0 if done == compiling else 0.5
            update("learning", done, 400)
    lines = capsys.readouterr().err.splitlines()
    shown = [re.search(r"learning (\d+) of 400(?:, (\d+) (s|min) left)?", line).groups() for line in lines]
    assert shown[0] == (str(compiling), None, None) and len(shown) > 15
    for done, left, unit in shown[3:]:  # half a minute after the compilation
        assert int(left) == pytest.approx((400 - int(done)) / (2 if unit == "s" else 120), abs=1)


def test_verbose_says_how_long_each_stage_took(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 3.0, 6.0, 10.0, 11.5])
    monkeypatch.setattr(console.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(console, "_verbosity", console.Verbosity(verbose=True))
    with progress_bar("views") as update:
        for stage in ("trying", "trying", "fitting", "trying"):
            update(stage, 1, 2)
    assert capsys.readouterr().err == "visionnmf: views: trying 6.5 s, fitting 4.0 s\n"


def test_rows_do_not_go_to_the_terminal_that_shows_progress():
    code = (
        "from visionnmf.apps.cli.console import echo, progress_bar\n"
        "with progress_bar('yard.mp4') as update:\n    update('following', 1, 2)\n    echo('a row')"
    )
    watched, terminal = os.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=terminal, text=True, check=True)
    os.close(terminal)
    os.close(watched)
    assert done.stdout == "a row\n"


def test_work_without_steps_says_how_long_it_takes_unless_it_is_quiet(monkeypatch, capsys):
    monkeypatch.setattr(console, "LINE_EVERY", 0.01)
    with spinner("learning"):
        time.sleep(0.3)
    assert "visionnmf: learning: working for 0 s\n" in capsys.readouterr().err
    monkeypatch.setattr(console, "_verbosity", console.Verbosity(quiet=True))
    with progress_bar("photos") as update, spinner("learning"):
        time.sleep(0.1)
    assert update is None and capsys.readouterr().err == ""


def test_no_message_of_the_library_speaks_of_options():
    """Python has arguments; the command line puts its options in their place."""
    for folder in ("visionnmf", "apps", "datasets"):
        for path in (ROOT / folder).rglob("*.py"):
            # The options of an application, and pages that show commands.
            declares = path.name == "settings.py" or path.parent.name == "reproduce"
            if "cli" not in path.parts and not declares and not path.is_symlink():
                found = re.findall(r"""["'][^"'\n]*(?<![\w-])--[a-z][a-z-]+[^"'\n]*["']""", path.read_text())
                assert not found, f"{path}: {found}"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
@pytest.mark.parametrize("where", ["while the command is put together", "while it is parsed"])
def test_a_signal_before_the_run_begins_has_its_exit_code_and_no_traceback(number, code, where, monkeypatch):
    def app():
        try:
            signals.on_signal(number, None)
        except KeyboardInterrupt:
            if where == "while it is parsed":
                raise SystemExit(130) from None  # as typer ends
            raise

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(signals, "_come", 0)
    monkeypatch.setattr(sys, "argv", ["visionnmf", "--debug"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize("reported", [True, False])
def test_warnings_outside_of_an_input_are_sentences_and_json(capsys, reported):
    console.set_verbosity(console.Verbosity(json_=True))
    with pytest.raises(typer.Exit), running() as run:
        warnings.warn("the values are taken\nas 12 bits", UserWarning, stacklevel=1)
        if reported:
            run.show(Report(inputs=["a"]))
    out, err = capsys.readouterr()
    assert err == "visionnmf: the values are taken as 12 bits\n"
    assert not reported or json.loads(out)["warnings"] == ["the values are taken as 12 bits"]


# Of Python only: commands pass other values, and read pictures, which hold no NaN.
OF_PYTHON = {"calibrate", "mask"}


def test_arguments_that_messages_name_are_options_of_a_command():
    options = {option.name for _, command in all_commands() for option in command.params}
    named = set()
    for path in [*(ROOT / "apps").rglob("*.py"), *(ROOT / "datasets").glob("*.py")]:
        for raised in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise)):
            texts = (node.value for node in ast.walk(raised) if isinstance(node, ast.Constant))
            named |= {name for text in texts for name in re.findall(r"(?<!\S)([a-z_]+)=(?!=)", str(text))}
    assert {"detect", "size", "prepare", "method"} <= named
    assert named - options - OF_PYTHON == set()


def test_the_users_own_words_stay_as_they_are(monkeypatch, capsys):
    """Evidence from a log is a line, and names of inputs and outputs may look like arguments."""
    monkeypatch.setattr(options, "_flags", {"top": "--top", "scale": "--scale"})
    names = {"inputs": ["logs/top=3", "my scale=2  photo"], "outputs": ["scale=2"]}
    said = {"lines": ["  log:7: curl top=3"], "notes": ["top=3: no user; my scale=2 photo: small; scale=2; give top=5"]}
    code(lambda run: run.show(Report(**said, **names)))
    printed = capsys.readouterr().out.splitlines()[:2]
    assert printed == ["  log:7: curl top=3", "  top=3: no user; my scale=2 photo: small; scale=2; give --top 5"]
    assert error_line(UnreadableError("top=3: empty; give top=5"), "logs/top=3") == "top=3: empty; give --top 5"
