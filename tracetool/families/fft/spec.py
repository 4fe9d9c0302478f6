"""The family fft: Fourier transforms."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.fft.problem import transform_work
from tracetool.families.spec import Family, Streams, UserWords

FFT = Family(
    name="fft",
    meaning="Fourier transform",
    example="regular_fft",
    place=210,
    shares=(0.45, 0.50, 0.05),
    needs=(("elements", "cols"),),
    count=transform_work,
    operators={
        "_fft_c2c": sizes(Reading.FOURIER, 0, 1, 99, real=False),
        "_fft_r2c": sizes(Reading.FOURIER, 0, 1, 99, real=True),
        "_fft_c2r": sizes(Reading.FOURIER, 0, 1, 3, real=True),
    },
    words=(UserWords(80, "fft", "fft ifft dft fftshift"),),
    streams=Streams.OWN,
)

FAMILIES = (FFT,)
