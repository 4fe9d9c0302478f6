"""Tables of measured runs, one row per configuration: why their energy per unit of work differs."""
