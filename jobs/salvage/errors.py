"""What `salvage` refuses."""

from evidence.errors import KraftForensicsError


class SalvageError(KraftForensicsError):
    """Nothing can be salvaged: a copy, a cluster, an output or an option that cannot be used."""
