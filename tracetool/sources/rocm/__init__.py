"""What the profilers of the ROCm family share: names, agents, grids in work-items, boot time."""
