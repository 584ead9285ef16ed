"""Command groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

__all__ = ["with_default"]


def with_default(name: str) -> type[TyperGroup]:
    """Return a group class that runs its command `name` if no command is named."""

    class WithDefault(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not args or args[0] not in self.commands:
                args = [name, *args]
            return super().parse_args(ctx, args)

    return WithDefault
