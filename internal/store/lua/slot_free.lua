-- slot_free.lua (after slots.lua): gives a session's slot back.
-- ARGV: 6 session
-- Result: {calls}
expire()
drop(ARGV[6])
grant()
return called()
