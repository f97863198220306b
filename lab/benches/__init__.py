"""The benchmarks of `overspill bench`: each asks one question of the product as it runs."""
