"""Measured power: sensors, alignment, attribution of energy. Never imports the model.

Modules in the order in which data pass through them:

- Readings: ``power_log``, ``sensors``, ``filters``, ``readings``, ``counter``, ``host_energy``,
  ``sampled_activity``.
- Timeline of classes of work: ``attributed_work``, ``timeline``, ``logged_work``, ``served_load``.
- Alignment of log and trace: ``observe``, ``align``, ``joint_alignment``, ``window_length``,
  ``filter_likelihood``, ``clock_fit``, ``source_alignment``, ``rank_clocks``.
- Energy of classes: ``design_matrix``, ``prior``, ``prior_sources``, ``counter_stretches``,
  ``ridge_solver``, ``normal_equations``, ``reading_noise``, ``class_energy``, ``identifiability``,
  ``launch_spread``, ``throttled_share``.
- Energy of windows: ``requested_windows``, ``fit_levels``, ``power_levels``, ``windows``.
- The job and its outcome: ``attribute``, ``device_attribution``, ``attribute_windows``, ``attribution``,
  ``energy_tables``, ``activity_energy``, ``signature_sums``, ``measured_scopes``, ``naive_estimates``.
- What a sensor is: ``characterize``, ``identify_sensor``, ``sensor_from_wave``, ``meter_calibration``.

Packages: ``fingrav``, power within one kernel, over repeated executions; ``power_check``, whether a log can
be trusted.
"""
