"""Real patches against a defence. Nothing here is trusted: what it finds is judged by the plain path to a label.

`paint` pastes patches, `surrogate` and `victim` say how touched views vote, `race` who wins, `plan` where to paint,
`descent` follows gradients, `siege` does all of it to a group of images, `campaign` says how hard to try, and `logbook`
and `broken` keep what came of it.
"""
