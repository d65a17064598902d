"""Recordings: traces kept in files, and the device that replays them."""
