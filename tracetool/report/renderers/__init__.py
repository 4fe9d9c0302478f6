"""One file per output format; the folder is the registry."""
