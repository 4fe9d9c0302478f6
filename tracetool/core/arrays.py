"""Array types used by the physics packages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Texts: TypeAlias = NDArray[np.object_]
Numbers: TypeAlias = NDArray[Any]
