"""Maps over blocks: order, and threads that are left alone while they gain nothing."""

import threading
import time

import pytest

from visionnmf.engine import blocks
from visionnmf.engine.blocks import _Pace, map_blocks

WORK = [(i, i + 1) for i in range(8)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def pace(monkeypatch):
    monkeypatch.setenv("VISIONNMF_NUM_THREADS", "2")
    pace = _Pace(Clock())
    monkeypatch.setattr(blocks, "_pace", pace)
    return pace


def threads_of_a_map(stalled=0.0, busy=0.0):
    def work(block):
        time.sleep(stalled)  # a thread that has lost its processor: time passes, and nothing is done
        start = time.thread_time()
        while time.thread_time() - start < busy:
            pass
        return threading.get_ident(), block

    results = map_blocks(work, WORK)
    assert [block for _, block in results] == WORK
    return {thread for thread, _ in results}


def test_stalled_threads_give_way_to_one(pace):
    here = {threading.get_ident()}
    assert threads_of_a_map(stalled=0.02) != here  # 80 ms of wall time in which nothing was worked
    assert threads_of_a_map(busy=0.01) == here  # one thread is tried, and gets more done
    assert threads_of_a_map() == here
    pace.clock.now += 1.01 * pace.PAUSE
    assert threads_of_a_map(busy=0.01) == here
    assert threads_of_a_map(stalled=0.02) != here  # tried again, in vain
    assert threads_of_a_map() == here


def test_results_of_one_thread_are_taken_back_where_it_gets_less_done(pace):
    pace.record(True, 1.0, 0.4)  # all are slow on a machine that is full
    pace.record(False, 1.0, 0.2)
    assert pace.threaded and not pace.trying


def test_threads_that_gain_stay(pace):
    for _ in range(20):
        pace.clock.now += 1
        pace.record(True, 1.0, 1.9)
        assert pace.threaded
    pace.record(True, 0.02, 0.0)  # one map that was stalled, short of the window
    assert pace.threaded


def test_pauses_have_a_limit_and_end_when_the_other_way_is_faster(pace):
    for _ in range(20):
        pace.record(True, 1.0, 0.5)
        assert not pace.threaded
        pace.record(False, 1.0, 0.3)
        pace.clock.now = pace.until
    assert pace.pause == pace.LONGEST_PAUSE
    pace.record(True, 1.0, 0.5)
    pace.record(False, 1.0, 0.9)
    assert not pace.threaded and pace.pause == pace.PAUSE


def test_what_another_caller_began_in_the_other_way_does_not_count(pace):
    pace.record(False, 9.0, 9.0)
    assert pace.wall == 0


def test_failures_reach_the_caller(pace):
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda block: 1 / block[0], WORK)
