"""Replay of a run's timeline at other clocks, and its time and energy by cause.

Modules in the order in which data pass through them:

- Inputs: ``activities``, ``run_rows``, ``run_case``, ``operator_tables``, ``table_checks``,
  ``size_checks``, ``assumptions``, ``operand_content``, ``clocks``, ``recording_conditions``,
  ``recorded_clocks``, ``recorded_host``, ``unnamed_gpu``.
- Dependencies: ``graph``, ``dependencies``, ``host_edges``, ``dense_ids``, ``collective_ranks``, ``edits``,
  ``timeline_variants``.
- The timeline at other durations: ``prepare``, ``prepared_replay``, ``host``, ``longest_path``,
  ``timeline``, ``overlap``, ``governor``, ``governor_windows``, ``governed_replay``, ``power``.
- Predictions of runs and tables: ``predict``, ``predict_run``, ``predict_windows``, ``predict_table``,
  ``gpu_transfer``, ``sizes_by_law``, ``unfused_attention``, ``reused_memory``, ``prediction_frame``,
  ``prediction_bounds``, ``measured_bounds``.
- Sums: ``scope_totals``, ``totals``, ``table_totals``, ``gap_causes``, ``time_parts``, ``time_budget``,
  ``breakdown``, ``range_tree``, ``iterations``.
- Groups: ``groups``, ``module_paths``, ``group_energy``, ``energy_by``, ``unidentified_sets``,
  ``work_units``.
- Measured energy beside predicted: ``measured_energy``, ``energy_source``, ``expected_power``,
  ``gpu_work``, ``achieved``, ``roofline``.
- The best clock: ``sweep``, ``sweep_families``, ``operating_points``, ``optimum_prior``, ``second_clock``.
- Power over time: ``power_over_time``, ``power_swing``.
- Notes: ``coverage``, ``replay_notes``, ``unmeasured_notes``.

Packages: ``diagnosis``, why a run takes its joules, and what would save them.
"""
