"""One file per family; the folder is the closed list."""
