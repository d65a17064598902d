"""The batch queue of a GPU, on a device that logs what it is asked to do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.cuda.pipeline import Pipeline, Task
from gpudissect.device.queue import MERGED_WORKLOADS
from gpudissect.errors import DeviceError, KernelFailed


class Runner:
    def __init__(self, at_once):
        self.at_once = at_once


class LoggingDevice:
    """Workloads are strings: equal first letters share a task; "x" cannot be planned, "y" started, "z" finished.

    The kernel of "?" is never ready. "!" keeps its place; "~" moves no memory.
    """

    def __init__(self, at_once=2, share=True):
        self.share = share
        self.runners = {letter: Runner(at_once) for letter in "abyz"}
        self.log, self.planned, self.broken = [], [], None
        self.in_flight, self.most_in_flight = dict.fromkeys(self.runners.values(), 0), 0

    def activate(self):
        pass

    def drain(self):
        self.log.append("drain")

    def plan(self, workloads):
        self.planned.append([*workloads])
        self._fail_on("x", *workloads)
        names = dict.fromkeys(map(self._name, workloads))
        places = {name: tuple(i for i, each in enumerate(workloads) if self._name(each) == name) for name in names}
        return [
            Task(self.runners[name[0]], [workloads[i] for i in at], at, keeps_place="!" in name)
            for name, at in places.items()
        ]

    def is_ready(self, task):
        return not any("?" in each for each in task.content)

    def moves_memory(self, task):
        return not all("~" in each for each in task.content)

    def start(self, task):
        self._fail_on("y", *task.content)
        self.log.append("+" + self._name(task.content[0]))
        self.in_flight[task.runner] += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight[task.runner])
        return task.content

    def finish(self, task, queued):
        self.log.append("-" + self._name(task.content[0]))
        self.in_flight[task.runner] -= 1
        self._fail_on("z", *task.content)
        return [each.upper() for each in queued]

    def _name(self, workload):
        return workload[0] if self.share else workload

    def _fail_on(self, letter, *workloads):
        if self.broken:
            raise DeviceError(self.broken)
        if any(letter in each for each in workloads):
            raise KernelFailed(letter)


def answers(pipeline, *batches):
    """What each batch is answered with: its traces joined, or the error."""
    numbers = [pipeline.submit(batch.split()) for batch in batches]
    found = dict(collect(pipeline) for _ in batches)
    return [found[number] for number in numbers]


def collect(pipeline):
    number, answer = pipeline.collect()
    return number, answer.args[0] if isinstance(answer, DeviceError) else " ".join(answer)


def answer(pipeline):
    return collect(pipeline)[1]


def test_traces_come_in_the_order_of_workloads():
    device = LoggingDevice()
    assert answers(Pipeline(device), "a1 b1 a2", "b2", "", "b3 a3") == ["A1 B1 A2", "B2", "", "B3 A3"]
    assert device.planned == [["a1", "b1", "a2", "b2", "b3", "a3"]], "as one"


def test_the_next_task_is_on_its_way_before_the_last_one_has_ended():
    device = LoggingDevice()
    answers(Pipeline(device), "a b")
    assert device.log == ["drain", "+a", "+b", "-a", "-b"]


def test_tasks_of_later_batches_are_on_their_way_when_earlier_ones_end():
    device, at = LoggingDevice(), []
    pipeline = Pipeline(device)
    pipeline.submit(["a1", "b1"])
    finish = device.finish

    def submitting(task, queued):
        if not at:
            at.append(len(device.log))
            pipeline.submit(["a2"])
        return finish(task, queued)

    device.finish = submitting
    assert [answer(pipeline), answer(pipeline)] == ["A1 B1", "A2"]
    assert device.log == ["drain", "+a", "+b", "-a", "+a", "-b", "-a"]


def test_a_runner_has_no_more_tasks_on_their_way_than_it_takes():
    device = LoggingDevice(at_once=1)
    device.runners = dict.fromkeys("abz", device.runners["a"])
    answers(Pipeline(device), "a b")
    assert device.log == ["drain", "+a", "-a", "+b", "-b"]


def test_a_task_overtakes_those_whose_runner_takes_no_more():
    device = LoggingDevice(at_once=1, share=False)
    assert answers(Pipeline(device), "a1 a2 b1") == ["A1 A2 B1"]
    assert device.log == ["drain", "+a1", "+b1", "-a1", "+a2", "-b1", "-a2"]


def test_nothing_starts_between_tasks_of_a_batch_that_keep_their_place():
    device = LoggingDevice(at_once=1, share=False)
    assert answers(Pipeline(device), "a1! a2! a3", "b1", "a4! b2") == ["A1! A2! A3", "B1", "A4! B2"]
    started = [each for each in device.log if each[0] == "+"]
    assert started == ["+a1!", "+a2!", "+b1", "+a3", "+b2", "+a4!"]


def started_after(first, later, *batches):
    """The order in which tasks start if batches of `later`, by priority, arrive once `first` has started."""
    device = LoggingDevice(at_once=1, share=False)
    pipeline, waiting = Pipeline(device), list(later)

    def submit():
        while waiting and f"+{first}" in device.log:
            priority, batch = waiting.pop(0)
            pipeline.submit(batch.split(), priority)

    for batch in batches:
        pipeline.submit(batch.split())
    for _ in range(len(batches) + len(later)):
        assert isinstance(pipeline.collect(submit)[1], list)
    return " ".join(each[1:] for each in device.log if each[0] == "+")


@pytest.mark.parametrize(
    ("later", "order"),
    [
        ([(1, "b3~")], "a1! b3~ a2!"),
        ([(1, "b3")], "a1! a2! b3"),
        ([(1, "b3!~ b4!~")], "a1! b3!~ b4!~ a2!"),  # both may move the other's memory
        ([(1, "b3!~ b4!")], "a1! a2! b3!~ b4!"),  # it would move memory later
        ([(2, "b9"), (1, "b3~")], "a1! a2! b9 b3~"),  # what waits for memory in place has priority over the rest
    ],
)
def test_tasks_start_between_those_that_keep_their_place_if_they_move_no_memory(later, order):
    assert started_after("a1!", later, "a1! a2!") == order


def test_tasks_that_keep_their_place_start_in_their_order():
    """The second may move memory of a batch that keeps its place too, and whose next kernel is not ready."""
    order = started_after("a1!~", [(1, "b4!~ b?5!~")], "a1!~ a2! a3!~").split()
    assert [each for each in order if each[0] == "a"] == ["a1!~", "a2!", "a3!~"]


def test_an_interrupted_batch_no_longer_keeps_its_place():
    device = LoggingDevice(at_once=1, share=False)
    pipeline, finish = Pipeline(device), device.finish

    def interrupt(task, queued):
        raise KeyboardInterrupt

    device.finish = interrupt
    pipeline.submit(["a1!", "a2!"])
    with pytest.raises(KeyboardInterrupt):
        pipeline.collect()
    device.finish = finish
    assert answers(pipeline, "b1") == ["B1"]


def test_an_error_of_those_who_submit_is_no_answer():
    pipeline = Pipeline(LoggingDevice())
    pipeline.submit(["a1", "b1"])

    def fail():
        raise MemoryError

    with pytest.raises(MemoryError):
        pipeline.collect(fail)


def test_batches_of_higher_priority_run_first():
    device = LoggingDevice(at_once=1, share=False)
    pipeline = Pipeline(device)
    for priority, batch in enumerate((["a1", "b1"], ["a2"], ["a3", "a4"])):
        pipeline.submit(batch, priority)
    assert [answer(pipeline) for _ in range(3)] == ["A3 A4", "A2", "A1 B1"]
    assert device.planned == [["a3", "a4"], ["a2"], ["a1", "b1"]]


def test_batches_submitted_meanwhile_overtake_those_of_lower_priority():
    device = LoggingDevice(at_once=1, share=False)
    pipeline, new = Pipeline(device), [["a3"]]

    def submit():
        if "+a1" in device.log and new:
            pipeline.submit(new.pop(), 1)

    pipeline.submit(["a1", "a2"])
    assert pipeline.collect(submit)[1] == ["A3"] and answer(pipeline) == "A1 A2"
    assert device.log == ["drain", "+a1", "-a1", "+a3", "-a3", "+a2", "-a2"]


@pytest.mark.parametrize("bad", ["y", "z"])
def test_a_batch_that_fails_keeps_no_place(bad):
    device = LoggingDevice(at_once=1, share=False)
    assert answers(Pipeline(device), f"a1! a{bad}! a2!", "b1", "b2") == [bad, "B1", "B2"]


def test_a_task_overtakes_those_whose_kernels_are_not_ready():
    device = LoggingDevice(at_once=1, share=False)
    assert answers(Pipeline(device), "a?1 b?1 b2", "a2") == ["A?1 B?1 B2", "A2"]
    assert device.log == ["drain", "+b2", "+a2", "-b2", "-a2", "+a?1", "-a?1", "+b?1", "-b?1"]


def test_no_ready_task_starts_between_those_that_keep_their_place():
    device = LoggingDevice(share=False)
    assert answers(Pipeline(device), "a!1 a!?2", "a!3 b1") == ["A!1 A!?2", "A!3 B1"]
    assert device.log == ["drain", "+a!1", "-a!1", "+a!?2", "+a!3", "+b1", "-a!?2", "-a!3", "-b1"]


@pytest.mark.parametrize(("long", "order"), [("a", "A B"), ("a a2", "B A A2"), ("a?1", "B A?1")])
def test_the_batch_that_ends_first_is_answered_first(long, order):
    device = LoggingDevice(at_once=1, share=False)
    pipeline = Pipeline(device)
    pipeline.submit(long.split())
    pipeline.submit(["b"])
    assert f"{answer(pipeline)} {answer(pipeline)}" == order


def test_a_batch_is_answered_before_others_have_ended():
    device = LoggingDevice()
    pipeline = Pipeline(device)
    pipeline.submit(["a"])
    pipeline.submit(["b"])
    assert answer(pipeline) == "A" and "-b" not in device.log
    assert answer(pipeline) == "B"


@pytest.mark.parametrize("bad", ["x", "y", "z"])
def test_a_failure_affects_only_its_own_batch(bad):
    device = LoggingDevice()
    batches = "a1 b1", f"a2 a{bad}", "a3", "b2"
    assert answers(Pipeline(device), *batches) == ["A1 B1", bad, "A3", "B2"]


def test_only_batches_of_the_task_that_failed_run_again():
    device = LoggingDevice()
    assert answers(Pipeline(device), "a1", "a2 az", "b1") == ["A1", "z", "B1"]
    assert device.planned == [["a1", "a2", "az", "b1"], ["a1"], ["a2", "az"]]
    assert device.log.count("+b") == 1


def test_a_broken_device_answers_every_batch_with_why():
    device = LoggingDevice()
    finish = device.finish

    def breaking(task, queued):
        device.broken = device.broken or "lost"
        return finish(task, queued)

    device.finish = breaking
    assert answers(Pipeline(device), "a1 b1", "a2", "b2") == ["lost"] * 3


def test_as_many_batches_run_as_one_as_are_allowed():
    device = LoggingDevice()
    batch = " ".join(["a"] * (MERGED_WORKLOADS // 2))
    answers(Pipeline(device), batch, batch, "a", batch + " a")
    assert [len(each) for each in device.planned] == [MERGED_WORKLOADS, len(batch.split()) + 2]


def test_what_an_interrupted_queue_left_is_awaited_once():
    device = LoggingDevice()
    pipeline = Pipeline(device)
    answers(pipeline, "a"), answers(pipeline, "a")
    assert device.log.count("drain") == 1


def test_an_interrupt_discards_the_batches_that_run_and_no_later_one():
    device = LoggingDevice()
    pipeline, finish = Pipeline(device), device.finish

    def interrupt(task, queued):
        pipeline.submit(["b2"])
        raise KeyboardInterrupt

    device.finish = interrupt
    pipeline.submit(["a1", "b1!"])
    pipeline.submit(["a2"])
    with pytest.raises(KeyboardInterrupt):
        pipeline.collect()
    device.finish = finish
    assert answer(pipeline) == "B2"
    assert device.log.count("drain") == 2


def test_an_interrupt_while_a_batch_runs_again_leaves_later_ones_free():
    device = LoggingDevice(share=False)
    pipeline, plan = Pipeline(device), device.plan

    def interrupt(workloads):
        if len(workloads) == 1:
            raise KeyboardInterrupt
        return plan(workloads)

    pipeline.submit(["ay"])
    pipeline.submit(["a2", "b!1"])
    device.plan = interrupt
    with pytest.raises(KeyboardInterrupt):
        pipeline.collect()
    device.plan = plan
    assert answers(pipeline, "b!2 a3", "b3")[-2:] == ["B!2 A3", "B3"]


def test_a_batch_whose_plan_lacks_a_task_fails():
    device = LoggingDevice()
    device.plan = lambda workloads: []
    assert answers(Pipeline(device), "a1") == ["no task is left for a batch that has no answer"]


def test_an_error_of_the_queue_itself_answers_every_batch():
    device = LoggingDevice()
    pipeline, activate = Pipeline(device), device.activate

    def refuse():
        raise DeviceError("no context")

    device.activate = refuse
    for batch in (["a1"], ["a2"]):
        pipeline.submit(batch)
    assert answer(pipeline) == "no context"
    device.activate = activate
    pipeline.submit(["a3"])
    assert [answer(pipeline), answer(pipeline)] == ["no context", "A3"]


def test_what_a_task_left_that_could_not_be_queued_is_awaited_after_those_on_their_way():
    device = LoggingDevice()
    assert answers(Pipeline(device), "a1", "ay", "b1") == ["A1", "y", "B1"]
    device = LoggingDevice(share=False)
    answers(Pipeline(device), "a1 b1", "ay")
    assert device.log[:5] == ["drain", "+a1", "+b1", "-a1", "-b1"]
    assert device.log.count("drain") == 2, "before it runs again alone"


NAMES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from("0123"),
        st.sampled_from(["", "", "", "!", "!~", "~", "?", "!?", "x", "y", "z"]),
    ),
)


@settings(max_examples=300)
@given(
    st.lists(st.lists(NAMES, max_size=6), max_size=8),
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 3),
)
def test_any_batches_are_answered_with_their_own_traces_or_errors(batches, priorities, at_once, share, ahead):
    device, found = LoggingDevice(at_once, share), {}
    pipeline = Pipeline(device)
    for number, batch in enumerate(batches):
        assert pipeline.submit(batch, priorities[number]) == number
        if number >= ahead:
            found |= [collect(pipeline)]
    found |= [collect(pipeline) for _ in range(len(batches) - len(found))]
    for number, batch in enumerate(batches):
        got = found[number]
        errors = {letter for each in batch for letter in "xyz" if letter in each}
        assert got in errors if errors else got == " ".join(batch).upper()
    assert device.most_in_flight <= at_once
