"""Are they the same? Pairing, accuracy, significance, decomposition, thresholds."""
