"""Time, power and energy of counted work at clocks. Arrays in, arrays out.

Modules in the order in which data pass through them:

- Rows at clocks: ``predict``, ``workload``, ``blocks``, ``timing``, ``power``, ``dynamic``, ``idle``,
  ``intervals``.
- Operating point: ``operating_point``, ``phases``, ``thermal``, ``memory_efficiency``.
- Scaling a measurement: ``anchor``, ``anchor_groups``, ``own_kernels``, ``own_scatter``, ``time_shares``,
  ``counters``, ``activity``, ``unknown_shapes``.
- Kernels in a trace: ``profiler_overhead``, ``residency``, ``sequence``, ``operands``.
- Coefficients of time: ``time_files``, ``time_calibration``, ``implementations``, ``calibration_scope``,
  ``chip_scaling``, ``hypothetical``.
- Which kernel ran: ``candidates``, ``eligible_implementations``, ``mixtures``, ``library_dispatch``,
  ``kernel_projects``, ``stand_ins``, ``cache_formats``, ``other_formats``, ``other_versions``,
  ``unmeasured_libraries``.
- Coefficients of power: ``power_files``, ``power_calibration``, ``power_priors``, ``power_transfer``.
"""
