"""Waiting for a stream: without polling, up to a limit, and with Ctrl-C."""

import _thread
import threading
import time

import pytest

from gpudissect.device.cuda.waiting import StreamWaiter
from tests.support.fake_driver import BlockingDriver

SHORT, LONG = 3, 7  # streams of the fake driver


@pytest.fixture
def driver():
    driver = BlockingDriver()
    yield driver
    driver.finish.set()


def test_a_stream_that_has_ended_needs_no_event(driver):
    assert StreamWaiter(driver).wait(SHORT, 1.0) == 0
    assert driver.log == ["query"]


def test_a_long_kernel_is_polled_for_shortly_and_then_awaited_by_a_blocking_event(driver):
    threading.Timer(0.2, driver.finish.set).start()
    waiter, begin = StreamWaiter(driver), time.process_time()
    assert [waiter.wait(LONG, 10.0), waiter.wait(LONG, 10.0)] == [0, 0]
    assert time.process_time() - begin < 0.1
    calls = [name for name in driver.log if name != "query"]
    assert sorted(calls) == ["create 3", "current", "record", "synchronize"] and calls[0] == "create 3"
    waiter.close()
    assert driver.log.count("destroy") == 1


def test_the_limit_holds_while_the_driver_hangs(driver):
    waiter, begin = StreamWaiter(driver), time.perf_counter()
    assert waiter.wait(LONG, 0.1) is None
    assert 0.1 <= time.perf_counter() - begin < 5
    driver.finish.set()
    assert waiter.wait(LONG, 10.0) == 0


def test_ctrl_c_is_handled_while_the_driver_hangs(driver):
    threading.Timer(0.1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        StreamWaiter(driver).wait(LONG, 20.0)


def test_a_kernel_that_crashed_is_reported(driver):
    driver.end_status = 700
    threading.Timer(0.1, driver.finish.set).start()
    assert StreamWaiter(driver).wait(LONG, 10.0) == 700
