"""One file per trace or telemetry format; the folder is the registry."""
