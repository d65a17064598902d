"""Parts of a plan that run together."""

import pytest

from gpudissect.measure.plan import together


def part(name, rounds):
    """Asks for two workloads in each of some rounds; returns what it was sent."""
    sent = []
    for number in range(rounds):
        sent.append((yield [f"{name}{number}", f"{name}{number}'"]))
    return sent


def run(plan):
    """The batches of a plan, whose traces are the workloads in capitals; and what it returns."""
    batches, traces = [], None
    while True:
        try:
            batches.append(plan.send(traces))
        except StopIteration as stop:
            return batches, stop.value
        traces = [each.upper() for each in batches[-1]]


def test_their_batches_are_one_and_each_is_sent_its_own_traces():
    batches, (first, none, second) = run(together([part("a", 2), part("b", 0), part("c", 1)]))
    assert batches == [["a0", "a0'", "c0", "c0'"], ["a1", "a1'"]]
    assert (first, none, second) == ([["A0", "A0'"], ["A1", "A1'"]], [], [["C0", "C0'"]])


def test_no_part_asks_nothing():
    assert run(together([])) == ([], [])


def test_an_exception_of_one_ends_all():
    def failing():
        yield ["x"]
        raise ValueError("undecided")

    with pytest.raises(ValueError, match="undecided"):
        run(together([part("a", 3), failing()]))
