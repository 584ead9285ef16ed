"""One run of a command: what fails, what is said, and the one place that decides the exit code."""

import json
import re
import signal
import sys
from pathlib import Path

import pytest
import typer
from helpers import run_command

from visionnmf import choices
from visionnmf.apps import cli
from visionnmf.apps.cli import COMMANDS, app, signals
from visionnmf.apps.cli.common import OPTIONS, running, sentence_of
from visionnmf.apps.faces import methods
from visionnmf.apps.masquerade import logs
from visionnmf.datasets import CORRUPTIONS
from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError

ROOT = Path(__file__).resolve().parents[3]


class Found:
    """A report."""

    def __init__(self, *skipped):
        self.skipped = list(skipped)

    def as_dict(self):
        return {"skipped": self.skipped}

    def summary(self):
        return "found"


def code(work, **options):
    with pytest.raises(typer.Exit) as stop, running(options.get("as_json", False), False) as run:
        work(run)
    return stop.value.exit_code


def raising(error):
    def work(_):
        raise error

    return work


def test_the_exit_code_of_one_report():
    assert code(lambda run: run.report(Found())) == 0
    assert code(lambda run: run.report(Found("a: empty"))) == 1
    assert code(raising(UnreadableError("a: empty"))) == 2
    assert code(raising(ParameterError("n_components must be 1; got 2"))) == 2
    assert code(raising(OSError("disk full"))) == code(raising(MemoryError())) == 2
    assert code(raising(ZeroDivisionError())) == 1
    assert code(raising(KeyboardInterrupt())) == 130


def test_the_exit_code_of_a_batch(capsys):
    def process(name):
        if name == "ours":
            raise ZeroDivisionError
        if name == "stop":
            raise KeyboardInterrupt
        if name != "good":
            raise UnreadableError(f"{name}: empty")
        return Found()

    def batch(*names):
        return code(lambda run: run.batch("things", names, process), as_json=True)

    assert batch("good") == 0
    assert batch("good", "bad") == batch("bad", "good") == 1
    assert batch("bad", "worse") == 2
    assert batch("bad", "ours") == batch("ours") == 1
    capsys.readouterr()
    assert batch("good", "stop", "bad") == 130
    printed = capsys.readouterr()
    assert printed.err == "visionnmf: interrupted during stop; nothing was written for it\n"
    assert json.loads(printed.out) | {"visionnmf": ""} == {
        "visionnmf": "",
        "things": [{"skipped": [], "warnings": []}],
        "failed": 0,
    }


def test_the_exit_code_of_a_stream():
    assert code(lambda run: [run.row(Found()), run.row(Found())]) == 0
    assert code(lambda run: [run.row(Found()), run.fail("a: empty")]) == 1
    assert code(lambda run: run.fail("a: empty")) == 2
    assert code(lambda run: None) == 0  # a log that is followed, and nothing came


def test_a_signal_is_the_reason_whatever_comes_out_of_it(monkeypatch):
    """Within a compiler's callback an interrupt becomes some other error."""
    monkeypatch.setattr(signals, "_come", int(signal.SIGTERM))
    assert code(raising(ZeroDivisionError())) == code(raising(KeyboardInterrupt())) == 143


def test_nothing_else_in_the_command_line_ends_a_run():
    """The rule stands once: only `running` exits with a code; `--version` and the entry point have none to choose."""
    for path in (ROOT / "apps" / "cli").glob("*.py"):
        text = path.read_text()
        allowed = {"common.py": ["raise typer.Exit(run.exit_code(interrupted))"], "__init__.py": ["raise typer.Exit"]}
        found = re.findall(r"raise typer\.Exit.*|sys\.exit.*", text)
        assert found == allowed.get(path.name, []), path


def test_arguments_are_called_as_the_command_line_calls_them():
    error = ParameterError("n_segments must be at most n_components, 5; got 6")
    assert sentence_of(error) == "--segments must be at most --rank, 5; got 6"
    assert sentence_of(OutputExistsError("a/n_segments.png: exists already; pass force=True to replace it")) == (
        "a/n_segments.png: exists already; pass --force to replace it"
    )
    error = ParameterError("end or max_frames must be given for rtsp://gate/1; got None")
    assert sentence_of(error) == "--end or --max-frames must be given for rtsp://gate/1; got None"
    assert sentence_of(ParameterError("forgetting must be > 0; got 0")) == "--forget must be > 0; got 0"
    assert sentence_of(UnreadableError("two\nlines")) == "two lines"


def test_every_option_in_a_message_is_one():
    known = set()
    for command in COMMANDS:
        groups = {group.name: group.typer_instance for group in app.registered_groups}
        names = [c.name for c in groups[command].registered_commands] if command in groups else [""]
        for name in names:
            known |= set(re.findall(r"--[a-z-]+", run_command(command, *name.split(), "--help").stdout))
    assert {part for option in OPTIONS.values() for part in option.split() if part.startswith("--")} <= known


def test_no_message_of_the_library_speaks_of_options():
    """Python has arguments; the command line puts its options in their place."""
    for folder in ("visionnmf", "apps", "datasets"):
        for path in (ROOT / folder).rglob("*.py"):
            if "cli" not in path.parts and not path.is_symlink():
                found = re.findall(r"""["'][^"'\n]*(?<![\w-])--[a-z][a-z-]+[^"'\n]*["']""", path.read_text())
                assert not found, f"{path}: {found}"


@pytest.mark.parametrize("command", ["background", "segment"])
def test_help_of_a_command_that_need_not_be_named_tells_of_the_others(command):
    assert f"visionnmf {command} evaluate --help" in run_command(command, "--help").stdout


def test_help_names_what_there_is():
    text = " ".join(run_command("faces", "evaluate", "--help").stdout.replace("-\n", "-").split())
    text = text.replace("- ", "-")
    for name in (*methods.MODELS, *methods.CHOSEN, *methods.RANKLESS, *methods.RULES, *CORRUPTIONS):
        assert name == "none" or re.search(rf"(?<![\w-]){name}(?![\w-])", text), name
    assert tuple(logs.FORMATS) == choices.LOG_FORMATS


def test_a_log_without_commands_cannot_be_used(tmp_path):
    good, junk, model = tmp_path / "ann.log", tmp_path / "junk.log", tmp_path / "m.npz"
    good.write_text("ls\ncd\n" * 300)
    junk.write_text("\n\n")
    assert run_command("masquerade", "train", good, "--model", model).exit_code == 0
    nothing = run_command("masquerade", "score", model, good, "--format", "acct")
    assert nothing.exit_code == 2 and not nothing.stdout
    assert nothing.stderr == f"visionnmf: {good}: holds no command; check the format\n"
    some = run_command("masquerade", "score", model, junk, good)
    assert some.exit_code == 1 and some.stdout.count("\n") == 7 and "junk.log: holds no command" in some.stderr
    partly = run_command("masquerade", "train", good, junk, "--model", tmp_path / "n.npz")
    assert partly.exit_code == 1 and "left out" in partly.stdout and (tmp_path / "n.npz").exists()


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
