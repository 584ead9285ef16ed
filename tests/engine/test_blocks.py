"""Maps over blocks: order, and threads that are left alone while they gain nothing."""

import threading
import time

import pytest

from visionnmf.engine import blocks
from visionnmf.engine.blocks import _Gain, map_blocks

WORK = [(i, i + 1) for i in range(8)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def gain(monkeypatch):
    monkeypatch.setenv("VISIONNMF_NUM_THREADS", "2")
    gain = _Gain(Clock())
    monkeypatch.setattr(blocks, "_gain", gain)
    return gain


def threads_of_a_map(seconds=0.0):
    def work(block):
        time.sleep(seconds)  # a thread that has lost its processor: time passes, and nothing is done
        return threading.get_ident(), block

    results = map_blocks(work, WORK)
    assert [block for _, block in results] == WORK
    return {thread for thread, _ in results}


def test_stalled_threads_give_way_to_one(gain):
    here = {threading.get_ident()}
    assert threads_of_a_map(0.01) != here  # 40 ms of wall time in which nothing was worked
    assert threads_of_a_map() == here
    gain.clock.now += 1.01 * gain.PAUSE
    assert threads_of_a_map(0.01) != here  # tried again, in vain
    gain.clock.now += 1.01 * gain.PAUSE
    assert threads_of_a_map() == here  # so the pause is longer
    gain.clock.now += gain.PAUSE
    assert threads_of_a_map() != here


def test_threads_that_gain_stay(gain):
    for _ in range(20):
        assert gain.is_expected()
        gain.record(0.01, 0.019)
    gain.record(0.019, 0.0)  # one map that was stalled, short of the window
    assert gain.is_expected()


def test_pauses_have_a_limit_and_end_when_threads_gain(gain):
    for _ in range(20):
        gain.record(1.0, 0.5)
        gain.clock.now = gain.until
    assert gain.pause == gain.LONGEST_PAUSE
    gain.record(1.0, 1.9)
    assert gain.pause == gain.PAUSE and gain.is_expected()


def test_failures_reach_the_caller(gain):
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda block: 1 / block[0], WORK)
