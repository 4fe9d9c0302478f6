"""Where a run's joules go: causes whose joules sum to the run's, findings and the replays that prove them."""
