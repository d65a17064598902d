"""Memory behind the links of a GPU."""
