"""The documentation site: `make docs` builds it from docs/ into .site/html. No part of the program."""
