"""The command line: parse, call one workflow, print."""
