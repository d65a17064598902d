"""Predicted throughput of a mix of instructions, as text and as JSON (VV16 s3.8, tables 3.2 to 3.4)."""

import json

from gpudissect.printable import clean
from gpudissect.results.predict import MixPrediction


def to_text(prediction: MixPrediction) -> str:
    """The worksheet for people."""
    sheet, machine = prediction.sheet, prediction.sheet.machine
    mix = ", ".join(f"{count:g} {kind}" for kind, count in prediction.counts.items())
    bounds = [("latency", sheet.latency_bound, f"{sheet.warps:g} warps of {sheet.latency:.4g} cycles each")]
    for resource, cycles in sorted(sheet.totals.items(), key=lambda item: -item[1]):
        bounds.append((resource, 1 / cycles, f"{cycles:.4g} cycles per warp"))
    lines = [
        f"{machine.name}: {mix}; {sheet.warps:g} warps per SM",
        "",
        f"{'resource':<14} {'instruction':<16} {'cycles each':>12} {'count':>8} {'cycles':>10}",
        *(
            f"{row.resource:<14} {row.kind:<16} {row.cycles_each:>12.4g} {row.count:>8g} {row.cycles:>10.4g}"
            for row in sheet.rows
        ),
        "",
        *(f"bound by {name:<12} {bound:.4g} warps per cycle: {reason}" for name, bound, reason in bounds),
        "",
        f"{'throughput':<21} {_rate(prediction, sheet.throughput)}",
        f"{'limited by':<21} {sheet.limit.value}",
        f"{'warps needed':<21} {sheet.needed:.3g} of {machine.warps}",
    ]
    if prediction.refined is not None:
        lines.append(f"{'under load':<21} {_rate(prediction, prediction.refined)}")
    return "\n".join(map(clean, lines)) + "\n"


def _rate(prediction: MixPrediction, warps: float) -> str:
    rate = f"{warps * prediction.instructions:.4g} instructions per cycle and SM"
    moved = prediction.sheet.bytes_per_second(warps)
    return f"{rate}, {moved / 1e9:.4g} GB/s" if moved else rate


def to_json(prediction: MixPrediction) -> str:
    """The worksheet for programs."""
    sheet = prediction.sheet
    content = {
        "device": sheet.machine.name,
        "mix": dict(prediction.counts),
        "warps": sheet.warps,
        "latency_cycles": sheet.latency,
        "latency_bound": sheet.latency_bound,
        "throughput_bounds": {resource: 1 / cycles for resource, cycles in sheet.totals.items()},
        "throughput": sheet.throughput,
        "instructions_per_cycle": prediction.instructions_per_cycle,
        "bytes_per_second": prediction.bytes_per_second,
        "limit": prediction.limit,
        "warps_needed": prediction.warps_needed,
        "throughput_under_load": prediction.refined,
    }
    return json.dumps(content, indent=2) + "\n"
