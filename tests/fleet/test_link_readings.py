"""Links between GPUs in a fleet report: the links of each GPU are compared with those of its siblings."""

import json
from dataclasses import replace

import pytest

from gpudissect.device.kinds import open_device
from gpudissect.fleet.history import histories
from gpudissect.fleet.metrics import metrics
from gpudissect.fleet.report import report
from gpudissect.fleet.sentences import sentence
from gpudissect.fleet.store import read_folder
from gpudissect.results.links import LinkReport
from gpudissect.survey.links import LinkValues
from gpudissect.views.page.fleet import fleet_page

COUNT = 8
READ, LATENCY = ("peer", "read_bandwidth"), ("peer", "link_latency")


def links(slow=(), nvlinks=18, failures=(), slow_loads=None):
    """A report on eight GPUs; links in `slow`, by the GPUs that load and whose memory it is, are slower by 10 %.

    `slow_loads`: factors of the latency of all links of some GPUs.
    """
    with open_device("sim:gtx980") as device:
        infos = [
            replace(
                device.info,
                spec=f"cuda:{number}",
                facts={"nvlinks": nvlinks if number == 3 else 18, "pcie_lanes": 16},
                provenance={"host": "node7", "gpu_uuid": f"GPU-{number}", "time": "2026-01-01", "ecc": "on"},
            )
            for number in range(COUNT)
        ]
    found, factors = [], slow_loads or {}
    for one in range(COUNT):
        for other in [each for each in range(COUNT) if each != one]:
            rate = 370e9 * (1 + 0.001 * ((3 * one + other) % 5)) * (0.9 if (one, other) in slow else 1)
            latency = 800.0 * factors.get(one, 1) * factors.get(other, 1)
            latencies = latency, latency - 5, latency + 5
            values = {"read_bandwidth": (rate, 0.99 * rate, 1.01 * rate), "link_latency": latencies}
            found.append(LinkValues(f"cuda:{one}", f"cuda:{other}", values, {"add_rate": "none"}, {"cached_in": "L1"}))
        found.append(LinkValues(f"cuda:{one}", "host", {"read_bandwidth": (5e10, 4.9e10, 5.1e10)}, {}))
    return LinkReport(tuple(infos), tuple(found), failures)


def reported(folder, links):
    (folder / "node7.links.json").write_text(json.dumps(links.to_json()), encoding="utf-8")
    runs, unreadable = read_folder(folder)
    assert not unreadable
    return runs, report(runs)


def test_each_gpu_has_the_median_of_its_links(tmp_path):
    runs, found = reported(tmp_path, links())
    assert [run.card for run in runs] == [f"GPU-{number}" for number in range(COUNT)]
    assert all(run.readings.keys() == {READ, LATENCY, ("host", "read_bandwidth")} for run in runs)
    assert runs[0].readings["host", "read_bandwidth"].value == 5e10 and runs[0].readings[LATENCY] == (800.0, 5.0, "ns")
    assert runs[0].readings[READ].value == pytest.approx(371e9, rel=0.002)
    assert not found.out and [(group.cards, group.values) for group in found.groups] == [(COUNT, 3)]
    assert found.groups[0].name == ("NVIDIA GeForce GTX 980", "simulated", "links", "7 other GPUs", "ecc on")


def test_what_depends_on_the_cpu_of_the_host_is_not_compared(tmp_path):
    value = {"value": 1e10, "low": 9e9, "high": 1.1e10, "unit": "B/s"}
    text = links().to_json()
    for link in text["links"]:
        link["pageable_read_bandwidth"] = link["engine_read_bandwidth"] = value
    (tmp_path / "node7.links.json").write_text(json.dumps(text), encoding="utf-8")
    names = {attribute for run in read_folder(tmp_path)[0] for _, attribute in run.readings}
    assert "engine_read_bandwidth" in names and "pageable_read_bandwidth" not in names


def test_a_gpu_whose_links_are_slow_is_out_and_lost_links_are_named(tmp_path):
    """Links that lead to it are slow, too; these are one of seven of each sibling."""
    slow = {(3, other) for other in range(COUNT)} | {(other, 3) for other in range(COUNT)}
    (card,) = reported(tmp_path, links(slow, nvlinks=17))[1].out
    assert card.label == "node7 cuda:3"
    assert "10% slow" in sentence(card) and "NVLinks 17, siblings 18" in sentence(card)


@pytest.mark.parametrize(("factor", "how"), [(1.3, "30% slow"), (0.7, "30% fast")])
def test_a_gpu_whose_links_have_another_latency_is_out(tmp_path, factor, how):
    """The others, each with one such link of seven, are not; the page shows the latency of every GPU."""
    runs, found = reported(tmp_path, links(slow_loads={5: factor}))
    (card,) = found.out
    assert card.label == "node7 cuda:5" and f"link latency {800 * factor:.0f} ns, siblings 800 ns: {how}" in sentence(
        card
    )
    assert fleet_page(found, runs).count("800 ns") == COUNT and f"{how[-4:]}-4" in fleet_page(found, runs)


def test_metrics_and_histories_are_those_of_each_gpu(tmp_path):
    runs, found = reported(tmp_path, links({(5, other) for other in range(COUNT)}))
    rates = [line for line in metrics(found, runs).splitlines() if 'element="peer",attribute="read_b' in line]
    assert len(rates) == COUNT
    assert ["GPU-5" in line for line in rates] == [float(line.rpartition(" ")[2]) < 340e9 for line in rates]
    (history,) = histories(found, runs, found.out)
    assert history.card == "GPU-5" and min(value.value for value in history.runs[0].values if value.key == READ) < 340e9


