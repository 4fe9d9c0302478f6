"""One file per job: joins rooms, holds no formulas. The library's public functions."""
