-- A delivery is tried again later; what has arrived of it so far is kept.
-- KEYS: ready, delivery · ARGV: id, attempt, at, progress or '', why
if redis.call('HGET', KEYS[2], 'attempt') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], 'why', ARGV[5])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], 'progress', ARGV[4]) end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
