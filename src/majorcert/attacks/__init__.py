"""Real patches against a defence. Nothing here is trusted: what it finds is judged by the plain path to a label.

`attack` is the public function. It makes an attack `run` of each classifier, which takes images group by group
(`group`, `group_attack`): `placements` says where to paint, `paint` pastes, `surrogate` and `victim` say how touched
views vote, `second_round` which pairs of masks overrule them, `tiebreak` who wins, `aim` what is wanted, and `descent`
follows gradients. The `watchdog` judges every painted image, and keeps what shows a broken promise; `logbook` and
`summary` keep what came of it.
"""
