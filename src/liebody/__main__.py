"""`python -m liebody`: the command line."""

from .cli import main

main()
