"""What the driver states instead of a measurement (MT22 s4.1)."""

from __future__ import annotations

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, without


def stated(element: str, attribute: str, fact: str, bench: Bench) -> Estimate:
    """An attribute as the driver states it under the name of a fact, see `DeviceInfo.facts`."""
    value = bench.info.facts.get(fact)
    if not isinstance(value, int):
        (lacking,) = without(Status.NOT_FOUND, element, "the driver does not say", attribute)
        return lacking
    return Estimate(element=element, attribute=attribute, status=Status.STATED, value=value,
                    method="stated by the driver, not measured")  # fmt: skip
