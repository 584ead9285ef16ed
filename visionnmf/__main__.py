"""``python -m visionnmf``: the command line."""

from visionnmf.apps.cli import main

main()
