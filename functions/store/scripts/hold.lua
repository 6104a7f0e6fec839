-- Moves the time at which a claimed audit can be claimed again: later (renew), or at a chosen time (try again).
-- KEYS: work, audit · ARGV: audit id, attempt, until, uncount (1: this attempt doesn't count), then fields to set: name, value, …
-- Returns 1, or 0 where the claim was lost to somebody else.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
local old = redis.call('HMGET', KEYS[2], 'state', 'attempt')
if old[1] ~= 'working' or old[2] ~= ARGV[2] then return 0 end
if ARGV[4] == '1' then -- nor is it begun again before somebody has claimed it, but then it is
  redis.call('HSET', KEYS[2], 'started', redis.call('HINCRBY', KEYS[2], 'attempt', -1))
end
for i = 5, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
