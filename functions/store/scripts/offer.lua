-- Takes signals: marks each as seen and joins it to the pending audit of its slot, all or nothing.
-- KEYS: seen, due, timeline, counters, then (record, list) of each slot
-- ARGV: now, seen until, most seen, most in timeline, timeline cut, most pending, most signals a record, number of slots,
--       then (slot, fresh audit id) of each, then (key, slot number or 0, at, due, span, baseline, rank, signal) of each signal
-- Returns {new, known, opened}, or {-1} where the backlog is full.
local now, slots = ARGV[1], tonumber(ARGV[8])
local first = 9 + 2 * slots

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
local new, known, opens, fresh = 0, 0, {}, {}
for i = first, #ARGV, 8 do
  local key = ARGV[i]
  if fresh[key] or redis.call('ZSCORE', KEYS[1], key) then
    known = known + 1
  else
    new = new + 1
    fresh[key] = i
    local slot = tonumber(ARGV[i + 1])
    if slot > 0 and redis.call('EXISTS', KEYS[3 + 2 * slot]) == 0 then opens[slot] = true end
  end
end
local opened = 0
for _ in pairs(opens) do opened = opened + 1 end
if opened > 0 and redis.call('ZCARD', KEYS[2]) + opened > tonumber(ARGV[6]) then
  redis.call('HINCRBY', KEYS[4], 'signals_turned_away', new)
  return {-1}
end

for i = first, #ARGV, 8 do
  local key, slot = ARGV[i], tonumber(ARGV[i + 1])
  if fresh[key] == i then
    redis.call('ZADD', KEYS[3], ARGV[i + 2], ARGV[i + 7])
    if slot > 0 then
      join({due = KEYS[2], record = KEYS[3 + 2 * slot], list = KEYS[4 + 2 * slot], slot = ARGV[7 + 2 * slot],
        fresh = ARGV[8 + 2 * slot], now = now, at = ARGV[i + 3], span = ARGV[i + 4], baseline = ARGV[i + 5],
        rank = ARGV[i + 6], signal = ARGV[i + 7], most = ARGV[7]})
    end
  end
  redis.call('ZADD', KEYS[1], ARGV[2], key) -- known for as long as it keeps arriving
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[3]) - 1)
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -tonumber(ARGV[4]) - 1)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[5])
redis.call('HINCRBY', KEYS[4], 'signals_new', new)
redis.call('HINCRBY', KEYS[4], 'signals_known', known)
return {new, known, opened}
