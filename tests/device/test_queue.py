"""Stepwise queues of batches."""

import pytest

from gpudissect.device.queue import Stepwise


class Steps:
    """Runs numbers; each is its own trace."""

    def __init__(self, fails_at=None):
        self.ran, self.fails_at = [], fails_at

    def __call__(self, batch):
        self.ran.append(tuple(batch))
        if self.fails_at in batch:
            raise ValueError(self.fails_at)
        return [*batch]


def test_a_batch_submitted_meanwhile_overtakes_one_of_lower_priority():
    run = Steps()
    queue = Stepwise(run, 2)
    first = queue.submit([1, 2, 3, 4, 5])
    later = []

    def submit():
        if not later:
            later.append(queue.submit([6, 7, 8], priority=1))

    assert queue.collect(submit) == (later[0], [6, 7, 8])
    assert queue.collect() == (first, [1, 2, 3, 4, 5])
    assert run.ran == [(1, 2), (6, 7), (8,), (3, 4), (5,)]


def test_of_equal_priority_the_smallest_batch_goes_first():
    queue = Stepwise(Steps(), 1)
    numbers = [queue.submit(batch) for batch in ([1, 2], [3], [])]
    assert [queue.collect()[0] for _ in numbers] == numbers[::-1]


def test_a_failed_step_answers_its_batch_alone():
    queue = Stepwise(Steps(fails_at=2), 1)
    numbers = [queue.submit(batch) for batch in ([1, 2, 3], [4, 5, 6])]
    (failed, error), answer = queue.collect(), queue.collect()
    assert (failed, str(error), answer) == (numbers[0], "2", (numbers[1], [4, 5, 6]))


def test_an_interrupt_discards_the_batch_that_runs():
    def interrupt(batch):
        if batch == [1]:
            raise KeyboardInterrupt
        return batch

    queue = Stepwise(interrupt, 1)
    queue.submit([1], priority=1)
    second = queue.submit([2])
    with pytest.raises(KeyboardInterrupt):
        queue.collect()
    assert queue.collect() == (second, [2])
