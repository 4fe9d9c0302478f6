"""Profile a command and log its power together."""
