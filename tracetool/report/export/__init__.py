"""The timeline of a run with its energy, written for the tools that show timelines and collect metrics."""
