-- Puts an audit that can't be read among the dead letters, with all that is stored of it.
-- KEYS: due, work, dead, record, list, audit, signals · ARGV: slot or '', audit id, now, why
if ARGV[1] ~= '' and redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  if redis.call('EXISTS', KEYS[4]) == 1 then redis.call('RENAME', KEYS[4], KEYS[6]) end
  if redis.call('EXISTS', KEYS[5]) == 1 then redis.call('RENAME', KEYS[5], KEYS[7]) end
end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[6], 'audit', ARGV[2], 'state', 'dead', 'why', ARGV[4])
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[2])
return 1
