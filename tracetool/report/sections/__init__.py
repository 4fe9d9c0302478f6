"""The page of a run, one file per section; the order is in ``run_html``."""
