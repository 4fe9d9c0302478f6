"""GPUs: data files with unit, kind and source for every number; voltage; calibrations."""
