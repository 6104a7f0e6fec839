-- KEYS: ready, delivery, refs · ARGV: id, now, lease until
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) > tonumber(ARGV[2]) then return false end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return false
end
redis.call('HINCRBY', KEYS[2], 'attempt', 1)
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
local place = redis.call('HMGET', KEYS[2], 'channel', 'thread')
return {redis.call('HGETALL', KEYS[2]), redis.call('HGET', KEYS[3], place[1] .. '|' .. place[2]) or ''}
