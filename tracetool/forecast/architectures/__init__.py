"""One file per architecture: its layers as short lists of parts, from the fields of its configuration."""
