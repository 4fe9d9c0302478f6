"""The same jobs over many traces."""
