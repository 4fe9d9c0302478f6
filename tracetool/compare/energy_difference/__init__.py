"""Why the energy of two runs per unit of work differs."""
