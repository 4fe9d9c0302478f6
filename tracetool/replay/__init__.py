"""Replay of a run's timeline at another clock."""
