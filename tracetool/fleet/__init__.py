"""The same jobs over many traces: found, read, attributed and asked about as one data set."""
