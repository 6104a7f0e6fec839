-- Shared by all scripts; put in front of each when it is loaded.

local function int(value)
  return string.format('%.0f', value)
end

-- Joins a signal to the pending record of its slot, opening one under `fresh` where there is none.
-- `p`: due (sorted set), record (hash), list, slot, fresh, now, at (when it is due), span (how far later signals may
-- push that), baseline, rank, signal, most (signals kept). Returns whether a record was opened.
local function join(p)
  local opened = redis.call('EXISTS', p.record) == 0
  if opened then
    redis.call('HSET', p.record, 'audit', p.fresh, 'slot', p.slot, 'opened', p.now, 'first', p.at, 'due', p.at,
      'count', '0', 'rank', '-1', 'round', '0', 'attempt', '0')
  end
  local old = redis.call('HMGET', p.record, 'first', 'due', 'rank', 'baseline')
  local due = math.min(math.max(tonumber(old[2]), tonumber(p.at)), tonumber(old[1]) + tonumber(p.span))
  redis.call('HSET', p.record, 'due', int(due))
  redis.call('ZADD', p.due, int(due), p.slot)
  if p.baseline ~= '' and (not old[4] or tonumber(p.baseline) < tonumber(old[4])) then
    redis.call('HSET', p.record, 'baseline', p.baseline)
  end
  -- the gravest signal says why the audit runs; of equals, the latest
  if tonumber(p.rank) >= tonumber(old[3]) then
    redis.call('HSET', p.record, 'rank', p.rank, 'lead', p.signal)
  end
  redis.call('HINCRBY', p.record, 'count', 1)
  redis.call('RPUSH', p.list, p.signal)
  redis.call('LTRIM', p.list, -tonumber(p.most), -1)
  return opened
end
