"""Who does it: a real GPU, a simulated one, or a recording, behind one protocol."""
