"""One file an experiment: a generator that yields batches of workloads, is sent their traces, returns estimates."""
