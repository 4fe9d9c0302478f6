"""What lies on disk: schemas, the run directory, writing aside and renaming, provenance."""
