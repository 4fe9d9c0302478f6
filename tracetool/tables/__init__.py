"""Files of a run: schemas, the run directory, writing aside and renaming, provenance."""
