"""``python -m visionnmf.apps.cli``."""

from . import main

main()
