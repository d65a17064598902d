"""Raw traces as tables, CSV, JSON and plots."""
