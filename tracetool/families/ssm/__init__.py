"""State-space models: scans and gated delta nets."""
