"""Timing, utilization, power, the operating point. Arrays only."""
