"""Damaged files by the hundred thousand: `make fuzz`. Not a test of the suite, but it must end without a finding."""
