-- Begins a claimed audit that another process sent around. Each attempt is begun once, however often it is delivered.
-- KEYS: work, audit, signals · ARGV: audit id, now, lease until
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
local old = redis.call('HMGET', KEYS[2], 'state', 'attempt', 'started')
if not score or old[1] ~= 'working' then
  return false
end
local attempt = old[2]
if tonumber(score) <= tonumber(ARGV[2]) then
  attempt = redis.call('HINCRBY', KEYS[2], 'attempt', 1)
elseif old[3] == old[2] then
  return false
end
redis.call('HSET', KEYS[2], 'started', attempt)
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return {redis.call('HGETALL', KEYS[2]), redis.call('LRANGE', KEYS[3], 0, -1)}
