"""What each rule of likely.py was worth: by rule and kind of windows, (right, of). `make likely` writes this file."""

RECORD: dict[str, dict[str, tuple[int, int]]] = {}
