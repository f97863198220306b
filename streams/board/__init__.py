"""The board: one screen that explains everything, as a page and as `overspill top`.

What is seen (the snapshot, nodes' reports, the routers' decisions) is tallied, kept for ten minutes
and put into plain words. Pure but for `follower`, which reads topics, and `pages`, which serves.
"""
