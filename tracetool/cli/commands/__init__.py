"""One file per command; the folder is the registry."""
