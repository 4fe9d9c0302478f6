"""ROCm profilers: rocprof, rocprofv3, rocpd, RPD, Perfetto traces."""
