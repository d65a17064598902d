"""Series of the traces behind a finding."""
