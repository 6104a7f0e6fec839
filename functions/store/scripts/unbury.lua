-- A dead letter is done with: its signals have been offered again, or a person has dropped it.
-- KEYS: dead, audit, signals · ARGV: audit id
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('DEL', KEYS[3])
if redis.call('HGET', KEYS[2], 'state') == 'dead' then redis.call('DEL', KEYS[2]) end
return 1
