"""What a device cannot run is wrong usage: one line, exit 2, whatever stands in the way."""

import pytest

CASES = [
    ("stream -d sim:gtx280 --threads 1024", "at most 512 threads, got 1024"),
    ("stream -d sim:gtx280 --path shared --size 20KiB --threads 64", "at most 16 KiB, got 20 KiB"),
    ("stream -d sim:gtx980 --size 3GiB --transfer copy", "at most 4 GiB, got 6 GiB"),
    ("stream -d sim:gtx980 --blocks-per-sm 100000000", "up to 1048576 blocks, asked for 1600000000"),
    ("stream -d sim:gtx980 --passes 1000000000000", "at most 2^60 bytes"),
    ("stream -d sim:gtx980 --width 32", "4, 8 or 16"),
    ("mix -d sim:gtx280 --warps 32", "8 blocks of at most 512 threads"),
    ("mix -d sim:gtx980 --warps 65", "room for 64 warps, got 65"),
    ("mix -d sim:gtx980 --warps 64 --block-size 32", "32 blocks of at most 1024 threads, not 64 in 64 of 32"),
    ("mix -d sim:gtx980 --sms 17", "16 SMs, got 17"),
    ("mix -d sim:gtx980 --warps 4 --waves 1000000 --iterations 100000", "several waves are simulated up to"),
    ("mix -d sim:gtx980 --run ldg --access random --size 1", "1 B are too few for every chain"),
    ("mix -d sim:gtx980 --run ldg --access streaming --warps 4 --size 8188", "ask for 8 KiB or more"),
    ("mix -d sim:gtx980 --run ldg --size=", "not a size: ''"),
    ("mix -d sim:gtx980 --size 0", "at least one byte"),
    ("mix -d sim:gtx980 --access random --size 1MiB", "'fadd:64' has none: add ldg or atomg"),
    ("mix -d sim:gtx980 --run ldg --access random --size 0KiB", "at least one byte"),
    ("mix -d sim:gtx980 --run fadd:1000000", "whole numbers to 999999"),
    ("stream -d sim:gtx980 --size=", "not a size: ''"),
    ("mix -d sim:gtx980 --run ldg --access random --size 64GiB", "at most 4 GiB, got 64 GiB"),
    ("chase -d sim:gtx980 --sm 99", "there is no SM 99"),
    ("chase -d sim:gtx980 --size 5GiB --stride 2MiB", "at most 4 GiB, got 5 GiB"),
    ("chase -d sim:gtx980 --size 1GiB --stride 32", "at most 16777216 accesses"),
    ("chase -d sim:gtx980 --size 0", "at least one stride"),
    ("chase -d sim:gtx980 --size -4", "not a size"),
    ("chase -d sim:gtx980 --stride 0", "at least one stride"),
    ("chase -d sim:gtx980 --laps 0", "--laps"),
]


@pytest.mark.parametrize(("command", "why"), CASES, ids=[command for command, _ in CASES])
def test_one_line_and_exit_2(gpudissect, command, why):
    code, out, err = gpudissect(*command.split())
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert why in err


def test_without_an_l1_streams_take_the_plain_path(gpudissect):
    code, _, err = gpudissect("stream", "-d", "sim:gtx280", "--threads", "256", "--runs", "1")
    assert code == 0
    assert "global read" in err
