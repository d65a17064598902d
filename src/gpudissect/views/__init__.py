"""Results for people: terminal tables, HTML page, plots, notebook, raw traces."""
