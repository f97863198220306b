"""What routing saves: policies beside bounds, metered and fleet cost, tables, plots, one page."""
