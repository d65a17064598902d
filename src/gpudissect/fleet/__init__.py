"""Cards of one model compared with one another: which one is out, and by how much."""
