"""Series from the traces behind findings."""
