"""The control plane: exact lag, the threshold, the node table, and the snapshot every router reads.

`app` shows the whole topology; `lag`, `rates`, `nodes` and `snapshot` are its pure folds. Only this
package knows Faust, and only in `app` and `service`: the folds are shared with `overspill status`.
"""
