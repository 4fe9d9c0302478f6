"""One file per family, found by its folder."""
