"""XLA's profiler, as JAX and TensorFlow record with it: ``*.xplane.pb``."""
