"""The words every room shares: records, errors, units and the plug-in registry. Imports nothing of ours."""
