"""The benchmarks of `overspill bench`: each asks one question of the product or of a part of it."""
