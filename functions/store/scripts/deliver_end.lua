-- A delivery has arrived, or never will; the next of its line is ready.
-- KEYS: ready, delivery, line, refs, refused, counters · ARGV: id, attempt, now, outcome, ref or '', why
local old = redis.call('HMGET', KEYS[2], 'attempt', 'channel', 'thread')
if old[1] ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('LREM', KEYS[3], 1, ARGV[1])
local following = redis.call('LINDEX', KEYS[3], 0)
if following then redis.call('ZADD', KEYS[1], 'NX', ARGV[3], following) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[4], old[2] .. '|' .. old[3], ARGV[5]) end
if ARGV[4] == 'delivered' then
  redis.call('DEL', KEYS[2])
else
  redis.call('HSET', KEYS[2], 'why', ARGV[6])
  redis.call('ZADD', KEYS[5], ARGV[3], ARGV[1])
end
redis.call('HINCRBY', KEYS[6], 'messages_' .. ARGV[4], 1)
return 1
