"""PyTorch-profiler JSON: events in chunks, columns by category."""
