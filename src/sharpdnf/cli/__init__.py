"""The command line: a thin shell over the library. Only the modules of this package print or exit.

Each module holds a group of commands and adds them with ``add_commands(app)``; ``program.py`` lists the modules.
Everything heavy is imported inside the commands, so that help costs no more than typer.
"""

from sharpdnf.cli.program import app, load_commands, main

__all__ = ["app", "load_commands", "main"]
