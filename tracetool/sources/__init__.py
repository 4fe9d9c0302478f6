"""From a file some profiler or logger wrote to the tables of a run."""
