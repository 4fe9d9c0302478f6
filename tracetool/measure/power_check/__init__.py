"""Whether a power log can be trusted: one check per thing that can be wrong with it."""
