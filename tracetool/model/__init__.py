"""How long and how hot: timing, utilisation, power, the operating point. Arrays only."""
