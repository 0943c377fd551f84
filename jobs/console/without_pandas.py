"""Arrow looks for pandas when it makes its first value, and does without it. To import it takes half a second, and
nothing here uses it: in this program's own processes it cannot be found at that moment."""

import sys
from contextlib import suppress

import pyarrow as pa

if "pandas" not in sys.modules:
    sys.modules["pandas"] = None  # type: ignore[assignment]
    with suppress(AttributeError):  # of the None
        pa.array([0])
    pa.array([0])  # Arrow's C++ looks by itself
    del sys.modules["pandas"]
