"""The version of this tool."""

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """The installed package's version; "unknown" if it runs from a folder that is not installed."""
    try:
        return version("kraft-forensics")
    except PackageNotFoundError:
        return "unknown"
