-- slot_undo.lua (after slots.lua): gives a slot back if its lease was not extended
-- since. Who is next is called by the next sweep.
-- ARGV: 6 session, 7 ms when the lease ended as it was given
-- Result: 1|0
local till = redis.call('ZSCORE', slots, ARGV[6])
if not till or tonumber(till) ~= tonumber(ARGV[7]) then return 0 end
drop(ARGV[6])
grant()
return 1
