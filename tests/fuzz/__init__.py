"""Damaged files by the hundred thousand: `make fuzz`, `make fuzz-coverage`. No tests of the suite, but both must end
without a finding."""
