"""What `overspill lab` writes: all that savings and experiments say, tables, plots, one page."""
