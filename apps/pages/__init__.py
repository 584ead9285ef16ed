"""The page of a run: one HTML file, made of the reports of a command, that needs nothing beside it and no network."""

from .kinds import open_page
from .page import Page

__all__ = ["Page", "open_page"]
