"""Groups of commands whose help shows whole sentences."""

from __future__ import annotations

import click

from hdrl.base.errors import suggest

_LONGEST_HELP = 1000


class CommandGroup(click.Group):
    """A group that lists the first sentence of each command uncut, and suggests the nearest name for a wrong one."""

    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help."""
        rows = [
            (name, command.get_short_help_str(_LONGEST_HELP))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            ctx.fail(f"no command {args[0]!r}; {suggest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)
