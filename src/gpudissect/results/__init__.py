"""For people and programs: the result file, its schema, the verdicts against what is published, the table."""
