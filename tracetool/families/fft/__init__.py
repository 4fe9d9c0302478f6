"""Fast Fourier transforms."""
