"""One file per library's kernel names; the folder is the registry."""
