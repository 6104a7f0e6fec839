-- Keeps an inventory unless a later one is kept already. KEYS: instants, inventories · ARGV: name, at, inventory
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old and tonumber(old) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
