"""Power and clock logs: their formats, fields and time stamps."""
