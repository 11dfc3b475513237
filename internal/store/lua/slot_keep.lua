-- slot_keep.lua (after slots.lua): sessions run. They keep their slots, and get
-- one if they have none, above any limit.
-- ARGV: 6 lease ms, then pairs: session, owner
-- Result: the ms that the lease was counted from
for i = 7, #ARGV, 2 do
  give(slots, ARGV[i], ARGV[i + 1], now + ARGV[6])
  local _, owner = place(ARGV[i])
  if owner then quit(ARGV[i], owner) end
end
return now
