"""Types every package shares: arrays, dtypes, work, predictions, intervals, errors, escaping."""
