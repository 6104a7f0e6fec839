-- Keeps an event that could not be delivered, once, and lets the oldest go beyond the most that are kept.
-- KEYS: letters, letters-at, letters-wanted, counters · ARGV: id, now, record, most
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
redis.call('HINCRBY', KEYS[4], 'dead_events', 1)
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -tonumber(ARGV[4]) - 1)) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
  redis.call('HINCRBY', KEYS[4], 'dead_events_let_go', 1)
end
return 1
