"""Mail at rest: the contract of a store (:mod:`.store`), ours (:mod:`.native`), one agent's view, the reminder."""
