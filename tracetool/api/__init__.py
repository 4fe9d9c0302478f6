"""One short module per job: what `import tracetool` gives and the commands call."""
