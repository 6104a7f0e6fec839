-- Decides about a finished audit, once: what is told, to whom, and what counts as told from now on.
-- KEYS: untold, audit, told, version, threads, drafts, postmortems, ready, counters, gaps, then (delivery, line) of each delivery
-- ARGV: header (JSON), payload, postmortem or '', then (id, channel, kind, key) of each delivery
-- Returns 'gone' where that was decided before, 'changed' where something else was decided meanwhile, 'done'.
local h = cjson.decode(ARGV[1])
if not redis.call('ZSCORE', KEYS[1], h.audit) then return 'gone' end
if (redis.call('GET', KEYS[4]) or '0') ~= h.version then return 'changed' end
redis.call('INCR', KEYS[4])
for fp, what in pairs(h.told) do redis.call('HSET', KEYS[3], fp, what) end
for _, fp in ipairs(h.forget) do redis.call('HDEL', KEYS[3], fp) end
if h.thread == '' then
  redis.call('HDEL', KEYS[5], h.line)
elseif h.thread then
  redis.call('HSET', KEYS[5], h.line, h.thread)
end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[7], h.audit, ARGV[3])
  redis.call('HSET', KEYS[6], h.line, h.draft)
end
for _, gap in ipairs(h.gaps) do redis.call('ZREM', KEYS[10], gap) end
redis.call('HSET', KEYS[2], 'news', h.news)
redis.call('ZREM', KEYS[1], h.audit)
redis.call('HINCRBY', KEYS[9], 'news_' .. h.kind, 1)
for i = 4, #ARGV, 4 do
  local n = (i - 4) / 4
  local delivery, line = KEYS[11 + 2 * n], KEYS[12 + 2 * n]
  redis.call('HSET', delivery, 'id', ARGV[i], 'channel', ARGV[i + 1], 'kind', ARGV[i + 2], 'key', ARGV[i + 3], 'thread', h.line,
    'audit', h.audit, 'created', int(h.now), 'attempt', '0', 'payload', ARGV[i + 2] == 'postmortem' and h.postmortem or ARGV[2])
  -- one thread of a channel is told in order: only the first of its line is ready
  if redis.call('RPUSH', line, ARGV[i]) == 1 then redis.call('ZADD', KEYS[8], int(h.now), ARGV[i]) end
end
return 'done'
