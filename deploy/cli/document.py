"""What `--json` prints: one document on one line of standard output."""

from __future__ import annotations

import click


def print_document(document: object) -> None:
    """Print a document as JSON."""
    from schemas.document import to_json  # help needs none of it

    click.echo(to_json(document))
