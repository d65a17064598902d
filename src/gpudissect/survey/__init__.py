"""Orders the experiments by what they need, merges their batches into one, survives the failure of one."""
