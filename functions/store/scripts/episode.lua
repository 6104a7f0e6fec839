-- Keeps a state if its version is still the one that was read.
-- KEYS: state, versions · ARGV: expected version, state or '', time to live in ms or 0
local old = redis.call('GET', KEYS[1])
local version = old and string.match(old, '^(%d+)\n') or '0'
if version ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
  return 1
end
local text = redis.call('INCR', KEYS[2]) .. '\n' .. ARGV[2]
if ARGV[3] ~= '0' then
  redis.call('SET', KEYS[1], text, 'PX', ARGV[3])
else
  redis.call('SET', KEYS[1], text)
end
return 1
