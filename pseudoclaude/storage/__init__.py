"""Everything durable: three small protocols (:mod:`.base`) and their back ends."""
