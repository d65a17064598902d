"""Shared by the tests: simulated GPUs, oracles, fakes of the driver, made-up results."""
