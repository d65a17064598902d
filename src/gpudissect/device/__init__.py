"""Devices behind one protocol (`base`): a real GPU, a simulated GPU, a recording. `kinds` registers and opens them."""
