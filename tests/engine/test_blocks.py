"""Threads of the engine when a signal comes at the worst moment."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

INTERRUPTED = """
import threading
from visionnmf.engine.blocks import map_blocks, one_blas_thread

def work():
    {work}

start = threading.Thread.start
def interrupted(thread):
    start(thread)
    threading.Thread.start = start
    raise KeyboardInterrupt  # as a signal does before the pool knows of the thread
threading.Thread.start = interrupted
try:
    work()
except KeyboardInterrupt:
    print("interrupted")
{again}
"""


@pytest.mark.parametrize("again", ["", "work()"])
@pytest.mark.parametrize("work", ["map_blocks(lambda block: block, [(0, 1), (1, 2)])", "with one_blas_thread(): pass"])
def test_process_ends_after_a_signal_while_a_thread_starts(work, again):
    script = textwrap.dedent(INTERRUPTED).format(work=work, again=again)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"VISIONNMF_NUM_THREADS": "2", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout == "interrupted\n", done.stderr
