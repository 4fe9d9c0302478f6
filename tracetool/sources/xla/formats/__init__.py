"""One file per format, found by its folder."""
