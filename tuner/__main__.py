"""`python -m tuner`: the same as the command `tuner`."""

from tuner.cli.app import main

main()
