"""What routing saves: policies beside bounds, metered and fleet cost, what is asked of them."""
