"""From a device's name to a result: what the commands and the Python functions have in common."""
