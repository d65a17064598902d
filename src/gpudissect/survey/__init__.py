"""Runs experiments in the order of their needs, merges their batches, and keeps the rest when one fails."""
