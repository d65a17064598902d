"""Tables and texts for a terminal or a pipe."""
