"""The experiments there are: those that the plans in `gpudissect.measure` list in their ``EXPERIMENTS``."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from gpudissect import measure
from gpudissect.measure.plan import Experiment, Study
from gpudissect.vocabulary import ELEMENTS, sort_key


@cache
def experiments(study: Study) -> dict[str, Experiment]:
    """The experiments of a study by name. Raises `ValueError` for declarations that contradict one another."""
    found = {each.name: each for each in _declared() if each.study is study}
    if study is Study.COMPARE_METHODS:  # older methods need what the exact ones know
        return experiments(Study.DISCOVER) | found
    if study is Study.LINKS:
        return {name: each for name, each in experiments(Study.DISCOVER).items() if each.element == "host"} | found
    return found


@cache
def measured_elements() -> tuple[str, ...]:
    """The elements that `discover` can measure, in the order in which findings are shown."""
    elements = {each.element for each in experiments(Study.DISCOVER).values()}
    return tuple(each for each in ELEMENTS if each in elements)


@cache
def emitted_names() -> tuple[str, ...]:
    """Names of the findings that `discover` gives: ``l1.capacity``."""
    emitted = (f"{each.element}.{name}" for each in experiments(Study.DISCOVER).values() for name in each.emits)
    return tuple(sorted(emitted, key=lambda name: sort_key(*name.split("."))))


def _declared() -> Iterator[Experiment]:
    names: set[str] = set()
    emitters: dict[tuple[str, str], str] = {}
    for module in walk_packages(measure.__path__, f"{measure.__name__}."):
        if not module.name.rpartition(".")[2].startswith("plan_"):
            continue
        for each in import_module(module.name).EXPERIMENTS:
            if each.name in names:
                raise ValueError(f"two experiments are named {each.name!r}; the second is in {module.name}")
            names.add(each.name)
            for attribute in each.emits:
                other = emitters.setdefault((each.element, attribute), each.name)
                if other != each.name:
                    raise ValueError(
                        f"{each.name} and {other} both emit {each.element}.{attribute}; one must revise it"
                    )
            yield each
