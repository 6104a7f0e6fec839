-- Claims an audit whose lease ran out or whose time to try again has come.
-- KEYS: work, audit, signals · ARGV: audit id, now, lease until, started (1: by who claims)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) > tonumber(ARGV[2]) then
  return false
end
if redis.call('HGET', KEYS[2], 'state') ~= 'working' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return false
end
local attempt = redis.call('HINCRBY', KEYS[2], 'attempt', 1)
redis.call('HSET', KEYS[2], 'claimed', ARGV[2])
if ARGV[4] == '1' then redis.call('HSET', KEYS[2], 'started', attempt) end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return {redis.call('HGETALL', KEYS[2]), redis.call('LRANGE', KEYS[3], 0, -1)}
