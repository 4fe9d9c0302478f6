"""Comparison of runs: prediction against measurement, run against run, run against baseline.

Modules in the order in which data pass through them:

- One run: predicted against measured: ``diff_run``, ``accuracy``, ``accuracy_sums``.
- Sides of a comparison: ``run_options``, ``requested_runs``, ``run_side``, ``table_side``, ``sides``,
  ``steps``, ``idle_groups``, ``readings_error``.
- Matching: ``pairing``, ``matched``, ``scopes``.
- What changed, and how sure: ``diff``, ``significance``, ``spread``, ``changes``, ``changes_table``,
  ``decomposition``, ``outcome``.
- Limits in CI: ``settings``, ``thresholds``, ``check``, ``baseline``, ``baseline_store``,
  ``baseline_checks``, ``trend``.

Packages: ``energy_difference``, why the energies of two runs differ, cause by cause; ``run_tables``, tables
of measured configurations.
"""
