"""How long and how hot: timing, utilization, power, the operating point. Arrays only."""
