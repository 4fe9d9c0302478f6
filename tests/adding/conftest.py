"""The toys are parts of the copy they are added to: no tests or examples of this checkout."""

collect_ignore = ["toys"]
