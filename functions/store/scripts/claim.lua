-- Claims the pending audit of a slot under a lease.
-- KEYS: due, work, record, list, audit, signals · ARGV: slot, audit id, now, lease until, started (1: by who claims)
-- Returns {record, signals}, or nothing where somebody else was faster.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) > tonumber(ARGV[3]) or redis.call('HGET', KEYS[3], 'audit') ~= ARGV[2] then
  return false
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('RENAME', KEYS[3], KEYS[5])
redis.call('RENAME', KEYS[4], KEYS[6])
redis.call('HSET', KEYS[5], 'state', 'working', 'attempt', '1', 'claimed', ARGV[3])
if ARGV[5] == '1' then redis.call('HSET', KEYS[5], 'started', '1') end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[2])
return {redis.call('HGETALL', KEYS[5]), redis.call('LRANGE', KEYS[6], 0, -1)}