def test_failures_of_a_gpu_are_its_own(tmp_path):
    runs, _ = reported(tmp_path, links(failures=("cuda:2: links.peer to cuda:1: it is lost",)))
    assert [run.problem for run in runs if run.problem] == ["cuda:2: links.peer to cuda:1: it is lost"]
    assert reported(tmp_path, replace(links(), interrupted=True))[0][0].problem == "interrupted"


def test_a_file_without_provenance_is_read(tmp_path):
    """Of an earlier version."""
    content = links().to_json()
    for gpu in content["gpus"]:
        del gpu["provenance"]
    (tmp_path / "old.json").write_text(json.dumps(content), encoding="utf-8")
    runs, unreadable = read_folder(tmp_path)
    assert not unreadable and [run.card for run in runs] == [f"GPU-{number}" for number in range(COUNT)]


@pytest.mark.parametrize(
    "value", ["fast", {"value": "fast", "low": "slow"}, {"value": True}, [], None, {"value": 1e300}]
)
def test_a_damaged_value_is_left_out_or_one_line(tmp_path, value):
    (tmp_path / "good.json").write_text(json.dumps(links().to_json()), encoding="utf-8")
    content = links().to_json()
    content["links"][0]["read_bandwidth"] = value
    (tmp_path / "bad.json").write_text(json.dumps(content), encoding="utf-8")
    runs, unreadable = read_folder(tmp_path)
    assert len(runs) + COUNT * len(unreadable) == 2 * COUNT and all("bad.json" in line for line in unreadable)


@pytest.mark.parametrize("count", [2, 3])
def test_with_few_links_no_gpu_is_blamed_for_another(tmp_path, count):
    """One link more or less decides the median of one or two."""
    for node in range(16):
        content = links({(0, 1), (1, 0), (0, 2), (2, 0)} if node == 5 else ()).to_json()
        content["gpus"] = content["gpus"][:count]
        for gpu in content["gpus"]:
            gpu["provenance"]["gpu_uuid"] += f"-{node}"
        kept = {"host", *(gpu["spec"] for gpu in content["gpus"])}
        content["links"] = [link for link in content["links"] if {link["from"], link["to"]} <= kept]
        (tmp_path / f"{node}.json").write_text(json.dumps(content), encoding="utf-8")
    runs, _ = read_folder(tmp_path)
    assert all(run.readings.keys() == {("host", "read_bandwidth")} for run in runs)
    assert not report(runs).out


def test_gpus_with_fewer_links_are_a_group_of_their_own(tmp_path):
    content = links().to_json()
    content["links"] = [link for link in content["links"] if link["from"] != "cuda:7" or link["to"] < "cuda:5"]
    (tmp_path / "node.json").write_text(json.dumps(content), encoding="utf-8")
    assert sorted(group.cards for group in report(read_folder(tmp_path)[0]).groups) == [1, 7]


def test_a_gpu_that_could_not_be_opened_is_a_line(tmp_path):
    content = links(failures=("cuda:9: no such GPU" + 5000 * "!",)).to_json()
    (tmp_path / "node.json").write_text(json.dumps(content), encoding="utf-8")
    runs, lines = read_folder(tmp_path)
    (line,) = lines
    assert len(runs) == COUNT and "node.json: cuda:9: no such GPU!" in line and len(line) < 500


def test_many_failures_of_many_gpus_are_read_in_one_pass(tmp_path):
    content = links().to_json()
    gpu = content["gpus"][0]
    content["gpus"] = [{**gpu, "spec": f"cuda:{n}", "gpu_uuid": f"GPU-{n}", "provenance": {}} for n in range(1024)]
    content["failures"] = [f"cuda:{number}: lost" for number in range(200_000)]
    (tmp_path / "node.json").write_text(json.dumps(content), encoding="utf-8")
    runs, lines = read_folder(tmp_path)
    assert len(runs) == 1024 and len(lines) == 1024


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("gpus", {"gpu_uuid": "GPU-5", "provenance": {}}, "cuda:5 and cuda:6 have the same UUID GPU-5"),
        ("gpus", {"provenance": {"gpu_uuid": "GPU-5"}}, "cuda:5 and cuda:6 have the same UUID GPU-5"),
        ("gpus", {"spec": "cuda:5"}, "it describes cuda:5 twice"),
        ("links", {"to": "cuda:5"}, "it has the link cuda:0 to cuda:5 twice"),
        ("links", {"from": "cuda:9"}, "it has a link of cuda:9, which it does not list"),
    ],
)
def test_a_file_with_a_gpu_or_link_twice_or_of_an_unknown_gpu_is_one_line(tmp_path, name, change, why):
    (tmp_path / "good.json").write_text(json.dumps(links().to_json()), encoding="utf-8")
    content = links().to_json()
    (changed,) = [each for each in content[name] if each.get("spec", each.get("to")) == "cuda:6"][:1]
    changed |= change
    (tmp_path / "twice.json").write_text(json.dumps(content), encoding="utf-8")
    runs, (line,) = read_folder(tmp_path)
    assert len(runs) == COUNT and "twice.json is not a valid file of links: " in line and why in line


def test_more_gpus_than_a_host_has_are_refused(tmp_path):
    (tmp_path / "good.json").write_text(json.dumps(links().to_json()), encoding="utf-8")
    content = links().to_json()
    content["gpus"] *= 129
    (tmp_path / "bad.json").write_text(json.dumps(content), encoding="utf-8")
    (line,) = read_folder(tmp_path)[1]
    assert "file of links" in line
