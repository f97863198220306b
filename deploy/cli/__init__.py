"""The command line: flags in, one clear line or table out, an exit code that says what happened.

Owns words, flags and exit codes. Each command's work is done elsewhere and imported only when the
command runs, so that every `--help` answers at once.
"""

from deploy.cli.entry import main

__all__ = ["main"]
