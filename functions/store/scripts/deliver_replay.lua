-- A refused delivery waits at the end of its line again.
-- KEYS: ready, delivery, line, refused · ARGV: id, now
if redis.call('ZREM', KEYS[4], ARGV[1]) == 0 or redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
redis.call('HSET', KEYS[2], 'created', ARGV[2])
if redis.call('RPUSH', KEYS[3], ARGV[1]) == 1 then redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1]) end
return 1
