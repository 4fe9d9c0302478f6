"""Measured power: sensors, windows, attribution. Never imports the model."""
