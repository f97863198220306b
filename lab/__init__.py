"""Measuring and simulating what production runs.

`simulator` runs a trace in virtual time, `savings` says what policies save in it, `experiments`
tell why, `report` puts it together; `benches` measure the product or a part of it, with
`instruments`.
"""
