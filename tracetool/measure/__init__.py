"""What the meter said: sensors, windows, attribution. Never imports the model."""
